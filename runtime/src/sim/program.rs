//! A program that was started on a host.

use std::fmt;

use crate::shard::RunError;
use crate::shard::simulated::Outcome;

/// A program on a host of a world: the way to its value. Dropping it leaves the program running.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::sim::World;
///
/// let mut world = World::new(1);
/// let host = world.host("sleeper");
/// let program = world.start(&host, || wo::sleep(Duration::from_secs(3)));
/// world.run_for(Duration::from_secs(1));
/// assert!(!program.has_ended() && program.take().is_none());
/// world.run_for(Duration::from_secs(3));
/// assert!(program.has_ended());
/// assert!(matches!(program.take(), Some(Ok(Ok(())))));
/// assert!(program.take().is_none(), "it was taken");
/// ```
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
