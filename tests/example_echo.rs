//! The gate of the example `echo`: what clients send comes back, on both backends, at one shard and at the default.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

#[path = "support/example.rs"]
mod example;

use example::{Example, same_on_each};

const CLIENTS: usize = 20;
const MESSAGES: usize = 50;

/// One client: talks back and forth, then sends a lot at once, then says that it is done; answers all it got.
fn converse(address: SocketAddr, number: usize) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("connect");
    let mut got = Vec::new();
    for message in 0..MESSAGES {
        let message = format!("client {number} says {message}\n").into_bytes();
        stream.write_all(&message).expect("write");
        let mut reply = vec![0; message.len()];
        stream.read_exact(&mut reply).expect("read");
        assert_eq!(reply, message);
        got.extend(reply);
    }
    let bulk: Vec<u8> = (0..1 << 20).map(|at| (at * (number + 1) % 251) as u8).collect();
    let mut writing = stream.try_clone().expect("clone");
    let sent = bulk.clone();
    let writer = std::thread::spawn(move || {
        writing.write_all(&sent).expect("write");
        writing.shutdown(Shutdown::Write).expect("shutdown");
    });
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).expect("read");
    writer.join().expect("the writer ended");
    assert!(reply == bulk, "client {number}: {} bytes came back of {}, or not the same", reply.len(), bulk.len());
    got.extend(reply);
    got
}

/// Many clients at once, and one that is still there when the server is told to stop.
fn drive(server: Example) -> (Vec<Vec<u8>>, String) {
    let address = server.address();
    let mut staying = TcpStream::connect(address).expect("connect");
    staying.write_all(b"still here").expect("write");
    let mut reply = [0; 10];
    staying.read_exact(&mut reply).expect("read");
    let clients: Vec<_> = (0..CLIENTS).map(|number| std::thread::spawn(move || converse(address, number))).collect();
    let answers = clients.into_iter().map(|client| client.join().expect("a client ended")).collect();
    let wrote = server.stop();
    assert_eq!(staying.read(&mut reply).unwrap_or(0), 0, "the server has gone");
    assert!(TcpStream::connect(address).is_err(), "the server has gone");
    (answers, wrote)
}

#[test]
fn echo_answers_alike_everywhere() {
    same_on_each("echo", drive);
}

/// A client that goes away in the middle of everything is its own trouble alone.
#[test]
fn a_reset_disturbs_nobody() {
    same_on_each("echo", |server| {
        let rude = socket2::Socket::from(TcpStream::connect(server.address()).expect("connect"));
        rude.set_linger(Some(std::time::Duration::ZERO)).expect("linger");
        TcpStream::from(rude).write_all(&[b'x'; 65536]).expect("write");
        // Dropped with replies unread and no time to linger: the server's connection is reset.
        let kind = converse(server.address(), 1);
        server.stop();
        kind
    });
}

#[test]
fn bad_input_is_refused_by_name() {
    let refused = |environment: &[(&str, &str)], arguments: &[&str]| {
        let output = example::run("echo", environment, arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).expect("messages are UTF-8")
    };
    let text = refused(&[("WO_IO", "kqueue")], &[]);
    assert!(text.contains("WO_IO") && text.contains("kqueue") && text.contains("epoll"), "{text}");
    let text = refused(&[("WO_SHARDS", "none")], &[]);
    assert!(text.contains("WO_SHARDS") && text.contains("none"), "{text}");
    let text = refused(&[("WO_REDUCTIONS", "0")], &[]);
    assert!(text.contains("WO_REDUCTIONS") && text.contains('0'), "{text}");
    let text = refused(&[("WO_SEED", "-1")], &[]);
    assert!(text.contains("WO_SEED") && text.contains("-1"), "{text}");
    let text = refused(&[], &["--listen", "nowhere in particular"]);
    assert!(text.contains("nowhere in particular"), "{text}");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    let address: String = taken.local_addr().expect("local_addr").to_string();
    let text = refused(&[], &["--listen", &address]);
    assert!(text.contains(&address) && text.to_lowercase().contains("in use"), "{text}");
}

#[test]
fn a_command_line_it_does_not_know_is_refused() {
    example::listens_as_told("echo");
}
