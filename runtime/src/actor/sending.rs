//! The way of a message that may have to wait for room.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::actor::address::Addr;
use crate::actor::counters;
use crate::actor::error::SendError;
use crate::actor::life;
use crate::actor::mailbox::{Envelope, Parcel, Refused, Room};
use crate::actor::running;
use crate::error::OpKind;
use crate::fiber::{self, Charge};

/// The future of [`Addr::send`].
pub struct Sending<M: Send + 'static> {
    addr: Addr<M>,
    message: Option<Parcel<M>>,
    room: Option<u64>,
    charge: Charge,
}

impl<M: Send + 'static> Sending<M> {
    #[inline]
    pub(crate) fn new(addr: Addr<M>, message: M) -> Sending<M> {
        Sending { addr, message: Some(Parcel::new(message)), room: None, charge: Charge::new() }
    }

    /// The mailbox was full.
    #[cold]
    fn wait_for_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError<M>>> {
        let (mailbox, life) = self.addr.parts();
        loop {
            if fiber::is_cancelled() {
                self.leave_line();
                return self.come_back(SendError::Cancelled);
            }
            let pushed = match mailbox.wait_for_room(life, self.room, cx.waker(), running::head()) {
                Room::Waits(number) => {
                    self.room = Some(number);
                    fiber::waits_for(OpKind::Put);
                    return Poll::Pending;
                }
                Room::Never => {
                    self.room = None;
                    return self.come_back(SendError::Full);
                }
                Room::Given => mailbox.push_given(life, &mut self.message, || None),
                Room::Look => mailbox.push(life, &mut self.message, || None),
            };
            self.room = None;
            match pushed {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(Refused::Closed) => return self.reach_nobody(),
                Err(Refused::Full) => {}
            }
        }
    }

    /// The message comes back to its sender.
    fn come_back(&mut self, error: fn(M) -> SendError<M>) -> Poll<Result<(), SendError<M>>> {
        let Some(message) = self.message.take() else { return Poll::Ready(Ok(())) };
        counters::count_unsent(self.addr.parts().0.head().home(), counters::RETURNED);
        Poll::Ready(Err(error(message.open())))
    }

    /// The actor takes no more messages.
    #[cold]
    fn reach_nobody(&mut self) -> Poll<Result<(), SendError<M>>> {
        if let Some(message) = self.message.take() {
            let home = self.addr.parts().0.head().home();
            counters::count(home, counters::SENT);
            life::dead_letter(home, Envelope { message, asked: None });
        }
        Poll::Ready(Ok(()))
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
        if this.room.is_some() {
            return this.wait_for_room(cx);
        }
        let (mailbox, life) = this.addr.parts();
        match mailbox.push(life, &mut this.message, || None) {
            Ok(()) => Poll::Ready(Ok(())),
            Err(Refused::Closed) => this.reach_nobody(),
            Err(Refused::Full) => this.wait_for_room(cx),
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
