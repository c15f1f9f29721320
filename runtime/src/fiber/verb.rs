//! The one way from a fiber to the kernel and back.
//!
//! A verb's future owns its op. First poll: pay the budget, look for a cancel, see what is known already, then
//! submit. Parked, it does nothing. Woken, it fetches the result from its slot. A cancel that comes while the op is
//! in flight is passed to the kernel, and the verb still waits for the kernel's last word: bytes that raced ahead are
//! delivered. Dropped in flight, the op moves into its slot and stays there until that last word.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::{IoResult, OpKind, errno, saying_why};
use crate::fiber::local;
use crate::fiber::turn::Charge;
use crate::plane::backend::Backend;
use crate::plane::current::with_loop;
use crate::plane::ops::{Before, Op};
use crate::plane::time::Instant;
use crate::plane::token::Token;
use crate::scope;

/// Runs `op` on this fiber's loop.
pub fn verb<O: Op>(op: O) -> Verb<O> {
    Verb { flight: Flight::new(op) }
}

/// An op on its way; see [`verb`]. Dropping it cancels the op and loses nothing.
pub struct Verb<O: Op> {
    flight: Flight<O>,
}

impl<O: Op> Verb<O> {
    /// The same with a deadline. Answers the op's own output, and whether the deadline ended it. Without a deadline
    /// it is the plain verb.
    pub fn by(self, deadline: Option<Instant>) -> VerbBy<O> {
        VerbBy { flight: self.flight, deadline, timer: None, expired: false }
    }
}

// An op may be moved at any time: what it points the kernel at lies on the heap.
impl<O: Op> Unpin for Verb<O> {}
impl<O: Op> Unpin for VerbBy<O> {}

impl<O: Op> Future for Verb<O> {
    type Output = O::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<O::Output> {
        let this = self.get_mut();
        this.flight.poll(cx, scope::is_marked())
    }
}

/// An op on its way with a deadline; see [`Verb::by`].
pub struct VerbBy<O: Op> {
    flight: Flight<O>,
    deadline: Option<Instant>,
    timer: Option<Token>,
    expired: bool,
}

impl<O: Op> Future for VerbBy<O> {
    type Output = (O::Output, bool);

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<(O::Output, bool)> {
        let this = self.get_mut();
        let Some(deadline) = this.deadline else {
            return this.flight.poll(cx, scope::is_marked()).map(|output| (output, false));
        };
        if !this.expired {
            this.expired = crate::fiber::now() >= deadline;
        }
        let polled = this.flight.poll(cx, this.expired || scope::is_marked());
        if polled.is_pending() && !this.expired {
            let timer = this.timer;
            this.timer = with_loop(OpKind::Timer, |event_loop| {
                Ok(match timer {
                    Some(timer) if event_loop.renew_timer(timer, cx.waker()) => timer,
                    _ => event_loop.timer_for(deadline, cx.waker().clone()),
                })
            })
            .ok();
        }
        polled.map(|output| (output, this.expired))
    }
}

impl<O: Op> Drop for VerbBy<O> {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            cancel(timer);
        }
    }
}

pub(crate) fn cancel(token: Token) {
    let _ = with_loop(OpKind::Cancel, |event_loop| {
        event_loop.cancel(token);
        Ok(())
    });
}

/// An op and where it is.
struct Flight<O: Op> {
    op: Option<O>,
    token: Option<Token>,
    charge: Charge,
    /// Slots belong to this thread's loop.
    _not_send: PhantomData<*const ()>,
}

impl<O: Op> Flight<O> {
    fn new(op: O) -> Flight<O> {
        Flight { op: Some(op), token: None, charge: Charge::new(), _not_send: PhantomData }
    }

    fn poll(&mut self, cx: &mut Context<'_>, cancel: bool) -> Poll<O::Output> {
        match self.advance(cx, cancel) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(res) => {
                self.token = None;
                let op = self.op.take().expect("a verb is not polled after its end");
                if res == -errno::ECANCELED && scope::is_marked() {
                    return Poll::Ready(saying_why(scope::why(), || finish(op, res)));
                }
                Poll::Ready(finish(op, res))
            }
        }
    }

    /// The way to the op's result.
    fn advance(&mut self, cx: &mut Context<'_>, cancel: bool) -> Poll<i32> {
        if let Some(token) = self.token {
            let fetched = with_loop(OpKind::Wait, |event_loop| {
                if cancel {
                    event_loop.cancel(token);
                }
                Ok(event_loop.fetch(token, cx.waker()))
            });
            return match fetched {
                Ok(Some(res)) => {
                    // A result that came before the cancel is no word of it: the next checkpoint tells.
                    if res == -errno::ECANCELED {
                        let _told = local::is_cancelled();
                    }
                    Poll::Ready(res)
                }
                Ok(None) => Poll::Pending,
                Err(error) => Poll::Ready(-error.errno()),
            };
        }
        if self.charge.is_due(cx) {
            return Poll::Pending;
        }
        let op = self.op.as_mut().expect("a verb is not polled after its end");
        match op.before(cx.waker()) {
            Before::Done(res) => return Poll::Ready(res),
            _ if cancel => {
                let _told = local::is_cancelled();
                return Poll::Ready(-errno::ECANCELED);
            }
            Before::Wait => return Poll::Pending,
            Before::Submit => {}
        }
        let quiet = local::is_quiet();
        let submitted: IoResult<Result<i32, Token>> = with_loop(OpKind::None, |event_loop| {
            if op.fd().is_some_and(|fd| !event_loop.backend().owns(fd)) {
                return Ok(Ok(-errno::EXDEV));
            }
            if quiet && let Some(res) = op.attempt(event_loop.backend()) {
                return Ok(Ok(res));
            }
            let raw = op.lower();
            local::waits_for(raw.kind());
            event_loop.submit_for(raw, cx.waker().clone()).map(Err)
        });
        match submitted {
            Ok(Ok(res)) => Poll::Ready(res),
            Ok(Err(token)) => {
                self.token = Some(token);
                Poll::Pending
            }
            Err(error) if error.errno() == errno::EAGAIN => {
                // The queue is full of what this tick submitted; the next tick has room.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Err(error) => Poll::Ready(-error.errno()),
        }
    }
}

impl<O: Op> Drop for Flight<O> {
    fn drop(&mut self) {
        if let (Some(token), Some(op)) = (self.token, self.op.take()) {
            let mut op = Some(op);
            let _ = with_loop(OpKind::Cancel, |event_loop| {
                if let Some(op) = op.take() {
                    event_loop.abandon(token, op);
                }
                Ok(())
            });
            // Without its loop nobody will tell when the kernel is done with the op's memory.
            std::mem::forget(op);
        }
    }
}

/// Turns a result into the answer. As a call it writes the answer where it is wanted; inlined it would be put together
/// elsewhere and copied from there, and the copy waits for the pieces just written.
#[inline(never)]
fn finish<O: Op>(op: O, res: i32) -> O::Output {
    op.finish(res, &mut ThisKernel)
}

/// The kernel of this thread's loop, for an op that finishes outside of a call to the loop.
struct ThisKernel;

impl crate::plane::ops::Kernel for ThisKernel {
    fn adopt(&mut self, raw: crate::plane::fd::RawDescriptor) -> crate::plane::fd::Fd {
        with_loop(OpKind::None, |event_loop| Ok(Backend::adopt(event_loop.backend(), raw)))
            .expect("a completion was fetched from this thread's loop")
    }
}

impl<O: Op> fmt::Debug for Verb<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verb").field("token", &self.flight.token).finish_non_exhaustive()
    }
}

impl<O: Op> fmt::Debug for VerbBy<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerbBy")
            .field("token", &self.flight.token)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
