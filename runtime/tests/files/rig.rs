//! Runs a body on every kernel, each with an empty directory of its own.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use wo_runtime::error::IoResult;
use wo_runtime::os::fs;
use wo_runtime::plane::backend::Selection;
use wo_runtime::shard::Builder;

const REAL_KERNELS: [Selection; 2] = [Selection::Uring, Selection::Epoll];
const EVERY_KERNEL: [Selection; 3] = [Selection::Uring, Selection::Epoll, Selection::Sim];
/// Reductions of one turn, as by default.
const BUDGET: u32 = 4000;

/// A directory of a test's own.
#[derive(Clone)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("wo-files-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Scratch { path: std::env::temp_dir().join(name) }
    }

    pub fn dir(&self) -> &Path {
        &self.path
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The path as it stands in errors.
    pub fn name(&self, name: &str) -> String {
        self.join(name).display().to_string()
    }
}

/// Takes the directory away again, also when the test fails.
struct Removal(Scratch);

impl Drop for Removal {
    fn drop(&mut self) {
        // A simulated world took its own along.
        let _ = std::fs::remove_dir_all(self.0.dir());
    }
}

fn on<F: Future<Output = IoResult<()>> + 'static>(kernels: &[Selection], budget: u32, body: impl Fn(Scratch) -> F) {
    for &selection in kernels {
        eprintln!("on {selection}");
        let scratch = Scratch::new();
        let _removal = Removal(scratch.clone());
        let ran = Builder::new().io(selection).reductions(budget).run(|| {
            let dir = scratch.path.clone();
            let test = body(scratch);
            async move {
                fs::create_dir_all(&dir).await?;
                test.await
            }
        });
        ran.expect("the program runs to its end").unwrap_or_else(|error| panic!("on {selection}: {error}"));
    }
}

/// For what every kernel has.
pub fn on_every_kernel<F: Future<Output = IoResult<()>> + 'static>(body: impl Fn(Scratch) -> F) {
    on(&EVERY_KERNEL, BUDGET, body);
}

/// As [`on_every_kernel`], with a budget of one as well: then a fiber gives way before every op.
pub fn on_every_kernel_and_budget<F: Future<Output = IoResult<()>> + 'static>(body: impl Fn(Scratch) -> F) {
    on(&EVERY_KERNEL, BUDGET, &body);
    on(&EVERY_KERNEL, 1, &body);
}

/// For what only the operating system has: its devices, FIFOs, other processes' descriptors.
pub fn on_real_kernels<F: Future<Output = IoResult<()>> + 'static>(body: impl Fn(Scratch) -> F) {
    on(&REAL_KERNELS, BUDGET, body);
}

/// Polls `future` once; its answer if it has one.
pub async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(move |cx: &mut Context<'_>| {
        Poll::Ready(match future.as_mut().poll(cx) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        })
    })
    .await
}

/// Starts `future` and drops it in flight; whether it was in flight.
pub async fn start_and_drop<F: Future>(future: F) -> bool {
    let mut future = Box::pin(future);
    poll_once(future.as_mut()).await.is_none()
}

/// Bytes that tell where they are from.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 % 251) as u8).collect()
}
