//! Giving up the processor: when the budget says so, and when the program does.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::fiber::local;
use crate::scope::{self, Call};

/// A verb's own reduction: paid once, at the first poll; a fiber whose turn is over yields first.
#[derive(Debug)]
pub(crate) struct Charge {
    paid: bool,
}

impl Charge {
    pub(crate) const fn new() -> Charge {
        Charge { paid: false }
    }

    /// Nothing to pay.
    pub(crate) const fn paid() -> Charge {
        Charge { paid: true }
    }

    /// True when the verb must wait for the fiber's next turn; the fiber is queued for it.
    #[inline]
    pub(crate) fn is_due(&mut self, cx: &mut Context<'_>) -> bool {
        if self.paid {
            return false;
        }
        self.paid = true;
        if local::spend() {
            cx.waker().wake_by_ref();
            return true;
        }
        false
    }
}

/// The answer of a verb whose fiber was cancelled before it began: who did it, and why.
pub(crate) fn cancelled(kind: OpKind) -> IoError {
    IoError::new(errno::ECANCELED, kind, Stage::Submit).with_context(scope::why())
}

/// Ends this fiber's turn: every other fiber that is ready runs before it goes on.
///
/// # Errors
///
/// ECANCELED when the fiber was cancelled.
pub fn yield_now() -> Call<YieldNow> {
    Call::new(YieldNow { yielded: false })
}

/// The future of [`yield_now`].
#[derive(Debug)]
pub struct YieldNow {
    yielded: bool,
}

impl Future for YieldNow {
    type Output = IoResult<()>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<IoResult<()>> {
        if !self.yielded {
            self.yielded = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(if local::is_cancelled() { Err(cancelled(OpKind::Yield)) } else { Ok(()) })
    }
}

/// Ends a turn whose budget is spent. For the macros.
#[doc(hidden)]
pub fn yield_turn() -> YieldTurn {
    YieldTurn { yielded: false }
}

/// The future of [`yield_turn`].
#[doc(hidden)]
#[derive(Debug)]
pub struct YieldTurn {
    yielded: bool,
}

impl Future for YieldTurn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Waits for a future of another library.
///
/// The future is polled on this shard; whatever wakes it, from any thread, wakes the fiber here. It is dropped here
/// too. It does not know of cancellation: it ends when it ends.
pub fn wait<F: Future>(future: F) -> Call<F> {
    Call::new(future)
}
