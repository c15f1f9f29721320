//! A call that has no completion form of its own: it runs on the worker pool, and what it answers completes the op.

use std::fmt;

/// A call for the worker pool. It runs once, away from the loop; its answer is the op's result.
pub struct JobCell {
    call: Option<Box<dyn FnOnce() -> i32 + Send>>,
}

impl JobCell {
    /// Wraps `call`, whose answer is a non-negative result or `-errno`.
    pub fn new(call: impl FnOnce() -> i32 + Send + 'static) -> JobCell {
        JobCell { call: Some(Box::new(call)) }
    }

    /// Takes the call out to run it.
    pub(crate) fn take(&mut self) -> Option<Box<dyn FnOnce() -> i32 + Send>> {
        self.call.take()
    }
}

impl fmt::Debug for JobCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobCell").field("waiting", &self.call.is_some()).finish()
    }
}
