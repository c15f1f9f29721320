//! Running one of an actor's functions: what it does wrong ends the actor, not its fiber.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::actor::ask::{Asked, Ending};
use crate::actor::error::AskError;
use crate::actor::life::{Exit, Life};
use crate::actor::running;
use crate::error::say;
use crate::fiber::{Payload, panic_message};
use crate::plane::backend::discard;
use crate::plane::time::Instant;
use crate::scope::{self, Interrupt};

/// What an actor's function did wrong.
pub(crate) enum Failure {
    Panic(Payload),
    /// It said so itself, for this reason.
    Failed(String),
}

impl Failure {
    /// What the one hears whose request was being handled and had no answer yet.
    pub(crate) fn for_the_asker(&self) -> AskError {
        match self {
            Failure::Panic(_) => AskError::Panicked,
            Failure::Failed(_) => AskError::Failed,
        }
    }

    /// Says it on stderr, and makes an exit of it.
    pub(crate) fn exit<A>(self) -> Exit {
        let actor = std::any::type_name::<A>();
        match self {
            Failure::Panic(payload) => {
                let words = panic_message(&payload).to_owned();
                discard(payload);
                say(format_args!("actor {actor} panicked: {words}"));
                Exit::Panicked(words)
            }
            Failure::Failed(reason) => {
                say(format_args!("actor {actor} failed: {reason}"));
                Exit::Failed(reason)
            }
        }
    }
}

pin_project! {
    /// Runs one of the actor's functions: a panic or a reason to fail is an answer; a kill, an asker's deadline or an
    /// impatient supervisor cancels its verbs.
    pub(crate) struct Guard<'a, F, M>
    where
        M: Send,
        M: 'static,
    {
        #[pin]
        future: F,
        life: &'a Life<M>,
        asked: &'a Option<Arc<dyn Asked>>,
        // In a box, as it is seldom there and a guard waits with every handler.
        failed: Option<Box<String>>,
    }
}

impl<'a, F: Future<Output = ()>, M: Send + 'static> Guard<'a, F, M> {
    pub(crate) fn new(life: &'a Life<M>, future: F, asked: &'a Option<Arc<dyn Asked>>) -> Guard<'a, F, M> {
        Guard { future, life, asked, failed: None }
    }
}

impl<F: Future<Output = ()>, M: Send + 'static> Future for Guard<'_, F, M> {
    type Output = Result<(), Failure>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let this = self.project();
        let mailbox = this.life.mailbox;
        let late = this.asked.as_ref().is_some_and(|asked| asked.is_expired());
        let killed = mailbox.head().has_attention() && this.life.is_cancelled();
        let reason = if late { Some(Interrupt::Deadline) } else { killed.then_some(Interrupt::Cancelled) };
        // What the handler asks others has no more time than the handler itself.
        let deadline = this.asked.as_ref().and_then(|asked| asked.deadline());
        scope::set_around(reason, deadline.map(|deadline| deadline.since(Instant::ORIGIN)));
        running::set(Some(mailbox));
        let ending = killed.then(Ending::begin);
        let polled = catch_unwind(AssertUnwindSafe(|| this.future.poll(cx)));
        drop(ending);
        running::set(None);
        scope::set_around(None, None);
        if let Some(reason) = running::take_failure() {
            *this.failed = Some(Box::new(reason));
        }
        match polled {
            Ok(Poll::Pending) => {
                if let Some(asked) = this.asked {
                    asked.handler_waits(cx.waker());
                }
                mailbox.function_waits(cx.waker());
                Poll::Pending
            }
            Ok(Poll::Ready(())) => Poll::Ready(match this.failed.take() {
                None => Ok(()),
                Some(reason) => Err(Failure::Failed(*reason)),
            }),
            Err(payload) => Poll::Ready(Err(Failure::Panic(payload))),
        }
    }
}
