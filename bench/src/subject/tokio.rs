//! tokio, on one thread.
//!
//! The echo server is the current-thread runtime with one task per connection. Elsewhere it is the local runtime, which
//! is the same scheduler and also takes a root that stays on its thread.
//!
//! Its actors are what one writes by hand: a task that receives from an unbounded channel, and a oneshot channel for
//! every question. On several threads they run on the multi-thread runtime.

use std::future::Future;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, spawn_local};

use crate::actors::{self, Library, Role};
use crate::bench::Bench;
use crate::echo::{ANY_PORT, BUFFER_BYTES, Ready, Serve};
use crate::executor::{Executor, Timers};
use crate::failure::{Failure, Tried};
use crate::shards::{self, Duty};
use crate::{memory, spawn, switch, timers};

use super::{Round, Subject};

/// tokio.
#[derive(Debug)]
pub struct Tokio;

fn serve(ready: Ready) -> Result<(), Failure> {
    let runtime = Builder::new_current_thread().enable_io().build().tried("start tokio")?;
    runtime.block_on(async {
        let listener = TcpListener::bind(ANY_PORT).await.tried(format!("listen on {ANY_PORT}"))?;
        ready(listener.local_addr().tried("read the address of the listener")?)?;
        loop {
            let (stream, _) = listener.accept().await.tried("accept a connection")?;
            stream.set_nodelay(true).tried("set up a connection")?;
            tokio::spawn(echo(stream));
        }
    })
}

async fn echo(mut stream: TcpStream) {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(received @ 1..) = stream.read(&mut buffer).await {
        if stream.write_all(&buffer[..received]).await.is_err() {
            return;
        }
    }
}

fn serve_shards(duty: Duty, ready: Ready) -> Result<(), Failure> {
    let runtime = Builder::new_multi_thread().worker_threads(duty.shards).enable_io().build().tried("start tokio")?;
    let accepting = async move {
        let listener = TcpListener::bind(ANY_PORT).await.tried(format!("listen on {ANY_PORT}"))?;
        ready(listener.local_addr().tried("read the address of the listener")?)?;
        loop {
            let (stream, _) = listener.accept().await.tried("accept a connection")?;
            stream.set_nodelay(true).tried("set up a connection")?;
            tokio::spawn(work(stream, duty));
        }
    };
    // On the workers: the thread that waits here is none of them.
    let ended = runtime.block_on(async { tokio::spawn(accepting).await });
    ended.map_err(|error| Failure::new("run a task on tokio", error))?
}

async fn work(mut stream: TcpStream, duty: Duty) {
    let mut buffer = vec![0; duty.bytes];
    while let Ok(received @ 1..) = stream.read(&mut buffer).await {
        duty.work(&buffer[..received]);
        if stream.write_all(&buffer[..received]).await.is_err() {
            return;
        }
    }
}

impl Executor for Tokio {
    type Task<T: Send + 'static> = JoinHandle<T>;

    fn run<B, F>(body: B) -> Result<F::Output, Failure>
    where
        B: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        let runtime =
            Builder::new_current_thread().enable_all().build_local(LocalOptions::default()).tried("start tokio")?;
        let root = runtime.block_on(async { spawn_local(body()).await });
        root.map_err(|error| Failure::new("run a task on tokio", error))
    }

    fn spawn<F>(future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        tokio::spawn(future)
    }

    async fn join<T: Send + 'static>(task: JoinHandle<T>) -> T {
        match task.await {
            Ok(output) => output,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    fn detach<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        drop(tokio::spawn(future));
    }
}

impl Timers for Tokio {
    type Sleeper = JoinHandle<()>;

    fn sleep(time: Duration) -> impl Future<Output = ()> + 'static {
        tokio::time::sleep(time)
    }

    fn spawn_sleeper<F>(future: F) -> JoinHandle<()>
    where
        F: Future<Output = ()> + 'static,
    {
        spawn_local(future)
    }

    async fn cancel_all(sleepers: Vec<JoinHandle<()>>) {
        sleepers.iter().for_each(JoinHandle::abort);
    }
}

/// What comes in the mail.
pub enum Letter<R: Role<Tokio>> {
    Told(R::Message),
    Asked(R::Question, oneshot::Sender<R::Answer>),
}

/// Runs `body` on a runtime of `threads` threads: the current one, or as many workers.
pub fn run_on<B, F>(threads: usize, body: B) -> Result<F::Output, Failure>
where
    B: FnOnce() -> F + Send + 'static,
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let mut builder = match threads {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    if threads > 1 {
        builder.worker_threads(threads);
    }
    let runtime = builder.enable_all().build().tried("start tokio")?;
    let root = runtime.block_on(async { tokio::spawn(body()).await });
    root.map_err(|error| Failure::new("run a task on tokio", error))
}

impl Library for Tokio {
    type Address<R: Role<Tokio>> = mpsc::UnboundedSender<Letter<R>>;

    fn host<B, F>(threads: usize, body: B) -> Result<F::Output, Failure>
    where
        B: FnOnce() -> F + Send + 'static,
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        run_on(threads, body)
    }

    async fn start<R: Role<Tokio>>(mut role: R, _place: usize) -> mpsc::UnboundedSender<Letter<R>> {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(letter) = receiver.recv().await {
                match letter {
                    Letter::Told(message) => role.receive(message).await,
                    Letter::Asked(question, reply) => {
                        let _ = reply.send(role.answer(question));
                    }
                }
            }
        });
        sender
    }

    async fn tell<R: Role<Tokio>>(to: &mpsc::UnboundedSender<Letter<R>>, message: R::Message) {
        assert!(to.send(Letter::Told(message)).is_ok(), "actors live as long as they are told things");
    }

    async fn ask<R: Role<Tokio>>(to: &mpsc::UnboundedSender<Letter<R>>, question: R::Question) -> R::Answer {
        let (reply, answer) = oneshot::channel();
        assert!(to.send(Letter::Asked(question, reply)).is_ok(), "actors live as long as they are asked");
        match answer.await {
            Ok(answer) => answer,
            Err(error) => panic!("every question is answered: {error}"),
        }
    }

    fn dismiss<R: Role<Tokio>>(actor: mpsc::UnboundedSender<Letter<R>>) {
        drop(actor);
    }
}

impl Subject for Tokio {
    fn name(&self) -> &'static str {
        "tokio"
    }

    fn about(&self) -> &'static str {
        "tokio on one thread, in shards on several; its actors are tasks with a channel, written by hand"
    }

    fn echo(&self) -> Option<Serve> {
        Some(serve)
    }

    fn shards(&self) -> Option<shards::Serve> {
        Some(serve_shards)
    }

    fn round(&self, bench: Bench) -> Option<Round> {
        match bench {
            Bench::Spawn => Some(spawn::round::<Tokio>),
            Bench::Switch => Some(switch::round::<Tokio>),
            Bench::Timers => Some(timers::round::<Tokio>),
            Bench::Memory => Some(memory::round_with_actors::<Tokio>),
            Bench::Actors => Some(actors::round::<Tokio>),
            _ => None,
        }
    }
}
