//! What a parked fiber takes of memory, and a million of them.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use wo::Notify;

#[path = "support/backends.rs"]
mod backends;
#[path = "support/counting.rs"]
mod counting;

use backends::{REAL, run, those_of};
use counting::{BYTES, Counting};

#[global_allocator]
static COUNTING: Counting = Counting;

/// The most a parked fiber takes in all: itself, its place in the shard's lists, and what it waits in.
const PARKED_BYTES_MAX: i64 = 400;

/// Bytes of each of so many sleepers, which all wake again.
#[wo::fiber]
fn sleepers(fibers: i64) -> i64 {
    let woken = Rc::new(Cell::new(0));
    let before = BYTES.load(Ordering::Relaxed);
    let until = wo::now() + Duration::from_secs(3600);
    for _ in 0..fibers {
        let woken = woken.clone();
        drop(wo::spawn(|| {
            let slept = wo::sleep_until(until);
            woken.set(woken.get() + 1);
            slept
        }));
    }
    // Until each has had its turn, and sleeps.
    while !have_parked(fibers) {
        wo::yield_now().expect("yield");
    }
    assert_eq!(woken.get(), 0, "they sleep");
    (BYTES.load(Ordering::Relaxed) - before) / fibers
}

/// Whether so many timers are armed on this shard.
fn have_parked(fibers: i64) -> bool {
    let armed = wo::plane::current::with_loop(wo::OpKind::None, |event_loop| Ok(event_loop.timers()));
    armed.expect("a loop runs here") as i64 >= fibers
}

/// Bytes of each of so many that wait for a word from another fiber, and get it.
#[wo::fiber]
fn listeners(fibers: i64) -> i64 {
    let (word, told) = (Rc::new(Notify::new()), Rc::new(Cell::new(0)));
    let before = BYTES.load(Ordering::Relaxed);
    for _ in 0..fibers {
        let (word, told) = (word.clone(), told.clone());
        drop(wo::spawn(|| {
            let heard = word.notified();
            told.set(told.get() + 1);
            heard
        }));
    }
    for _ in 0..3 {
        wo::yield_now().expect("yield");
    }
    let bytes = (BYTES.load(Ordering::Relaxed) - before) / fibers;
    word.notify_all();
    while told.get() < fibers {
        wo::yield_now().expect("yield");
    }
    bytes
}

#[test]
fn f7_a_million_parked_fibers() {
    const MANY: i64 = 1_000_000;
    for backend in those_of(REAL) {
        for (what, bytes) in [
            ("sleeps", run(backend, |builder| builder.shards(1), || sleepers(MANY))),
            ("waits for a word", run(backend, |builder| builder.shards(1), || listeners(MANY))),
        ] {
            println!("a fiber that {what} takes {bytes} bytes on {backend}");
            assert!((1..=PARKED_BYTES_MAX).contains(&bytes), "a fiber that {what} takes {bytes} bytes on {backend}");
        }
    }
}
