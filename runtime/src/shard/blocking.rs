//! Calls that hold their thread up, on a few threads of the program's beside its shards.
//!
//! A call waits in order, runs on one thread, and its outcome wakes the fiber that parked for it. A fiber that gives
//! up, because it is cancelled or dropped, takes a call that still waits back; one that runs cannot be interrupted, so
//! it goes on and its outcome is dropped. Threads start when there is more work than idle threads, up to the bound,
//! and end after a while without work.
//!
//! When the program ends, what still waits is dropped, and what runs is waited for, within the grace; a call that
//! takes longer is left to itself, on a thread that touches nothing of the program's any more.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{IoError, OpKind, Stage, errno};
use crate::fiber::oneshot::oneshot;
use crate::fiber::{self, Call, Payload, is_cancelled};
use crate::plane::Instant;
use crate::plane::backend::{BackendKind, affinity, discard};
use crate::plane::ops;
use crate::shard::program::here;

/// A thread without work for this long ends.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// Runs a call that holds its thread up, such as a long computation or a call into another library, away from the
/// shard; parks until it has ended, and gives what it returned.
///
/// At most as many run at once as [`Builder::blocking_threads`](crate::shard::Builder::blocking_threads) says, each on
/// a thread of its own; more wait in order, without a bound, since each has a fiber parked for it. On such a thread no
/// verb works: the call has no shard. In a simulated world calls run one after another while the world stands still.
///
/// A call that has not started when its fiber gives up or the program ends never runs. One that runs is never
/// interrupted: its outcome is dropped, and the end of the program waits for it, within the grace.
///
/// # Errors
///
/// See [`BlockingError`].
///
/// # Examples
///
/// ```
/// #[wo::main]
/// fn main() -> Result<(), wo::BlockingError> {
///     let numbers = vec![1, 2, 3];
///     let sum: i32 = wo::blocking(move || numbers.iter().sum())?;
///     assert_eq!(sum, 6);
///     Ok(())
/// }
/// ```
pub fn blocking<T, F>(call: F) -> Call<impl Future<Output = Result<T, BlockingError>>>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    Call::new(run(call))
}

async fn run<T, F>(call: F) -> Result<T, BlockingError>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let place = here(|here| (Arc::clone(&here.program.blocking), here.caps.backend == BackendKind::Sim));
    let (threads, simulated) =
        place.ok_or_else(|| {
            BlockingError::Refused(IoError::new(errno::ENXIO, OpKind::Job, Stage::Submit).with_context(
                "no wo shard runs on this thread; call it from a fiber, under #[wo::main] or Builder::run",
            ))
        })?;
    if simulated {
        return match fiber::verb(ops::Job::new(call)).await {
            Ok(outcome) => outcome.map_err(BlockingError::Panicked),
            Err(error) if error.is_cancelled() => Err(BlockingError::Cancelled),
            Err(error) => Err(BlockingError::Refused(error)),
        };
    }
    if is_cancelled() {
        return Err(BlockingError::Cancelled);
    }
    let (sender, receiver) = oneshot();
    let _place = threads.submit(Box::new(move || {
        // Nobody may be left to take it; then it ends here.
        drop(sender.send(catch_unwind(AssertUnwindSafe(call))));
    }))?;
    match receiver.recv().await {
        Ok(outcome) => outcome.map_err(BlockingError::Panicked),
        // Of this fiber, or of the call before it ran.
        Err(_) => Err(BlockingError::Cancelled),
    }
}

/// Why a blocking call gave no value.
///
/// # Examples
///
/// ```
/// #[wo::main]
/// fn main() {
///     let gone = wo::blocking(|| -> u8 { panic!("as planned") }).unwrap_err();
///     assert!(gone.is_panic());
/// }
/// ```
#[non_exhaustive]
pub enum BlockingError {
    /// It panicked, with this payload.
    Panicked(Payload),
    /// The fiber that waited for it was cancelled, or the program ended before it ran.
    Cancelled,
    /// It could not be run: no shard on this thread, or no thread to be had.
    Refused(IoError),
}

impl BlockingError {
    /// Whether the call panicked.
    pub const fn is_panic(&self) -> bool {
        matches!(self, BlockingError::Panicked(_))
    }

    /// The panic's payload, if the call panicked.
    pub fn into_panic(self) -> Option<Payload> {
        match self {
            BlockingError::Panicked(payload) => Some(payload),
            _ => None,
        }
    }
}

/// A panic is an error without a number, a cancelled wait ECANCELED, a refusal itself. So `?` works where verbs are.
impl From<BlockingError> for IoError {
    fn from(error: BlockingError) -> IoError {
        let words = error.to_string();
        match error {
            BlockingError::Refused(refusal) => refusal,
            BlockingError::Cancelled => IoError::new(errno::ECANCELED, OpKind::Job, Stage::Cancel).with_context(words),
            BlockingError::Panicked(payload) => {
                discard(payload);
                IoError::new(0, OpKind::Job, Stage::Completion).with_context(words)
            }
        }
    }
}

impl fmt::Display for BlockingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockingError::Panicked(payload) => {
                write!(f, "the blocking call panicked: {}", fiber::panic_message(payload))
            }
            BlockingError::Cancelled => f.write_str("the wait for the blocking call was cancelled"),
            BlockingError::Refused(error) => write!(f, "the blocking call could not be run: {error}"),
        }
    }
}

impl fmt::Debug for BlockingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockingError({self})")
    }
}

impl std::error::Error for BlockingError {}

type Work = Box<dyn FnOnce() + Send>;

/// The threads of a program, and what waits for them.
pub(crate) struct BlockingThreads {
    state: Mutex<State>,
    work: Condvar,
    /// A thread has ended.
    ended: Condvar,
    threads_max: usize,
}

#[derive(Default)]
struct State {
    /// By the order in which it came.
    waiting: BTreeMap<u64, Work>,
    submitted: u64,
    threads: usize,
    /// Threads that look for work; one that was notified counts until it has woken.
    idle: usize,
    closed: bool,
}

/// A call's place; dropping it takes the call back, unless it has been taken to be run.
struct Place {
    threads: Arc<BlockingThreads>,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let withdrawn = self.threads.lock().waiting.remove(&self.number);
        drop(withdrawn);
    }
}

impl BlockingThreads {
    /// No thread starts yet; later at most `threads_max`, which is not zero.
    pub(crate) fn new(threads_max: usize) -> Arc<BlockingThreads> {
        Arc::new(BlockingThreads { state: Mutex::default(), work: Condvar::new(), ended: Condvar::new(), threads_max })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn submit(self: &Arc<Self>, work: Work) -> Result<Place, BlockingError> {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            return Err(BlockingError::Cancelled);
        }
        let number = state.submitted;
        state.submitted += 1;
        state.waiting.insert(number, work);
        let place = Place { threads: Arc::clone(self), number };
        if state.idle >= state.waiting.len() {
            drop(state);
            self.work.notify_one();
        } else if state.threads < self.threads_max {
            state.threads += 1;
            drop(state);
            self.start()?;
        }
        Ok(place)
    }

    /// Starts a thread that was counted already. A refusal is an error only when there is no other to do the work.
    fn start(self: &Arc<Self>) -> Result<(), BlockingError> {
        let threads = Arc::clone(self);
        let started = std::thread::Builder::new().name("wo-blocking".into()).spawn(move || threads.serve());
        let Err(error) = started else { return Ok(()) };
        let mut state = self.lock();
        state.threads -= 1;
        if state.threads > 0 {
            return Ok(());
        }
        let errno = error.raw_os_error().unwrap_or(errno::EAGAIN);
        Err(BlockingError::Refused(
            IoError::new(errno, OpKind::Job, Stage::Submit)
                .with_context("a thread for it; raise `ulimit -u`, or the pids limit of the container"),
        ))
    }

    /// The life of one thread.
    fn serve(&self) {
        affinity::spread();
        let mut state = self.lock();
        loop {
            if let Some((_, work)) = state.waiting.pop_first() {
                drop(state);
                run_quietly(work);
                state = self.lock();
            } else if state.closed {
                break;
            } else {
                state.idle += 1;
                let (woken, waited) = self.work.wait_timeout(state, IDLE_MAX).unwrap_or_else(PoisonError::into_inner);
                state = woken;
                state.idle -= 1;
                if waited.timed_out() && state.waiting.is_empty() {
                    break;
                }
            }
        }
        state.threads -= 1;
        drop(state);
        self.ended.notify_all();
    }

    /// Takes no more work and drops what waits.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let dropped = std::mem::take(&mut state.waiting);
        drop(state);
        self.work.notify_all();
        dropped.into_values().for_each(|work| run_quietly(|| drop(work)));
    }

    /// After [`close`](BlockingThreads::close): waits for every thread's end, `until` then; answers how many are left.
    pub(crate) fn wait(&self, until: Instant) -> usize {
        let mut state = self.lock();
        while state.threads > 0 {
            let left = until.since(Instant::real());
            if left.is_zero() {
                break;
            }
            state = self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.threads
    }
}

/// The call's own panic was caught inside; this is what its outcome, or what it captured, may do when it is dropped.
fn run_quietly(work: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
        // The panic hook has said it; the payload's destructor may panic again.
        discard(payload);
    }
}

impl fmt::Debug for BlockingThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("BlockingThreads")
            .field("threads", &state.threads)
            .field("waiting", &state.waiting.len())
            .finish_non_exhaustive()
    }
}
