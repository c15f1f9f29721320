//! Run a call on the worker pool.
//!
//! The call and its answer's place are shared with the worker. A job that was cancelled before a worker took it never
//! runs; one that runs goes on to its end whether anybody waits or not, and what it answers to nobody is dropped.
//! A panic stays in the worker until the answer carries it back.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::plane::job::JobCell;
use crate::plane::op::RawOp;
use crate::plane::ops::{Kernel, Op, operand};

/// Runs a call on the worker pool. Answers what the call answered, or the payload of its panic; an error says the
/// call did not run.
pub struct Job<T> {
    cell: Box<JobCell>,
    answer: Arc<Mutex<Option<thread::Result<T>>>>,
}

impl<T: Send + 'static> Job<T> {
    /// A job that runs `call` away from the loop.
    pub fn new(call: impl FnOnce() -> T + Send + 'static) -> Job<T> {
        let answer = Arc::new(Mutex::new(None));
        let place = Arc::clone(&answer);
        let cell = Box::new(JobCell::new(move || {
            let outcome = catch_unwind(AssertUnwindSafe(call));
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            0
        }));
        Job { cell, answer }
    }
}

// SAFETY: the cell lies in a box of the value's own and is not touched after `lower`.
unsafe impl<T: Send + 'static> Op for Job<T> {
    type Output = IoResult<thread::Result<T>>;

    fn lower(&mut self) -> RawOp {
        RawOp::Job { cell: operand(&mut self.cell) }
    }

    fn finish(self, res: i32, _kernel: &mut dyn Kernel) -> IoResult<thread::Result<T>> {
        if res < 0 {
            return Err(IoError::from_result(res, OpKind::Job));
        }
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        answer.ok_or_else(|| {
            IoError::new(errno::EIO, OpKind::Job, Stage::Completion).with_context("the job ended without an answer")
        })
    }
}

impl<T> fmt::Debug for Job<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("cell", &self.cell).finish_non_exhaustive()
    }
}
