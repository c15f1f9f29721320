//! actix: one arbiter per thread, actors told with `do_send` (its way past the bound of a mailbox), asked with `send`.
//!
//! Its handlers are plain functions. One that waits for nothing is run to its end on the spot; one that may wait is
//! handed, with the actor's state, to a future that the actor waits for before it takes the next message.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::task::{Context as TaskContext, Poll, Waker};

use ::actix::{
    Actor, ActorFutureExt, Addr, Arbiter, ArbiterHandle, AsyncContext, Context, Handler, Message, MessageResult,
    System, WrapFuture,
};

use crate::actors::{self, Library, Role, idle};
use crate::bench::Bench;
use crate::failure::Failure;

use super::{Round, Subject};

/// actix.
#[derive(Debug)]
pub struct Actix;

/// A role as an actor of actix's; none while a future has it.
#[derive(Debug)]
pub struct Played<R>(Option<R>);

struct Told<M>(M);

struct Asked<R: Role<Actix>>(R::Question);

impl<M> Message for Told<M> {
    type Result = ();
}

impl<R: Role<Actix>> Message for Asked<R> {
    type Result = R::Answer;
}

impl<R: Role<Actix>> Actor for Played<R> {
    type Context = Context<Played<R>>;
}

impl<R: Role<Actix>> Handler<Told<R::Message>> for Played<R> {
    type Result = ();

    fn handle(&mut self, Told(message): Told<R::Message>, context: &mut Context<Played<R>>) {
        if R::PARKS {
            let Some(mut role) = self.0.take() else {
                unreachable!("no message is handled while a future has the role")
            };
            let future = async move {
                role.receive(message).await;
                role
            };
            context.wait(future.into_actor(self).map(|role, actor, _| actor.0 = Some(role)));
        } else if let Some(role) = &mut self.0 {
            let done = pin!(role.receive(message)).poll(&mut TaskContext::from_waker(Waker::noop()));
            assert_eq!(done, Poll::Ready(()), "a role that parks says so");
        }
    }
}

impl<R: Role<Actix>> Handler<Asked<R>> for Played<R> {
    type Result = MessageResult<Asked<R>>;

    fn handle(&mut self, Asked(question): Asked<R>, _: &mut Context<Played<R>>) -> MessageResult<Asked<R>> {
        let Some(role) = &mut self.0 else { unreachable!("no question is handled while a future has the role") };
        MessageResult(role.answer(question))
    }
}

thread_local! {
    /// The arbiters of this thread's system, beside its own.
    static ARBITERS: RefCell<Vec<ArbiterHandle>> = const { RefCell::new(Vec::new()) };
}

impl Library for Actix {
    type Address<R: Role<Actix>> = Addr<Played<R>>;

    fn host<B, F>(threads: usize, body: B) -> Result<F::Output, Failure>
    where
        B: FnOnce() -> F + Send + 'static,
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let system = System::new();
        let arbiters: Vec<Arbiter> = (1..threads).map(|_| Arbiter::new()).collect();
        ARBITERS.set(arbiters.iter().map(Arbiter::handle).collect());
        let result = system.block_on(async move { body().await });
        ARBITERS.take();
        for arbiter in arbiters {
            arbiter.stop();
            arbiter.join().map_err(|_| Failure::new("run actix", "an arbiter panicked"))?;
        }
        Ok(result)
    }

    async fn start<R: Role<Actix>>(role: R, place: usize) -> Addr<Played<R>> {
        let actor = Played(Some(role));
        ARBITERS.with_borrow(|arbiters| match place % (arbiters.len() + 1) {
            0 => actor.start(),
            other => Played::start_in_arbiter(&arbiters[other - 1], |_| actor),
        })
    }

    async fn tell<R: Role<Actix>>(to: &Addr<Played<R>>, message: R::Message) {
        to.do_send(Told(message));
    }

    async fn ask<R: Role<Actix>>(to: &Addr<Played<R>>, question: R::Question) -> R::Answer {
        match to.send(Asked(question)).await {
            Ok(answer) => answer,
            Err(error) => panic!("actors live as long as they are asked: {error}"),
        }
    }

    fn dismiss<R: Role<Actix>>(actor: Addr<Played<R>>) {
        drop(actor);
    }
}

impl Subject for Actix {
    fn name(&self) -> &'static str {
        "actix"
    }

    fn about(&self) -> &'static str {
        "actix, an arbiter per thread"
    }

    fn round(&self, bench: Bench) -> Option<Round> {
        match bench {
            Bench::Actors => Some(actors::round::<Actix>),
            Bench::Memory => Some(idle::round::<Actix>),
            _ => None,
        }
    }
}
