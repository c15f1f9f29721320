//! Running effects on fibers.

use std::future::Future;

use crate::fiber::scoped::Fibers;
use crate::scope::effect::RunsIn;
use crate::scope::{Call, Outcome};

/// Runs effects in the fiber that asks. Every effect has it.
pub trait Run<C: ?Sized>: RunsIn<C> {
    /// Runs it in this world, `&()` if it needs none, and gives what it comes to. It may be run any number of times.
    ///
    /// # Errors
    ///
    /// As the direct code it stands for.
    #[inline]
    fn run(&self, world: &C) -> Call<impl Future<Output = Outcome<Self::Value, Self::Error>>> {
        Call::new(self.perform(&Fibers, world))
    }
}

impl<C: ?Sized, Eff: RunsIn<C>> Run<C> for Eff {}
