//! monoio on io_uring.
//!
//! The echo server hands one buffer back and forth, as its owned-buffer calls are meant to be used. monoio cannot abort
//! a task from outside, so its sleepers are wrapped in `Abortable`, the usual way to do that. It runs a task that wakes
//! itself again at once, so its tasks take turns by waking each other.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::{AbortHandle, abortable};
use monoio::buf::IoBuf;
use monoio::io::{AsyncReadRent, AsyncWriteRentExt};
use monoio::net::{ListenerOpts, TcpListener, TcpStream};
use monoio::task::JoinHandle;
use monoio::{IoUringDriver, RuntimeBuilder};

use crate::bench::Bench;
use crate::echo::{ANY_PORT, BUFFER_BYTES, Ready, Serve};
use crate::executor::{Executor, Timers};
use crate::failure::{Failure, Tried};
use crate::{memory, spawn, switch, timers};

use super::{Round, Subject};

/// monoio.
#[derive(Debug)]
pub struct Monoio;

fn serve(ready: Ready) -> Result<(), Failure> {
    let mut runtime = RuntimeBuilder::<IoUringDriver>::new().build().tried("start monoio")?;
    runtime.block_on(async {
        let listener =
            TcpListener::bind_with_config(ANY_PORT, &ListenerOpts::new()).tried(format!("listen on {ANY_PORT}"))?;
        ready(listener.local_addr().tried("read the address of the listener")?)?;
        loop {
            let (stream, _) = listener.accept().await.tried("accept a connection")?;
            stream.set_nodelay(true).tried("set up a connection")?;
            monoio::spawn(echo(stream));
        }
    })
}

async fn echo(mut stream: TcpStream) {
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    loop {
        let (received, back) = stream.read(buffer).await;
        let Ok(received @ 1..) = received else { return };
        let (sent, back) = stream.write_all(back.slice(..received)).await;
        if sent.is_err() {
            return;
        }
        buffer = back.into_inner();
    }
}

impl Executor for Monoio {
    type Task<T: Send + 'static> = JoinHandle<T>;

    fn run<B, F>(body: B) -> Result<F::Output, Failure>
    where
        B: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        let mut runtime = RuntimeBuilder::<IoUringDriver>::new().enable_timer().build().tried("start monoio")?;
        Ok(runtime.block_on(async { monoio::spawn(body()).await }))
    }

    fn spawn<F>(future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        monoio::spawn(future)
    }

    async fn join<T: Send + 'static>(task: JoinHandle<T>) -> T {
        task.await
    }

    fn detach<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        drop(monoio::spawn(future));
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        Relay::default()
    }

    fn yielded_last() {
        Relay::finish();
    }
}

impl Timers for Monoio {
    type Sleeper = AbortHandle;

    fn sleep(time: Duration) -> impl Future<Output = ()> + 'static {
        monoio::time::sleep(time)
    }

    fn spawn_sleeper<F>(future: F) -> AbortHandle
    where
        F: Future<Output = ()> + 'static,
    {
        let (future, handle) = abortable(future);
        drop(monoio::spawn(future));
        handle
    }

    async fn cancel_all(sleepers: Vec<AbortHandle>) {
        sleepers.iter().for_each(AbortHandle::abort);
    }
}

thread_local! {
    static WAITING: RefCell<Option<Waker>> = const { RefCell::new(None) };
}

/// Taking turns without waking oneself: each task wakes the one that yielded before it and waits for the next one to do
/// the same. A task that will not yield again calls [`Relay::finish`], or the one before it would wait for ever.
#[derive(Debug, Default)]
struct Relay {
    passed: bool,
}

impl Relay {
    /// Wakes the task that yielded last.
    fn finish() {
        if let Some(before) = WAITING.take() {
            before.wake();
        }
    }
}

impl Future for Relay {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.passed {
            return Poll::Ready(());
        }
        self.passed = true;
        if let Some(before) = WAITING.replace(Some(context.waker().clone())) {
            before.wake();
        }
        Poll::Pending
    }
}

impl Subject for Monoio {
    fn name(&self) -> &'static str {
        "monoio"
    }

    fn about(&self) -> &'static str {
        "monoio on io_uring"
    }

    fn echo(&self) -> Option<Serve> {
        Some(serve)
    }

    fn round(&self, bench: Bench) -> Option<Round> {
        match bench {
            Bench::Spawn => Some(spawn::round::<Monoio>),
            Bench::Switch => Some(switch::round::<Monoio>),
            Bench::Timers => Some(timers::round::<Monoio>),
            Bench::Memory => Some(memory::round::<Monoio>),
            _ => None,
        }
    }
}
