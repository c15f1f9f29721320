//! Worker threads for calls that have no completion form.
//!
//! The loop submits jobs and reaps what they answered; in between a job waits in order, runs on one worker, or was
//! cancelled while it still waited. Every submitted token is reaped exactly once. A worker that finishes pushes the
//! answer first and rings the loop's waker second, and the loop looks at the answers after it woke: none is missed.
//!
//! A file op that runs and is cancelled is interrupted: one that waits for others, as the opening of a FIFO does,
//! ends with `-ECANCELED`, and one that is past waiting, or writes to a disk, ends as it would have. A user's call is
//! never interrupted.
//!
//! Workers start when there is more work than idle workers, up to a small number, and end after a while without
//! work. A call that never returns keeps its worker, but not the pool: dropping the pool forgets what waits,
//! interrupts what runs, joins the idle workers and leaves a busy one to end on its own. What such a job points at
//! must outlive it, so whoever drops a pool with jobs in flight leaks their operands, as every backend's caller does
//! at the end.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use concurrent_queue::ConcurrentQueue;

use crate::error::errno;
use crate::plane::backend::interrupt::{self, Interrupter, ThreadNumber};
use crate::plane::backend::waker::Waker;
use crate::plane::backend::{RawCompletion, affinity, calls, os};
use crate::plane::op::RawOp;
use crate::plane::token::Token;

/// Workers of one pool at most: enough to keep a disk busy, few enough to have one pool per shard.
const WORKERS_MAX: usize = 4;

/// Panics in a row out of destructors before what is left is given up.
const DISCARDS_MAX: u32 = 4;

/// A worker without work for this long ends.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// One call for a worker.
pub(crate) struct PoolJob(Work);

enum Work {
    /// The system calls of a file op.
    File(RawOp),
    /// A call of the user's.
    Call(Box<dyn FnOnce() -> i32 + Send>),
}

// SAFETY: a `Call` is `Send`. A `File`'s pointers name operands that the op's slot owns and leaves alone until the
// terminal completion: between submission and that completion the worker is their only user, and the queues the job
// and its answer travel through order the loop's accesses before and after with the worker's.
unsafe impl Send for PoolJob {}

/// The job that performs `op`: any file op, or a [`RawOp::Job`], whose call is taken out of its cell here.
///
/// An op that moves a peer's bytes, or polls, could hold a worker for ever; its job answers `-EOPNOTSUPP`.
///
/// # Safety
///
/// What `op` points at stays valid, and untouched by others, until the job's token was reaped; for ever, when the
/// pool is dropped before that.
pub(crate) unsafe fn job_for(op: RawOp) -> PoolJob {
    match op {
        RawOp::Job { mut cell } => {
            // SAFETY: the caller vouches for the cell, and nobody else touches it.
            let call = unsafe { cell.as_mut() }.take();
            // A cell runs once; an empty one has nothing left to answer.
            PoolJob(Work::Call(call.unwrap_or_else(|| Box::new(|| -errno::EINVAL))))
        }
        file => PoolJob(Work::File(file)),
    }
}

impl PoolJob {
    /// Whether a result that nobody takes is an open descriptor.
    fn opens(&self) -> bool {
        matches!(self.0, Work::File(RawOp::Open { .. } | RawOp::Accept { .. }))
    }

    /// Whether a cancel may interrupt it.
    fn is_ours(&self) -> bool {
        matches!(self.0, Work::File(_))
    }

    fn run(self, signals: &SignalMask, cancelled: &AtomicBool) -> i32 {
        match self.0 {
            // SAFETY: `job_for`'s caller vouched for the operands until the token is reaped, which comes after this.
            Work::File(op) => unsafe { calls::perform(&op, cancelled) },
            Work::Call(call) => {
                // A user's call sees the loop's signal mask, so that processes it starts do not inherit a full one.
                let _loops = signals.enter();
                catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
                    discard(panic);
                    -errno::EIO
                })
            }
        }
    }
}

/// Drops what a user's code left behind. Its destructor may panic too, and that panic's payload again, each reported by
/// the hook; what goes on panicking is leaked in the end.
pub(crate) fn discard(mut remains: Box<dyn Any + Send>) {
    for _ in 0..DISCARDS_MAX {
        match catch_unwind(AssertUnwindSafe(|| drop(remains))) {
            Ok(()) => return,
            Err(again) => remains = again,
        }
    }
    std::mem::forget(remains);
}

/// A few threads that run jobs, for one loop.
pub(crate) struct WorkerPool {
    shared: Arc<Shared>,
    /// The thread of each place, from its start until the next one in that place.
    threads: Vec<Option<JoinHandle<()>>>,
    /// Submitted and not yet reaped.
    in_flight: usize,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
    finished: ConcurrentQueue<Finished>,
    /// By worker: its job is to end.
    cancelled: Vec<AtomicBool>,
    waker: Waker,
    signals: SignalMask,
}

#[derive(Default)]
struct State {
    /// Jobs that have not started, in the order they came.
    waiting: BTreeMap<u64, (Token, PoolJob)>,
    /// Where each waiting job stands in that order.
    places: HashMap<Token, u64>,
    submitted: u64,
    phases: Vec<Phase>,
    /// Workers that look for work; one that was notified counts until it has woken.
    idle: usize,
    closed: bool,
}

#[derive(Debug)]
enum Phase {
    /// No worker, or one that touches nothing any more.
    Vacant,
    /// Starting, answering, or looking for work.
    Idle,
    /// Inside a call, which may never return.
    Busy(Running),
}

#[derive(Debug)]
struct Running {
    token: Token,
    /// The thread to interrupt; none when its call is not ours to interrupt.
    thread: Option<ThreadNumber>,
    /// It is being interrupted.
    interrupter: Option<Interrupter>,
}

impl Phase {
    fn is_vacant(&self) -> bool {
        matches!(self, Phase::Vacant)
    }
}

struct Finished {
    token: Token,
    res: i32,
    opens: bool,
}

impl WorkerPool {
    /// A pool whose workers ring `waker` when they finish a job. No thread starts yet.
    pub(crate) fn new(waker: Waker) -> WorkerPool {
        WorkerPool::with_workers(waker, WORKERS_MAX)
    }

    fn with_workers(waker: Waker, workers_max: usize) -> WorkerPool {
        WorkerPool {
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    phases: (0..workers_max).map(|_| Phase::Vacant).collect(),
                    ..State::default()
                }),
                work: Condvar::new(),
                finished: ConcurrentQueue::unbounded(),
                cancelled: (0..workers_max).map(|_| AtomicBool::new(false)).collect(),
                waker,
                signals: SignalMask::of_this_thread(),
            }),
            threads: (0..workers_max).map(|_| None).collect(),
            in_flight: 0,
        }
    }

    /// Queues a job; its answer will be reaped under `token`. When no worker is there and none can be started, the
    /// answer is the system's refusal to start one.
    pub(crate) fn submit(&mut self, token: Token, job: PoolJob) {
        self.in_flight += 1;
        let mut state = self.shared.lock();
        let place = state.submitted;
        state.submitted += 1;
        state.waiting.insert(place, (token, job));
        let twin = state.places.insert(token, place);
        debug_assert!(twin.is_none(), "{token:?} is in the pool twice");
        if state.idle >= state.waiting.len() {
            drop(state);
            self.shared.work.notify_one();
        } else if let Some(worker) = state.phases.iter().position(Phase::is_vacant) {
            state.phases[worker] = Phase::Idle;
            drop(state);
            self.start(worker, token);
        }
    }

    /// Starts the worker of a vacant place, for `token`'s job.
    fn start(&mut self, worker: usize, token: Token) {
        if let Some(ended) = self.threads[worker].take() {
            // It left its place as its last act, so this does not wait; and a worker does not panic.
            let _ = ended.join();
        }
        let shared = Arc::clone(&self.shared);
        let started = {
            let _few = SignalMask::of_workers().enter();
            std::thread::Builder::new().name("wo-pool".into()).spawn(move || work(&shared, worker))
        };
        match started {
            Ok(thread) => self.threads[worker] = Some(thread),
            Err(error) => {
                let mut state = self.shared.lock();
                state.phases[worker] = Phase::Vacant;
                // Other workers get to the job in time; without any, it has to end here.
                if state.phases.iter().all(Phase::is_vacant)
                    && let Some(job) = state.take(token)
                {
                    drop(state);
                    self.shared.refuse(token, job, error.raw_os_error().unwrap_or(errno::EAGAIN));
                }
            }
        }
    }

    /// Takes back a job that has not started: true, and its answer is `-ECANCELED`. A file op that runs is
    /// interrupted, and answers when it is out; a user's call, and what has ended or is unknown, is left alone.
    pub(crate) fn cancel(&mut self, token: Token) -> bool {
        let mut state = self.shared.lock();
        let Some(job) = state.take(token) else {
            self.shared.interrupt(&mut state, |running| running.token == token);
            return false;
        };
        drop(state);
        self.shared.refuse(token, job, errno::ECANCELED);
        true
    }

    /// Moves every answer there is to the end of `out`; never waits.
    pub(crate) fn reap(&mut self, out: &mut Vec<RawCompletion>) {
        out.extend(self.finished().map(|(completion, _)| completion));
    }

    /// What [`reap`](WorkerPool::reap) takes, each with whether its result is a new descriptor.
    pub(crate) fn finished(&mut self) -> impl Iterator<Item = (RawCompletion, bool)> + '_ {
        let in_flight = &mut self.in_flight;
        self.shared.finished.try_iter().map(|Finished { token, res, opens }| {
            *in_flight -= 1;
            (RawCompletion { token, res, more: false }, opens)
        })
    }

    /// Whether [`reap`](WorkerPool::reap) would find something.
    #[inline]
    pub(crate) fn has_completions(&self) -> bool {
        self.in_flight > 0 && !self.shared.finished.is_empty()
    }

    /// Jobs submitted and not yet reaped.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        let (forgotten, busy) = {
            let mut state = self.shared.lock();
            state.closed = true;
            state.places.clear();
            self.shared.interrupt(&mut state, |_| true);
            let busy: Vec<bool> = state.phases.iter().map(|phase| matches!(phase, Phase::Busy(_))).collect();
            (std::mem::take(&mut state.waiting), busy)
        };
        self.shared.work.notify_all();
        for (_, job) in forgotten.into_values() {
            discard(Box::new(job));
        }
        for (thread, busy) in self.threads.iter_mut().zip(busy) {
            // A busy worker may never come back: it is left to itself.
            if let Some(thread) = thread.take()
                && !busy
            {
                let _ = thread.join();
            }
        }
    }
}

impl fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("WorkerPool")
            .field("workers", &state.phases.iter().filter(|phase| !phase.is_vacant()).count())
            .field("waiting", &state.waiting.len())
            .field("in_flight", &self.in_flight)
            .finish()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Interrupts the file ops that run and are meant.
    fn interrupt(&self, state: &mut State, meant: impl Fn(&Running) -> bool) {
        for (phase, cancelled) in state.phases.iter_mut().zip(&self.cancelled) {
            if let Phase::Busy(running) = phase
                && meant(running)
                && running.interrupter.is_none()
                && let Some(thread) = running.thread
            {
                cancelled.store(true, Ordering::SeqCst);
                // The thread cannot end meanwhile: it has to take the lock first to say that it is out.
                running.interrupter = Interrupter::start(thread);
            }
        }
    }

    /// Ends a job that did not run.
    fn refuse(&self, token: Token, job: PoolJob, errno: i32) {
        discard(Box::new(job));
        self.finish(Finished { token, res: -errno, opens: false });
    }

    fn finish(&self, finished: Finished) {
        // An unbounded queue that nobody closes takes everything; the jobs in flight bound it.
        let _ = self.finished.push(finished);
        self.waker.wake();
    }
}

impl Drop for Shared {
    /// The pool and its last worker are gone: a descriptor nobody reaped has no other owner.
    fn drop(&mut self) {
        for Finished { res, opens, .. } in self.finished.try_iter() {
            if opens && res >= 0 {
                os::close(res);
            }
        }
    }
}

impl State {
    fn take(&mut self, token: Token) -> Option<PoolJob> {
        let place = self.places.remove(&token)?;
        self.waiting.remove(&place).map(|(_, job)| job)
    }

    fn first(&mut self) -> Option<(Token, PoolJob)> {
        let (_, (token, job)) = self.waiting.pop_first()?;
        self.places.remove(&token);
        Some((token, job))
    }
}

/// The life of one worker.
fn work(shared: &Shared, worker: usize) {
    affinity::spread();
    let (this, cancelled) = (interrupt::this_thread(), &shared.cancelled[worker]);
    let mut state = shared.lock();
    while !state.closed {
        if let Some((token, job)) = state.first() {
            cancelled.store(false, Ordering::SeqCst);
            let thread = job.is_ours().then_some(this);
            state.phases[worker] = Phase::Busy(Running { token, thread, interrupter: None });
            drop(state);
            let opens = job.opens();
            let res = job.run(&shared.signals, cancelled);
            // Out of the call, it can be joined; so whoever has reaped a job knows that its worker can be.
            shared.lock().phases[worker] = Phase::Idle;
            shared.finish(Finished { token, res, opens });
            state = shared.lock();
        } else {
            state.idle += 1;
            let (woken, waited) = shared.work.wait_timeout(state, IDLE_MAX).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if waited.timed_out() && state.waiting.is_empty() {
                break;
            }
        }
    }
    state.phases[worker] = Phase::Vacant;
}

/// A set of signals a thread keeps from being delivered to it.
struct SignalMask(libc::sigset_t);

impl SignalMask {
    fn of_this_thread() -> SignalMask {
        let mut mask = MaybeUninit::uninit();
        // SAFETY: without a new mask the call only writes the old one, for which there is room.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr());
            SignalMask(mask.assume_init())
        }
    }

    /// Everything but the faults a thread brings on itself, whose handlers report them, and the signal that brings
    /// it out of a call.
    fn of_workers() -> SignalMask {
        let mut mask = MaybeUninit::uninit();
        // SAFETY: `sigfillset` writes the whole set before it is used.
        unsafe {
            libc::sigfillset(mask.as_mut_ptr());
            let faults = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGABRT];
            for open in faults.into_iter().chain(interrupt::signal()) {
                libc::sigdelset(mask.as_mut_ptr(), open);
            }
            SignalMask(mask.assume_init())
        }
    }

    /// Makes it the thread's mask until the answer is dropped.
    fn enter(&self) -> Entered {
        let before = SignalMask::of_this_thread();
        self.set();
        Entered(before)
    }

    fn set(&self) {
        // SAFETY: the set is initialised, and the old mask is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

/// Restores the mask from before.
struct Entered(SignalMask);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.set();
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
