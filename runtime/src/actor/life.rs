//! An actor's life: started, one message after another, stopping, and the end.
//!
//! One fiber lives it at home. A handler may park; the next message waits. An actor fails when one of its functions
//! panics or answers an error. Alone, it ends then: its askers fail at once, its monitors are told, what was queued is
//! dead-lettered. Under a supervisor the state alone ends, and the life goes on with a new one: same address, same
//! queue. The end is the same whichever way it comes, the program's own end included.

use std::fmt;
use std::future::Future;
use std::ops::DerefMut;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::actor::ask::{Asked, Ending};
use crate::actor::control::{Control, Permission};
use crate::actor::counters;
use crate::actor::error::AskError;
use crate::actor::guard::{Failure, Guard};
use crate::actor::mailbox::{Envelope, Left, Mailbox, Order};
use crate::error::say;
use crate::fiber::home::Home;
use crate::fiber::{self, Charge, Payload, Quiet, panic_message};
use crate::plane::backend::discard;
use crate::shard::asks;

/// What can be spawned as an actor. `#[wo::actor]` implements it for an `impl` that has `fn receive`.
///
/// # Examples
///
/// ```
/// use wo::actor::{Actor, Addr};
///
/// struct Log;
///
/// #[wo::actor]
/// impl Log {
///     fn receive(&mut self, line: String) {
///         println!("{line}");
///     }
/// }
///
/// /// Any actor that takes lines.
/// fn start<A: Actor<Message = String> + Send>(actor: A) -> Addr<String> {
///     wo::spawn(actor)
/// }
/// # #[wo::main]
/// # fn main() { start(Log).send("begun".to_owned()).unwrap() }
/// ```
#[diagnostic::on_unimplemented(
    message = "WO-E221: `{Self}` is no actor: it has no `receive`",
    label = "this type is no actor",
    note = "write `#[wo::actor] impl {Self} {{ fn receive(&mut self, message: Message) {{ ... }} }}`"
)]
pub trait Actor: Sized + 'static {
    /// What it receives.
    type Message: Send + 'static;

    /// Handles one message; the next waits until it is done. An error is said with [`fail`](crate::actor::fail).
    fn receive(&mut self, message: Self::Message) -> impl Future<Output = ()>;

    /// Runs before the first message; a supervised actor's also after each restart. To fail here is a failed start.
    fn started(&mut self) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// Runs after the last message, when the actor was stopped or killed, or its supervisor restarts it for another's
    /// sake; not after its own failure. After a kill its verbs are cancelled; a protected section shelters them.
    fn stopping(&mut self) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// Runs when a request was cancelled while it was handled, after the handler has returned.
    fn on_cancel(&mut self) {}
}

/// How an actor ended.
///
/// # Examples
///
/// ```
/// use wo::actor::Exit;
///
/// struct Glass;
///
/// #[wo::actor]
/// impl Glass {
///     fn receive(&mut self, _stone: ()) {
///         panic!("broken");
///     }
/// }
///
/// #[wo::main]
/// fn main() -> Result<(), wo::IoError> {
///     let glass = wo::spawn(Glass);
///     glass.send(()).expect("nothing cancels this");
///     let exit = glass.ended()?;
///     assert!(exit.is_failure());
///     assert_eq!(exit, Exit::Panicked("broken".to_owned()));
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exit {
    /// It was stopped, and handled what it had.
    Stopped,
    /// It was killed.
    Killed,
    /// One of its functions panicked, with these words.
    Panicked(String),
    /// One of its functions failed, for this reason.
    Failed(String),
    /// A supervisor's children failed too often; it says which, and how the last one failed.
    GaveUp(String),
    /// The program ended.
    Ended,
    /// It had ended before anybody asked.
    Gone,
}

impl Exit {
    /// Whether it ended by itself and against its will.
    pub const fn is_failure(&self) -> bool {
        matches!(self, Exit::Panicked(_) | Exit::Failed(_) | Exit::GaveUp(_))
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Stopped => f.write_str("stopped"),
            Exit::Killed => f.write_str("killed"),
            Exit::Panicked(words) => write!(f, "panicked: {words}"),
            Exit::Failed(reason) => write!(f, "failed: {reason}"),
            Exit::GaveUp(reason) => write!(f, "gave up: {reason}"),
            Exit::Ended => f.write_str("ended with the program"),
            Exit::Gone => f.write_str("had ended before"),
        }
    }
}

/// Says on stderr that something others wrote panicked where nobody can be told.
pub(crate) fn report(what: &str, payload: Payload) {
    say(format_args!("{what} panicked: {}", panic_message(&payload)));
    discard(payload);
}

/// Drops a message; a destructor that panics is reported and ends nothing.
pub(crate) fn drop_quietly<M>(message: M) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(message))) {
        report(&format!("the destructor of a message ({})", std::any::type_name::<M>()), payload);
    }
}

/// Drops a message nobody will handle; whoever asked is told.
pub(crate) fn dead_letter<M>(home: Option<&'static Home>, envelope: Envelope<M>) {
    let Envelope { message, asked } = envelope;
    let expired = asked.as_ref().is_some_and(|asked| asked.is_void());
    counters::count(home, if expired { counters::EXPIRED } else { counters::DEAD_LETTERED });
    if let Some(asked) = asked {
        asked.fail(AskError::Stopped);
    }
    drop_quietly(message.open());
}

/// How a state's time ended.
pub(crate) enum Ended {
    /// With the actor's life.
    Exit(Exit),
    /// By a failure.
    Failed(Exit),
    /// The supervisor wanted it.
    Suspended,
}

/// Has a life begin, on this shard. Where no fiber can be started any more, dropping it ends it.
pub(crate) fn begin(life: impl Future<Output = ()> + 'static) {
    fiber::start_detached(life);
}

/// Lives an actor's life, once.
pub(crate) fn live<A: Actor>(actor: A, life: Life<A::Message>) -> impl Future<Output = ()> + 'static {
    let mut actor = Quiet::new(actor);
    async move {
        // Taken in before the life: also where all of this is dropped half-way, the state ends before its life does.
        let _ = &actor;
        let ended = if life.mailbox.head().has_attention() && life.is_cancelled() {
            Ended::Exit(Exit::Killed)
        } else {
            incarnation(actor.deref_mut(), &life).await
        };
        let (Ended::Exit(exit) | Ended::Failed(exit)) = after(actor, ended) else { return };
        life.end(exit);
    }
}

/// Lives an actor's life with one state after another, as its supervisor permits.
pub(crate) async fn live_supervised<A: Actor>(mut make: impl FnMut() -> A + 'static, life: Life<A::Message>) {
    loop {
        if let Permission::End(exit) = life.permission().await {
            return life.end(exit);
        }
        let ended = match catch_unwind(AssertUnwindSafe(&mut make)) {
            Ok(actor) => {
                let mut actor = Quiet::new(actor);
                let ended = incarnation(actor.deref_mut(), &life).await;
                after(actor, ended)
            }
            Err(payload) => Ended::Failed(Failure::Panic(payload).exit::<A>()),
        };
        match ended {
            Ended::Exit(exit) => return life.end(exit),
            Ended::Failed(exit) => life.is_down(Some(exit)),
            Ended::Suspended => life.is_down(None),
        }
    }
}

/// The state's destructor runs; if it panics, that is how the state ended, unless it had failed before.
fn after<A>(actor: Quiet<A>, ended: Ended) -> Ended {
    let ending = Ending::begin();
    let dropped = actor.end();
    drop(ending);
    match (dropped, ended) {
        (Err(payload), Ended::Exit(_)) => Ended::Exit(Failure::Panic(payload).exit::<A>()),
        (Err(payload), Ended::Suspended) => Ended::Failed(Failure::Panic(payload).exit::<A>()),
        (Err(payload), ended @ Ended::Failed(_)) => {
            report(&format!("the destructor of {}", std::any::type_name::<A>()), payload);
            ended
        }
        (Ok(()), ended) => ended,
    }
}

/// One state's time: from `started` to `stopping`, or to a failure.
///
/// Most actors wait most of the time, and this is what they keep meanwhile: nothing is held across a handler or `next`
/// that is not needed there.
#[expect(clippy::manual_async_fn, reason = "an `async fn` keeps its arguments twice")]
fn incarnation<'a, A: Actor>(actor: &'a mut A, life: &'a Life<A::Message>) -> impl Future<Output = Ended> + 'a {
    async move {
        if fiber::notes_waits() {
            let mailbox = life.mailbox;
            asks::note_actor(life.number(), std::any::type_name::<A>(), || mailbox.is_parked());
        }
        if let Err(failure) = life.guard(actor.started(), &None).await {
            return Ended::Failed(failure.exit::<A>());
        }
        life.begun();
        let next = loop {
            match life.next().await {
                Next::Message => {}
                Next::Suspend => break None,
                Next::End(order) => break Some(order),
            }
            let Some(Envelope { message, asked }) = life.mailbox.pop() else { continue };
            if asked.as_ref().is_some_and(|asked| asked.is_void()) {
                counters::count(None, counters::EXPIRED);
                drop_quietly(message.open());
                continue;
            }
            counters::count(None, counters::HANDLED);
            let handled = life.guard(actor.receive(message.open()), &asked).await;
            let is_expired = match after_message(asked, handled) {
                Ok(is_expired) => is_expired,
                Err(failure) => return Ended::Failed(failure.exit::<A>()),
            };
            if is_expired {
                let called = std::future::poll_fn(|_| {
                    actor.on_cancel();
                    Poll::Ready(())
                });
                if let Err(failure) = life.guard(called, &None).await {
                    return Ended::Failed(failure.exit::<A>());
                }
            }
        };
        match (life.guard(actor.stopping(), &None).await, next) {
            (Err(failure), None) => Ended::Failed(failure.exit::<A>()),
            (Err(failure), Some(_)) => Ended::Exit(failure.exit::<A>()),
            (Ok(()), None) => Ended::Suspended,
            (Ok(()), Some(Order::Kill)) => Ended::Exit(Exit::Killed),
            (Ok(()), Some(_)) => Ended::Exit(Exit::Stopped),
        }
    }
}

/// The handler has returned; whether the request it was about was cancelled meanwhile.
fn after_message(asked: Option<Arc<dyn Asked>>, handled: Result<(), Failure>) -> Result<bool, Failure> {
    let Some(asked) = asked else { return handled.map(|()| false) };
    asked.handled();
    if let Err(failure) = handled {
        asked.fail(failure.for_the_asker());
        return Err(failure);
    }
    Ok(asked.is_expired())
}

/// One life of a mailbox. Dropping it ends that life, whichever way it came to this.
pub(crate) struct Life<M: Send + 'static> {
    pub(crate) mailbox: &'static Mailbox<M>,
    pub(crate) control: Option<Arc<Control>>,
    /// Somebody waits for the end of `started`.
    pub(crate) awaited: bool,
    pub(crate) has_ended: bool,
}

/// What the actor does next.
pub(crate) enum Next {
    /// It handles a message, which is there.
    Message,
    Suspend,
    End(Order),
}

/// What an actor whose attention was called for sees.
pub(crate) enum Look {
    /// Nothing that keeps it from its messages.
    GoOn,
    /// It is to end when it has no more messages.
    Drain,
    Kill,
    Suspend,
}

impl<M: Send + 'static> Life<M> {
    /// Its number, which is the mailbox's as long as it has not ended.
    pub(crate) fn number(&self) -> u64 {
        self.mailbox.head().life_at_home()
    }

    /// What there is to look at besides messages.
    pub(crate) fn look(&self) -> Look {
        match self.mailbox.current_order() {
            Order::Kill => Look::Kill,
            Order::Drain => Look::Drain,
            Order::Live if self.control.as_ref().is_some_and(|control| control.wants_down()) => Look::Suspend,
            Order::Live => Look::GoOn,
        }
    }

    /// Whether the verbs of the actor's functions are cancelled.
    #[cold]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.mailbox.current_order() == Order::Kill || self.control.as_ref().is_some_and(|control| control.is_forced())
    }

    fn next(&self) -> NextMessage<'_, M> {
        NextMessage { life: self, charge: Charge::new() }
    }

    fn guard<'a, F: Future<Output = ()>>(&'a self, future: F, asked: &'a Option<Arc<dyn Asked>>) -> Guard<'a, F, M> {
        Guard::new(self, future, asked)
    }

    /// `started` has returned.
    fn begun(&self) {
        if let Some(control) = &self.control {
            control.is_up();
        }
        if self.awaited {
            self.mailbox.tell_begun();
        }
    }

    /// Parks until the supervisor lets the actor begin, or it is to end.
    pub(crate) async fn permission(&self) -> Permission {
        let Some(control) = &self.control else { return Permission::Begin };
        std::future::poll_fn(|cx| {
            self.mailbox.function_waits(cx.waker());
            // What is wanted after this calls for attention again.
            self.mailbox.calm();
            let ordered = match self.mailbox.current_order() {
                Order::Live => None,
                Order::Drain => Some(Exit::Stopped),
                Order::Kill => Some(Exit::Killed),
            };
            control.permission(ordered, cx.waker())
        })
        .await
    }

    /// The state has ended, the life has not.
    pub(crate) fn is_down(&self, failure: Option<Exit>) {
        if let Some(control) = &self.control {
            control.is_down(failure);
        }
    }

    /// The end, for this reason.
    pub(crate) fn end(mut self, exit: Exit) {
        self.finish(exit);
    }

    fn finish(&mut self, exit: Exit) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        let number = self.number();
        let home = self.mailbox.head().home();
        let Left { messages, monitors } = self.mailbox.end(number);
        messages.into_iter().for_each(|message| dead_letter(home, message));
        monitors.tell(&exit);
        if let Some(control) = self.control.take() {
            control.has_ended(exit);
        }
    }
}

impl<M: Send + 'static> Drop for Life<M> {
    fn drop(&mut self) {
        self.finish(Exit::Ended);
    }
}

struct NextMessage<'a, M: Send + 'static> {
    life: &'a Life<M>,
    charge: Charge,
}

impl<M: Send + 'static> Future for NextMessage<'_, M> {
    type Output = Next;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Next> {
        let NextMessage { life, charge } = self.get_mut();
        let mut drains = false;
        if life.mailbox.head().has_attention() {
            match life.look() {
                Look::GoOn => {}
                Look::Drain => drains = true,
                Look::Kill => return Poll::Ready(Next::End(Order::Kill)),
                Look::Suspend => return Poll::Ready(Next::Suspend),
            }
        }
        if charge.is_due(cx) {
            return Poll::Pending;
        }
        if drains {
            let has_message = life.mailbox.has_last_message(cx.waker());
            return Poll::Ready(if has_message { Next::Message } else { Next::End(Order::Drain) });
        }
        if life.mailbox.has_message(cx.waker()) { Poll::Ready(Next::Message) } else { Poll::Pending }
    }
}
