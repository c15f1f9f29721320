//! Fibers across shards: a fiber is polled and dropped at home, whoever wakes it and whoever lets go of it; whoever
//! joins it, wherever, gets its value or hears of its end.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use loom::thread::{self, JoinHandle, ThreadId};

use crate::fiber::oneshot::oneshot;
use crate::fiber::tick::Driver;
use crate::fiber::{StopRequest, join};
use crate::models::block_on;
use crate::plane::{Doorbell, ShardLoop};
use crate::scope::is_cancelled;
use crate::weakened::{accepted, rejected};

fn shard() -> Driver {
    let event_loop = ShardLoop::new(Doorbell::Completion);
    Driver::open(event_loop, 100, Duration::ZERO, Arc::new(StopRequest::default()))
}

fn end(mut driver: Driver) {
    driver.unwind();
    driver.drain().expect("no op is in flight");
}

/// Ends the shard, then the threads, then takes what they sent after its end.
fn close<const N: usize>(driver: Driver, threads: [JoinHandle<()>; N]) {
    let home = driver.home();
    end(driver);
    threads.into_iter().for_each(|thread| thread.join().expect("it ends well"));
    home.give_back();
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
    close(driver, [joins]);
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
    close(driver, [wakes]);
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
    close(driver, [lets_go]);
}

/// A thread lets go of a fiber of this shard, whose result is dropped by the time both have ended.
fn unwanted() {
    let mut driver = shard();
    let (ended, dropped) = (Rc::new(Cell::new(false)), loom::sync::Arc::new(AtomicU32::new(0)));
    let (ends, drops) = (Rc::clone(&ended), loom::sync::Arc::clone(&dropped));
    let fiber = join::spawn(|| async move {
        let made = Made(UnsafeCell::new(()));
        made.0.with_mut(|_| ());
        ends.set(true);
        Counted(made, drops)
    });
    let lets_go = thread::spawn(move || drop(fiber));
    driver.run(|| ended.get()).expect("nobody asked to stop");
    let home = driver.home();
    end(driver);
    lets_go.join().expect("it only lets go");
    assert_eq!(dropped.load(Ordering::Relaxed), 1, "a result is dropped once");
    home.give_back();
}

/// A value that counts its drops.
struct Counted(Made, loom::sync::Arc<AtomicU32>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.with_mut(|_| ());
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

/// A fiber's waker, for whoever takes it.
#[derive(Clone, Default)]
struct Lent(Arc<Mutex<Option<Waker>>>);

/// Two threads say something and wake a parked fiber of this shard, which waits for both.
fn woken_by_two() {
    let mut driver = shard();
    let said: [_; 2] = std::array::from_fn(|_| loom::sync::Arc::new(AtomicBool::new(false)));
    let (hears, lent) = (said.clone(), Lent::default());
    let lends = lent.clone();
    let fiber = join::spawn(move || async move {
        let _owned = Owned::new();
        poll_fn(move |cx| {
            lends.0.lock().unwrap().get_or_insert_with(|| cx.waker().clone());
            let all = hears.iter().all(|said| said.load(Ordering::Relaxed));
            if all { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    });
    // One tick: the fiber parks.
    driver.run(|| true).expect("nobody asked to stop");
    let waker = lent.0.lock().unwrap().take().expect("it was lent");
    let wakers = said.map(|said| {
        let waker = waker.clone();
        thread::spawn(move || {
            said.store(true, Ordering::Relaxed);
            waker.wake();
        })
    });
    drop(waker);
    driver.run(|| fiber.is_finished()).expect("nobody asked to stop");
    close(driver, wakers);
}

/// A thread keeps a fiber's waker, copies it and lets go of both, while the shard ends the fiber and then itself.
fn referred_to() {
    let mut driver = shard();
    let lent = Lent::default();
    let lends = lent.clone();
    drop(join::spawn(move || {
        poll_fn(move |cx| {
            *lends.0.lock().unwrap() = Some(cx.waker().clone());
            Poll::<()>::Pending
        })
    }));
    driver.run(|| true).expect("nobody asked to stop");
    let waker = lent.0.lock().unwrap().take().expect("it was lent");
    let refers = thread::spawn(move || {
        let copy = waker.clone();
        drop(waker);
        copy.wake_by_ref();
    });
    close(driver, [refers]);
}

/// Says when it is dropped.
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A fiber that ends when it is cancelled and not before.
fn until_cancelled(gone: Gone) -> impl Future<Output = ()> {
    poll_fn(move |_| {
        let _held = &gone;
        if is_cancelled() { Poll::Ready(()) } else { Poll::Pending }
    })
}

/// A thread asks a fiber of this shard to stop, which may have parked or not.
fn interrupted(parks_first: bool) {
    let mut driver = shard();
    let gone = Arc::new(AtomicBool::new(false));
    let held = Gone(Arc::clone(&gone));
    let fiber = join::spawn(move || {
        let _owned = Owned::new();
        until_cancelled(held)
    });
    if parks_first {
        driver.run(|| true).expect("nobody asked to stop");
    }
    let asks = thread::spawn(move || fiber.interrupt());
    driver.run(|| gone.load(Ordering::SeqCst)).expect("nobody asked to stop");
    assert!(!is_cancelled(), "nobody else is cancelled");
    close(driver, [asks]);
}

/// A thread asks a fiber to stop while this shard starts it for it.
fn interrupted_as_it_starts() {
    let mut driver = shard();
    let gone = Arc::new(AtomicBool::new(false));
    let held = Gone(Arc::clone(&gone));
    let (start, fiber) = join::handed_over(move || until_cancelled(held));
    let asks = thread::spawn(move || fiber.interrupt());
    start();
    driver.run(|| gone.load(Ordering::SeqCst)).expect("nobody asked to stop");
    close(driver, [asks]);
}

accepted!(a_parked_fiber_is_interrupted_from_elsewhere, || interrupted(true));

accepted!(a_new_fiber_is_interrupted_from_elsewhere, || interrupted(false));

accepted!(a_fiber_is_interrupted_as_it_starts, interrupted_as_it_starts);

rejected!(
    who_interrupts_must_say_so_before_it_looks,
    "who wants a fiber stopped looks for it before it says so",
    interrupted_as_it_starts
);

rejected!(
    who_starts_must_look_again,
    "who starts a fiber does not look again whether it is to stop",
    interrupted_as_it_starts
);

rejected!(a_wish_to_stop_must_go_home, "a wish that a fiber stop stays elsewhere", || interrupted(true));

accepted!(a_fiber_is_joined_from_elsewhere, || joined(0));

accepted!(a_fiber_is_joined_by_one_who_looks_twice, || joined(1));

accepted!(a_fiber_is_woken_from_elsewhere, woken);

accepted!(a_fiber_ends_at_home_whoever_lets_go_of_it, unwound);

rejected!(a_woken_fiber_must_go_home, "a fiber is queued where it was woken", woken);

rejected!(a_value_must_be_released, "a fiber's end is relaxed", || joined(0));

accepted!(a_fiber_is_woken_by_two, woken_by_two);

accepted!(a_cell_is_freed_once_whoever_refers_to_it, referred_to);

rejected!(who_watches_must_look_again, "who watches from elsewhere does not look again", || joined(0));

accepted!(a_result_nobody_wants_is_dropped, unwanted);

rejected!(who_lets_go_must_look_again, "who lets go of a fiber elsewhere does not look again", unwanted);

rejected!(a_result_must_be_dropped_once, "a result is dropped by whoever sees it", unwanted);

rejected!(a_result_must_be_seen_to_be_dropped, "a result is dropped before it is seen", unwanted);

rejected!(a_dropped_wish_must_wake, "a wish to be woken is dropped in silence", || joined(0));

rejected!(a_wake_must_be_seen_by_its_mark, "a wake marks without being seen", woken_by_two);

rejected!(a_mark_must_be_seen_as_it_is_taken_away, "the mark of a wake is taken away unseen", woken_by_two);

rejected!(a_mark_must_be_taken_away, "the mark of a wake stays", woken_by_two);

rejected!(all_references_must_be_counted, "home forgets the references it has not counted", referred_to);
