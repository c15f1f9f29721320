//! Runs a body as a program of its own on one kernel after the other.
//!
//! `WO_IO`, when it is set, picks the kernels: `uring`, `epoll` or `sim` alone, anything else and unset means all.
//! `WO_SHARDS` is the number of shards, as many as there are cores when it is not set; the body runs on the first.
//! Every run has a watch on it: one that does not end within two minutes is taken for hung and ends the process with
//! the name of the kernel it hung on.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::future::Future;
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use wo::Builder;
use wo_runtime::error::IoError;
use wo_runtime::plane::backend::{AnyBackend, Backend, BackendConfig, Selection};

/// The kernels of the operating system.
pub const REAL: &[Selection] = &[Selection::Uring, Selection::Epoll];
/// Those and the simulated one.
pub const EVERY: &[Selection] = &[Selection::Uring, Selection::Epoll, Selection::Sim];

const HUNG: Duration = Duration::from_secs(120);

/// Runs `body` on every kernel there is here.
pub fn on_every_backend<F>(body: impl Fn() -> F)
where
    F: Future<Output = ()> + 'static,
{
    for backend in those_of(EVERY) {
        run(backend, |builder| builder, &body);
    }
}

/// Runs `body` on io_uring and on epoll.
pub fn on_real_backends<F>(body: impl Fn() -> F)
where
    F: Future<Output = ()> + 'static,
{
    for backend in those_of(REAL) {
        run(backend, |builder| builder, &body);
    }
}

/// Runs `body` on one kernel and answers what it answered.
pub fn run<F>(backend: Selection, configure: impl FnOnce(Builder) -> Builder, body: impl FnOnce() -> F) -> F::Output
where
    F: Future + 'static,
{
    println!("on {backend}");
    let _watch = Watch::new(format!("a run on {backend}"));
    match configure(Builder::new().io(backend).shards(shards())).run(body) {
        Ok(answer) => answer,
        Err(error) => panic!("on {backend}: {error}"),
    }
}

/// Which of `backends` to run on: those that `WO_IO` allows and this machine has.
pub fn those_of(backends: &[Selection]) -> Vec<Selection> {
    let asked = std::env::var("WO_IO").ok().and_then(|word| word.parse::<Selection>().ok());
    let asked = asked.filter(|io| *io != Selection::Auto);
    let mut here = Vec::new();
    for &backend in backends {
        if asked.is_some_and(|asked| asked != backend) {
            continue;
        }
        if backend == Selection::Uring
            && asked.is_none()
            && let Some(refusal) = ring_refusal()
        {
            println!("uring skipped, this machine has none: {refusal}");
            continue;
        }
        here.push(backend);
    }
    here
}

fn shards() -> usize {
    std::env::var("WO_SHARDS").ok().and_then(|number| number.parse().ok()).unwrap_or_else(wo::cores)
}

fn ring_refusal() -> Option<&'static IoError> {
    static REFUSAL: OnceLock<Option<IoError>> = OnceLock::new();
    let ask = || match AnyBackend::select(Selection::Uring, &BackendConfig::default()) {
        Ok(ring) => {
            ring.close();
            None
        }
        Err(refusal) => Some(refusal),
    };
    REFUSAL.get_or_init(ask).as_ref()
}

/// Ends the process when it is not dropped in time. Dropped, it leaves nothing behind, its thread included.
pub struct Watch {
    ended: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// A watch over something of this name.
    pub fn new(over: String) -> Watch {
        let (ended, waits) = mpsc::channel();
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let thread = std::thread::spawn(move || {
            if waits.recv_timeout(HUNG) == Err(RecvTimeoutError::Timeout) {
                eprintln!("{test}: {over} has not ended after {HUNG:?}");
                std::process::abort();
            }
        });
        Watch { ended: Some(ended), thread: Some(thread) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.ended.take());
        self.thread.take().map(JoinHandle::join);
    }
}
