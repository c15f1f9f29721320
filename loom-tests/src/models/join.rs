//! Fibers across shards: a fiber is polled and dropped at home, whoever wakes it and whoever lets go of it; whoever
//! joins it, wherever, gets its value or hears of its end.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::thread::{self, ThreadId};

use crate::fiber::oneshot::oneshot;
use crate::fiber::tick::Driver;
use crate::fiber::{StopRequest, join};
use crate::models::block_on;
use crate::plane::{Doorbell, ShardLoop};
use crate::weakened::{accepted, rejected};

fn shard() -> Driver {
    let event_loop = ShardLoop::new(Doorbell::Completion);
    Driver::open(event_loop, 100, Duration::ZERO, Arc::new(StopRequest::default()))
}

fn close(mut driver: Driver) {
    driver.unwind();
    driver.drain().expect("no op is in flight");
}

/// What a fiber owns: it notices a drop away from home, and loom a drop that never comes.
struct Owned {
    home: ThreadId,
    _counted: loom::sync::Arc<()>,
}

impl Owned {
    fn new() -> Owned {
        Owned { home: thread::current().id(), _counted: loom::sync::Arc::new(()) }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        assert!(thread::current().id() == self.home, "a fiber was dropped away from home");
    }
}

/// A value that was made at home; loom sees a look at it that is not ordered after that.
struct Made(UnsafeCell<()>);

// SAFETY: loom checks the accesses.
unsafe impl Send for Made {}

/// A thread joins a fiber of this shard, looking `looks` times before it waits.
fn joined(looks: usize) {
    let mut driver = shard();
    let ended = Rc::new(Cell::new(false));
    let ends = Rc::clone(&ended);
    let fiber = join::spawn(|| async move {
        let _owned = Owned::new();
        let made = Made(UnsafeCell::new(()));
        made.0.with_mut(|_| ());
        ends.set(true);
        made
    });
    let joins = thread::spawn(move || {
        let mut join = pin!(fiber.join());
        let mut looks = (0..looks).map(|_| join.as_mut().poll(&mut Context::from_waker(Waker::noop())));
        let early = looks.find_map(|look| if let Poll::Ready(joined) = look { Some(joined) } else { None });
        drop(looks);
        let made = early.unwrap_or_else(|| block_on(join)).expect("the fiber returned");
        made.0.with(|_| ());
    });
    driver.run(|| ended.get()).expect("nobody asked to stop");
    close(driver);
    joins.join().expect("it only joins");
}

/// A thread wakes a parked fiber of this shard.
fn woken() {
    let mut driver = shard();
    let (sender, receiver) = oneshot();
    let fiber = join::spawn(|| async move {
        let _owned = Owned::new();
        receiver.recv().await
    });
    let wakes = thread::spawn(move || assert!(sender.send(7).is_ok()));
    driver.run(|| fiber.is_finished()).expect("nobody asked to stop");
    assert_eq!(fiber.take().expect("the fiber returned").expect("it was sent"), 7);
    close(driver);
    wakes.join().expect("it only sends");
}

/// The shard ends while a thread wakes a fiber of it and lets go of it.
fn unwound() {
    let mut driver = shard();
    let (sender, receiver) = oneshot();
    let fiber = join::spawn(|| async move {
        let _owned = Owned::new();
        receiver.recv().await
    });
    // One tick: the fiber parks.
    driver.run(|| true).expect("nobody asked to stop");
    let lets_go = thread::spawn(move || {
        let _ = sender.send(7);
        drop(fiber);
    });
    close(driver);
    lets_go.join().expect("it only lets go");
}

accepted!(a_fiber_is_joined_from_elsewhere, || joined(0));

accepted!(a_fiber_is_joined_by_one_who_looks_twice, || joined(1));

accepted!(a_fiber_is_woken_from_elsewhere, woken);

accepted!(a_fiber_ends_at_home_whoever_lets_go_of_it, unwound);

rejected!(a_woken_fiber_must_go_home, "a fiber is queued where it was woken", woken);

rejected!(an_end_must_wait_for_fibers_on_their_way, "a shard ends without the fibers on their way home", unwound);

rejected!(a_value_must_be_released, "a fiber's end is relaxed", || joined(0));

rejected!(whoever_registers_must_be_left_alone, "the joiner is taken while it registers", || joined(1));
