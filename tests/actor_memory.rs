//! What actors take of memory: an idle one, and a message to the same shard.

use std::sync::atomic::Ordering;

use wo::actor::{Addr, Options, Reply, counters};

#[path = "support/backends.rs"]
mod backends;
#[path = "support/counting.rs"]
mod counting;

use backends::{REAL, run, those_of};
use counting::{ALLOCATIONS, BYTES, Counting};

#[global_allocator]
static COUNTING: Counting = Counting;

/// The most an idle actor takes in all: its mailbox, the queue in it, its fiber, and eight bytes of its own.
const IDLE_BYTES_MAX: i64 = 400;

enum Count {
    Add(u64),
    Get(Reply<u64>),
}

#[derive(Default)]
struct Counter(u64);

#[wo::actor]
impl Counter {
    fn receive(&mut self, message: Count) {
        match message {
            Count::Add(more) => self.0 += more,
            Count::Get(reply) => _ = reply.send(self.0),
        }
    }
}

/// An actor whose handler keeps nothing while it waits: what a handler does keep comes on top.
struct Tally(u64);

#[wo::actor]
impl Tally {
    fn receive(&mut self, more: u64) {
        self.0 += more;
    }
}

/// Bytes per actor of a thousand that have handled a message and wait for the next.
#[wo::fiber]
fn idle_actors() -> i64 {
    const ACTORS: i64 = 1000;
    let mut actors: Vec<Addr<u64>> = Vec::with_capacity(ACTORS as usize);
    let before = BYTES.load(Ordering::Relaxed);
    for _ in 0..ACTORS {
        actors.push(Options::new().shard(0).spawn(Tally(0)));
    }
    for actor in &actors {
        actor.send(1).expect("send");
    }
    while counters().handled < ACTORS as u64 {
        wo::yield_now().expect("yield");
    }
    (BYTES.load(Ordering::Relaxed) - before) / ACTORS
}

/// Allocations during a million sends to an actor of the same shard, once its queue has grown to its size.
#[wo::fiber]
fn a_million_sends() -> u64 {
    let counter = Options::new().shard(0).spawn(Counter::default());
    for _ in 0..20_000 {
        counter.send(Count::Add(1)).expect("send");
    }
    assert_eq!(counter.ask(Count::Get), Ok(20_000));
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for _ in 0..1_000_000 {
        counter.send(Count::Add(1)).expect("send");
    }
    let after = ALLOCATIONS.load(Ordering::Relaxed);
    assert_eq!(counter.ask(Count::Get), Ok(1_020_000));
    after - before
}

#[test]
fn a20_idle_actors_and_a_million_sends() {
    for backend in those_of(REAL) {
        let bytes = run(backend, |builder| builder.shards(1), idle_actors);
        println!("an idle actor takes {bytes} bytes on {backend}");
        assert!(bytes <= IDLE_BYTES_MAX, "an idle actor takes {bytes} bytes on {backend}");
        let allocations = run(backend, |builder| builder.shards(1), a_million_sends);
        assert_eq!(allocations, 0, "allocations in a million sends on {backend}");
    }
}
