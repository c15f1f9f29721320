//! Scopes for fibers: `scope/`'s meaning lowered onto this shard.

use std::future::Future;
use std::time::Duration;

use crate::error::IoResult;
use crate::fiber::call::Call;
use crate::fiber::sleep::{alarm, now, sleep};
use crate::fiber::start_detached;
use crate::plane::time::Instant;
use crate::scope::schedule::Schedule;
use crate::scope::{self, Boxed, Executor, Finish, OnFailure, Outcome};

/// The executor of this shard's fibers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fibers;

/// A scope of fibers.
pub type Scope<E> = scope::Scope<Fibers, E>;

impl Executor for Fibers {
    fn start(&self, body: impl Future<Output = ()> + 'static) -> bool {
        start_detached(body)
    }

    fn timer(&self, span: Duration) -> Boxed<()> {
        Box::pin(alarm(now() + span))
    }

    fn sleep(&self, span: Duration) -> Boxed<IoResult<()>> {
        Box::pin(sleep(span))
    }

    fn now(&self) -> Duration {
        now().since(Instant::ORIGIN)
    }
}

/// Runs `body` and its children to their end, all of them, on every path. The first failure or panic cancels the others
/// and is the scope's cause; later ones are counted.
///
/// Dropped half-way, which only the end of the program does, the body is dropped, and the children are with it.
///
/// # Errors
///
/// Why there is no value: see [`Cause`](crate::scope::Cause).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo_runtime::error::IoError;
/// use wo_runtime::fiber::{self, Scope};
/// use wo_runtime::shard::Builder;
///
/// let outcome = Builder::new().run(|| async {
///     fiber::scope(|s: Scope<IoError>| async move {
///         let slow = s.fork(|| async {
///             fiber::sleep(Duration::from_millis(2)).await?;
///             Ok(40)
///         });
///         let quick = s.fork(|| async { Ok(2) });
///         Ok(slow.join().await.unwrap() + quick.join().await.unwrap())
///     })
///     .await
/// })?;
/// assert_eq!(outcome.unwrap(), 42);
/// # Ok::<(), wo_runtime::shard::RunError>(())
/// ```
pub fn scope<E, R, F>(body: impl FnOnce(Scope<E>) -> F) -> Call<impl Future<Output = Outcome<R::Value, E>>>
where
    E: 'static,
    R: Finish<E>,
    F: Future<Output = R>,
{
    Call::new(scope::open(Fibers, OnFailure::CancelSiblings, body))
}

/// The same, but a failing child does not cancel its siblings: they finish, and the first cause is told at the end.
///
/// # Errors
///
/// As [`scope()`].
pub fn collecting_scope<E, R, F>(body: impl FnOnce(Scope<E>) -> F) -> Call<impl Future<Output = Outcome<R::Value, E>>>
where
    E: 'static,
    R: Finish<E>,
    F: Future<Output = R>,
{
    Call::new(scope::open(Fibers, OnFailure::Collect, body))
}

/// Runs `body` for at most `limit`; then its verbs are cancelled. Of nested deadlines the nearest wins; `Duration::MAX`
/// is none, and zero cancels before the first verb.
///
/// # Errors
///
/// An interruption by deadline, the body's own error, or the interruption of a scope around it.
pub fn with_deadline<E, R, F>(
    limit: Duration,
    body: impl FnOnce() -> F,
) -> Call<impl Future<Output = Outcome<R::Value, E>>>
where
    E: 'static,
    R: Finish<E>,
    F: Future<Output = R>,
{
    Call::new(scope::with_deadline(Fibers, limit, body))
}

/// Runs `body` sheltered from every cancel around it, the program's stop included, until its grace has passed. A
/// pending cancel arrives at the first verb after it.
pub fn protect<F: Future>(body: impl FnOnce() -> F) -> Call<impl Future<Output = F::Output>> {
    Call::new(scope::protect(body))
}

/// Runs `work` until it succeeds, again after each delay of `policy` while it fails.
///
/// # Errors
///
/// The last failure; or an interruption, which is not tried again. A panic of the work passes through.
///
/// # Examples
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
/// use std::time::Duration;
/// use wo_runtime::fiber;
/// use wo_runtime::scope::schedule::{exponential, recurs};
/// use wo_runtime::shard::Builder;
///
/// let tries = Builder::new().run(|| async {
///     let tries = Rc::new(Cell::new(0));
///     let seen = Rc::clone(&tries);
///     let policy = exponential(Duration::from_micros(10)) & recurs(5);
///     fiber::retry(policy, move || {
///         let seen = Rc::clone(&seen);
///         async move {
///             seen.set(seen.get() + 1);
///             if seen.get() == 3 { Ok(seen.get()) } else { Err("not yet") }
///         }
///     })
///     .await
///     .map(|_| tries.get())
/// })?;
/// assert_eq!(tries.unwrap(), 3);
/// # Ok::<(), wo_runtime::shard::RunError>(())
/// ```
pub fn retry<S, R, E, F>(policy: S, work: impl FnMut() -> F) -> Call<impl Future<Output = Outcome<R::Value, E>>>
where
    S: Schedule,
    R: Finish<E>,
    F: Future<Output = R>,
{
    Call::new(scope::retry(Fibers, policy, work))
}

/// Runs `work` until it fails or `policy` ends, again after each delay while it succeeds; answers the last value.
///
/// # Errors
///
/// The first failure, or an interruption.
pub fn repeat<S, R, E, F>(policy: S, work: impl FnMut() -> F) -> Call<impl Future<Output = Outcome<R::Value, E>>>
where
    S: Schedule,
    R: Finish<E>,
    F: Future<Output = R>,
{
    Call::new(scope::repeat(Fibers, policy, work))
}
