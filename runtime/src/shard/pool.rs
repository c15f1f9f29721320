//! Threads for batch work: computations and calls that hold their thread up, by the thousand, none of which parks.
//!
//! A batch begins with one task, and every task may spawn more. Each worker keeps what it spawned in a deque of its
//! own: it takes the youngest itself, which is still in its cache and keeps the deque short, and a worker that has run
//! dry steals the oldest of another's, which tend to be the largest. The batch is over when every worker has run dry:
//! only a worker's own task can fill its deque.
//!
//! Threads are started when there is work for them: one to begin with, and two more by each that has got its first task
//! from another. So a large pool costs a small batch little, and a large batch has all its threads soon.
//!
//! A dry worker looks around for a moment, then parks. It is woken when somebody has two tasks waiting; one that waits
//! alone is most often taken by its own worker right away, and waking for it would send a lone chain of tasks to and
//! fro between the cores. In case its worker is busy for long, parked workers look around by themselves, at first
//! soon, then less and less often.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_deque::{Steal, Stealer, Worker as Deque};

use crate::fiber::Payload;
use crate::os::cpus;
use crate::plane::backend::{affinity, discard, thread as thread_marks};

/// Tasks stolen at once. The oldest of a deque tend to be large, so that few last long, and the end of a batch stays
/// evenly spread.
const STOLEN_MAX: usize = 2;

/// The most threads of a pool. Work that keeps so many busy waits for something, and is better written as fibers.
const THREADS_MAX: usize = 1024;

/// How many threads a thread starts that has got its first task.
const STARTED_BY_EACH: usize = 2;

/// Looks at the others' deques before parking: some ten microseconds' worth, less than a wake costs.
const LOOKS: u32 = 200;

/// How long a worker parks before it looks around by itself, at first and at most.
const PARK_MIN: Duration = Duration::from_micros(50);
const PARK_MAX: Duration = Duration::from_millis(1);

type Task<'env> = Box<dyn FnOnce(&Worker<'env>) + Send + 'env>;

/// Threads for batch work, beside shards or without any.
///
/// The threads live as long as a batch runs, and start when there is work for them, so a pool that is not used costs
/// nothing.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use wo::pool::{Pool, Worker};
///
/// fn add_up<'env>(worker: &Worker<'env>, numbers: &'env [u64], sum: &'env AtomicU64) {
///     if numbers.len() > 100 {
///         let (left, right) = numbers.split_at(numbers.len() / 2);
///         worker.spawn(move |worker| add_up(worker, left, sum));
///         return add_up(worker, right, sum);
///     }
///     sum.fetch_add(numbers.iter().sum(), Ordering::Relaxed);
/// }
///
/// let numbers: Vec<u64> = (1..=10_000).collect();
/// let sum = AtomicU64::new(0);
/// Pool::new(2).run(|worker| add_up(worker, &numbers, &sum));
/// assert_eq!(sum.into_inner(), 50_005_000);
/// ```
#[derive(Clone, Debug)]
pub struct Pool {
    threads: usize,
}

impl Default for Pool {
    /// A thread for each of the process's [`cores`](cpus::cores).
    fn default() -> Pool {
        Pool::new(cpus::cores())
    }
}

impl Pool {
    /// A pool of so many threads, the one that calls [`run`](Pool::run) being the first; at least that one, and at most
    /// 1,024: what is asked for beyond that is done without, and [`threads`](Pool::threads) says so.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::pool::Pool;
    ///
    /// assert_eq!(Pool::new(3).threads(), 3);
    /// assert_eq!(Pool::new(0).threads(), 1);
    /// assert_eq!(Pool::new(50_000_000).threads(), 1024);
    /// ```
    pub fn new(threads: usize) -> Pool {
        Pool { threads: threads.clamp(1, THREADS_MAX) }
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `root` on this thread, and all the tasks it and they spawn on this and the pool's other threads; gives
    /// what `root` returned when the last of them has ended. Tasks may borrow whatever outlives the call.
    ///
    /// It holds its thread up, so a fiber calls it through [`blocking`](crate::shard::blocking()). A thread that the
    /// system refuses is done without. Called so in a simulated world, this thread runs it all, in the same order each
    /// time.
    ///
    /// # Panics
    ///
    /// When `root` or a task panicked, with the payload of the first; the other tasks have run all the same.
    pub fn run<'env, R>(&self, root: impl FnOnce(&Worker<'env>) -> R) -> R {
        // In a simulated world one thread does it all: which task comes when is the batch's own doing then.
        let threads = if thread_marks::serves() { 1 } else { self.threads };
        let deques: Vec<Deque<Task<'env>>> = (0..threads).map(|_| Deque::new_lifo()).collect();
        let shared = Arc::new(Shared {
            stealers: deques.iter().map(Deque::stealer).collect(),
            started: AtomicUsize::new(0),
            unwoken: AtomicUsize::new(0),
            parking: Mutex::new(Parking { workers: 0, parked: 0, woken: 0, over: false }),
            bell: Condvar::new(),
            panic: Mutex::new(None),
            unused: Mutex::new(deques.into_iter()),
        });
        let first = Worker::next(&shared).expect("a pool has a thread");
        let answer = thread::scope(|scope| {
            start(scope, &shared);
            let answer = catch_unwind(AssertUnwindSafe(|| root(&first)));
            first.work(&mut || ());
            answer
        });
        let answer = answer.map_err(|payload| shared.keep_panic(payload));
        let panic = shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (answer, panic) {
            (_, Some(payload)) => resume_unwind(payload),
            (Ok(answer), None) => answer,
            (Err(()), None) => unreachable!("the root's panic was kept"),
        }
    }
}

/// Starts one thread more, if the pool has one and the system gives it.
fn start<'scope, 'env>(scope: &'scope thread::Scope<'scope, 'env>, shared: &Arc<Shared<'env>>) {
    let Some(worker) = Worker::next(shared) else { return };
    let name = format!("wo-batch-{}", worker.index);
    let started = thread::Builder::new().name(name).spawn_scoped(scope, move || {
        affinity::spread();
        let shared = Arc::clone(&worker.shared);
        worker.work(&mut || (0..STARTED_BY_EACH).for_each(|_| start(scope, &shared)));
    });
    if started.is_err() {
        shared.do_without_more();
    }
}

/// What the workers of a batch share.
struct Shared<'env> {
    stealers: Box<[Stealer<Task<'env>>]>,
    /// How many workers there have been; theirs are the first stealers.
    started: AtomicUsize,
    /// The deques of those that have not started.
    unused: Mutex<std::vec::IntoIter<Deque<Task<'env>>>>,
    /// Parked workers nobody has woken; written under the lock.
    unwoken: AtomicUsize,
    parking: Mutex<Parking>,
    bell: Condvar,
    /// The first panic of a task.
    panic: Mutex<Option<Payload>>,
}

struct Parking {
    workers: usize,
    parked: usize,
    /// Of the parked ones, how many were woken and have not left yet.
    woken: usize,
    /// Every worker has run dry.
    over: bool,
}

impl Shared<'_> {
    fn lock(&self) -> MutexGuard<'_, Parking> {
        self.parking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The system has refused a thread, the last one that was to start.
    fn do_without_more(&self) {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner).by_ref().for_each(drop);
        let mut parking = self.lock();
        parking.workers -= 1;
        if parking.parked == parking.workers {
            parking.over = true;
            drop(parking);
            self.bell.notify_all();
        }
    }

    /// The first one is the caller's; the hook has said the words of the others.
    fn keep_panic(&self, payload: Payload) {
        let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            *first = Some(payload);
        } else {
            drop(first);
            discard(payload);
        }
    }

    fn count_unwoken(&self, parking: &Parking) {
        self.unwoken.store(parking.parked - parking.woken, Ordering::SeqCst);
    }

    /// Wakes a parked worker, if there is one that was not woken yet. To be called after the push it is woken for.
    fn wake_one(&self) {
        // Pairs with the one in `park`: either this sees the worker parked, or that one sees the push.
        fence(Ordering::SeqCst);
        if self.unwoken.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut parking = self.lock();
        if parking.parked > parking.woken {
            parking.woken += 1;
            self.count_unwoken(&parking);
            drop(parking);
            self.bell.notify_one();
        }
    }
}

/// A thread of a pool, as its tasks see it.
pub struct Worker<'env> {
    deque: Deque<Task<'env>>,
    shared: Arc<Shared<'env>>,
    index: usize,
}

impl<'env> Worker<'env> {
    /// One more worker. Only a worker calls this, or the batch has none yet, so the batch is not over.
    fn next(shared: &Arc<Shared<'env>>) -> Option<Worker<'env>> {
        let mut unused = shared.unused.lock().unwrap_or_else(PoisonError::into_inner);
        let deque = unused.next()?;
        shared.lock().workers += 1;
        let index = shared.started.fetch_add(1, Ordering::SeqCst);
        Some(Worker { deque, shared: Arc::clone(shared), index })
    }

    /// Spawns a task. This worker runs it later, unless another one gets to it first; the batch ends after it.
    pub fn spawn(&self, task: impl FnOnce(&Worker<'env>) + Send + 'env) {
        self.deque.push(Box::new(task));
        if self.deque.len() > 1 {
            self.shared.wake_one();
        }
    }

    /// The worker's number in its pool, below [`Pool::threads`]. Number 0 is the thread that runs the batch.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Runs tasks until the batch is over. Calls `begun` when there is the first.
    fn work(&self, begun: &mut dyn FnMut()) {
        let mut park = PARK_MIN;
        let mut begun = Some(begun);
        loop {
            while let Some(task) = self.deque.pop().or_else(|| self.steal()) {
                park = PARK_MIN;
                if let Some(begun) = begun.take() {
                    begun();
                }
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| task(self))) {
                    self.shared.keep_panic(payload);
                }
            }
            if self.look_around() {
                continue;
            }
            if self.park(park) {
                return;
            }
            park = (park * 2).min(PARK_MAX);
        }
    }

    /// The other workers' deques, beginning behind this one's.
    fn others(&self) -> impl Iterator<Item = &Stealer<Task<'env>>> {
        let started = &self.shared.stealers[..self.shared.started.load(Ordering::SeqCst)];
        let (before, from) = started.split_at(self.index);
        from[1..].iter().chain(before)
    }

    /// A task of another worker's; more that came with it are in this one's deque.
    fn steal(&self) -> Option<Task<'env>> {
        for other in self.others() {
            loop {
                match other.steal_batch_with_limit_and_pop(&self.deque, STOLEN_MAX) {
                    Steal::Success(task) => {
                        if !self.deque.is_empty() {
                            self.shared.wake_one();
                        }
                        return Some(task);
                    }
                    Steal::Empty => break,
                    Steal::Retry => std::hint::spin_loop(),
                }
            }
        }
        None
    }

    fn sees_work(&self) -> bool {
        self.others().any(|other| !other.is_empty())
    }

    /// Waits a moment for another worker to have something.
    fn look_around(&self) -> bool {
        // With many threads there are enough that look.
        let looks = LOOKS / self.shared.started.load(Ordering::SeqCst) as u32;
        for _ in 0..looks.max(1) {
            if self.sees_work() {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Parks until it is woken, for `span` at most. True when the batch is over.
    fn park(&self, span: Duration) -> bool {
        let shared = &*self.shared;
        let mut parking = shared.lock();
        parking.parked += 1;
        shared.count_unwoken(&parking);
        fence(Ordering::SeqCst);
        if parking.parked == parking.workers {
            // Each one's deque was empty when it came here, and nobody else can fill it.
            parking.over = true;
            shared.bell.notify_all();
        } else if !self.sees_work() {
            parking = shared.bell.wait_timeout(parking, span).unwrap_or_else(PoisonError::into_inner).0;
        }
        if !parking.over {
            parking.parked -= 1;
            parking.woken = parking.woken.saturating_sub(1);
            shared.count_unwoken(&parking);
        }
        parking.over
    }
}

impl fmt::Debug for Worker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("index", &self.index).field("waiting", &self.deque.len()).finish()
    }
}
