//! Asking an actor: a request that carries the place for its answer.
//!
//! The place is shared by three: the asker waits at it, the [`Reply`] in the message fills it, and the actor's loop
//! looks at it before and while the handler runs. It ends once: by an answer, by a failure, or by an asker that goes
//! away; see [`answer`].
//!
//! When the asker's deadline passes it marks the place as expired and wakes the handler, whose verbs are then
//! cancelled. A request that is marked before its turn comes is not handled at all.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::actor::address::Addr;
use crate::actor::counters;
use crate::actor::error::AskError;
use crate::actor::life;
use crate::actor::mailbox::{Answer, Answerer, Asker, Envelope, Head, Parcel, Refused, Room, answer};
use crate::actor::running;
use crate::actor::waits::Wait;
use crate::error::OpKind;
use crate::fiber::{self, Charge, cancel_timer};
use crate::plane::current::with_loop;
use crate::plane::time::Instant;
use crate::plane::token::Token;
use crate::scope::{self, Interrupt};
use crate::shard::asks;

/// What the actor's loop sees of a message that somebody waits for.
pub(crate) trait Asked: Send + Sync {
    /// Whether it is not to be handled at all any more.
    fn is_void(&self) -> bool;

    /// Whether the handler's own verbs are cancelled.
    fn is_expired(&self) -> bool {
        false
    }

    /// When the asker's time runs out; none where it has no end.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// The handler waits: `waker` is called when it is to be cancelled.
    fn handler_waits(&self, _waker: &Waker) {}

    /// The handler has returned.
    fn handled(&self) {}

    /// There will be no answer, for this reason, unless one was given.
    fn fail(&self, _error: AskError) {}
}

impl<T: Send> Asked for Answer<T> {
    fn is_void(&self) -> bool {
        Answer::is_expired(self)
    }

    fn is_expired(&self) -> bool {
        Answer::is_expired(self)
    }

    fn deadline(&self) -> Option<Instant> {
        Answer::deadline(self)
    }

    fn handler_waits(&self, waker: &Waker) {
        Answer::handler_waits(self, waker);
    }

    /// A reply that was kept comes from somewhere else: the asker no longer waits for this actor's function.
    fn handled(&self) {
        Answer::handled(self);
    }

    fn fail(&self, error: AskError) {
        Answer::fail(self, error);
    }
}

/// The place for an answer, inside a request. It may be kept and answered later, from anywhere; dropped without an
/// answer, it tells the asker so.
///
/// # Examples
///
/// ```
/// use wo::actor::Reply;
///
/// struct Waiters(Vec<Reply<&'static str>>);
///
/// #[wo::actor]
/// impl Waiters {
///     #[message]
///     fn wait(&mut self, reply: Reply<&'static str>) {
///         self.0.push(reply); // answered later
///     }
///
///     #[message(send)]
///     fn open(&mut self) {
///         for reply in self.0.drain(..) {
///             let _ = reply.send("come in");
///         }
///     }
/// }
///
/// #[wo::main]
/// fn main() -> Result<(), wo::actor::AskError> {
///     let door = wo::spawn(Waiters(Vec::new()));
///     let waiting = wo::spawn(|| door.wait());
///     wo::yield_now().expect("nothing cancels this");
///     door.open().expect("nothing cancels this");
///     assert_eq!(waiting.join().expect("it does not panic")?, "come in");
///     Ok(())
/// }
/// ```
pub struct Reply<T> {
    answerer: Option<Answerer<T>>,
}

impl<T: Send> Reply<T> {
    /// Answers.
    ///
    /// # Errors
    ///
    /// The answer itself, when the asker's time ran out or it has gone.
    #[inline]
    pub fn send(mut self, answer: T) -> Result<(), T> {
        match self.answerer.take() {
            None => Err(answer),
            Some(answerer) => answerer.send(answer),
        }
    }

    /// Whether nobody waits for the answer any more.
    pub fn is_closed(&self) -> bool {
        self.answerer.as_ref().is_none_or(Answerer::is_closed)
    }
}

impl<T> Drop for Reply<T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(answerer) = self.answerer.take() {
            answerer.fail(match () {
                () if std::thread::panicking() => AskError::Panicked,
                () if ENDS.get() => AskError::Stopped,
                () => AskError::NoReply,
            });
        }
    }
}

thread_local! {
    /// An actor ends just now: what replies it drops were not passed over.
    static ENDS: Cell<bool> = const { Cell::new(false) };
}

/// While this lives, the thread drops an actor's state, or runs a handler whose verbs its end has cancelled.
pub(crate) struct Ending {
    before: bool,
}

impl Ending {
    pub(crate) fn begin() -> Ending {
        Ending { before: ENDS.replace(true) }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        ENDS.set(self.before);
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
    request: Option<Parcel<M>>,
    asker: Asker<T>,
    /// Its own, unless one around it is nearer.
    deadline: Option<Instant>,
    /// It has one, its own or one around it.
    ends: bool,
    timer: Option<Token>,
    room: Option<u64>,
    charge: Charge,
    begun: bool,
}

impl<M: Send + 'static, T: Send + 'static> Ask<M, T> {
    pub(crate) fn new(addr: Addr<M>, deadline: Option<Instant>, make: impl FnOnce(Reply<T>) -> M) -> Ask<M, T> {
        // A deadline of the scope around goes along with the request. When it is the nearer one, it is the scope that
        // keeps the time: it cancels this ask, which has the handler cancelled.
        let around = scope::deadline().map(|around| Instant::ORIGIN + around);
        let (deadline, nearest) = match (deadline, around) {
            (Some(own), Some(around)) if around <= own => (None, Some(around)),
            (own, around) => (own, own.or(around)),
        };
        let (asker, answerer) = answer(nearest);
        let request = Some(Parcel::new(make(Reply { answerer: Some(answerer) })));
        let ends = nearest.is_some();
        Ask { addr, request, asker, deadline, ends, timer: None, room: None, charge: Charge::new(), begun: false }
    }

    /// Before the request goes out: an actor's function that would wait for ever does not send it.
    #[inline]
    fn begin(&mut self, message: impl FnOnce() -> &'static str) -> Result<Option<Wait>, AskError> {
        self.begun = true;
        let Some(asker) = running::head() else { return Ok(None) };
        let target = self.addr.parts().0.head();
        if running::is(target) {
            self.tell_circle(asker, message());
            return Err(AskError::Deadlock);
        }
        if self.ends {
            return Ok(None);
        }
        let wait = Wait::draw(asker, target);
        if Wait::closes_circle(asker, target) {
            wait.into_iter().for_each(Wait::end);
            self.tell_circle(asker, message());
            return Err(AskError::Deadlock);
        }
        Ok(wait)
    }

    /// A simulated world hears who asks whom in the circle that this ask would close.
    #[cold]
    fn tell_circle(&self, asker: &'static Head, message: &'static str) {
        if fiber::notes_waits()
            && let Some(circle) = asks::closed_circle(asker.life_at_home(), self.addr.parts().1, message)
        {
            // Outside of a world there would be no notes; its loop is not in use while a fiber is polled.
            let _ = with_loop(OpKind::Ask, |event_loop| {
                event_loop.backend().note_deadlock(circle);
                Ok(())
            });
        }
    }

    /// Polls it, for a message of this name.
    #[inline]
    pub(crate) fn poll_named(
        &mut self,
        cx: &mut Context<'_>,
        message: impl FnOnce() -> &'static str + Copy,
    ) -> Poll<Result<T, AskError>> {
        let polled = self.advance(cx, message);
        if polled.is_pending() && fiber::notes_waits() {
            fiber::waits_for(OpKind::Ask);
            asks::note_ask(self.addr.parts().1, message());
        }
        polled
    }

    #[inline]
    fn advance(&mut self, cx: &mut Context<'_>, message: impl FnOnce() -> &'static str) -> Poll<Result<T, AskError>> {
        if self.charge.is_due(cx) {
            return Poll::Pending;
        }
        if !self.begun {
            if fiber::is_cancelled() {
                return Poll::Ready(Err(AskError::Cancelled));
            }
            let wait = match self.begin(message) {
                Ok(wait) => wait,
                Err(error) => return Poll::Ready(Err(error)),
            };
            self.asker.begin(cx.waker(), wait);
        }
        if let Poll::Ready(Err(error)) = self.send(cx) {
            return Poll::Ready(Err(error));
        }
        if let Poll::Ready(answer) = self.asker.poll(cx.waker()) {
            return Poll::Ready(answer);
        }
        if fiber::is_cancelled() {
            // Out of time, as the handler is then; unless it was just answered.
            if scope::interrupt() == Some(Interrupt::Deadline) && !self.asker.expire() {
                return self.asker.poll(cx.waker());
            }
            return Poll::Ready(Err(AskError::Cancelled));
        }
        if self.is_due(cx) {
            // The handler's verbs are cancelled, or the request is not handled at all; unless it was just answered.
            return if self.asker.expire() {
                Poll::Ready(Err(AskError::Deadline))
            } else {
                self.asker.poll(cx.waker())
            };
        }
        Poll::Pending
    }

    /// Sends the request, waiting for room; ready without an error once it is on its way.
    fn send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), AskError>> {
        if self.request.is_none() {
            return Poll::Ready(Ok(()));
        }
        let (mailbox, life) = self.addr.parts();
        // In line already, it looks there first.
        let mut push = self.room.is_none().then_some(false);
        loop {
            if let Some(given) = push {
                let place = self.asker.place();
                let asked = || Some(Arc::clone(place) as Arc<dyn Asked>);
                let request = &mut self.request;
                match if given { mailbox.push_given(life, request, asked) } else { mailbox.push(life, request, asked) }
                {
                    Ok(()) => return Poll::Ready(Ok(())),
                    Err(Refused::Closed) => {
                        self.reach_nobody();
                        return Poll::Ready(Err(AskError::Closed));
                    }
                    Err(Refused::Full) => {}
                }
            }
            // The circle was looked for already: what the request waits for in line is what it waits for after.
            let room = mailbox.wait_for_room(life, self.room, cx.waker(), None);
            if let Room::Waits(number) = room {
                self.room = Some(number);
                return Poll::Pending;
            }
            self.room = None;
            push = Some(room == Room::Given);
        }
    }

    /// The actor takes no more requests.
    #[cold]
    fn reach_nobody(&mut self) {
        // It hears of it at once.
        self.asker.leave();
        if let Some(message) = self.request.take() {
            let home = self.addr.parts().0.head().home();
            counters::count(home, counters::SENT);
            let asked = Some(Arc::clone(self.asker.place()) as Arc<dyn Asked>);
            life::dead_letter(home, Envelope { message, asked });
        }
    }

    /// Waits for room no longer.
    fn leave_line(&mut self) {
        if let Some(number) = self.room.take() {
            let (mailbox, life) = self.addr.parts();
            mailbox.leave_line(life, number);
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

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, AskError>> {
        // The message itself, as far as its type tells.
        self.get_mut().poll_named(cx, || asks::short(std::any::type_name::<M>()))
    }
}

impl<M: Send + 'static, T: Send + 'static> Drop for Ask<M, T> {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            cancel_timer(timer);
        }
        self.leave_line();
        let answer = self.asker.leave();
        if let Some(request) = self.request.take()
            && self.begun
        {
            counters::count_unsent(self.addr.parts().0.head().home(), counters::DEAD_LETTERED);
            drop(request);
        }
        // An answer that comes too late is nobody's; its destructor is the one thing here that others wrote.
        if let Some(answer) = answer
            && let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(answer)))
        {
            life::report("an answer that came too late", payload);
        }
    }
}

impl<M: Send + 'static, T: Send + 'static> fmt::Debug for Ask<M, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask").field("to", &self.addr).field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
