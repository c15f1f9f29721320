//! kameo, on tokio: actors with unbounded mailboxes, told with `try_send` (the cheapest way it has), asked with `ask`.
//!
//! Its tracing is left out, which is to its advantage.

use std::convert::Infallible;
use std::future::Future;

use kameo::actor::{Actor, ActorRef, Spawn};
use kameo::error::Infallible as NoError;
use kameo::mailbox;
use kameo::message::{Context, Message};
use kameo::reply::{Reply, ReplyError};

use crate::actors::{self, Library, Role, idle};
use crate::bench::Bench;
use crate::failure::Failure;

use super::{Round, Subject, tokio};

/// kameo.
#[derive(Debug)]
pub struct Kameo;

/// A role as an actor of kameo's.
#[derive(Debug)]
pub struct Played<R>(R);

struct Told<M>(M);
struct Asked<Q>(Q);
struct Answered<T>(T);

impl<R: Role<Kameo>> Actor for Played<R> {
    type Args = R;
    type Error = Infallible;

    async fn on_start(role: R, _: ActorRef<Played<R>>) -> Result<Played<R>, Infallible> {
        Ok(Played(role))
    }
}

impl<R: Role<Kameo>> Message<Told<R::Message>> for Played<R> {
    type Reply = ();

    async fn handle(&mut self, Told(message): Told<R::Message>, _: &mut Context<Played<R>, ()>) {
        self.0.receive(message).await;
    }
}

impl<R: Role<Kameo>> Message<Asked<R::Question>> for Played<R> {
    type Reply = Answered<R::Answer>;

    async fn handle(
        &mut self,
        Asked(question): Asked<R::Question>,
        _: &mut Context<Played<R>, Answered<R::Answer>>,
    ) -> Answered<R::Answer> {
        Answered(self.0.answer(question))
    }
}

impl<T: Send + 'static> Reply for Answered<T> {
    type Ok = T;
    type Error = NoError;
    type Value = Answered<T>;

    fn to_result(self) -> Result<T, NoError> {
        Ok(self.0)
    }

    fn into_any_err(self) -> Option<Box<dyn ReplyError>> {
        None
    }

    fn into_value(self) -> Answered<T> {
        self
    }
}

impl Library for Kameo {
    type Address<R: Role<Kameo>> = ActorRef<Played<R>>;

    fn host<B, F>(threads: usize, body: B) -> Result<F::Output, Failure>
    where
        B: FnOnce() -> F + Send + 'static,
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        tokio::run_on(threads, body)
    }

    async fn start<R: Role<Kameo>>(role: R, _place: usize) -> ActorRef<Played<R>> {
        Played::spawn_with_mailbox(role, mailbox::unbounded())
    }

    async fn tell<R: Role<Kameo>>(to: &ActorRef<Played<R>>, message: R::Message) {
        assert!(to.tell(Told(message)).try_send().is_ok(), "actors live as long as they are told things");
    }

    async fn ask<R: Role<Kameo>>(to: &ActorRef<Played<R>>, question: R::Question) -> R::Answer {
        match to.ask(Asked(question)).send().await {
            Ok(answer) => answer,
            Err(error) => panic!("actors live as long as they are asked: {error}"),
        }
    }

    fn dismiss<R: Role<Kameo>>(actor: ActorRef<Played<R>>) {
        drop(actor);
    }
}

impl Subject for Kameo {
    fn name(&self) -> &'static str {
        "kameo"
    }

    fn about(&self) -> &'static str {
        "kameo on tokio, unbounded mailboxes, without tracing"
    }

    fn round(&self, bench: Bench) -> Option<Round> {
        match bench {
            Bench::Actors => Some(actors::round::<Kameo>),
            Bench::Memory => Some(idle::round::<Kameo>),
            _ => None,
        }
    }
}
