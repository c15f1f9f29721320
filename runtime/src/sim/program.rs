//! A program that was started on a host.

use std::fmt;

use crate::shard::RunError;
use crate::shard::simulated::Outcome;

/// A program on a host of a world: the way to its value. Dropping it leaves the program running.
pub struct Program<T> {
    pub(super) number: u64,
    pub(super) outcome: Outcome<T>,
}

impl<T> Program<T> {
    pub(super) fn failed(error: RunError) -> Program<T> {
        let outcome = Outcome::default();
        *outcome.borrow_mut() = Some(Err(error));
        Program { number: 0, outcome }
    }

    /// Whether it has ended: its main fiber has returned, or it was ended with its host.
    pub fn has_ended(&self) -> bool {
        self.outcome.borrow().is_some()
    }

    /// What its main fiber returned, or why it did not; none as long as it runs, and once it was taken.
    pub fn take(&self) -> Option<Result<T, RunError>> {
        self.outcome.borrow_mut().take()
    }
}

impl<T> fmt::Debug for Program<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("number", &self.number).field("has_ended", &self.has_ended()).finish()
    }
}
