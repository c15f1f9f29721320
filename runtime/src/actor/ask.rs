//! Asking an actor: a request that carries the place for its answer.
//!
//! The place is shared by three: the asker waits at it, the [`Reply`] in the message fills it, and the actor's loop
//! looks at it before and while the handler runs. It is settled once, under its lock: by an answer, by a failure, or by
//! an asker that goes away. Whoever comes later finds it settled.
//!
//! When the asker's deadline passes it marks the place as expired and wakes the handler, whose verbs are then
//! cancelled. A request that is marked before its turn comes is not handled at all.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::actor::address::Addr;
use crate::actor::counters;
use crate::actor::error::AskError;
use crate::actor::life;
use crate::actor::mailbox::{Envelope, Refused, Room};
use crate::actor::running;
use crate::actor::waits::Wait;
use crate::error::OpKind;
use crate::fiber::{self, Charge, cancel_timer};
use crate::plane::current::with_loop;
use crate::plane::time::Instant;
use crate::plane::token::Token;

/// What the actor's loop sees of a message that somebody waits for.
pub(crate) trait Asked: Send + Sync {
    /// Whether it is not to be handled at all any more.
    fn is_void(&self) -> bool;

    /// Whether the handler's own verbs are cancelled.
    fn is_expired(&self) -> bool {
        false
    }

    /// The handler waits: `waker` is called when it is to be cancelled.
    fn handler_waits(&self, _waker: &Waker) {}

    /// The handler has returned.
    fn handled(&self) {}

    /// There will be no answer, for this reason, unless one was given.
    fn fail(&self, _error: AskError) {}
}

struct Place<T> {
    /// The asker's time ran out. Set under the lock, read without it.
    expired: AtomicBool,
    has_deadline: bool,
    state: Mutex<State<T>>,
}

struct State<T> {
    answer: Option<Result<T, AskError>>,
    /// An answer or a failure was given, or the asker has gone: nothing is taken any more.
    settled: bool,
    asker: Option<Waker>,
    handler: Option<Waker>,
    /// The asker's wait, when an actor's function asks.
    wait: Option<Wait>,
}

impl<T> State<T> {
    /// Nothing is taken any more.
    fn settle(&mut self) {
        self.settled = true;
        self.end_wait();
    }

    fn end_wait(&mut self) {
        if let Some(wait) = self.wait.take() {
            wait.end();
        }
    }
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
        state.settle();
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
    #[inline]
    fn is_void(&self) -> bool {
        self.is_expired()
    }

    #[inline]
    fn is_expired(&self) -> bool {
        self.expired.load(Ordering::Acquire)
    }

    fn handler_waits(&self, waker: &Waker) {
        if !self.has_deadline {
            return;
        }
        let mut state = self.state();
        if self.is_expired() {
            drop(state);
            waker.wake_by_ref();
        } else if !state.handler.as_ref().is_some_and(|handler| handler.will_wake(waker)) {
            state.handler = Some(waker.clone());
        }
    }

    /// A reply that was kept comes from somewhere else: the asker no longer waits for this actor's function.
    fn handled(&self) {
        self.state().end_wait();
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
    addr: Addr<M>,
    request: Option<Envelope<M>>,
    place: Arc<Place<T>>,
    deadline: Option<Instant>,
    timer: Option<Token>,
    room: Option<u64>,
    charge: Charge,
    begun: bool,
}

impl<M: Send + 'static, T: Send + 'static> Ask<M, T> {
    pub(crate) fn new(addr: Addr<M>, deadline: Option<Instant>, make: impl FnOnce(Reply<T>) -> M) -> Ask<M, T> {
        let state = State { answer: None, settled: false, asker: None, handler: None, wait: None };
        let place = Arc::new(Place {
            expired: AtomicBool::new(false),
            has_deadline: deadline.is_some(),
            state: Mutex::new(state),
        });
        let message = make(Reply { place: Some(Arc::clone(&place)) });
        let asked: Arc<dyn Asked> = Arc::clone(&place) as Arc<dyn Asked>;
        let request = Some(Envelope { message, asked: Some(asked) });
        Ask { addr, request, place, deadline, timer: None, room: None, charge: Charge::new(), begun: false }
    }

    /// Before the request goes out: an actor's function that would wait for ever does not send it.
    fn begin(&mut self) -> Result<(), AskError> {
        self.begun = true;
        let Some(asker) = running::head() else { return Ok(()) };
        let target = self.addr.parts().0.head();
        if running::is(target) {
            return Err(AskError::Deadlock);
        }
        if self.deadline.is_some() {
            return Ok(());
        }
        let wait = Wait::draw(asker, target);
        if Wait::closes_circle(asker, target) {
            wait.into_iter().for_each(Wait::end);
            return Err(AskError::Deadlock);
        }
        if wait.is_some() {
            self.place.state().wait = wait;
        }
        Ok(())
    }

    /// Sends the request, waiting for room; ready without an error once it is on its way.
    fn send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), AskError>> {
        let Some(mut request) = self.request.take() else { return Poll::Ready(Ok(())) };
        let (mailbox, life) = self.addr.parts();
        let home = mailbox.head().home();
        if !self.begun
            && let Err(error) = self.begin()
        {
            self.request = Some(request);
            return Poll::Ready(Err(error));
        }
        // In line already, it looks there first.
        let mut push = self.room.is_none().then_some(false);
        loop {
            if let Some(given) = push {
                match if given { mailbox.push_given(life, request) } else { mailbox.push(life, request) } {
                    Ok(()) => return Poll::Ready(Ok(())),
                    Err(Refused::Closed(request)) => {
                        counters::count(home, counters::SENT);
                        life::dead_letter(home, request);
                        return Poll::Ready(Err(AskError::Closed));
                    }
                    Err(Refused::Full(refused)) => request = refused,
                }
            }
            // The circle was looked for already: what the request waits for in line is what it waits for after.
            let room = mailbox.wait_for_room(life, self.room, cx.waker(), None);
            if let Room::Waits(number) = room {
                self.room = Some(number);
                self.request = Some(request);
                return Poll::Pending;
            }
            self.room = None;
            push = Some(room == Room::Given);
        }
    }

    /// Waits for room no longer.
    fn leave_line(&mut self) {
        if let Some(number) = self.room.take() {
            let (mailbox, life) = self.addr.parts();
            mailbox.leave_line(life, number);
        }
    }

    /// Gives up: the handler's verbs are cancelled, or the request is not handled at all.
    fn expire(&mut self) {
        let mut state = self.place.state();
        state.settle();
        self.place.expired.store(true, Ordering::Release);
        let handler = state.handler.take();
        drop(state);
        if let Some(handler) = handler {
            handler.wake();
        }
    }

    /// Sees to it that the fiber is woken at the deadline; whether that has passed.
    fn is_due(&mut self, cx: &Context<'_>) -> bool {
        let Some(deadline) = self.deadline else { return false };
        if fiber::now() >= deadline {
            return true;
        }
        let timer = self.timer;
        self.timer = with_loop(OpKind::Timer, |event_loop| {
            Ok(match timer {
                Some(timer) if event_loop.renew_timer(timer, cx.waker()) => timer,
                _ => event_loop.timer_for(deadline, cx.waker().clone()),
            })
        })
        .ok();
        false
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
        if !this.begun && fiber::is_cancelled() {
            return Poll::Ready(Err(AskError::Cancelled));
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
        if this.is_due(cx) {
            this.expire();
            return Poll::Ready(Err(AskError::Deadline));
        }
        Poll::Pending
    }
}

impl<M: Send + 'static, T: Send + 'static> Drop for Ask<M, T> {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            cancel_timer(timer);
        }
        self.leave_line();
        let mut state = self.place.state();
        state.settle();
        let answer = state.answer.take();
        drop(state);
        if let Some(request) = self.request.take()
            && self.begun
        {
            counters::count_unsent(self.addr.parts().0.head().home(), counters::DEAD_LETTERED);
            drop(request);
        }
        // An answer that comes too late is nobody's; its destructor is the one thing here that others wrote.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(answer))) {
            life::report("an answer that came too late", payload);
        }
    }
}

impl<M: Send + 'static, T: Send + 'static> fmt::Debug for Ask<M, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask").field("to", &self.addr).field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
