//! The way of a message that may have to wait for room.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::actor::address::Addr;
use crate::actor::counters;
use crate::actor::error::SendError;
use crate::actor::life;
use crate::actor::mailbox::{Envelope, Refused, Room};
use crate::actor::running;
use crate::error::OpKind;
use crate::fiber::{self, Charge};

/// The future of [`Addr::send`].
pub struct Sending<M: Send + 'static> {
    addr: Addr<M>,
    message: Option<M>,
    room: Option<u64>,
    charge: Charge,
}

impl<M: Send + 'static> Sending<M> {
    #[inline]
    pub(crate) fn new(addr: Addr<M>, message: M) -> Sending<M> {
        Sending { addr, message: Some(message), room: None, charge: Charge::new() }
    }

    /// The mailbox was full.
    #[cold]
    fn wait_for_room(&mut self, message: M, cx: &mut Context<'_>) -> Poll<Result<(), SendError<M>>> {
        let (mailbox, life) = self.addr.parts();
        let home = mailbox.head().home();
        let mut message = message;
        loop {
            if fiber::is_cancelled() {
                self.leave_line();
                counters::count_unsent(home, counters::RETURNED);
                return Poll::Ready(Err(SendError::Cancelled(message)));
            }
            let envelope = Envelope { message, asked: None };
            let pushed = match mailbox.wait_for_room(life, self.room, cx.waker(), running::head()) {
                Room::Waits(number) => {
                    self.room = Some(number);
                    self.message = Some(envelope.message);
                    fiber::waits_for(OpKind::Put);
                    return Poll::Pending;
                }
                Room::Never => {
                    self.room = None;
                    counters::count_unsent(home, counters::RETURNED);
                    return Poll::Ready(Err(SendError::Full(envelope.message)));
                }
                Room::Given => mailbox.push_given(life, envelope),
                Room::Look => mailbox.push(life, envelope),
            };
            self.room = None;
            match pushed {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(Refused::Closed(envelope)) => {
                    counters::count(home, counters::SENT);
                    life::dead_letter(home, envelope);
                    return Poll::Ready(Ok(()));
                }
                Err(Refused::Full(envelope)) => message = envelope.message,
            }
        }
    }

    /// Waits for room no longer.
    fn leave_line(&mut self) {
        if let Some(number) = self.room.take() {
            let (mailbox, life) = self.addr.parts();
            mailbox.leave_line(life, number);
        }
    }
}

impl<M: Send + 'static> Unpin for Sending<M> {}

impl<M: Send + 'static> Future for Sending<M> {
    type Output = Result<(), SendError<M>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError<M>>> {
        let this = self.get_mut();
        if this.charge.is_due(cx) {
            return Poll::Pending;
        }
        let Some(message) = this.message.take() else { return Poll::Ready(Ok(())) };
        if this.room.is_some() {
            return this.wait_for_room(message, cx);
        }
        let (mailbox, life) = this.addr.parts();
        match mailbox.push(life, Envelope { message, asked: None }) {
            Ok(()) => Poll::Ready(Ok(())),
            Err(Refused::Closed(envelope)) => {
                counters::count(mailbox.head().home(), counters::SENT);
                life::dead_letter(mailbox.head().home(), envelope);
                Poll::Ready(Ok(()))
            }
            Err(Refused::Full(envelope)) => this.wait_for_room(envelope.message, cx),
        }
    }
}

impl<M: Send + 'static> Drop for Sending<M> {
    #[inline]
    fn drop(&mut self) {
        if self.room.is_some() {
            self.leave_line();
            if self.message.is_some() {
                counters::count_unsent(self.addr.parts().0.head().home(), counters::DEAD_LETTERED);
            }
        }
    }
}

impl<M: Send + 'static> fmt::Debug for Sending<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sending").field("to", &self.addr).finish_non_exhaustive()
    }
}
