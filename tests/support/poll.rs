//! Futures polled by hand: once, or until a moment, and then dropped.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Polls `future` once and answers whether it was ready.
pub async fn once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Drives `future` for that long at most; when it was not ready by then, it is dropped half-way.
pub async fn at_most<F: Future>(span: Duration, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut end = pin!(wo::sleep(span));
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => end.as_mut().poll(cx).map(|slept| {
            slept.expect("nothing stops this program");
            None
        }),
    })
    .await
}

/// Counts how often a future's waker was called.
#[derive(Clone, Debug, Default)]
pub struct Wakes(Arc<Counting>);

#[derive(Debug, Default)]
struct Counting {
    count: AtomicUsize,
    fiber: Mutex<Option<Waker>>,
}

impl Wakes {
    /// How often it was.
    pub fn count(&self) -> usize {
        self.0.count.load(Ordering::SeqCst)
    }

    /// `future`, with a waker that counts and then wakes the fiber.
    pub async fn counted<F: Future>(&self, future: F) -> F::Output {
        let waker = Waker::from(Arc::clone(&self.0));
        let mut future = pin!(future);
        poll_fn(|cx| {
            *self.0.fiber.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
            future.as_mut().poll(&mut Context::from_waker(&waker))
        })
        .await
    }
}

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.count.fetch_add(1, Ordering::SeqCst);
        if let Some(fiber) = &*self.fiber.lock().unwrap_or_else(PoisonError::into_inner) {
            fiber.wake_by_ref();
        }
    }
}
