//! What a body may return, and what its return means.

use std::future::Future;

use crate::scope::cause::{Cause, Outcome};
use crate::scope::node::Ran;

/// What the body of a scope or of its child may return: nothing, or a result whose error fails it.
///
/// # Examples
///
/// ```
/// use wo_runtime::scope::Finish;
///
/// let outcome: Result<u32, _> = Finish::<&str>::finish(Err("no route"));
/// assert_eq!(outcome.unwrap_err().error(), Some(&"no route"));
/// assert!(Finish::<&str>::finish(()).is_ok());
/// ```
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

/// What a closure gives that is the body of a child: any future.
///
/// It is there for what the compiler says where a plain closure stands instead.
///
/// # Examples
///
/// ```
/// use wo_runtime::scope::Body;
///
/// fn is_one<B: Body<Result = u32>>(_: B) {}
/// is_one(async { 7 });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the body of a child",
    label = "a plain closure is given here, which would run at once",
    note = "in a fiber function the closure becomes a child's body where the scope goes by a name: \
            `let children: wo::Scope = server.children.clone();`, then `children.spawn(|| ..)`",
    note = "anywhere else the body is written as `async`: `s.spawn(|| async {{ .. }})`"
)]
pub trait Body: Future<Output = <Self as Body>::Result> {
    /// What it returns.
    type Result;
}

#[diagnostic::do_not_recommend]
impl<F: Future> Body for F {
    type Result = F::Output;
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
#[inline]
pub(crate) fn judge<R: Finish<E>, E>(ended: std::thread::Result<Ran<R>>) -> Outcome<R::Value, E> {
    match ended {
        Err(payload) => Err(Cause::die(payload)),
        Ok(Ran { interrupted: Some(reason), .. }) => Err(Cause::interrupted(reason)),
        Ok(Ran { output, interrupted: None }) => output.finish(),
    }
}
