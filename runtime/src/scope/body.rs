//! What a body may return, and what its return means.

use crate::scope::cancel::Ran;
use crate::scope::cause::{Cause, Outcome};

/// What the body of a scope or of its child may return: nothing, or a result whose error fails it.
#[diagnostic::on_unimplemented(
    message = "where errors are of type `{E}`, a body cannot return `{Self}`",
    label = "a body in here returns nothing or a `Result<_, {E}>`",
    note = "wrap a plain value: `Ok(value)`; convert another error: `result.map_err(..)`, or `Ok(result?)`"
)]
pub trait Finish<E> {
    /// The value of a body that went well.
    type Value;

    /// The body's own verdict.
    fn finish(self) -> Outcome<Self::Value, E>;
}

impl<E> Finish<E> for () {
    type Value = ();

    fn finish(self) -> Outcome<(), E> {
        Ok(())
    }
}

impl<T, E> Finish<E> for Result<T, E> {
    type Value = T;

    fn finish(self) -> Outcome<T, E> {
        self.map_err(Cause::fail)
    }
}

/// How a body ended that ran elsewhere.
pub(crate) struct Crossed<T, E>(pub(crate) Outcome<T, E>);

impl<T, E> Finish<E> for Crossed<T, E> {
    type Value = T;

    fn finish(self) -> Outcome<T, E> {
        self.0
    }
}

/// Turns a body's ending into an outcome: a panic is a defect; a body that was told it is cancelled is interrupted,
/// whatever it returned; else it is as the body says.
pub(crate) fn judge<R: Finish<E>, E>(ended: std::thread::Result<Ran<R>>) -> Outcome<R::Value, E> {
    match ended {
        Err(payload) => Err(Cause::die(payload)),
        Ok(Ran { interrupted: Some(reason), .. }) => Err(Cause::interrupted(reason)),
        Ok(Ran { output, interrupted: None }) => output.finish(),
    }
}
