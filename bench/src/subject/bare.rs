//! The bare executor: `async-task`, a local queue, a home check, 16 bytes of metadata, and nothing else.
//!
//! It is the floor for a runtime built on boxed tasks: what `wo` adds (identity, cancel context, budget, registry) is
//! the difference. It has no timers and no ring. The home check is what lets a waker be used from any thread: at home
//! the task goes to the plain queue, elsewhere to a concurrent one.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};

use async_task::{Builder, Runnable};
use concurrent_queue::ConcurrentQueue;

use crate::bench::Bench;
use crate::executor::Executor;
use crate::failure::Failure;
use crate::{memory, spawn, switch};

use super::{Round, Subject};

/// The bare executor.
#[derive(Debug)]
pub struct Bare;

/// What a task carries.
#[derive(Debug)]
pub struct Metadata {
    home: u64,
    _number: u64,
}

type Task<T> = async_task::Task<T, Metadata>;

/// Woken tasks whose waker was used away from home; one process runs one bare executor.
static FROM_ELSEWHERE: std::sync::LazyLock<ConcurrentQueue<Runnable<Metadata>>> =
    std::sync::LazyLock::new(ConcurrentQueue::unbounded);

static HOMES: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static HOME: Cell<u64> = const { Cell::new(0) };
    static SPAWNED: Cell<u64> = const { Cell::new(0) };
    static READY: RefCell<VecDeque<Runnable<Metadata>>> = const { RefCell::new(VecDeque::new()) };
}

fn schedule(task: Runnable<Metadata>) {
    if task.metadata().home == HOME.get() {
        READY.with_borrow_mut(|ready| ready.push_back(task));
    } else {
        // The queue is unbounded and never closed, so it takes everything.
        let _ = FROM_ELSEWHERE.push(task);
    }
}

fn metadata() -> Metadata {
    let number = SPAWNED.get();
    SPAWNED.set(number + 1);
    Metadata { home: HOME.get(), _number: number }
}

impl Executor for Bare {
    type Task<T: Send + 'static> = Task<T>;

    fn run<B, F>(body: B) -> Result<F::Output, Failure>
    where
        B: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        HOME.set(HOMES.fetch_add(1, Ordering::Relaxed));
        let (root, root_task) = Builder::new().metadata(metadata()).spawn_local(|_| body(), schedule);
        root.schedule();
        while !root_task.is_finished() {
            let ready = READY.with_borrow_mut(VecDeque::pop_front).or_else(|| FROM_ELSEWHERE.pop().ok());
            match ready {
                Some(task) => drop(task.run()),
                // Nobody else wakes tasks in these workloads; an executor with nothing to do would park here.
                None => {
                    return Err(Failure::new("run the bare executor", "every task waits for another"));
                }
            }
        }
        // The root is finished, so its output is there at the first poll.
        let mut root_task = std::pin::pin!(root_task);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match root_task.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => Ok(output),
            std::task::Poll::Pending => unreachable!("a finished task has its output"),
        }
    }

    fn spawn<F>(future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (runnable, task) = Builder::new().metadata(metadata()).spawn(|_| future, schedule);
        runnable.schedule();
        task
    }

    async fn join<T: Send + 'static>(task: Task<T>) -> T {
        task.await
    }

    fn detach<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Bare::spawn(future).detach();
    }
}

impl Subject for Bare {
    fn name(&self) -> &'static str {
        "bare"
    }

    fn about(&self) -> &'static str {
        "single-shard executor on async-task alone: the floor for spawn and switch"
    }

    fn round(&self, bench: Bench) -> Option<Round> {
        match bench {
            Bench::Spawn => Some(spawn::round::<Bare>),
            Bench::Switch => Some(switch::round::<Bare>),
            Bench::Memory => Some(memory::round_without_timers::<Bare>),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_what_it_is_given_and_joins_in_order() {
        let sum = Bare::run(|| async {
            let tasks: Vec<_> = (0..10u64).map(|n| Bare::spawn(async move { n })).collect();
            let mut sum = 0;
            for task in tasks {
                sum = sum * 2 + Bare::join(task).await;
            }
            sum
        });
        assert_eq!(sum.unwrap(), (0..10).fold(0, |sum, n| sum * 2 + n));
    }

    #[test]
    fn a_deadlock_is_an_error_and_not_a_hang() {
        let error = Bare::run(std::future::pending::<()>).unwrap_err();
        assert!(error.to_string().contains("waits for another"), "{error}");
    }
}
