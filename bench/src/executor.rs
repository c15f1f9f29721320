//! The few things every executor can do, so that one workload serves all of them.
//!
//! A workload is written once against [`Executor`] and compiled once per subject: no virtual call and no boxed future
//! stands between it and the runtime. Everything runs on the calling thread. Workloads keep their shared state in
//! thread-local storage: their tasks capture plain numbers, so they satisfy the strictest subject (`Send`) and cost
//! the least one nothing.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::failure::Failure;

/// A runtime that runs tasks on one thread.
pub trait Executor: Sized + 'static {
    /// A running task, to be joined.
    type Task<T: Send + 'static>;

    /// Starts the runtime on the calling thread, runs `body` as a task and returns what it returns.
    fn run<B, F>(body: B) -> Result<F::Output, Failure>
    where
        B: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static;

    /// Starts a task.
    fn spawn<F>(future: F) -> Self::Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static;

    /// Waits for a task; a task that panicked panics here.
    fn join<T: Send + 'static>(task: Self::Task<T>) -> impl Future<Output = T>;

    /// Starts a task that nobody waits for.
    fn detach<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static;

    /// Lets every other task that is ready run first.
    ///
    /// As given, the task wakes itself and steps aside; a runtime with a cheaper way that keeps the order overrides it.
    fn yield_now() -> impl Future<Output = ()> + Send {
        StepAside { stepped: false }
    }

    /// Called by a task that will not yield again.
    fn yielded_last() {}
}

/// A runtime with timers.
pub trait Timers: Executor {
    /// A task that can be cancelled.
    type Sleeper: 'static;

    /// Completes after `time`.
    fn sleep(time: Duration) -> impl Future<Output = ()> + 'static;

    /// Starts a task that [`Timers::cancel_all`] can cancel.
    fn spawn_sleeper<F>(future: F) -> Self::Sleeper
    where
        F: Future<Output = ()> + 'static;

    /// Cancels tasks the way the runtime's users would; when it completes, all of them are told to go.
    fn cancel_all(sleepers: Vec<Self::Sleeper>) -> impl Future<Output = ()>;
}

/// A runtime whose users can reach the ring with an operation that does nothing.
pub trait Nops: Executor {
    /// What operations are submitted through.
    type Port;

    /// Opens the port; called inside [`Executor::run`].
    fn port() -> Result<Self::Port, Failure>;

    /// Sends one operation that does nothing through the ring.
    fn nop(port: &Self::Port) -> impl Future<Output = io::Result<()>>;
}

/// A task that wakes itself and waits for its next turn.
struct StepAside {
    stepped: bool,
}

impl Future for StepAside {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.stepped {
            return Poll::Ready(());
        }
        self.stepped = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
