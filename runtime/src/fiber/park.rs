//! Parking for something that is no op of the kernel's.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::{IoResult, OpKind};
use crate::fiber::local;
use crate::fiber::turn::{Charge, cancelled};

/// Makes a verb of a poll function: it costs a reduction and answers ECANCELED when the fiber is cancelled.
///
/// `poll` arranges for the waker to be called. It is not asked any more once the fiber is cancelled, so what it could
/// still answer has to wait where it is for the next who asks, and so has what it could answer to nobody when the
/// verb is dropped.
///
/// # Examples
///
/// ```
/// use std::cell::Cell;
/// use std::task::Poll;
/// use wo_runtime::error::OpKind;
/// use wo_runtime::fiber;
/// use wo_runtime::shard::Builder;
///
/// let turns = Cell::new(3);
/// let left = Builder::new().run(move || async move {
///     fiber::park(OpKind::Receive, |cx| {
///         turns.set(turns.get() - 1);
///         if turns.get() == 0 {
///             return Poll::Ready(Ok(turns.get()));
///         }
///         cx.waker().wake_by_ref();
///         Poll::Pending
///     })
///     .await
/// })??;
/// assert_eq!(left, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn park<T, P>(kind: OpKind, poll: P) -> Park<P>
where
    P: FnMut(&mut Context<'_>) -> Poll<IoResult<T>> + Unpin,
{
    Park { kind, poll, charge: Charge::new() }
}

/// The future of [`park`].
#[must_use = "it does nothing until it is awaited"]
pub struct Park<P> {
    kind: OpKind,
    poll: P,
    charge: Charge,
}

impl<T, P> Future for Park<P>
where
    P: FnMut(&mut Context<'_>) -> Poll<IoResult<T>> + Unpin,
{
    type Output = IoResult<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<IoResult<T>> {
        if self.charge.is_due(cx) {
            return Poll::Pending;
        }
        if local::is_cancelled() {
            return Poll::Ready(Err(cancelled(self.kind)));
        }
        local::waits_for(self.kind);
        (self.poll)(cx)
    }
}

impl<P> fmt::Debug for Park<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Park").field("kind", &self.kind).finish_non_exhaustive()
    }
}
