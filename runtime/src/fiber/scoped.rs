//! Scopes for fibers: `scope/`'s meaning lowered onto this shard.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::error::{IoResult, OpKind};
use crate::fiber::local;
use crate::fiber::sleep::{alarm, now, sleep};
use crate::fiber::task::{self, Handle};
use crate::fiber::turn::cancelled;
use crate::plane::time::Instant;
use crate::scope::schedule::Schedule;
use crate::scope::{self, Boxed, Call, Executor, Finish, Outcome, ScopeOptions};

/// The executor of this shard's fibers.
///
/// # Examples
///
/// ```
/// use wo_runtime::fiber::{Fibers, Scope};
/// use wo_runtime::scope::{self, Executor, Outcome, ScopeOptions};
/// use wo_runtime::shard::Builder;
///
/// /// Code for any executor.
/// async fn answer<X: Executor>(executor: X) -> Outcome<u32> {
///     let body = async |s: scope::Scope<X>| Ok(s.fork(|| async { Ok(42) }).join().await?);
///     scope::open(executor, ScopeOptions::new(), body).await
/// }
///
/// let outcome = Builder::new().run(|| async { answer(Fibers).await })?;
/// assert_eq!(outcome.unwrap(), 42);
/// # let _: Option<Scope> = None;
/// # Ok::<(), wo_runtime::shard::RunError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Fibers;

/// A scope of fibers.
pub type Scope<E = crate::error::IoError> = scope::Scope<Fibers, E>;

/// A child of a scope of fibers.
pub type Child<T, E = crate::error::IoError> = scope::Child<Fibers, T, E>;

/// A fiber that a scope has started.
pub struct Task<T: 'static>(Handle<T>);

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Task").field(&self.0.id()).finish()
    }
}

impl<T> Future for Task<T> {
    type Output = Option<T>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        if !self.0.is_finished() {
            local::waits_for_end(|| Some(self.0.id()));
        }
        std::task::ready!(self.0.poll_ended(cx));
        Poll::Ready(self.0.take_result().and_then(|ended| ended.into_inner().ok()))
    }
}

impl Executor for Fibers {
    type Task<T: 'static> = Task<T>;

    #[inline(always)]
    fn start<T: 'static>(&self, body: impl Future<Output = T> + 'static) -> Option<Task<T>> {
        task::start(None, body).map(Task)
    }

    #[inline]
    fn is_finished<T: 'static>(task: &Task<T>) -> bool {
        task.0.is_finished()
    }

    fn timer(&self, at: Duration) -> Boxed<()> {
        Box::pin(alarm(Instant::ORIGIN + at))
    }

    fn sleep(&self, span: Duration) -> Boxed<IoResult<()>> {
        Box::pin(sleep(span))
    }

    fn waits_for_children(&self) {
        local::waits_for(OpKind::Join);
    }

    fn now(&self) -> Duration {
        now().since(Instant::ORIGIN)
    }
}

/// Runs `body` and its children to their end, all of them, on every path. The first failure or panic cancels the others
/// and is the scope's cause; later ones are counted.
///
/// A body or a child that a verb has told of its cancel ends interrupted, whatever it returns: nobody swallows one.
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
///
/// let outcome = wo::Builder::new().run(|| async {
///     wo::scope(async |s: wo::Scope<wo::IoError>| {
///         let slow = s.fork(|| async {
///             wo::sleep(Duration::from_millis(2)).await?;
///             Ok(40)
///         });
///         let quick = s.fork(|| async { Ok(2) });
///         Ok(slow.join().await.unwrap() + quick.join().await.unwrap())
///     })
///     .await
/// })?;
/// assert_eq!(outcome.unwrap(), 42);
/// # Ok::<(), wo::RunError>(())
/// ```
pub fn scope<E, R>(body: impl AsyncFnOnce(Scope<E>) -> R) -> Call<impl Future<Output = Outcome<R::Value, E>>>
where
    E: 'static,
    R: Finish<E>,
{
    Call::new(scope::open_plain(Fibers, body))
}

/// The same with a policy, a deadline, or a limit for cleaning up; see [`ScopeOptions`].
///
/// # Errors
///
/// As [`scope()`]; and an interruption when a time has passed.
pub fn scope_with<E, R>(
    options: ScopeOptions,
    body: impl AsyncFnOnce(Scope<E>) -> R,
) -> Call<impl Future<Output = Outcome<R::Value, E>>>
where
    E: 'static,
    R: Finish<E>,
{
    Call::new(scope::open(Fibers, options, body))
}

/// The same, but a failing child does not cancel its siblings: they finish, and the first cause is told at the end.
///
/// # Errors
///
/// As [`scope()`].
///
/// # Examples
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
/// use std::time::Duration;
///
/// wo::Builder::new().run(|| async {
///     let done = Rc::new(Cell::new(false));
///     let seen = Rc::clone(&done);
///     let outcome: wo::Outcome<(), &str> = wo::collecting_scope(async |s: wo::Scope<&str>| {
///         s.spawn(|| async { Err::<(), _>("no route") });
///         s.spawn(move || async move {
///             let slept = wo::sleep(Duration::from_millis(1)).await;
///             seen.set(slept.is_ok());
///         });
///     })
///     .await;
///     assert_eq!(outcome.unwrap_err().error(), Some(&"no route"));
///     assert!(done.get());
/// })?;
/// # Ok::<(), wo::RunError>(())
/// ```
pub fn collecting_scope<E, R>(body: impl AsyncFnOnce(Scope<E>) -> R) -> Call<impl Future<Output = Outcome<R::Value, E>>>
where
    E: 'static,
    R: Finish<E>,
{
    Call::new(scope::open(Fibers, ScopeOptions::new().collect(), body))
}

/// Runs `body` for at most `limit`; then its verbs are cancelled. Of nested deadlines the nearest wins; `Duration::MAX`
/// is none, and zero cancels before the first verb. A body that was told so ends interrupted, whatever it returns; one
/// that ends before its next verb ends as it ends.
///
/// # Errors
///
/// An interruption by deadline, the body's own error, or the interruption of a scope around it.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// wo::Builder::new().run(|| async {
///     let limit = Duration::from_millis(1);
///     let late: wo::Outcome<()> = wo::with_deadline(limit, async || wo::sleep(Duration::MAX).await).await;
///     assert!(late.unwrap_err().is_timeout());
/// })?;
/// # Ok::<(), wo::RunError>(())
/// ```
pub fn with_deadline<E, R>(
    limit: Duration,
    body: impl AsyncFnOnce() -> R,
) -> Call<impl Future<Output = Outcome<R::Value, E>>>
where
    E: 'static,
    R: Finish<E>,
{
    Call::new(scope::with_deadline(Fibers, limit, body))
}

/// The same until a point in time. One that has passed cancels before the first verb.
///
/// # Errors
///
/// As [`with_deadline`].
///
/// # Examples
///
/// ```
/// wo::Builder::new().run(|| async {
///     let passed = wo::now();
///     let late: wo::Outcome<()> = wo::with_deadline_at(passed, async || wo::yield_now().await).await;
///     assert!(late.unwrap_err().is_timeout());
/// })?;
/// # Ok::<(), wo::RunError>(())
/// ```
pub fn with_deadline_at<E, R>(
    at: Instant,
    body: impl AsyncFnOnce() -> R,
) -> Call<impl Future<Output = Outcome<R::Value, E>>>
where
    E: 'static,
    R: Finish<E>,
{
    Call::new(scope::with_deadline(Fibers, at.since(now()), body))
}

/// Another name for [`with_deadline`].
///
/// # Errors
///
/// As there.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// wo::Builder::new().run(|| async {
///     let in_time: wo::Outcome<u8> = wo::timeout(Duration::MAX, async || Ok(5)).await;
///     assert_eq!(in_time.unwrap(), 5);
/// })?;
/// # Ok::<(), wo::RunError>(())
/// ```
pub fn timeout<E, R>(limit: Duration, body: impl AsyncFnOnce() -> R) -> Call<impl Future<Output = Outcome<R::Value, E>>>
where
    E: 'static,
    R: Finish<E>,
{
    Call::new(scope::with_deadline(Fibers, limit, body))
}

/// Runs `body` sheltered from every cancel around it, the program's stop included, until its grace has passed. A
/// pending cancel arrives at the first verb after it.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// wo::Builder::new().run(|| async {
///     let outcome: wo::Outcome<()> = wo::scope(async |s: wo::Scope| {
///         s.cancel();
///         // The clean-up parks, and is not cancelled.
///         wo::protect(async || wo::sleep(Duration::from_millis(1)).await).await.expect("sheltered");
///         wo::yield_now().await
///     })
///     .await;
///     assert!(outcome.is_err());
/// })?;
/// # Ok::<(), wo::RunError>(())
/// ```
pub fn protect<R>(body: impl AsyncFnOnce() -> R) -> Call<impl Future<Output = R>> {
    Call::new(scope::protect(body))
}

/// Looks whether this fiber was cancelled, without parking: for long work that uses no verb.
///
/// # Errors
///
/// ECANCELED when it was.
///
/// # Examples
///
/// ```
/// let outcome = wo::Builder::new().run(|| async {
///     wo::with_deadline(std::time::Duration::ZERO, || async {
///         for _step in 0..1_000_000 {
///             wo::checkpoint()?;
///         }
///         Ok::<_, wo::IoError>(())
///     })
///     .await
/// })?;
/// assert!(outcome.unwrap_err().is_timeout());
/// # Ok::<(), wo::RunError>(())
/// ```
#[inline]
pub fn checkpoint() -> IoResult<()> {
    if local::is_cancelled() { Err(cancelled(OpKind::None)) } else { Ok(()) }
}

/// Runs `work` until it succeeds, again after each delay of `policy` while it fails.
///
/// A limit around it ends it, whatever is left of the policy. A limit that the work sets itself is up to the work: a
/// [`timeout`] within it whose outcome it returns as its error is a failure of this try, and tried again.
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
/// use wo::schedule::{exponential, recurs};
///
/// let tries = wo::Builder::new().run(|| async {
///     let tries = Rc::new(Cell::new(0));
///     let seen = Rc::clone(&tries);
///     let policy = exponential(Duration::from_micros(10)) & recurs(5);
///     wo::retry(policy, move || {
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
/// # Ok::<(), wo::RunError>(())
/// ```
pub fn retry<S, R, E>(policy: S, work: impl AsyncFnMut() -> R) -> Call<impl Future<Output = Outcome<R::Value, E>>>
where
    S: Schedule,
    R: Finish<E>,
{
    Call::new(scope::retry(Fibers, policy, work))
}

/// Runs `work` until it fails or `policy` ends, again after each delay while it succeeds; answers the last value.
///
/// # Errors
///
/// The first failure, or an interruption.
///
/// # Examples
///
/// ```
/// use wo::schedule::recurs;
///
/// wo::Builder::new().run(|| async {
///     let mut runs = 0;
///     let last: wo::Outcome<u32> = wo::repeat(recurs(2), async || {
///         runs += 1;
///         Ok(runs)
///     })
///     .await;
///     assert_eq!(last.unwrap(), 3);
/// })?;
/// # Ok::<(), wo::RunError>(())
/// ```
pub fn repeat<S, R, E>(policy: S, work: impl AsyncFnMut() -> R) -> Call<impl Future<Output = Outcome<R::Value, E>>>
where
    S: Schedule,
    R: Finish<E>,
{
    Call::new(scope::repeat(Fibers, policy, work))
}
