//! What is left in memory at the end of a program: nothing, however its fibers and actors wait for each other.

use std::sync::atomic::Ordering;

use wo::actor::{Options, Reply};

#[path = "support/backends.rs"]
mod backends;
#[path = "support/counting.rs"]
mod counting;

use backends::{EVERY, run, those_of};
use counting::{Counting, LIVE};

#[global_allocator]
static COUNTING: Counting = Counting;

type Handle = wo::JoinHandle<()>;

/// Two fibers, each of which waits for the end of the other. They never end, but are unwound with the program.
#[wo::fiber]
fn two_that_wait_for_each_other() {
    let (to_first, at_first) = wo::oneshot::<Handle>();
    let (to_second, at_second) = wo::oneshot::<Handle>();
    let first = wo::spawn(move || {
        let other = at_first.recv().expect("a handle");
        other.join().expect_err("it never ends");
    });
    let second = wo::spawn(move || {
        let other = at_second.recv().expect("a handle");
        other.join().expect_err("it never ends");
    });
    assert!(to_first.send(second).is_ok());
    assert!(to_second.send(first).is_ok());
    for _ in 0..10 {
        wo::yield_now().expect("yield");
    }
}

/// Actors of several shards in the middle of everything, at the end of their program.
#[wo::fiber]
fn actors_at_the_end() {
    struct Waits(Vec<Reply<u64>>);
    #[wo::actor]
    impl Waits {
        fn receive(&mut self, reply: Reply<u64>) {
            self.0.push(reply);
            let _ = wo::sleep(std::time::Duration::from_secs(3600));
        }
    }
    for shard in 0..4 {
        let waits = Options::new().shard(shard).bound(2).spawn(Waits(Vec::new()));
        for _ in 0..5 {
            wo::spawn(move || waits.ask(|reply| reply));
        }
    }
    for _ in 0..10 {
        wo::yield_now().expect("yield");
    }
}

#[test]
fn r32_two_tasks_await_each_other() {
    for backend in those_of(EVERY) {
        let live = || {
            run(backend, |builder| builder.shards(2), two_that_wait_for_each_other);
            run(backend, |builder| builder.shards(2), actors_at_the_end);
            LIVE.load(Ordering::Relaxed)
        };
        // What a run leaves is left by every run. What lives as long as the process is made once, when it is first
        // used: a home's queue takes its memory in whichever run another thread first pushes into it.
        let counts: Vec<i64> = (0..24).map(|_| live()).collect();
        let grew = counts[4..].windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!(grew < 3, "something is left at the end of a program on {backend}: {counts:?}");
    }
}
