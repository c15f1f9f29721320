//! Futures polled by hand: once, or until a moment, and then dropped.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
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
