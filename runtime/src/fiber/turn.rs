//! Giving up the processor: when the budget says so, and when the program does.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
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
///
/// # Examples
///
/// ```
/// use std::cell::RefCell;
/// use std::rc::Rc;
///
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let order = Rc::new(RefCell::new(Vec::new()));
/// let other = Rc::clone(&order);
/// wo::spawn(|| other.borrow_mut().push("the other"));
/// wo::yield_now()?;
/// order.borrow_mut().push("this one");
/// assert_eq!(*order.borrow(), ["the other", "this one"]);
/// # Ok(())
/// # }
/// ```
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

/// Waits for a future of another library to its end.
///
/// The future is polled on this shard; whatever wakes it, from any thread, wakes the fiber here. It is dropped here
/// too. It knows of no cancellation, and neither does this: no deadline, no [`race`](crate::fiber::race) and no cancel
/// ends it before the future ends. [`wait_unless_cancelled`] does end then.
///
/// # Examples
///
/// ```
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// // A future of the standard library's, or of any other.
/// assert_eq!(wo::wait(std::future::ready(7)), 7);
/// # Ok(())
/// # }
/// ```
pub fn wait<F: Future>(future: F) -> Call<F> {
    Call::new(future)
}

/// Waits for a future of another library, as long as the fiber is not cancelled: deadlines, races and cancels reach it
/// as they reach every verb.
///
/// The future is polled on this shard; whatever wakes it, from any thread, wakes the fiber here. At a cancel it is
/// polled once more, and its value is answered if it has one by then. If not it is dropped, here, before this answers;
/// what dropping it undoes or leaves running is its library's to say. In a fiber that is cancelled already the future
/// is polled once.
///
/// # Errors
///
/// ECANCELED when the fiber was cancelled and the future was not ready.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// assert_eq!(wo::wait_unless_cancelled(std::future::ready(7))?, 7);
///
/// // One that never ends, which `wo::wait` would wait for all the same.
/// let never = std::future::pending::<()>();
/// let ended = wo::timeout(Duration::from_millis(1), || wo::wait_unless_cancelled(never));
/// assert!(ended.unwrap_err().is_timeout());
/// # Ok(())
/// # }
/// ```
pub fn wait_unless_cancelled<F: Future>(future: F) -> Call<impl Future<Output = IoResult<F::Output>>> {
    Call::new(async move {
        let mut future = pin!(future);
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Ok(value)),
            Poll::Pending if local::is_cancelled() => Poll::Ready(Err(cancelled(OpKind::Wait))),
            Poll::Pending => Poll::Pending,
        })
        .await
    })
}
