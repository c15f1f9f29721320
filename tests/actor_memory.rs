//! What actors take of memory: an idle one, a message to the same shard, and what is left at the end of a program.
//!
//! The allocator counts for the whole process, so the cases run one after the other, in one test.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use wo::actor::{Addr, Options, Reply, counters};

#[path = "support/backends.rs"]
mod backends;

use backends::{EVERY, REAL, run, those_of};

/// The system's allocator, with counts of what was asked for and what is in use.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static LIVE: AtomicI64 = AtomicI64::new(0);
static BYTES: AtomicI64 = AtomicI64::new(0);

fn count(allocations: u64, live: i64, bytes: i64) {
    ALLOCATIONS.fetch_add(allocations, Ordering::Relaxed);
    LIVE.fetch_add(live, Ordering::Relaxed);
    BYTES.fetch_add(bytes, Ordering::Relaxed);
}

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, 1, layout.size() as i64);
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, -1, -(layout.size() as i64));
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, 0, size as i64 - layout.size() as i64);
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { System.realloc(memory, layout, size) }
    }
}

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
fn actors_and_memory() {
    for backend in those_of(REAL) {
        let bytes = run(backend, |builder| builder.shards(1), idle_actors);
        println!("a20: an idle actor takes {bytes} bytes on {backend}");
        assert!(bytes <= IDLE_BYTES_MAX, "a20: an idle actor takes {bytes} bytes on {backend}");
        let allocations = run(backend, |builder| builder.shards(1), a_million_sends);
        assert_eq!(allocations, 0, "a20: allocations in a million sends on {backend}");
    }
    for backend in those_of(EVERY) {
        // What lives as long as the process, homes and cells, is there after the first runs.
        let live = || {
            run(backend, |builder| builder.shards(2), two_that_wait_for_each_other);
            run(backend, |builder| builder.shards(2), actors_at_the_end);
            LIVE.load(Ordering::Relaxed)
        };
        let counts: Vec<i64> = (0..7).map(|_| live()).collect();
        let (warm, last) = (counts[2], counts[6]);
        assert_eq!(warm, last, "r32: something is left at the end of a program on {backend}: {counts:?}");
    }
}
