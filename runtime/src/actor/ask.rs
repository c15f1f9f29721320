//! Asking an actor: a request that carries the place for its answer.
//!
//! The place is shared by three: the asker waits at it, the [`Reply`] in the message fills it, and the actor's loop
//! looks at it before and while the handler runs. Each looks under one lock, once per step, so whoever comes first is
//! seen: an answer, an asker whose time ran out, or a handler that ended without a word.
//!
//! When the asker's deadline passes it marks the place and wakes the handler, whose verbs are then cancelled. A request
//! that is marked before its turn comes is not handled at all.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::actor::error::AskError;
use crate::actor::life;
use crate::actor::mailbox::{Envelope, Mailbox, Refused};
use crate::error::OpKind;
use crate::fiber::{self, Charge, cancel_timer};
use crate::plane::current::with_loop;
use crate::plane::time::Instant;
use crate::plane::token::Token;

/// What the actor's loop sees of a request.
pub(crate) trait Asked: Send + Sync {
    /// Whether the asker's time ran out.
    fn is_expired(&self) -> bool;

    /// The handler waits: `waker` is called when the asker's time runs out.
    fn handler_waits(&self, waker: &Waker);

    /// There will be no answer, for this reason, unless one was given.
    fn fail(&self, error: AskError);
}

struct Place<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    answer: Option<Result<T, AskError>>,
    /// An answer or a failure was given, or the asker has gone: nothing is taken any more.
    settled: bool,
    expired: bool,
    asker: Option<Waker>,
    handler: Option<Waker>,
}

impl<T> Place<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settle(&self, answer: Result<T, AskError>) -> Result<(), Result<T, AskError>> {
        let mut state = self.state();
        if state.settled {
            return Err(answer);
        }
        state.settled = true;
        state.answer = Some(answer);
        let asker = state.asker.take();
        drop(state);
        if let Some(asker) = asker {
            asker.wake();
        }
        Ok(())
    }
}

impl<T: Send> Asked for Place<T> {
    fn is_expired(&self) -> bool {
        self.state().expired
    }

    fn handler_waits(&self, waker: &Waker) {
        let mut state = self.state();
        if state.expired {
            drop(state);
            waker.wake_by_ref();
        } else if !state.handler.as_ref().is_some_and(|handler| handler.will_wake(waker)) {
            state.handler = Some(waker.clone());
        }
    }

    fn fail(&self, error: AskError) {
        let _ = self.settle(Err(error));
    }
}

/// The place for an answer, inside a request. It may be kept and answered later, from anywhere; dropped without an
/// answer, it tells the asker so.
pub struct Reply<T> {
    place: Option<Arc<Place<T>>>,
}

impl<T: Send> Reply<T> {
    /// Answers.
    ///
    /// # Errors
    ///
    /// The answer itself, when the asker's time ran out or it has gone.
    pub fn send(mut self, answer: T) -> Result<(), T> {
        match self.place.take() {
            None => Err(answer),
            Some(place) => place.settle(Ok(answer)).map_err(|answer| match answer {
                Ok(answer) => answer,
                Err(_) => unreachable!("the answer was given"),
            }),
        }
    }

    /// Whether nobody waits for the answer any more.
    pub fn is_closed(&self) -> bool {
        self.place.as_ref().is_none_or(|place| place.state().settled)
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            let reason = if std::thread::panicking() { AskError::Panicked } else { AskError::NoReply };
            let _ = place.settle(Err(reason));
        }
    }
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}

/// The future of an ask. Dropped half-way, the answer goes to nobody.
pub struct Ask<M: Send + 'static, T: Send + 'static> {
    mailbox: &'static Mailbox<M>,
    generation: u32,
    request: Option<Envelope<M>>,
    place: Arc<Place<T>>,
    deadline: Option<Instant>,
    timer: Option<Token>,
    room: Option<u64>,
    charge: Charge,
}

impl<M: Send + 'static, T: Send + 'static> Ask<M, T> {
    pub(crate) fn new(
        mailbox: &'static Mailbox<M>,
        generation: u32,
        deadline: Option<Instant>,
        make: impl FnOnce(Reply<T>) -> M,
    ) -> Ask<M, T> {
        let state = State { answer: None, settled: false, expired: false, asker: None, handler: None };
        let place = Arc::new(Place { state: Mutex::new(state) });
        let message = make(Reply { place: Some(Arc::clone(&place)) });
        let asked: Arc<dyn Asked> = Arc::clone(&place) as Arc<dyn Asked>;
        Ask {
            mailbox,
            generation,
            request: Some(Envelope { message, asked: Some(asked) }),
            place,
            deadline,
            timer: None,
            room: None,
            charge: Charge::new(),
        }
    }

    /// Sends the request, waiting for room; ready without an error once it is on its way.
    fn send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), AskError>> {
        let Some(request) = self.request.take() else { return Poll::Ready(Ok(())) };
        if life::is_current(self.mailbox) {
            return Poll::Ready(Err(AskError::Deadlock));
        }
        match self.mailbox.push(self.generation, request) {
            Ok(()) => Poll::Ready(Ok(())),
            Err(Refused::Closed(_)) => Poll::Ready(Err(AskError::Closed)),
            Err(Refused::Full(request)) => {
                self.request = Some(request);
                self.room = self.mailbox.wait_for_room(self.generation, self.room, cx.waker());
                if self.room.is_none() {
                    cx.waker().wake_by_ref();
                }
                Poll::Pending
            }
        }
    }

    /// Gives up: the handler's verbs are cancelled, or the request is not handled at all.
    fn expire(&mut self) {
        let mut state = self.place.state();
        state.settled = true;
        state.expired = true;
        let handler = state.handler.take();
        drop(state);
        if let Some(handler) = handler {
            handler.wake();
        }
    }

    fn is_due(&self) -> bool {
        self.deadline.is_some_and(|deadline| fiber::now() >= deadline)
    }
}

impl<M: Send + 'static, T: Send + 'static> Unpin for Ask<M, T> {}

impl<M: Send + 'static, T: Send + 'static> Future for Ask<M, T> {
    type Output = Result<T, AskError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, AskError>> {
        let this = self.get_mut();
        if this.charge.is_due(cx) {
            return Poll::Pending;
        }
        match this.send(cx) {
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) => {
                let mut state = this.place.state();
                if let Some(answer) = state.answer.take() {
                    return Poll::Ready(answer);
                }
                if !state.asker.as_ref().is_some_and(|asker| asker.will_wake(cx.waker())) {
                    state.asker = Some(cx.waker().clone());
                }
            }
            Poll::Pending => {}
        }
        if fiber::is_cancelled() {
            return Poll::Ready(Err(AskError::Cancelled));
        }
        if let Some(deadline) = this.deadline {
            if this.is_due() {
                this.expire();
                return Poll::Ready(Err(AskError::Deadline));
            }
            let timer = this.timer;
            this.timer = with_loop(OpKind::Timer, |event_loop| {
                Ok(match timer {
                    Some(timer) if event_loop.renew_timer(timer, cx.waker()) => timer,
                    _ => event_loop.timer_for(deadline, cx.waker().clone()),
                })
            })
            .ok();
        }
        Poll::Pending
    }
}

impl<M: Send + 'static, T: Send + 'static> Drop for Ask<M, T> {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            cancel_timer(timer);
        }
        if let Some(number) = self.room
            && !self.mailbox.leave_room_queue(number)
            && self.request.is_some()
        {
            self.mailbox.pass_room_on();
        }
        let mut state = self.place.state();
        state.settled = true;
        let answer = state.answer.take();
        drop(state);
        drop(answer);
    }
}

impl<M: Send + 'static, T: Send + 'static> fmt::Debug for Ask<M, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
