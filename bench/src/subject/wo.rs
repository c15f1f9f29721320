//! `wo`: fibers on one shard and actors on one or all, over io_uring.
//!
//! Defaults throughout, but for the kernel: where io_uring is refused this says so instead of measuring epoll.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use wo::net::{TcpListener, TcpStream};
use wo::pool::{Pool, Worker};
use wo_runtime::actor::{self, Actor, Addr, Reply};
use wo_runtime::fiber::{self, JoinHandle};
use wo_runtime::plane::backend::Selection;
use wo_runtime::plane::ops;
use wo_runtime::shard::Builder;

use crate::actors::{self, Library, Role};
use crate::bench::Bench;
use crate::echo::{ANY_PORT, BUFFER_BYTES, Ready, Serve};
use crate::executor::{Executor, Nops, Timers};
use crate::failure::Failure;
use crate::shards::{self, Duty};
use crate::walk::{self, Totals, Walker};
use crate::{memory, nop, scope, sim, spawn, switch, timers};

use super::{Round, Subject};

/// `wo`.
#[derive(Debug)]
pub struct Wo;

fn serve(ready: Ready) -> Result<(), Failure> {
    Wo::run(move || accept(ready))?
}

#[wo::fiber]
fn accept(ready: Ready) -> Result<(), Failure> {
    let refused = |error| Failure::new(format!("serve on {ANY_PORT}"), error);
    let listener = TcpListener::bind(ANY_PORT).map_err(refused)?;
    ready(listener.local_addr())?;
    loop {
        let (stream, _) = listener.accept().map_err(refused)?;
        drop(wo::spawn(|| echo(stream)));
    }
}

#[wo::fiber]
fn echo(stream: TcpStream) {
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    loop {
        let (received, back) = stream.recv(buffer);
        let Ok(1..) = received else { return };
        let (sent, back) = stream.send_all(back);
        if sent.is_err() {
            return;
        }
        buffer = back;
    }
}

/// One shard accepts, and all get connections in turn.
fn serve_shards(duty: Duty, ready: Ready) -> Result<(), Failure> {
    let builder = Builder::new().io(Selection::Uring).shards(duty.shards).pin(true);
    builder.run(move || accept_work(duty, ready)).map_err(|error| Failure::new("run wo", error))?
}

#[wo::fiber]
fn accept_work(duty: Duty, ready: Ready) -> Result<(), Failure> {
    let refused = |error| Failure::new(format!("serve on {ANY_PORT}"), error);
    let listener = TcpListener::bind(ANY_PORT).map_err(refused)?;
    ready(listener.local_addr())?;
    loop {
        let (stream, _) = listener.accept().map_err(refused)?;
        drop(wo::spawn_anywhere(|| work(stream, duty)));
    }
}

#[wo::fiber]
fn work(stream: TcpStream, duty: Duty) {
    let mut buffer = Vec::with_capacity(duty.bytes);
    loop {
        let (received, back) = stream.recv(buffer);
        let Ok(1..) = received else { return };
        duty.work(&back);
        let (sent, back) = stream.send_all(back);
        if sent.is_err() {
            return;
        }
        buffer = back;
    }
}

impl Executor for Wo {
    type Task<T: Send + 'static> = JoinHandle<T>;

    fn run<B, F>(body: B) -> Result<F::Output, Failure>
    where
        B: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        Builder::new().io(Selection::Uring).run(body).map_err(|error| Failure::new("run wo", error))
    }

    fn spawn<F>(future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        fiber::spawn(|| future)
    }

    async fn join<T: Send + 'static>(task: JoinHandle<T>) -> T {
        task.join().await.unwrap_or_else(|error| panic!("{error}"))
    }

    fn detach<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        drop(fiber::spawn(|| future));
    }

    async fn yield_now() {
        assert!(fiber::yield_now().await.is_ok(), "nobody cancels it");
    }
}

impl Timers for Wo {
    type Sleeper = JoinHandle<()>;

    async fn sleep(time: Duration) {
        // The only error is that it was cancelled.
        let _ = fiber::sleep(time).await;
    }

    fn spawn_sleeper<F>(future: F) -> JoinHandle<()>
    where
        F: Future<Output = ()> + 'static,
    {
        fiber::spawn(|| future)
    }

    async fn cancel_all(sleepers: Vec<JoinHandle<()>>) {
        sleepers.iter().for_each(JoinHandle::interrupt);
    }
}

impl Nops for Wo {
    type Port = ();

    fn port() -> Result<(), Failure> {
        Ok(())
    }

    async fn nop((): &()) -> io::Result<()> {
        Ok(fiber::verb(ops::Nop).await?)
    }
}

fn count<'env>(worker: &Worker<'env>, directory: PathBuf, totals: &'env Totals) {
    walk::visit(&directory, totals, |found| worker.spawn(move |worker| count(worker, found, totals)));
}

impl Walker for Wo {
    fn walk(root: PathBuf, totals: &Totals) {
        Pool::new(walk::THREADS).run(|worker| count(worker, root, totals));
    }
}

/// What comes in the mail.
pub enum Letter<R: Role<Wo>> {
    Told(R::Message),
    Asked(R::Question, Reply<R::Answer>),
}

/// A role as an actor.
struct Played<R>(R);

impl<R: Role<Wo>> Actor for Played<R> {
    type Message = Letter<R>;

    async fn receive(&mut self, letter: Letter<R>) {
        match letter {
            Letter::Told(message) => self.0.receive(message).await,
            Letter::Asked(question, reply) => {
                let _ = reply.send(self.0.answer(question));
            }
        }
    }
}

impl Library for Wo {
    type Address<R: Role<Wo>> = Addr<Letter<R>>;

    fn host<B, F>(threads: usize, body: B) -> Result<F::Output, Failure>
    where
        B: FnOnce() -> F + Send + 'static,
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let builder = Builder::new().io(Selection::Uring).shards(threads).pin(threads > 1);
        builder.run(body).map_err(|error| Failure::new("run wo", error))
    }

    async fn start<R: Role<Wo>>(role: R, place: usize) -> Addr<Letter<R>> {
        actor::Options::new().shard(place).spawn(Played(role))
    }

    async fn tell<R: Role<Wo>>(to: &Addr<Letter<R>>, message: R::Message) {
        assert!(to.send(Letter::Told(message)).await.is_ok(), "actors live as long as they are told things");
    }

    async fn ask<R: Role<Wo>>(to: &Addr<Letter<R>>, question: R::Question) -> R::Answer {
        match to.ask(|reply| Letter::Asked(question, reply)).await {
            Ok(answer) => answer,
            Err(error) => panic!("every question is answered: {error}"),
        }
    }

    fn dismiss<R: Role<Wo>>(actor: Addr<Letter<R>>) {
        actor.stop();
    }
}

impl Subject for Wo {
    fn name(&self) -> &'static str {
        "wo"
    }

    fn about(&self) -> &'static str {
        "wo, fibers on one shard, actors on one or all, over io_uring; the pool for batch work"
    }

    fn echo(&self) -> Option<Serve> {
        Some(serve)
    }

    fn shards(&self) -> Option<shards::Serve> {
        Some(serve_shards)
    }

    fn round(&self, bench: Bench) -> Option<Round> {
        match bench {
            Bench::Spawn => Some(spawn::round::<Wo>),
            Bench::Switch => Some(switch::round::<Wo>),
            Bench::Nop => Some(nop::round::<Wo>),
            Bench::Timers => Some(timers::round::<Wo>),
            Bench::Memory => Some(memory::round_with_actors::<Wo>),
            Bench::Walk => Some(walk::round::<Wo>),
            Bench::Actors => Some(actors::round::<Wo>),
            Bench::Scope => Some(scope::round::<Wo>),
            Bench::Sim => Some(sim::round),
            Bench::Db => Some(super::wo_db::round),
            _ => None,
        }
    }
}
