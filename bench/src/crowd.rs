//! Meeting points for a crowd of tasks on one thread.
//!
//! A [`Counter`] lets one task wait until so many others have arrived; the last one wakes it. The hall is where tasks
//! park until all of them are woken together. Both live in thread-local storage, so a parked task is as small as its
//! runtime makes it: it holds one byte of ours.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Counts arrivals up to a number somebody waits for.
#[derive(Debug)]
pub struct Counter {
    arrived: Cell<usize>,
    expected: Cell<usize>,
    waiting: RefCell<Option<Waker>>,
}

impl Counter {
    /// A counter that expects nobody.
    pub const fn new() -> Self {
        Counter { arrived: Cell::new(0), expected: Cell::new(usize::MAX), waiting: RefCell::new(None) }
    }

    /// Starts again at zero and expects `number`.
    pub fn expect(&self, number: usize) {
        self.arrived.set(0);
        self.expected.set(number);
    }

    /// One more has arrived.
    pub fn arrive(&self) {
        let arrived = self.arrived.get() + 1;
        self.arrived.set(arrived);
        if arrived == self.expected.get()
            && let Some(waker) = self.waiting.take()
        {
            waker.wake();
        }
    }

    fn poll_full(&self, context: &Context<'_>) -> Poll<()> {
        if self.arrived.get() >= self.expected.get() {
            return Poll::Ready(());
        }
        *self.waiting.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Waits until all that the thread's `counter` expects have arrived.
pub async fn full(counter: &'static std::thread::LocalKey<Counter>) {
    poll_fn(|context| counter.with(|counter| counter.poll_full(context))).await;
}

thread_local! {
    static HALL: RefCell<Vec<Waker>> = const { RefCell::new(Vec::new()) };
}

/// Makes room for `number` parked tasks, so that parking itself allocates nothing.
pub fn open_hall(number: usize) {
    HALL.with_borrow_mut(|hall| hall.reserve_exact(number));
}

/// Parks until [`wake_hall`].
#[derive(Debug, Default)]
pub struct Parked {
    entered: bool,
}

impl Future for Parked {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.entered {
            return Poll::Ready(());
        }
        self.entered = true;
        HALL.with_borrow_mut(|hall| hall.push(context.waker().clone()));
        Poll::Pending
    }
}

/// Wakes everyone who is parked, in the order they parked; returns how many.
pub fn wake_hall() -> usize {
    let parked = HALL.take();
    let number = parked.len();
    parked.into_iter().for_each(Waker::wake);
    number
}
