//! The examples in simulated worlds: the same run for the same seed, their clients' words included.

use std::process::ExitCode;
use std::time::Duration;

use wo::IoResult;
use wo::net::TcpStream;
use wo::sim::{Program, World};

use crate::example;

#[path = "../../examples/chat.rs"]
mod chat;
#[path = "../../examples/db-actor.rs"]
mod db_actor;
#[path = "../../examples/echo.rs"]
mod echo;
#[path = "../../examples/fibers.rs"]
mod fibers;

/// A server alone in its world waits for ever: it says so, what waits where, and how to see it again.
#[test]
fn a_server_alone_reports_its_deadlock_the_same_each_time() {
    for name in ["echo", "chat"] {
        for shards in ["1", "3"] {
            let environment = [("WO_IO", "sim"), ("WO_SEED", "7"), ("WO_SHARDS", shards)];
            let run = || example::run(name, &environment, &["--listen", "127.0.0.1:0"]);
            let (first, again) = (run(), run());
            assert_eq!(first, again, "{name}");
            assert_eq!(first.status.code(), Some(1), "{name}: {first:?}");
            let said = String::from_utf8_lossy(&first.stderr);
            for expected in ["quiescent", "fiber 0 (main) waits in accept", "replay: WO_IO=sim WO_SEED=7 "] {
                assert!(said.contains(expected), "{name}: {expected:?} is missing in {said}");
            }
        }
    }
}

/// A program that needs nobody runs to its end, and writes what it writes on a real kernel.
#[test]
fn m7_a_program_alone_writes_the_same_in_a_world() {
    let run = |io, shards| example::run("db-actor", &[("WO_IO", io), ("WO_SEED", "7"), ("WO_SHARDS", shards)], &[]);
    let real = run("uring", "2");
    assert!(real.status.success(), "{real:?}");
    for shards in ["1", "3"] {
        let (first, again) = (run("sim", shards), run("sim", shards));
        assert_eq!(first, again);
        assert_eq!(
            (first.status, String::from_utf8_lossy(&first.stdout)),
            (real.status, String::from_utf8_lossy(&real.stdout))
        );
    }
    assert_eq!(run("epoll", "1").stdout, real.stdout);
}

/// Lines to say, and how many each is answered with.
type Lines = Vec<(&'static str, usize)>;
/// Where a server listens, and what its clients say.
type Clients = (u16, Vec<Lines>);

/// Says each line and takes as many answers as it gives.
#[wo::fiber]
fn talk(port: u16, lines: Lines) -> IoResult<Vec<String>> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    let (mut heard, mut left) = (Vec::new(), Vec::new());
    let mut buf = [0; 512];
    for (line, answers) in lines {
        stream.write_all(line.as_bytes())?;
        for _ in 0..answers {
            while !left.contains(&b'\n') {
                let count = stream.read(&mut buf)?;
                left.extend_from_slice(&buf[..count]);
            }
            let end = left.iter().position(|byte| *byte == b'\n').expect("it was found");
            let rest = left.split_off(end + 1);
            heard.push(String::from_utf8_lossy(&left).into_owned());
            left = rest;
        }
        wo::sleep(Duration::from_millis(3))?;
    }
    Ok(heard)
}

/// Three at once, a fiber each.
#[wo::fiber]
fn talk_all(port: u16, each: Vec<Lines>) -> IoResult<Vec<Vec<String>>> {
    let talks: Vec<_> = each.into_iter().map(|lines| wo::spawn(move || talk(port, lines))).collect();
    let mut heard = Vec::new();
    for talk in talks {
        let one = talk.join();
        heard.push(one.expect("it does not panic")?);
    }
    Ok(heard)
}

struct Run {
    trace: String,
    digest: u64,
    heard: Vec<Vec<String>>,
}

/// One run of an example's own `main`, with its clients, if it has any, on the same host; then it is stopped.
fn run(seed: u64, main: fn() -> ExitCode, clients: Option<Clients>) -> Run {
    let mut world = World::new(seed);
    world.keep_trace();
    let host = world.host("example");
    let program: Program<ExitCode> = world.start_main(&host, main);
    let mut heard = Vec::new();
    if let Some((port, lines)) = clients {
        world.run_for(Duration::from_millis(1));
        let talking = world.start(&host, talk_all(port, lines));
        heard = world.finish(talking).unwrap().unwrap();
        assert!(world.stop(&program));
    }
    let status = world.finish(program).unwrap();
    assert_eq!(format!("{status:?}"), format!("{:?}", ExitCode::SUCCESS));
    Run { trace: world.trace(), digest: world.digest(), heard }
}

/// The same seed twice is the same run, byte for byte, of every example that has nothing of the system's.
fn is_a_function_of_its_seed(main: fn() -> ExitCode, clients: Option<Clients>) {
    let (first, again) = (run(7, main, clients.clone()), run(7, main, clients));
    assert_eq!(first.trace, again.trace);
    assert_eq!((first.digest, &first.heard), (again.digest, &again.heard));
    // At one shard, a program that asks nothing of the kernel is done in a turn or two.
    assert!(!first.trace.is_empty());
}

#[test]
fn m1_echo_is_a_function_of_its_seed() {
    let lines = vec![("one\n", 1), ("two\nthree\n", 2), ("", 0), ("four\n", 1)];
    is_a_function_of_its_seed(echo::main, Some((7000, vec![lines; 3])));
}

/// It has a loop that never ends by itself, which is most of what a run takes.
#[test]
fn m1_fibers_is_a_function_of_its_seed() {
    is_a_function_of_its_seed(fibers::main, Some((7001, vec![vec![("hello\n", 1); 2]; 2])));
}

#[test]
fn m1_chat_is_a_function_of_its_seed() {
    let talks = ["/nick ada\n", "/nick bob\n", "/nick eve\n"]
        .map(|nick| vec![("", 1), (nick, 1), ("/join den\n", 1), ("/who\n", 1), ("hello\n", 1), ("/history 1\n", 1)]);
    is_a_function_of_its_seed(chat::main, Some((7001, talks.to_vec())));
}

#[test]
fn m1_db_actor_is_a_function_of_its_seed() {
    is_a_function_of_its_seed(db_actor::main, None);
}
