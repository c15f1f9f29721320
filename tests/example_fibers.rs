//! The gate of the example `fibers`: everybody gets on beside a hot loop, and a budget of one is an exact round.

use std::io::{Read, Write};
use std::net::TcpStream;

#[path = "support/example.rs"]
mod example;

use example::{Example, same_on_each};

/// Talks to the echo while the hot loop runs and the sleepers sleep.
fn drive(mut server: Example) -> Vec<String> {
    let mut stream = TcpStream::connect(server.address()).expect("connect");
    for round in 0..100 {
        let message = format!("round {round}\n").into_bytes();
        stream.write_all(&message).expect("write");
        let mut reply = vec![0; message.len()];
        stream.read_exact(&mut reply).expect("read");
        assert_eq!(reply, message);
    }
    for _ in 1..=3 {
        server.read_to("sleeper");
    }
    server.read_to("the actor");
    let wrote = server.stop();
    let mut lines: Vec<String> = wrote.lines().map(str::to_owned).collect();
    // The three sleepers are due in the same moment; in which order they speak is no part of the answer.
    lines[1..].sort();
    lines
}

fn expected(turns: &str) -> Vec<String> {
    [
        &format!("turns: {turns}"),
        "sleeper 1 woke 5 times",
        "sleeper 2 woke 5 times",
        "sleeper 3 woke 5 times",
        "the actor counted 15 wakes",
        "the hot loop went round all the while: true",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[test]
fn fibers_get_on_alike_everywhere() {
    same_on_each("fibers", |server| assert_eq!(drive(server), expected("aaaaaaaaabbbbbbbbbccccccccc")));
}

#[test]
fn a_budget_of_one_is_an_exact_round() {
    for io in ["uring", "epoll"] {
        for shards in ["1", "2"] {
            let server = Example::start("fibers", &[("WO_IO", io), ("WO_SHARDS", shards), ("WO_REDUCTIONS", "1")]);
            assert_eq!(drive(server), expected(&"abc".repeat(9)), "on {io}");
        }
    }
}

#[test]
fn a_command_line_it_does_not_know_is_refused() {
    example::listens_as_told("fibers");
}
