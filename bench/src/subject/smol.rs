//! smol: a local executor driven by `block_on`, which also waits for the reactor on the calling thread.

use std::future::Future;
use std::time::Duration;

use smol::io::{AsyncReadExt, AsyncWriteExt};
use smol::net::{TcpListener, TcpStream};
use smol::{LocalExecutor, Task, Timer};

use crate::bench::Bench;
use crate::echo::{ANY_PORT, BUFFER_BYTES, Ready, Serve};
use crate::executor::{Executor, Timers};
use crate::failure::{Failure, Tried};
use crate::{memory, spawn, switch, timers};

use super::{Round, Subject};

/// smol.
#[derive(Debug)]
pub struct Smol;

thread_local! {
    static EXECUTOR: LocalExecutor<'static> = const { LocalExecutor::new() };
}

fn spawn_here<F>(future: F) -> Task<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    EXECUTOR.with(|executor| executor.spawn(future))
}

fn run_here<F: Future>(future: F) -> F::Output {
    EXECUTOR.with(|executor| smol::block_on(executor.run(future)))
}

fn serve(ready: Ready) -> Result<(), Failure> {
    run_here(async {
        let listener = TcpListener::bind(ANY_PORT).await.tried(format!("listen on {ANY_PORT}"))?;
        ready(listener.local_addr().tried("read the address of the listener")?)?;
        loop {
            let (stream, _) = listener.accept().await.tried("accept a connection")?;
            stream.set_nodelay(true).tried("set up a connection")?;
            spawn_here(echo(stream)).detach();
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

impl Executor for Smol {
    type Task<T: Send + 'static> = Task<T>;

    fn run<B, F>(body: B) -> Result<F::Output, Failure>
    where
        B: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        Ok(run_here(async { spawn_here(body()).await }))
    }

    fn spawn<F>(future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        spawn_here(future)
    }

    async fn join<T: Send + 'static>(task: Task<T>) -> T {
        task.await
    }

    fn detach<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        spawn_here(future).detach();
    }
}

impl Timers for Smol {
    type Sleeper = Task<()>;

    async fn sleep(time: Duration) {
        Timer::after(time).await;
    }

    fn spawn_sleeper<F>(future: F) -> Task<()>
    where
        F: Future<Output = ()> + 'static,
    {
        spawn_here(future)
    }

    async fn cancel_all(sleepers: Vec<Task<()>>) {
        // Dropping the handle of a task cancels it.
        drop(sleepers);
    }
}

impl Subject for Smol {
    fn name(&self) -> &'static str {
        "smol"
    }

    fn about(&self) -> &'static str {
        "smol, a local executor"
    }

    fn echo(&self) -> Option<Serve> {
        Some(serve)
    }

    fn round(&self, bench: Bench) -> Option<Round> {
        match bench {
            Bench::Spawn => Some(spawn::round::<Smol>),
            Bench::Switch => Some(switch::round::<Smol>),
            Bench::Timers => Some(timers::round::<Smol>),
            Bench::Memory => Some(memory::round::<Smol>),
            _ => None,
        }
    }
}
