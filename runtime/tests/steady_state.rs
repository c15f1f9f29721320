//! In the steady state the loop allocates nothing: not for an op, not for its callback, not for a timer.
//!
//! One test in a process of its own, since the allocator is the process's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use wo_runtime::error::IoResult;
use wo_runtime::plane::backend::poll::PollBackend;
use wo_runtime::plane::backend::uring::UringBackend;
use wo_runtime::plane::backend::{Backend, SocketKind};
use wo_runtime::plane::buf::{Buf, BufPool};
use wo_runtime::plane::{EventLoop, Fd, LoopConfig, ops};

/// The system's allocator, with a count of what this thread asked it for.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What the callbacks leave for whoever drives the loop.
#[derive(Default)]
struct Seen {
    nops: Cell<u32>,
    timers: Cell<u32>,
    sent: Cell<Option<Buf>>,
    received: Cell<Option<Buf>>,
}

/// Drives the loop until `done`.
fn until<B: Backend>(event_loop: &mut EventLoop<B>, done: impl Fn() -> bool) -> IoResult<()> {
    while !done() {
        event_loop.run_once(Duration::MAX)?;
    }
    Ok(())
}

/// A hundred NOPs at once, a timer that fires and one that is taken back, and a send and a receive with a pool's
/// buffers and two words in each callback.
fn lap<B: Backend>(event_loop: &mut EventLoop<B>, pair: &(Fd, Fd), pool: &BufPool, seen: &Rc<Seen>) -> IoResult<()> {
    seen.nops.set(0);
    for _ in 0..100 {
        let seen = Rc::clone(seen);
        event_loop.submit(ops::Nop, move |_, result| {
            result.expect("a NOP");
            seen.nops.set(seen.nops.get() + 1);
        })?;
    }
    until(event_loop, || seen.nops.get() == 100)?;

    let timers = seen.timers.get() + 1;
    let fires = Rc::clone(seen);
    event_loop.submit_after(Duration::from_nanos(1), move |_| fires.timers.set(fires.timers.get() + 1));
    let never = Rc::clone(seen);
    let taken_back = event_loop.submit_after(Duration::from_secs(1000), move |_| never.timers.set(0));
    event_loop.cancel(taken_back);
    until(event_loop, || seen.timers.get() == timers)?;

    let mut full = pool.take().expect("a buffer");
    full.extend_from_slice(b"sixty-four bytes or so");
    let length = full.len();
    let (to, from) = (Rc::clone(seen), Rc::clone(seen));
    event_loop.submit(ops::Send::new(&pair.0, full), move |_, (sent, buf)| {
        assert_eq!(sent.expect("send"), length);
        to.sent.set(Some(buf));
    })?;
    event_loop.submit(ops::Recv::new(&pair.1, pool.take().expect("a buffer")), move |_, (received, buf)| {
        assert_eq!(received.expect("recv"), length);
        from.received.set(Some(buf));
    })?;
    let (mut sent, mut received) = (None, None);
    while sent.is_none() || received.is_none() {
        event_loop.run_once(Duration::MAX)?;
        sent = sent.or(seen.sent.take());
        received = received.or(seen.received.take());
    }
    assert_eq!(sent.as_deref(), received.as_deref());
    Ok(())
}

fn allocations<B: Backend>() -> IoResult<u64> {
    let mut event_loop = EventLoop::<B>::new(&LoopConfig::default())?;
    let pair = event_loop.backend().socket_pair(SocketKind::Stream)?;
    let pool = BufPool::new(4, 4096)?;
    let seen = Rc::default();
    // Slots and queues grow to their size once.
    for _ in 0..10 {
        lap(&mut event_loop, &pair, &pool, &seen)?;
    }
    let before = ALLOCATIONS.get();
    for _ in 0..1000 {
        lap(&mut event_loop, &pair, &pool, &seen)?;
    }
    Ok(ALLOCATIONS.get() - before)
}

#[test]
fn l8_ops_and_timers_at_tier_a_allocate_nothing() {
    match allocations::<UringBackend>() {
        Ok(allocations) => assert_eq!(allocations, 0, "on uring"),
        Err(refusal) => eprintln!("skipped on uring: {refusal}"),
    }
    assert_eq!(allocations::<PollBackend>().expect("epoll is everywhere"), 0, "on epoll");
}
