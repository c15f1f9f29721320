//! Once everything is parked, nothing wakes up any more.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::alone;
use crate::backends::{REAL, those_of};
use crate::example::Example;
use crate::process::{Thread, threads};

const WATCHED: Duration = Duration::from_secs(10);

/// The threads of a process once all of them sleep.
fn all_asleep(process: u32) -> Vec<Thread> {
    loop {
        let now = threads(process);
        if now.iter().all(|thread| thread.asleep) {
            return now;
        }
        std::thread::yield_now();
    }
}

#[test]
fn h6_idle_shards_cost_nothing() {
    let _alone = alone();
    let mut watched = Vec::new();
    for backend in those_of(REAL) {
        let example = Example::start("echo", &[("WO_IO", &backend.to_string())]);
        // One client that is served and then keeps silent.
        let mut client = TcpStream::connect(example.address()).expect("connect");
        client.write_all(b"hello").expect("write");
        let mut reply = [0; 5];
        client.read_exact(&mut reply).expect("read");
        let before = all_asleep(example.id());
        watched.push((backend, example, client, before));
    }
    // Not to wait for anything: this is what is looked at.
    std::thread::sleep(WATCHED);
    for (backend, example, _client, before) in watched {
        assert_eq!(threads(example.id()), before, "on {backend}: somebody woke up within {WATCHED:?}");
        example.stop();
    }
}
