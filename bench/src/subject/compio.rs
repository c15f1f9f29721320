//! compio on io_uring.
//!
//! Its ring is set up for one thread with deferred task work, which compio offers and leaves off. The echo server hands
//! one buffer back and forth. compio lets its users add operations; the NOP here is one.

use std::future::Future;
use std::io;
use std::time::Duration;

use compio::BufResult;
use compio::buf::{IntoInner, IoBuf};
use compio::driver::{OpCode, OpEntry, ProactorBuilder};
use compio::io::{AsyncRead, AsyncWriteExt};
use compio::net::{TcpListener, TcpStream};
use compio::runtime::{JoinHandle, ResumeUnwind, Runtime};

use crate::bench::Bench;
use crate::echo::{ANY_PORT, BUFFER_BYTES, Ready, Serve};
use crate::executor::{Executor, Nops, Timers};
use crate::failure::{Failure, Tried};
use crate::{memory, nop, spawn, switch, timers};

use super::{Round, Subject};

/// compio.
#[derive(Debug)]
pub struct Compio;

fn runtime() -> Result<Runtime, Failure> {
    let mut proactor = ProactorBuilder::new();
    proactor.capacity(2048).single_issuer(true).defer_taskrun(true);
    Runtime::builder().with_proactor(proactor).build().tried("start compio")
}

fn serve(ready: Ready) -> Result<(), Failure> {
    runtime()?.block_on(async {
        let listener = TcpListener::bind(ANY_PORT).await.tried(format!("listen on {ANY_PORT}"))?;
        ready(listener.local_addr().tried("read the address of the listener")?)?;
        loop {
            let (stream, _) = listener.accept().await.tried("accept a connection")?;
            stream.set_nodelay(true).tried("set up a connection")?;
            compio::runtime::spawn(echo(stream)).detach();
        }
    })
}

async fn echo(mut stream: TcpStream) {
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    loop {
        let BufResult(received, back) = stream.read(buffer).await;
        let Ok(received @ 1..) = received else { return };
        let BufResult(sent, back) = stream.write_all(back.slice(..received)).await;
        if sent.is_err() {
            return;
        }
        buffer = back.into_inner();
        buffer.clear();
    }
}

impl Executor for Compio {
    type Task<T: Send + 'static> = JoinHandle<T>;

    fn run<B, F>(body: B) -> Result<F::Output, Failure>
    where
        B: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        let root = runtime()?.block_on(async { compio::runtime::spawn(body()).await });
        root.map_err(|error| Failure::new("run a task on compio", format!("{error:?}")))
    }

    fn spawn<F>(future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        compio::runtime::spawn(future)
    }

    async fn join<T: Send + 'static>(task: JoinHandle<T>) -> T {
        task.await.resume_unwind().expect("nobody cancels it")
    }

    fn detach<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        compio::runtime::spawn(future).detach();
    }
}

impl Timers for Compio {
    type Sleeper = JoinHandle<()>;

    fn sleep(time: Duration) -> impl Future<Output = ()> + 'static {
        compio::time::sleep(time)
    }

    fn spawn_sleeper<F>(future: F) -> JoinHandle<()>
    where
        F: Future<Output = ()> + 'static,
    {
        compio::runtime::spawn(future)
    }

    async fn cancel_all(sleepers: Vec<JoinHandle<()>>) {
        // Dropping the handle of a task cancels it.
        drop(sleepers);
    }
}

struct Nop;

// SAFETY: the entry names no memory and no descriptor, so it is valid however long it is under way.
unsafe impl OpCode for Nop {
    type Control = ();

    fn create_entry(&mut self, (): &mut ()) -> OpEntry {
        OpEntry::Submission(io_uring::opcode::Nop::new().build())
    }
}

impl Nops for Compio {
    type Port = ();

    fn port() -> Result<(), Failure> {
        Ok(())
    }

    async fn nop((): &()) -> io::Result<()> {
        let BufResult(result, _) = compio::runtime::submit(Nop).await;
        result.map(drop)
    }
}

impl Subject for Compio {
    fn name(&self) -> &'static str {
        "compio"
    }

    fn about(&self) -> &'static str {
        "compio on io_uring, single issuer and deferred task work"
    }

    fn echo(&self) -> Option<Serve> {
        Some(serve)
    }

    fn round(&self, bench: Bench) -> Option<Round> {
        match bench {
            Bench::Spawn => Some(spawn::round::<Compio>),
            Bench::Switch => Some(switch::round::<Compio>),
            Bench::Nop => Some(nop::round::<Compio>),
            Bench::Timers => Some(timers::round::<Compio>),
            Bench::Memory => Some(memory::round::<Compio>),
            _ => None,
        }
    }
}
