//! Building a program's runtime and running it to its end.

use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Once};
use std::time::Duration;

use crate::error::{IoError, IoResult, OpKind, Stage, errno, say};
use crate::fiber::tick::{Driver, Ending};
use crate::fiber::{self, IntoFiber, JoinError, Payload, StopRequest};
use crate::os::cpus;
use crate::os::signals::StopSignals;
use crate::plane::backend::affinity::Pin;
use crate::plane::backend::sim::SimHost;
use crate::plane::backend::{AnyBackend, BackendConfig, BackendKind, Caps, Selection};
use crate::plane::{Instant, LoopConfig, ShardLoop};
use crate::shard::blocking::BlockingThreads;
use crate::shard::env::{Environment, EnvironmentError};
use crate::shard::program::{Door, Here, Program, here, set_here};
use crate::shard::simulated;
use crate::shard::threads::Threads;
use crate::shard::topology::Topology;

/// Reductions of one turn, unless told otherwise.
const REDUCTIONS: u32 = 4000;

/// How long a stopping program may take to clean up, unless told otherwise.
const GRACE: Duration = Duration::from_secs(5);

/// Threads for blocking calls at most, unless told otherwise: they mostly wait, so more than there are cores.
const BLOCKING_THREADS: usize = 16;

/// How to set one shard up; every shard's thread has a copy.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    io: Selection,
    config: LoopConfig,
    reductions: u32,
    grace: Duration,
    stop: Arc<StopRequest>,
    /// The CPUs to pin the shards to, in turn; none leaves them unpinned.
    cpus: Arc<[usize]>,
    /// Shards start each other's fibers.
    stealing: bool,
}

impl Setup {
    /// Pins the thread that calls, which is to be shard `index`, for as long as the answer lives. To be done before
    /// its loop is made, whose workers are kept off that CPU.
    pub(crate) fn pin(&self, index: usize) -> Option<Pin> {
        cpus::pin(&self.cpus, index)
    }

    /// The shard's loop, for the thread that calls.
    pub(crate) fn event_loop(&self) -> IoResult<ShardLoop> {
        let event_loop = ShardLoop::over(AnyBackend::select(self.io, &self.config.backend)?, &self.config);
        if self.io == Selection::Auto {
            say_fallback_once(event_loop.caps());
        }
        Ok(event_loop)
    }

    /// Tells the driver of shard `index` the program, once every shard is there.
    pub(crate) fn join(&self, driver: &mut Driver, program: &Program, index: usize) {
        if self.stealing {
            driver.share_with(
                (0..program.shards()).filter(|other| *other != index).map(|other| program.home(other)).collect(),
            );
        }
    }

    /// Makes the thread that calls a shard.
    pub(crate) fn driver(&self, event_loop: ShardLoop) -> Driver {
        Driver::open(event_loop, self.reductions, self.grace, Arc::clone(&self.stop))
    }
}

/// Whether shards are pinned to CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pinning {
    Never,
    Always,
    /// When there are several.
    Several,
}

/// Sets a runtime up and runs a program in it.
///
/// # Examples
///
/// ```
/// let answer = wo::Builder::new().run(|| async {
///     wo::yield_now().await?;
///     Ok::<_, wo::IoError>(42)
/// })??;
/// assert_eq!(answer, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    io: Selection,
    shards: usize,
    topology: Topology,
    pinning: Pinning,
    reductions: u32,
    grace: Duration,
    blocking_threads: usize,
    stop_signals: bool,
    backend: BackendConfig,
    op_slots_max: Option<usize>,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

impl Builder {
    /// The defaults: io_uring where the kernel gives it and epoll elsewhere, one shard, 4000 reductions a turn, five
    /// seconds of grace; signals and the thread's CPUs are left alone. The environment is not read; see
    /// [`env`](Builder::env).
    ///
    /// `#[wo::main]` has the process to itself and differs: a shard for each of its [`cores`](cpus::cores), pinned when
    /// they are several, and signals that stop the program.
    pub fn new() -> Builder {
        Builder {
            io: Selection::Auto,
            shards: 1,
            topology: Topology::default(),
            pinning: Pinning::Never,
            reductions: REDUCTIONS,
            grace: GRACE,
            blocking_threads: BLOCKING_THREADS,
            stop_signals: false,
            backend: BackendConfig::default(),
            op_slots_max: None,
        }
    }

    /// Which kernel to run on.
    #[must_use]
    pub fn io(mut self, selection: Selection) -> Builder {
        self.io = selection;
        self
    }

    /// The number of shards: one loop each, and one thread, but in a simulated world, where all run on the thread that
    /// runs the program. More than the process has cores is said on stderr, once.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Builder {
        self.shards = shards.max(1);
        self
    }

    /// How the shards share the work; unless told, each has its own.
    #[must_use]
    pub fn topology(mut self, topology: Topology) -> Builder {
        self.topology = topology;
        self
    }

    /// Whether each shard stays on one CPU: shard `n` on the `n`-th of those the process may use, in turn when there
    /// are more shards. A refusal is said on stderr, once, and the shard runs unpinned.
    ///
    /// This thread gets its CPUs back when the program ends. Threads of wo's own that help a shard are not held on its
    /// CPU; a thread or a process that a fiber starts by itself inherits it, as always on this system.
    #[must_use]
    pub fn pin(mut self, pin: bool) -> Builder {
        self.pinning = if pin { Pinning::Always } else { Pinning::Never };
        self
    }

    /// Pins the shards when there are several: one alone gains nothing by it.
    pub(crate) fn pin_several(mut self) -> Builder {
        self.pinning = Pinning::Several;
        self
    }

    /// The seed of a simulated world.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Builder {
        self.backend.seed = seed;
        self
    }

    /// Runs the program on a simulated host, in its world, whose seed counts then.
    #[must_use]
    pub fn simulated(mut self, host: &SimHost) -> Builder {
        self.io = Selection::Sim;
        self.backend.host = Some(host.clone());
        self
    }

    /// How many loop turns and verbs a fiber gets before the next one runs; at least 1.
    #[must_use]
    pub fn reductions(mut self, reductions: u32) -> Builder {
        self.reductions = reductions.max(1);
        self
    }

    /// How long a stopping program may take to clean up, and how long the kernel's last words are waited for.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Builder {
        self.grace = grace;
        self
    }

    /// How many calls of [`blocking`](crate::shard::blocking) run at once, 16 unless told; at least 1. Their threads
    /// start when there is work for them.
    #[must_use]
    pub fn blocking_threads(mut self, threads: usize) -> Builder {
        self.blocking_threads = threads.max(1);
        self
    }

    /// Whether SIGTERM and SIGINT stop the program, with the grace.
    #[must_use]
    pub fn stop_signals(mut self, heed: bool) -> Builder {
        self.stop_signals = heed;
        self
    }

    /// The kernel's set-up in detail. Its seed replaces the one set before.
    #[must_use]
    pub fn backend_config(mut self, config: BackendConfig) -> Builder {
        self.backend = config;
        self
    }

    /// The most ops in flight at once; past it verbs answer ENOBUFS. Without a limit, as many as memory holds.
    #[must_use]
    pub fn op_slots_max(mut self, slots: usize) -> Builder {
        self.op_slots_max = Some(slots);
        self
    }

    /// Lets the `WO_*` variables override what was set so far.
    ///
    /// # Errors
    ///
    /// A variable whose value was not understood.
    pub fn env(self) -> Result<Builder, EnvironmentError> {
        Ok(self.environment(&Environment::read()?))
    }

    /// Lets an environment that was read before override what was set so far.
    #[must_use]
    pub fn environment(mut self, environment: &Environment) -> Builder {
        self.io = environment.io.unwrap_or(self.io);
        self.shards = environment.shards.unwrap_or(self.shards);
        self.reductions = environment.reductions.unwrap_or(self.reductions);
        self.backend.seed = environment.seed.unwrap_or(self.backend.seed);
        self
    }

    pub(crate) fn shard_count(&self) -> usize {
        if self.topology == Topology::Single { 1 } else { self.shards }
    }

    /// How to set its shards up.
    pub(crate) fn setup(&self, stop: Arc<StopRequest>) -> Setup {
        let shards = self.shard_count();
        // The shards of a simulated world share one thread.
        let simulated = self.io == Selection::Sim;
        let pinned = !simulated && (self.pinning == Pinning::Always || self.pinning == Pinning::Several && shards > 1);
        Setup {
            io: self.io,
            config: LoopConfig {
                backend: BackendConfig { loops: u32::try_from(shards).unwrap_or(u32::MAX), ..self.backend.clone() },
                op_slots_max: self.op_slots_max,
            },
            reductions: self.reductions,
            grace: self.grace,
            stop,
            stealing: self.topology == Topology::WorkStealing,
            cpus: if pinned { cpus::allowed().into() } else { Arc::default() },
        }
    }

    /// The threads for blocking calls, none started yet.
    pub(crate) fn blocking(&self) -> Arc<BlockingThreads> {
        BlockingThreads::new(self.blocking_threads)
    }

    pub(crate) fn grace_of_stop(&self) -> Duration {
        self.grace
    }

    pub(crate) fn heeds_stop_signals(&self) -> bool {
        self.stop_signals
    }

    /// The simulated host it runs on; one of its own when none was named.
    pub(crate) fn host(&mut self) -> SimHost {
        let seed = self.backend.seed;
        self.backend.host.get_or_insert_with(|| SimHost::new(seed)).clone()
    }

    pub(crate) fn steals(&self) -> bool {
        self.topology == Topology::WorkStealing
    }

    pub(crate) fn seed_of_world(&self) -> u64 {
        self.backend.seed
    }

    /// Runs `body` as fiber 0 on this thread, to its end. Then every other fiber is unwound, parked ones included,
    /// and the kernel's last word on every op is waited for.
    ///
    /// # Errors
    ///
    /// See [`RunError`]. A shard that runs on this thread already is a set-up error: EBUSY.
    pub fn run<B: IntoFiber>(self, body: B) -> Result<B::Output, RunError> {
        if here(|_| ()).is_some() {
            return Err(RunError::Setup(
                IoError::new(errno::EBUSY, OpKind::Setup, Stage::Setup)
                    .with_context("a shard runs on this thread already; start a fiber in it instead"),
            ));
        }
        if self.io == Selection::Sim {
            return simulated::run_alone(self, body);
        }
        let shards = self.shard_count();
        cpus::say_crowded_once(shards);
        let stop = Arc::new(StopRequest::default());
        let setup = self.setup(Arc::clone(&stop));
        // Held to the end of the run, after the loop's.
        let _pin = setup.pin(0);
        let event_loop = setup.event_loop().map_err(RunError::Setup)?;
        let (threads, mut doors) = Threads::start(shards - 1, &setup).map_err(RunError::Setup)?;
        let (caps, waker) = (Rc::new(event_loop.caps().clone()), event_loop.waker());
        let mut driver = setup.driver(event_loop);
        doors.insert(0, Door { home: driver.home(), waker });
        let program = Arc::new(Program::new(doors, Arc::clone(&stop), BlockingThreads::new(self.blocking_threads)));
        let signals = self.stop_signals.then(|| StopSignals::heed(&stop, &program.wakers(), self.grace)).transpose();
        set_here(Some(Here { program: Arc::clone(&program), index: 0, caps }));
        setup.join(&mut driver, &program, 0);
        threads.release(&program);
        let ended = match signals {
            Ok(_signals) => drive(driver, &program, threads, self.grace, body),
            Err(error) => {
                end(driver, &program, threads, self.grace);
                Err(RunError::Setup(error))
            }
        };
        match ended {
            Err(RunError::Stopped { .. }) => Err(RunError::Stopped { signal: stop.signal() }),
            ended => ended,
        }
    }
}

/// Drives the program from its main fiber's start to the kernel's last word on every shard.
fn drive<B: IntoFiber>(
    mut driver: Driver,
    program: &Arc<Program>,
    threads: Threads,
    grace: Duration,
    body: B,
) -> Result<B::Output, RunError> {
    let main = fiber::spawn(body);
    let run = driver.run(|| main.is_finished());
    let main = match run {
        Ok(()) => main.take().map_err(|error| match error {
            JoinError::Panicked(payload) => RunError::Panicked(payload),
            JoinError::Cancelled => RunError::Stopped { signal: None },
        }),
        Err(ending) => {
            drop(main);
            Err(match ending {
                Ending::GracePassed => RunError::Stopped { signal: None },
                Ending::Kernel(error) => RunError::Kernel(error),
            })
        }
    };
    let stuck = end(driver, program, threads, grace);
    let main = match (main, program.take_failure()) {
        (Err(RunError::Stopped { .. }), Some(error)) => Err(RunError::Kernel(error)),
        (main, _) => main,
    };
    match main {
        Err(error @ (RunError::Panicked(_) | RunError::Kernel(_))) => Err(error),
        _ if !stuck.is_empty() => Err(RunError::Stuck { ops: stuck }),
        main => main,
    }
}

/// Ends every shard: fibers are unwound, ops waited for, loops closed, threads joined, blocking calls waited for.
/// Answers the ops that are stuck.
fn end(mut driver: Driver, program: &Program, threads: Threads, grace: Duration) -> Vec<OpKind> {
    let until = Instant::real() + grace;
    program.end();
    driver.unwind();
    let mut stuck = driver.drain().err().unwrap_or_default();
    // The others began their last grace when this one did, or will at once.
    stuck.extend(threads.join(until + END));
    set_here(None);
    let left = program.blocking.wait(until);
    if left > 0 {
        say(format_args!("{left} blocking call(s) still run after the grace; they are left to themselves"));
    }
    stuck
}

/// How much later than the first shard the others may end.
const END: Duration = Duration::from_secs(1);

fn say_fallback_once(caps: &Caps) {
    static SAID: Once = Once::new();
    if caps.backend == BackendKind::Epoll
        && let Some(step) = caps.steps.last()
    {
        SAID.call_once(|| say(format_args!("running on epoll, because io_uring is refused: {}", step.error)));
    }
}

/// What this shard's kernel can do, and which steps of its set-up were refused; none outside a shard.
///
/// # Examples
///
/// ```
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// let caps = wo::backend().expect("this is a shard");
/// assert_eq!(caps.backend, wo::BackendKind::Sim);
/// # Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
pub fn backend() -> Option<Caps> {
    here(|here| (*here.caps).clone())
}

/// Stops the program: every verb of every fiber answers ECANCELED from now on, and what has not ended within the
/// grace is dropped. Called a second time, the grace ends at once. Outside a shard it does nothing.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let server = wo::spawn(|| wo::sleep(Duration::MAX));
/// wo::yield_now()?;
/// wo::stop();
/// let stopped = wo::protect(|| server.join()).expect("it does not panic");
/// assert!(stopped.unwrap_err().is_cancelled());
/// # Ok(())
/// # }
/// ```
pub fn stop() {
    here(|here| here.program.ask_to_stop());
}

/// Why a program's run gave no value.
///
/// # Examples
///
/// ```
/// use wo::{Builder, RunError};
///
/// let gone = Builder::new().run(|| async { panic!("as planned") }).unwrap_err();
/// assert!(matches!(gone, RunError::Panicked(_)));
/// ```
#[non_exhaustive]
pub enum RunError {
    /// The runtime could not be set up.
    Setup(IoError),
    /// The program was stopped, and its main fiber did not end within the grace.
    Stopped {
        /// The signal that asked; none when the program asked itself.
        signal: Option<i32>,
    },
    /// The main fiber panicked, with this payload.
    Panicked(Payload),
    /// These ops were still with the kernel after the grace. What they point at is leaked, not freed.
    Stuck {
        /// The kinds of the ops.
        ops: Vec<OpKind>,
    },
    /// The kernel gave out under the loop, or a simulated world has nothing left that could wake a fiber.
    Kernel(IoError),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Setup(error) | RunError::Kernel(error) => error.fmt(f),
            RunError::Stopped { signal: Some(signal) } => {
                write!(
                    f,
                    "stopped by signal {signal}; the main fiber did not end within the grace, \
                     which a second signal ends"
                )
            }
            RunError::Stopped { signal: None } => {
                f.write_str("stopped; the main fiber did not end within the grace, which a second stop ends")
            }
            RunError::Panicked(payload) => write!(f, "the main fiber panicked: {}", fiber::panic_message(payload)),
            RunError::Stuck { ops } => {
                let names: Vec<&str> = ops.iter().map(|op| op.name()).collect();
                write!(
                    f,
                    "{} op(s) still with the kernel after the grace, their memory is leaked: {}",
                    ops.len(),
                    names.join(", ")
                )
            }
        }
    }
}

impl fmt::Debug for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunError({self})")
    }
}

impl std::error::Error for RunError {}
