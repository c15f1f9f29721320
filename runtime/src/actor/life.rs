//! An actor's life: started, one message after another, stopping, and the end.
//!
//! One fiber lives it at home. A handler may park; the next message waits. A panic in any of the actor's functions ends
//! this actor alone: its askers fail at once, its monitors are told, what was queued is dead-lettered. The end is the
//! same whichever way it comes, the program's own end included.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::actor::ask::Asked;
use crate::actor::error::AskError;
use crate::actor::mailbox::{Envelope, Mailbox, Order};
use crate::error::say;
use crate::fiber::{self, Payload, panic_message};
use crate::plane::backend::discard;
use crate::scope;

/// What can be spawned as an actor. `#[wo::actor]` implements it for an `impl` that has `fn receive`.
#[diagnostic::on_unimplemented(
    message = "WO-E221: `{Self}` is no actor: it has no `receive`",
    label = "this type is no actor",
    note = "write `#[wo::actor] impl {Self} {{ fn receive(&mut self, message: Message) {{ ... }} }}`"
)]
pub trait Actor: Sized + 'static {
    /// What it receives.
    type Message: Send + 'static;

    /// Handles one message; the next waits until it is done.
    fn receive(&mut self, message: Self::Message) -> impl Future<Output = ()>;

    /// Runs before the first message.
    fn started(&mut self) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// Runs after the last message, when the actor was stopped or killed; not after a panic.
    fn stopping(&mut self) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// Runs when a request was cancelled while it was handled, after the handler has returned.
    fn on_cancel(&mut self) {}
}

/// How an actor ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exit {
    /// It was stopped, and handled what it had.
    Stopped,
    /// It was killed.
    Killed,
    /// One of its functions panicked, with these words.
    Panicked(String),
    /// The program ended.
    Ended,
    /// It had ended before anybody asked.
    Gone,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Stopped => f.write_str("stopped"),
            Exit::Killed => f.write_str("killed"),
            Exit::Panicked(words) => write!(f, "panicked: {words}"),
            Exit::Ended => f.write_str("ended with the program"),
            Exit::Gone => f.write_str("had ended before"),
        }
    }
}

thread_local! {
    /// The mailbox of the actor whose function runs now.
    static CURRENT: Cell<*const ()> = const { Cell::new(ptr::null()) };
}

/// Whether a function of this mailbox's actor runs now.
pub(crate) fn is_current<M>(mailbox: &'static Mailbox<M>) -> bool {
    CURRENT.get() == ptr::from_ref(mailbox).cast()
}

/// Drops a message nobody will handle; whoever asked is told.
pub(crate) fn dead_letter<M>(envelope: Envelope<M>) {
    let Envelope { message, asked } = envelope;
    if let Some(asked) = asked {
        asked.fail(AskError::Stopped);
    }
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(message))) {
        discard(payload);
    }
}

/// Lives an actor's life; see the module's text.
pub(crate) async fn live<A: Actor>(actor: A, mut life: Life<A::Message>) {
    let mut actor = actor;
    let exit = run(&mut actor, &life).await;
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(actor)));
    life.exit = match (exit, dropped) {
        (Exit::Stopped | Exit::Killed, Err(payload)) => panicked::<A>(&payload),
        (exit, _) => exit,
    };
}

async fn run<A: Actor>(actor: &mut A, life: &Life<A::Message>) -> Exit {
    if let Err(payload) = life.guard(actor.started(), None).await {
        return panicked::<A>(&payload);
    }
    loop {
        match life.next().await {
            Next::Message(Envelope { message, asked }) => {
                if asked.as_ref().is_some_and(|asked| asked.is_expired()) {
                    continue;
                }
                if let Err(payload) = life.guard(actor.receive(message), asked.as_ref()).await {
                    if let Some(asked) = asked {
                        asked.fail(AskError::Panicked);
                    }
                    return panicked::<A>(&payload);
                }
                if asked.is_some_and(|asked| asked.is_expired())
                    && let Err(payload) = catch_unwind(AssertUnwindSafe(|| actor.on_cancel()))
                {
                    return panicked::<A>(&payload);
                }
            }
            Next::End(order) => {
                if let Err(payload) = life.guard(actor.stopping(), None).await {
                    return panicked::<A>(&payload);
                }
                return if order == Order::Kill { Exit::Killed } else { Exit::Stopped };
            }
        }
    }
}

fn panicked<A>(payload: &Payload) -> Exit {
    let words = panic_message(payload);
    say(format_args!("actor {} panicked: {words}", std::any::type_name::<A>()));
    Exit::Panicked(words.to_owned())
}

/// One life of a mailbox. Dropping it ends that life, whichever way it came to this.
pub(crate) struct Life<M: Send + 'static> {
    mailbox: &'static Mailbox<M>,
    generation: u32,
    exit: Exit,
    begun: bool,
}

enum Next<M> {
    Message(Envelope<M>),
    End(Order),
}

impl<M: Send + 'static> Life<M> {
    /// A life that has not begun at home.
    pub(crate) fn unborn(mailbox: &'static Mailbox<M>, generation: u32) -> Life<M> {
        Life { mailbox, generation, exit: Exit::Ended, begun: false }
    }

    /// The life begins, at home.
    pub(crate) fn begin(mut self) -> Life<M> {
        self.begun = true;
        self
    }

    fn next(&self) -> NextMessage<'_, M> {
        NextMessage { life: self }
    }

    fn guard<'a, F: Future<Output = ()>>(&'a self, future: F, asked: Option<&'a Arc<dyn Asked>>) -> Guard<'a, F, M> {
        Guard { future, life: self, asked }
    }
}

impl<M: Send + 'static> Drop for Life<M> {
    fn drop(&mut self) {
        let (left, monitors): (VecDeque<_>, _) =
            if self.begun { self.mailbox.end(self.generation) } else { self.mailbox.abandon(self.generation) };
        left.into_iter().for_each(dead_letter);
        for monitor in monitors {
            let _ = monitor.send(self.exit.clone());
        }
    }
}

struct NextMessage<'a, M: Send + 'static> {
    life: &'a Life<M>,
}

impl<M: Send + 'static> Future for NextMessage<'_, M> {
    type Output = Next<M>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Next<M>> {
        let Life { mailbox, generation, .. } = self.life;
        if mailbox.has_order(*generation) && mailbox.current_order() == Order::Kill {
            return Poll::Ready(Next::End(Order::Kill));
        }
        if fiber::spend() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        match mailbox.pop(cx.waker()) {
            Some(envelope) => Poll::Ready(Next::Message(envelope)),
            None if mailbox.has_order(*generation) => Poll::Ready(Next::End(Order::Drain)),
            None => Poll::Pending,
        }
    }
}

pin_project! {
    /// Runs one of the actor's functions: a panic is an answer, a kill or an asker's deadline cancels its verbs.
    struct Guard<'a, F, M>
    where
        M: Send,
        M: 'static,
    {
        #[pin]
        future: F,
        life: &'a Life<M>,
        asked: Option<&'a Arc<dyn Asked>>,
    }
}

impl<F: Future<Output = ()>, M: Send + 'static> Future for Guard<'_, F, M> {
    type Output = Result<(), Payload>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Payload>> {
        let this = self.project();
        let Life { mailbox, generation, .. } = this.life;
        let cancelled = this.asked.is_some_and(|asked| asked.is_expired())
            || mailbox.has_order(*generation) && mailbox.current_order() == Order::Kill;
        let flag_before = scope::set_cancelled(cancelled);
        let actor_before = CURRENT.replace(ptr::from_ref(*mailbox).cast());
        let polled = catch_unwind(AssertUnwindSafe(|| this.future.poll(cx)));
        CURRENT.set(actor_before);
        scope::set_cancelled(flag_before);
        match polled {
            Ok(Poll::Pending) => {
                if let Some(asked) = this.asked {
                    asked.handler_waits(cx.waker());
                }
                mailbox.handler_waits(cx.waker());
                Poll::Pending
            }
            Ok(Poll::Ready(())) => Poll::Ready(Ok(())),
            Err(payload) => Poll::Ready(Err(payload)),
        }
    }
}
