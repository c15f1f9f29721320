//! ractor, on tokio: actors told with `cast`, asked with `call`.
//!
//! Its spans are left out, which is to its advantage.

use std::future::Future;

use ractor::rpc::CallResult;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

use crate::actors::{self, Library, Role, idle};
use crate::bench::Bench;
use crate::failure::Failure;

use super::{Round, Subject, tokio};

/// ractor.
#[derive(Debug)]
pub struct Ractor;

/// A role as an actor of ractor's, which keeps its state apart.
struct Played<R>(std::marker::PhantomData<fn(R)>);

/// What comes in the mail.
pub enum Letter<R: Role<Ractor>> {
    Told(R::Message),
    Asked(R::Question, RpcReplyPort<R::Answer>),
}

impl<R: Role<Ractor>> Actor for Played<R> {
    type Msg = Letter<R>;
    type State = R;
    type Arguments = R;

    async fn pre_start(&self, _: ActorRef<Letter<R>>, role: R) -> Result<R, ActorProcessingErr> {
        Ok(role)
    }

    async fn handle(&self, _: ActorRef<Letter<R>>, letter: Letter<R>, role: &mut R) -> Result<(), ActorProcessingErr> {
        match letter {
            Letter::Told(message) => role.receive(message).await,
            Letter::Asked(question, reply) => {
                let _ = reply.send(role.answer(question));
            }
        }
        Ok(())
    }
}

impl Library for Ractor {
    type Address<R: Role<Ractor>> = ActorRef<Letter<R>>;

    fn host<B, F>(threads: usize, body: B) -> Result<F::Output, Failure>
    where
        B: FnOnce() -> F + Send + 'static,
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        tokio::run_on(threads, body)
    }

    async fn start<R: Role<Ractor>>(role: R, _place: usize) -> ActorRef<Letter<R>> {
        match Actor::spawn(None, Played(std::marker::PhantomData), role).await {
            Ok((actor, _)) => actor,
            Err(error) => panic!("nothing keeps an actor from starting: {error}"),
        }
    }

    async fn tell<R: Role<Ractor>>(to: &ActorRef<Letter<R>>, message: R::Message) {
        assert!(to.cast(Letter::Told(message)).is_ok(), "actors live as long as they are told things");
    }

    async fn ask<R: Role<Ractor>>(to: &ActorRef<Letter<R>>, question: R::Question) -> R::Answer {
        match to.call(|reply| Letter::Asked(question, reply), None).await {
            Ok(CallResult::Success(answer)) => answer,
            _ => panic!("actors live as long as they are asked"),
        }
    }

    fn dismiss<R: Role<Ractor>>(actor: ActorRef<Letter<R>>) {
        assert!(actor.drain().is_ok(), "actors live until they are dismissed");
    }
}

impl Subject for Ractor {
    fn name(&self) -> &'static str {
        "ractor"
    }

    fn about(&self) -> &'static str {
        "ractor on tokio, without spans"
    }

    fn round(&self, bench: Bench) -> Option<Round> {
        match bench {
            Bench::Actors => Some(actors::round::<Ractor>),
            Bench::Memory => Some(idle::round::<Ractor>),
            _ => None,
        }
    }
}
