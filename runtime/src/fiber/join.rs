//! Starting fibers, and waiting for their end.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::fiber::local;
use crate::fiber::steal::{self, Left, Start};
use crate::fiber::task::{self, FiberId, Handle, Payload};
use crate::fiber::turn::Charge;
use crate::scope::{self, Call};

/// What can be started as a fiber: a closure (which the macros make asynchronous), or a parking call.
#[diagnostic::on_unimplemented(
    message = "this is not the body of a fiber",
    label = "neither a call that parks nor a closure that gives a future",
    note = "in a fiber function, write the closure right where it is given; anywhere else, make it `async`"
)]
pub trait IntoFiber {
    /// What the fiber returns.
    type Output: 'static;
    /// Its body.
    type Future: Future<Output = Self::Output> + 'static;

    /// The body, not yet running.
    fn into_fiber(self) -> Self::Future;
}

impl<F: Future + 'static> IntoFiber for Call<F>
where
    F::Output: 'static,
{
    type Output = F::Output;
    type Future = F;

    fn into_fiber(self) -> F {
        self.into_future()
    }
}

// What does not fit is told of the closure, not of what it gives.
#[diagnostic::do_not_recommend]
impl<B, F> IntoFiber for B
where
    B: FnOnce() -> F,
    F: Future + 'static,
    F::Output: 'static,
{
    type Output = F::Output;
    type Future = F;

    fn into_fiber(self) -> F {
        self()
    }
}

/// Starts a fiber on this shard. It runs when its turn comes, not before this returns.
///
/// The fiber owns what it captures. It goes on when the handle is dropped; when `main` returns it is unwound. Where
/// no shard runs on this thread, or the shard is ending, the body is dropped at once and joining says so.
///
/// # Examples
///
/// ```
/// use wo_runtime::fiber;
/// use wo_runtime::shard::Builder;
///
/// let sum = Builder::new().run(|| async {
///     let handle = fiber::spawn(|| async { 40 + 2 });
///     handle.join().await.unwrap()
/// })?;
/// assert_eq!(sum, 42);
/// # Ok::<(), wo_runtime::shard::RunError>(())
/// ```
pub fn spawn<B: IntoFiber>(body: B) -> JoinHandle<B::Output> {
    JoinHandle::new(task::start(None, body.into_fiber()))
}

/// Starts a fiber with a name, which reports of its panic carry.
pub fn spawn_named<B: IntoFiber>(name: &str, body: B) -> JoinHandle<B::Output> {
    JoinHandle::new(task::start(Some(name), body.into_fiber()))
}

/// Starts a fiber that no other shard may start. So is every fiber but those of [`spawn_stealable`].
pub fn spawn_pinned<B: IntoFiber>(body: B) -> JoinHandle<B::Output> {
    spawn(body)
}

/// Starts a fiber on this shard, or on another that has run dry before this one gets to it. There it then lives: only
/// what has not started moves. In a program whose shards share nothing, which is the default, it is [`spawn`].
///
/// What the body captures moves with it, so it is `Send`; what the fiber holds once it runs need not be.
///
/// # Examples
///
/// ```
/// use wo_runtime::fiber;
/// use wo_runtime::shard::{Builder, Topology};
///
/// let sum = Builder::new().shards(2).topology(Topology::WorkStealing).run(|| async {
///     let parts: Vec<_> = (0..10).map(|part| fiber::spawn_stealable(move || async move { part * part })).collect();
///     let mut sum = 0;
///     for part in parts {
///         sum += part.join().await.unwrap();
///     }
///     sum
/// })?;
/// assert_eq!(sum, 285);
/// # Ok::<(), wo_runtime::shard::RunError>(())
/// ```
pub fn spawn_stealable<B>(body: B) -> JoinHandle<B::Output>
where
    B: IntoFiber + Send + 'static,
    B::Output: Send,
{
    match steal::leave(body) {
        Ok(left) => JoinHandle { fiber: None, left: Some(left) },
        Err(body) => spawn(body),
    }
}

/// A fiber for another shard: what starts it there, and the handle to join it here.
pub(crate) fn handed_over<B>(body: B) -> (Start, JoinHandle<B::Output>)
where
    B: IntoFiber + Send + 'static,
    B::Output: Send,
{
    let (start, left) = steal::prepare(body);
    (start, JoinHandle { fiber: None, left: Some(left) })
}

/// The number of the fiber that asks; none outside a fiber.
pub fn id() -> Option<FiberId> {
    task::current_id()
}

/// A fiber to wait for. Dropping it leaves the fiber running.
pub struct JoinHandle<T> {
    fiber: Option<Handle<T>>,
    /// Until it has started, a fiber that any shard may start.
    left: Option<Left<T>>,
}

impl<T: 'static> JoinHandle<T> {
    fn new(fiber: Option<Handle<T>>) -> JoinHandle<T> {
        JoinHandle { fiber, left: None }
    }

    /// Parks until the fiber has ended, and gives what it returned.
    ///
    /// Dropped half-way, it leaves the fiber running. When the program stops it still waits: the fiber stops, too, and
    /// has the grace to clean up.
    ///
    /// # Errors
    ///
    /// The fiber's panic with its payload; or that it, or this wait, was cancelled.
    pub fn join(self) -> Call<Join<T>> {
        Call::new(Join { handle: self, charge: Charge::new() })
    }

    /// What the fiber returned, for those above: none when it was dropped or panicked.
    pub(crate) fn poll_value(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let Some(fiber) = &mut self.fiber else { return Poll::Ready(None) };
        local::waits_for_end(|| Some(fiber.id()));
        let ended = std::task::ready!(fiber.poll(cx));
        self.fiber = None;
        Poll::Ready(ended.and_then(|ended| ended.into_inner().ok()))
    }

    /// What the fiber returned, once it is finished.
    pub(crate) fn take(self) -> Result<T, JoinError> {
        let mut join = std::pin::pin!(Join { handle: self, charge: Charge::paid() });
        match join.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(ended) => ended,
            Poll::Pending => Err(JoinError::Cancelled),
        }
    }

    /// The fiber's number; none as long as it has not started.
    pub fn id(&self) -> Option<FiberId> {
        self.fiber.as_ref().map(Handle::id).or_else(|| self.left.as_ref().and_then(steal::id))
    }

    /// Whether the fiber has ended.
    pub fn is_finished(&self) -> bool {
        self.fiber.as_ref().is_none_or(Handle::is_finished) && self.left.as_ref().is_none_or(steal::is_finished)
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("fiber", &self.fiber.as_ref().map(Handle::id)).finish()
    }
}

/// The future of [`JoinHandle::join`].
#[derive(Debug)]
pub struct Join<T> {
    handle: JoinHandle<T>,
    charge: Charge,
}

impl<T: 'static> Future for Join<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        let this = self.get_mut();
        if this.charge.is_due(cx) {
            return Poll::Pending;
        }
        local::waits_for_end(|| this.handle.id());
        if let Some(left) = &this.handle.left {
            match steal::poll_started(left, cx) {
                Poll::Pending if !local::is_cancelled() => return Poll::Pending,
                Poll::Ready(Some(started)) => this.handle = started,
                _ => this.handle.left = None,
            }
        }
        let Some(fiber) = &mut this.handle.fiber else {
            return Poll::Ready(Err(JoinError::Cancelled));
        };
        let ended = match fiber.poll(cx) {
            // When the program stops the fiber stops, too, and its clean-up is waited for: the grace bounds it.
            Poll::Pending if scope::is_only_stopping() || !local::is_cancelled() => return Poll::Pending,
            Poll::Ready(Some(ended)) => ended.into_inner().map_err(JoinError::Panicked),
            _ => Err(JoinError::Cancelled),
        };
        this.handle.fiber = None;
        Poll::Ready(ended)
    }
}

/// Why a fiber gave no value.
pub enum JoinError {
    /// It panicked, with this payload.
    Panicked(Payload),
    /// It was dropped before its end, or the wait for it was cancelled.
    Cancelled,
}

impl JoinError {
    /// Whether the fiber panicked.
    pub const fn is_panic(&self) -> bool {
        matches!(self, JoinError::Panicked(_))
    }

    /// The panic's payload, if it panicked.
    pub fn into_panic(self) -> Option<Payload> {
        match self {
            JoinError::Panicked(payload) => Some(payload),
            JoinError::Cancelled => None,
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::Panicked(payload) => write!(f, "the fiber panicked: {}", task::message(payload)),
            JoinError::Cancelled => f.write_str("the fiber, or the wait for it, was cancelled"),
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinError({self})")
    }
}

impl std::error::Error for JoinError {}
