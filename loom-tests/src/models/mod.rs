//! The models, one protocol each, and what they have in common.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use loom::thread::{self, Thread};

mod answer;
mod channel;
mod doorbell;
mod home_ring;
mod inbox;
mod join;
mod link;
mod mailbox;
mod oneshot;
mod pool;
mod post;
mod shutdown;
mod stealing;
mod waits;

/// Wakes a thread that polls by itself.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

/// A waker of this thread.
fn waker() -> Waker {
    Waker::from(Arc::new(Unpark(thread::current())))
}

/// Runs a future on a thread that is no shard.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = waker();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

#[test]
fn every_weakening_is_seen_to_fail() {
    let models = [
        include_str!("answer.rs"),
        include_str!("channel.rs"),
        include_str!("doorbell.rs"),
        include_str!("home_ring.rs"),
        include_str!("inbox.rs"),
        include_str!("join.rs"),
        include_str!("link.rs"),
        include_str!("mailbox.rs"),
        include_str!("oneshot.rs"),
        include_str!("pool.rs"),
        include_str!("post.rs"),
        include_str!("shutdown.rs"),
        include_str!("stealing.rs"),
        include_str!("waits.rs"),
    ];
    for weakening in crate::weakenings::WEAKENINGS {
        let named = format!("\"{}\"", weakening.name);
        assert!(models.iter().any(|model| model.contains(&named)), "no model is run with {named}");
    }
}
