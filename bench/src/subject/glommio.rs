//! glommio, one executor on the calling thread.
//!
//! It stays where the worker is pinned, so its own placement is left open.

use std::future::Future;
use std::io;
use std::time::Duration;

use glommio::net::{TcpListener, TcpStream};
use glommio::nop::NopSubmitter;
use glommio::{LocalExecutor, LocalExecutorBuilder, Placement, Task};
use smol::io::{AsyncReadExt, AsyncWriteExt};

use crate::bench::Bench;
use crate::echo::{ANY_PORT, BUFFER_BYTES, Ready, Serve};
use crate::executor::{Executor, Nops, Timers};
use crate::failure::Failure;
use crate::{memory, nop, spawn, switch, timers};

use super::{Round, Subject};

/// glommio.
#[derive(Debug)]
pub struct Glommio;

fn executor() -> Result<LocalExecutor, Failure> {
    LocalExecutorBuilder::new(Placement::Unbound).make().map_err(|error| Failure::new("start glommio", error))
}

fn serve(ready: Ready) -> Result<(), Failure> {
    executor()?.run(async {
        let listener =
            TcpListener::bind(ANY_PORT).map_err(|error| Failure::new(format!("listen on {ANY_PORT}"), error))?;
        let address = listener.local_addr().map_err(|error| Failure::new("read the address of the listener", error))?;
        ready(address)?;
        loop {
            let stream = listener.accept().await.map_err(|error| Failure::new("accept a connection", error))?;
            stream.set_nodelay(true).map_err(|error| Failure::new("set up a connection", error))?;
            glommio::spawn_local(echo(stream)).detach();
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

impl Executor for Glommio {
    type Task<T: Send + 'static> = Task<T>;

    fn run<B, F>(body: B) -> Result<F::Output, Failure>
    where
        B: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        Ok(executor()?.run(async { glommio::spawn_local(body()).await }))
    }

    fn spawn<F>(future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        glommio::spawn_local(future)
    }

    async fn join<T: Send + 'static>(task: Task<T>) -> T {
        task.await
    }

    fn detach<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        drop(glommio::spawn_local(future).detach());
    }
}

impl Timers for Glommio {
    type Sleeper = Task<()>;

    async fn sleep(time: Duration) {
        glommio::timer::Timer::new(time).await;
    }

    fn spawn_sleeper<F>(future: F) -> Task<()>
    where
        F: Future<Output = ()> + 'static,
    {
        glommio::spawn_local(future)
    }

    async fn cancel_all(sleepers: Vec<Task<()>>) {
        // Dropping the handle of a task cancels it.
        drop(sleepers);
    }
}

impl Nops for Glommio {
    type Port = NopSubmitter;

    fn port() -> Result<NopSubmitter, Failure> {
        Ok(NopSubmitter::new())
    }

    fn nop(port: &NopSubmitter) -> impl Future<Output = io::Result<()>> {
        port.run_nop()
    }
}

impl Subject for Glommio {
    fn name(&self) -> &'static str {
        "glommio"
    }

    fn about(&self) -> &'static str {
        "glommio, one executor"
    }

    fn echo(&self) -> Option<Serve> {
        Some(serve)
    }

    fn round(&self, bench: Bench) -> Option<Round> {
        match bench {
            Bench::Spawn => Some(spawn::round::<Glommio>),
            Bench::Switch => Some(switch::round::<Glommio>),
            Bench::Nop => Some(nop::round::<Glommio>),
            Bench::Timers => Some(timers::round::<Glommio>),
            Bench::Memory => Some(memory::round::<Glommio>),
            _ => None,
        }
    }
}
