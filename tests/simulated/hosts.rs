//! Hosts with programs of their own, their shards, and their ends.

use std::net::Ipv4Addr;
use std::time::Duration;

use wo::sim::World;
use wo::{Builder, RunError, fs};

use crate::{ask, echo_server};

#[test]
fn programs_on_two_hosts_talk() {
    let mut world = World::new(1);
    let (server, client) = (world.host("server"), world.host("client"));
    assert_ne!(server.ip(), client.ip());
    let _served = world.start(&server, echo_server());
    let asked = world.start(&client, ask(server.ip(), "hello".into()));
    assert_eq!(world.finish(asked).unwrap().unwrap(), "hello");
    // A host's name is its address.
    let named = world.start(&client, ask_by_name("server", "hello"));
    assert_eq!(world.finish(named).unwrap().unwrap(), "hello");
    let unknown = world.start(&client, ask_by_name("nobody", "hello"));
    let refusal = world.finish(unknown).unwrap().unwrap_err();
    assert!(refusal.op() == wo::OpKind::Resolve && refusal.to_string().contains("World::host"), "{refusal}");
    // Each host has its loopback to itself: nobody listens on the client's.
    let alone = world.start(&client, ask(Ipv4Addr::LOCALHOST, "hello".into()));
    assert_eq!(world.finish(alone).unwrap().unwrap_err().errno(), libc::ECONNREFUSED);
    // And its files.
    let wrote = world.start(&client, write_note());
    world.finish(wrote).unwrap().unwrap();
    assert!(server.disk().read("/tmp/note").is_err());
    assert_eq!(client.disk().read("/tmp/note").unwrap(), b"mine");
}

#[wo::fiber]
fn ask_by_name(name: &str, words: &str) -> wo::IoResult<String> {
    let stream = wo::net::TcpStream::connect((name, 7000))?;
    stream.write_all(words.as_bytes())?;
    let mut answer = vec![0; words.len()];
    stream.read_exact(&mut answer)?;
    Ok(String::from_utf8(answer).expect("it is what was sent"))
}

#[wo::fiber]
fn write_note() -> wo::IoResult<()> {
    fs::write("/tmp/note", "mine")
}

/// Several shards take turns on the one thread, and messages cross between them.
#[test]
fn all_shards_of_a_host_run_on_one_thread() {
    let mut world = World::new(3);
    let host = world.host("wide");
    let program = world.start_with(&host, Builder::new().shards(4), count_on_every_shard());
    let (total, threads) = world.finish(program).unwrap();
    assert_eq!((total, threads), (400, 1));
}

struct Counter {
    count: u64,
    threads: std::collections::HashSet<std::thread::ThreadId>,
}

#[wo::actor]
impl Counter {
    #[message]
    fn add(&mut self, from: std::thread::ThreadId) -> usize {
        self.count += 1;
        self.threads.insert(from);
        self.threads.insert(std::thread::current().id());
        self.threads.len()
    }

    #[message]
    fn total(&mut self) -> u64 {
        self.count
    }
}

#[wo::fiber]
fn count_on_every_shard() -> (u64, usize) {
    let counters: Vec<_> =
        (0..4).map(|_| wo::spawn(Counter { count: 0, threads: std::collections::HashSet::new() })).collect();
    let mut threads = 0;
    for _ in 0..100 {
        for counter in &counters {
            let seen = counter.add(std::thread::current().id());
            threads = threads.max(seen.expect("it answers"));
        }
    }
    let mut total = 0;
    for counter in &counters {
        let count = counter.total();
        total += count.expect("it answers");
    }
    (total, threads)
}

/// A host that loses its power is silent; what it had synced is there when it comes back, and the rest as the seed has
/// it.
#[test]
fn a_host_crashes_and_starts_again() {
    World::sweep(0..20, |world| {
        let (server, client) = (world.host("server"), world.host("client"));
        let first = world.start(&server, keep_notes());
        world.run_for(Duration::from_secs(1));
        let asked = world.start(&client, ask(server.ip(), "one".into()));
        assert_eq!(world.finish(asked).unwrap().unwrap(), "one");
        world.crash(&server);
        assert!(matches!(first.take(), Some(Err(RunError::Kernel(error))) if error.errno() == libc::EHOSTDOWN));
        // Nobody answers: the client waits for its deadline.
        let lost = world.start(&client, ask_within(server.ip(), Duration::from_secs(2)));
        assert_eq!(world.finish(lost).unwrap(), None);
        let refused = world.start(&server, echo_server());
        assert!(matches!(refused.take(), Some(Err(RunError::Setup(_)))));
        world.restart(&server).unwrap();
        assert_eq!(server.disk().read("/notes").unwrap(), b"synced");
        let _second = world.start(&server, echo_server());
        let asked = world.start(&client, ask(server.ip(), "two".into()));
        assert_eq!(world.finish(asked).unwrap().unwrap(), "two");
    });
}

#[wo::fiber]
fn keep_notes() -> wo::IoResult<()> {
    let file = fs::File::create("/notes")?;
    file.write_all(b"synced")?;
    file.sync_all()?;
    fs::sync_dir("/")?;
    fs::write("/lost", "perhaps")?;
    echo_server()
}

#[wo::fiber]
fn ask_within(server: Ipv4Addr, span: Duration) -> Option<String> {
    match wo::net::TcpStream::connect_by((server, 7000), span) {
        Ok(Some(_)) => Some("connected".into()),
        _ => None,
    }
}

/// A killed process leaves its host: its peers are told, and its files are as it left them.
#[test]
fn a_killed_program_leaves_its_host() {
    let mut world = World::new(9);
    let (server, client) = (world.host("server"), world.host("client"));
    let served = world.start(&server, keep_notes());
    world.run_for(Duration::from_secs(1));
    let held = world.start(&client, hold_until_the_end(server.ip()));
    world.run_for(Duration::from_secs(1));
    assert!(!held.has_ended());
    assert!(world.kill(&served) && !world.kill(&served));
    assert_eq!(world.finish(held).unwrap().unwrap(), 0);
    assert_eq!(server.disk().read("/lost").unwrap(), b"perhaps");
    let again = world.start(&server, echo_server());
    let asked = world.start(&client, ask(server.ip(), "again".into()));
    assert_eq!(world.finish(asked).unwrap().unwrap(), "again");
    assert!(!again.has_ended());
}

#[wo::fiber]
fn hold_until_the_end(server: Ipv4Addr) -> wo::IoResult<usize> {
    let stream = wo::net::TcpStream::connect((server, 7000))?;
    stream.read(&mut [0; 8])
}

/// Every step of a server's life is a place for its power to go; its client gets an answer, or an error, or its
/// deadline, at each of them, and the world goes on.
#[test]
fn a_host_may_crash_at_any_step() {
    let run = |step: Option<u64>| {
        let mut world = World::new(4);
        let (server, client) = (world.host("server"), world.host("client"));
        if let Some(step) = step {
            server.cut_power_at(step);
        }
        let _served = world.start(&server, echo_server());
        let asked = world.start(&client, ask_with_patience(server.ip()));
        let answer = world.finish(asked).unwrap();
        (answer, server.steps())
    };
    let (whole, steps) = run(None);
    assert!(whole && steps > 5, "{steps}");
    for step in 1..=steps {
        run(Some(step));
    }
}

#[wo::fiber]
fn ask_with_patience(server: Ipv4Addr) -> bool {
    let patience = Duration::from_secs(10);
    let Ok(Some(stream)) = wo::net::TcpStream::connect_by((server, 7000), patience) else { return false };
    if stream.write_all(b"x").is_err() {
        return false;
    }
    matches!(stream.read_by(&mut [0; 1], patience), Ok(Some(1)))
}
