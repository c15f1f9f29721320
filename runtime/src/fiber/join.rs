//! Starting fibers, and waiting for their end.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::error::{IoError, OpKind, Stage, errno};
use crate::fiber::local;
use crate::fiber::steal::{self, Left, Start};
use crate::fiber::task::{self, Either, FiberId, Handle, Payload, TaskRef};
use crate::fiber::turn::Charge;
use crate::plane::backend::discard;
use crate::scope::{self, Call};

/// What can be started as a fiber: a closure (which the macros make asynchronous), or a parking call.
///
/// # Examples
///
/// ```
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// fn start<B: wo::IntoFiber>(body: B) -> wo::JoinHandle<B::Output> {
///     wo::spawn_named("worker", body)
/// }
/// assert_eq!(start(async || 42).join().expect("it does not panic"), 42);
/// # Ok(())
/// # }
/// ```
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
/// The fiber owns what it captures. It goes on when the handle is dropped; when `main` returns it is unwound. Where the
/// shard is ending, the body is dropped at once and joining says so.
///
/// What a fiber returns goes to whoever joins it; of one whose handle was dropped it is dropped, be it an error. Such a
/// fiber deals with its errors itself, or is the child of a [`scope`](crate::fiber::scope), whose failure is the
/// scope's. A panic is said on stderr in any case.
///
/// # Panics
///
/// Where no shard runs on this thread.
///
/// # Examples
///
/// ```
/// #[wo::main]
/// fn main() {
///     let handle = wo::spawn(|| 40 + 2);
///     assert_eq!(handle.join().expect("it does not panic"), 42);
/// }
/// ```
#[inline]
#[track_caller]
pub fn spawn<B: IntoFiber>(body: B) -> JoinHandle<B::Output> {
    started(task::start(None, body.into_fiber()))
}

#[inline(always)]
#[track_caller]
fn started<T: 'static>(fiber: Option<Handle<T>>) -> JoinHandle<T> {
    if fiber.is_none() {
        check_program();
    }
    JoinHandle::new(fiber)
}

/// No fiber was started: fine where the shard is ending, a mistake where there is none. What runs while a panic unwinds
/// would end the process by another.
#[cold]
#[track_caller]
fn check_program() {
    assert!(
        local::local(local::Local::home).is_some() || std::thread::panicking(),
        "a fiber is started inside a program, under #[wo::main] or in Builder::run: no shard runs on this thread"
    );
}

/// Starts a fiber with a name, which reports of its panic carry; else as [`spawn`].
///
/// # Panics
///
/// As [`spawn`].
///
/// # Examples
///
/// ```
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let cook = wo::spawn_named("cook", || panic!("no salt"));
/// let gone = cook.join().unwrap_err();
/// assert!(gone.is_panic(), "stderr says that `cook` panicked");
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn spawn_named<B: IntoFiber>(name: &str, body: B) -> JoinHandle<B::Output> {
    started(task::start(Some(name), body.into_fiber()))
}

/// Starts a fiber that no other shard may start. So is every fiber but those of [`spawn_stealable`].
///
/// # Panics
///
/// As [`spawn`].
///
/// # Examples
///
/// ```
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let here = wo::shard_index();
/// let there = wo::spawn_pinned(|| wo::shard_index()).join().expect("it does not panic");
/// assert_eq!(there, here);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn spawn_pinned<B: IntoFiber>(body: B) -> JoinHandle<B::Output> {
    spawn(body)
}

/// Starts a fiber on this shard, or on another that has run dry before this one gets to it. There it then lives: only
/// what has not started moves. In a program whose shards share nothing, which is the default, it is [`spawn`].
///
/// What the body captures moves with it, so it is `Send`; what the fiber holds once it runs need not be.
///
/// # Panics
///
/// As [`spawn`].
///
/// # Examples
///
/// ```
/// # #[wo::fiber]
/// # fn example() {
/// // On two shards.
/// let mut parts = Vec::new();
/// for part in 0..10 {
///     parts.push(wo::spawn_stealable(|| part * part));
/// }
/// let mut sum = 0;
/// for part in parts {
///     sum += part.join().expect("it does not panic");
/// }
/// assert_eq!(sum, 285);
/// # }
/// # wo::Builder::new().shards(2).topology(wo::Topology::WorkStealing).run(example).unwrap();
/// ```
#[track_caller]
pub fn spawn_stealable<B>(body: B) -> JoinHandle<B::Output>
where
    B: IntoFiber + Send + 'static,
    B::Output: Send,
{
    match steal::leave(body) {
        Ok(left) => JoinHandle { fiber: Either::boxed(Box::new(left)) },
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
    (start, JoinHandle { fiber: Either::boxed(Box::new(left)) })
}

/// The number of the fiber that asks; none outside a fiber.
///
/// # Examples
///
/// ```
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let handle = wo::spawn(|| wo::id());
/// let number = handle.id();
/// assert_eq!(handle.join().expect("it does not panic"), number);
/// # Ok(())
/// # }
/// ```
pub fn id() -> Option<FiberId> {
    task::current_id()
}

/// A fiber to wait for, or to stop. Dropping it leaves the fiber running.
///
/// # Examples
///
/// A fiber that was asked to stop hears of it where it parks, cleans up, and ends as it likes:
///
/// ```
/// use std::time::Duration;
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let heart = wo::spawn(|| {
///         let mut beats = 0;
///         while wo::sleep(Duration::from_millis(1)).is_ok() {
///             beats += 1;
///         }
///         beats
///     });
///     wo::sleep(Duration::from_millis(5))?;
///     let beats = heart.cancel().expect("it does not panic");
///     assert!(beats > 0);
///     Ok(())
/// }
/// ```
pub struct JoinHandle<T> {
    /// The fiber; or, until it is known to have started, one that another shard starts. Nothing where none could be
    /// started.
    fiber: Either<T, Left<T>>,
}

impl<T: 'static> JoinHandle<T> {
    #[inline(always)]
    fn new(fiber: Option<Handle<T>>) -> JoinHandle<T> {
        JoinHandle { fiber: fiber.map_or(Either::nothing(), Either::handle) }
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

    /// Asks the fiber to stop: from its next turn on its verbs answer ECANCELED, what it waits for now among them, and
    /// the scopes it has opened are cancelled; a protected section ends first. A fiber that has not begun never does.
    /// After the end, or a second time, it does nothing. From any thread.
    ///
    /// The fiber ends when it returns, and with what it returns. What knows nothing of cancels, such as a future of
    /// another library or a loop without verbs, is not ended by it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// #[wo::main]
    /// fn main() -> wo::IoResult<()> {
    ///     let mut sleepers = Vec::new();
    ///     for _ in 0..3 {
    ///         sleepers.push(wo::spawn(|| wo::sleep(Duration::MAX).is_err()));
    ///     }
    ///     wo::yield_now()?;
    ///     for sleeper in &sleepers {
    ///         sleeper.interrupt();
    ///     }
    ///     for sleeper in sleepers {
    ///         assert!(sleeper.join().expect("it does not panic"), "it was interrupted");
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn interrupt(&self) {
        if let Some(fiber) = self.fiber.as_handle() {
            fiber.interrupt();
        } else if let Some(left) = self.fiber.as_box() {
            left.interrupt();
        }
    }

    /// Asks the fiber to stop, and waits until it has, its clean-up included.
    ///
    /// # Errors
    ///
    /// As [`join`](JoinHandle::join); [`JoinError::Cancelled`] also when the fiber had not begun.
    pub fn cancel(self) -> Call<Join<T>> {
        self.interrupt();
        self.join()
    }

    /// Another reference to the fiber; none where it has not started.
    pub(crate) fn fiber(&self) -> Option<TaskRef> {
        self.fiber.as_handle().map(Handle::fiber)
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
        self.fiber.as_handle().map(Handle::id).or_else(|| self.fiber.as_box().and_then(Left::id))
    }

    /// Whether the fiber has ended.
    pub fn is_finished(&self) -> bool {
        self.fiber.as_handle().is_none_or(Handle::is_finished) && self.fiber.as_box().is_none_or(Left::is_finished)
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("fiber", &self.fiber.as_handle().map(Handle::id)).finish()
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
        if let Some(left) = this.handle.fiber.as_box() {
            match left.poll_started(cx) {
                Poll::Pending if !local::is_cancelled() => return Poll::Pending,
                Poll::Ready(Some(started)) => this.handle = started,
                _ => this.handle.fiber = Either::nothing(),
            }
        }
        let Some(fiber) = this.handle.fiber.as_handle() else {
            return Poll::Ready(Err(JoinError::Cancelled));
        };
        if fiber.poll_ended(cx).is_pending() {
            // When the program stops the fiber stops, too, and its clean-up is waited for: the grace bounds it.
            if scope::is_only_stopping() || !local::is_cancelled() {
                return Poll::Pending;
            }
            this.handle.fiber = Either::nothing();
        }
        let ended = this.handle.fiber.take_handle().and_then(Handle::into_result);
        Poll::Ready(match ended {
            Some(ended) => ended.into_inner().map_err(JoinError::Panicked),
            None => Err(JoinError::Cancelled),
        })
    }
}

/// Why a fiber gave no value.
///
/// # Examples
///
/// ```
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let gone = wo::spawn(|| panic!("as planned")).join().unwrap_err();
/// assert!(gone.is_panic());
/// let words = gone.into_panic().and_then(|payload| payload.downcast_ref::<&str>().map(|words| words.to_string()));
/// assert_eq!(words.as_deref(), Some("as planned"));
/// # Ok(())
/// # }
/// ```
pub enum JoinError {
    /// It panicked, with this payload.
    Panicked(Payload),
    /// It was dropped before its end, or stopped before it began; or the wait for it was cancelled.
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

/// A panic is an error without a number, what was cancelled ECANCELED. So `?` works where verbs are.
impl From<JoinError> for IoError {
    fn from(error: JoinError) -> IoError {
        let words = error.to_string();
        match error {
            JoinError::Cancelled => IoError::new(errno::ECANCELED, OpKind::Join, Stage::Cancel).with_context(words),
            JoinError::Panicked(payload) => {
                discard(payload);
                IoError::new(0, OpKind::Join, Stage::Completion).with_context(words)
            }
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
