//! Addresses: plain words that reach one life of one actor.

use std::fmt;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll};

use crate::actor::ask::{Ask, Reply};
use crate::actor::error::{SendError, TrySendError};
use crate::actor::life::{self, Exit};
use crate::actor::mailbox::{Envelope, Mailbox, Order, Refused};
use crate::error::IoResult;
use crate::fiber::{self, Call, Charge, oneshot};
use crate::plane::time::Deadline;

/// The address of an actor that takes messages of type `M`: a word to copy, store, compare and send about. It reaches
/// the one life it was given for; after that actor's end it reaches nobody, whatever takes the actor's place.
pub struct Addr<M: 'static> {
    mailbox: &'static Mailbox<M>,
    generation: u32,
}

impl<M: Send + 'static> Addr<M> {
    pub(crate) fn new(mailbox: &'static Mailbox<M>, generation: u32) -> Addr<M> {
        Addr { mailbox, generation }
    }

    /// Moves a message to the actor. Parks while a bounded mailbox is full; messages of one sender arrive in the order
    /// they were sent. To an actor that has ended, the message is dropped quietly; [`try_send`](Addr::try_send) tells.
    ///
    /// Dropped half-way, the message is dropped with it.
    ///
    /// # Errors
    ///
    /// The message comes back when the fiber was cancelled while it waited, or when an actor with a full mailbox sends
    /// to itself and would wait for ever.
    #[inline]
    pub fn send(self, message: M) -> Call<Sending<M>> {
        Call::new(Sending { addr: self, message: Some(message), room: None, charge: Charge::new() })
    }

    /// Moves a message to the actor, if it is taken at once. Never parks; usable from any thread.
    ///
    /// # Errors
    ///
    /// The message comes back when the mailbox is full, or the actor has ended or takes no more.
    #[inline]
    pub fn try_send(self, message: M) -> Result<(), TrySendError<M>> {
        self.mailbox.push(self.generation, Envelope { message, asked: None }).map_err(|refused| match refused {
            Refused::Full(envelope) => TrySendError::Full(envelope.message),
            Refused::Closed(envelope) => TrySendError::Closed(envelope.message),
        })
    }

    /// Sends a request and parks for its answer. `make` puts the [`Reply`] into the message; the actor answers through
    /// it, at once or later.
    ///
    /// # Errors
    ///
    /// Why there is no answer; see [`AskError`](crate::actor::AskError). An actor that ends fails its askers at once.
    pub fn ask<T: Send + 'static>(self, make: impl FnOnce(Reply<T>) -> M) -> Call<Ask<M, T>> {
        Call::new(Ask::new(self.mailbox, self.generation, None, make))
    }

    /// The same with a deadline. When it passes, the handler's own verbs are cancelled; a request that still waits for
    /// its turn is not handled at all.
    ///
    /// # Errors
    ///
    /// As [`ask`](Addr::ask), and `Deadline`.
    pub fn ask_by<T: Send + 'static>(
        self,
        make: impl FnOnce(Reply<T>) -> M,
        deadline: impl Into<Deadline>,
    ) -> Call<Ask<M, T>> {
        let deadline = deadline.into().instant(fiber::now());
        Call::new(Ask::new(self.mailbox, self.generation, deadline, make))
    }

    /// The actor takes no more messages, handles those it has, and ends. False when it had ended.
    pub fn stop(self) -> bool {
        self.mailbox.order(self.generation, Order::Drain)
    }

    /// The actor ends now: what it waits for is cancelled, what is queued is dropped. False when it had ended.
    pub fn kill(self) -> bool {
        self.mailbox.order(self.generation, Order::Kill)
    }

    /// Whether the actor takes messages.
    pub fn is_open(self) -> bool {
        self.mailbox.is_open(self.generation)
    }

    /// Parks until the actor has ended, and tells how. An actor that had ended before is told as `Exit::Gone`.
    ///
    /// # Errors
    ///
    /// ECANCELED when the fiber was cancelled.
    pub fn ended(self) -> Call<impl Future<Output = IoResult<Exit>>> {
        Call::new(async move {
            let (monitor, told) = oneshot::oneshot();
            match self.mailbox.monitor(self.generation, monitor) {
                Ok(()) => told.recv().await,
                Err(_) => Ok(Exit::Gone),
            }
        })
    }
}

/// The future of [`Addr::send`].
pub struct Sending<M: Send + 'static> {
    addr: Addr<M>,
    message: Option<M>,
    room: Option<u64>,
    charge: Charge,
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
        match this.addr.mailbox.push(this.addr.generation, Envelope { message, asked: None }) {
            Ok(()) => Poll::Ready(Ok(())),
            Err(Refused::Closed(envelope)) => {
                life::dead_letter(envelope);
                Poll::Ready(Ok(()))
            }
            Err(Refused::Full(envelope)) => this.wait_for_room(envelope.message, cx),
        }
    }
}

impl<M: Send + 'static> Sending<M> {
    #[cold]
    fn wait_for_room(&mut self, message: M, cx: &mut Context<'_>) -> Poll<Result<(), SendError<M>>> {
        if fiber::is_cancelled() || life::is_current(self.addr.mailbox) {
            return Poll::Ready(Err(SendError(message)));
        }
        self.message = Some(message);
        self.room = self.addr.mailbox.wait_for_room(self.addr.generation, self.room, cx.waker());
        if self.room.is_none() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl<M: Send + 'static> Drop for Sending<M> {
    fn drop(&mut self) {
        if let Some(number) = self.room
            && !self.addr.mailbox.leave_room_queue(number)
            && self.message.is_some()
        {
            self.addr.mailbox.pass_room_on();
        }
    }
}

impl<M: Send + 'static> fmt::Debug for Sending<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sending").field("to", &self.addr).finish_non_exhaustive()
    }
}

impl<M> Clone for Addr<M> {
    fn clone(&self) -> Addr<M> {
        *self
    }
}

impl<M> Copy for Addr<M> {}

impl<M> PartialEq for Addr<M> {
    fn eq(&self, other: &Addr<M>) -> bool {
        self.generation == other.generation && ptr::eq(self.mailbox, other.mailbox)
    }
}

impl<M> Eq for Addr<M> {}

impl<M> Hash for Addr<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.generation.hash(state);
    }
}

impl<M> fmt::Debug for Addr<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Addr({})", self.generation)
    }
}
