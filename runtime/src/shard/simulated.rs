//! Programs in a simulated world: all shards of all hosts on one thread, taking turns.
//!
//! A shard's tick needs its loop, its run queue and its program in the thread's own places. Between ticks they lie in
//! a [`Context`], so that another shard can have the places. The scheduler ticks every shard that has something to do,
//! from one that the seed draws onwards; when none has, it lets the next event of the world happen, or moves the clock
//! to the nearest timer. When there is neither, nothing will ever happen again: the fibers that wait are in a deadlock,
//! and each is named with what it waits for.
//!
//! Nothing here depends on a real clock or another thread, so a run is a function of its programs and the seed. What
//! programs have to do with either behind the world's back is reported where it can be seen.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{IoError, OpKind, Stage, errno, say};
use crate::fiber::local::{Local, local};
use crate::fiber::task::{self, Names, Parked};
use crate::fiber::tick::{Driver, Ending, Tick};
use crate::fiber::{IntoFiber, JoinError, JoinHandle, StopRequest, spawn};
use crate::os::signals::StopSignals;
use crate::plane::backend::real_time::RealTime;
use crate::plane::backend::sim::{SimHost, SimWorld};
use crate::plane::backend::{AnyBackend, Waker};
use crate::plane::{Instant, ShardLoop, current};
use crate::scope;
use crate::shard::asks::{Asks, Waiting};
use crate::shard::builder::{Builder, RunError};
use crate::shard::program::{Door, Here, Program, replace_here};

/// Shards of a simulated program at most: far more than a machine has cores, and all are on one thread.
const SHARDS_MAX: usize = 1024;

/// The signal a killed program is said to have ended by, and the one a stopped program is.
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// What a shard has in the places of its thread while it ticks.
struct Context {
    event_loop: Option<Box<ShardLoop>>,
    local: Box<Local>,
    names: Names,
    here: Option<Here>,
    stopping: bool,
}

impl Context {
    fn empty() -> Context {
        Context { event_loop: None, local: Box::new(Local::new()), names: Names::new(), here: None, stopping: false }
    }

    /// Exchanges it with what is in the thread's places.
    fn swap(&mut self) {
        self.event_loop = current::replace(self.event_loop.take());
        local(|local| local.swap(&self.local));
        task::swap_names(&mut self.names);
        self.here = replace_here(self.here.take());
        self.stopping = scope::replace_stopping(self.stopping);
    }
}

struct Shard {
    /// None once it has ended.
    driver: Option<Driver>,
    context: Context,
    waker: Waker,
    /// How its last tick ended.
    rest: Tick,
}

impl Shard {
    /// Makes calls in the shard's place.
    fn enter<R>(&mut self, call: impl FnOnce(&mut Driver) -> R) -> Option<R> {
        let driver = self.driver.as_mut()?;
        self.context.swap();
        let answer = call(driver);
        self.context.swap();
        Some(answer)
    }

    /// Whether a tick would find something to do.
    fn has_work(&mut self, now: Instant) -> bool {
        let Some(driver) = &self.driver else { return false };
        match self.rest {
            Tick::Busy => return true,
            Tick::Idle(Some(until)) if until <= now => return true,
            Tick::Idle(_) | Tick::Done => {}
        }
        let completed = match self.context.event_loop.as_deref_mut().map(ShardLoop::backend) {
            Some(AnyBackend::Sim(sim)) => sim.is_ready(),
            _ => false,
        };
        completed || !driver.home().is_empty() || self.waker.is_rung()
    }
}

/// The main fiber of a program, and where its value goes.
trait Main {
    fn is_finished(&self) -> bool;
    /// The program has ended, with these ops stuck, and unless `ending` says otherwise because its main fiber did.
    fn finish(&mut self, ending: Option<RunError>, stuck: Vec<OpKind>);
}

/// Where the value of a program comes.
pub(crate) type Outcome<T> = Rc<RefCell<Option<Result<T, RunError>>>>;

struct MainFiber<T> {
    fiber: Option<JoinHandle<T>>,
    outcome: Outcome<T>,
}

impl<T: 'static> Main for MainFiber<T> {
    fn is_finished(&self) -> bool {
        self.fiber.as_ref().is_some_and(JoinHandle::is_finished)
    }

    fn finish(&mut self, ending: Option<RunError>, stuck: Vec<OpKind>) {
        let taken = self.fiber.take().filter(|_| ending.is_none()).map(JoinHandle::take);
        let main = match (ending, taken) {
            (Some(error), _) => Err(error),
            (None, Some(Ok(value))) => Ok(value),
            (None, Some(Err(JoinError::Panicked(payload)))) => Err(RunError::Panicked(payload)),
            (None, _) => Err(RunError::Stopped { signal: None }),
        };
        *self.outcome.borrow_mut() = Some(match main {
            Err(error @ (RunError::Panicked(_) | RunError::Kernel(_))) => Err(error),
            _ if !stuck.is_empty() => Err(RunError::Stuck { ops: stuck }),
            main => main,
        });
    }
}

/// A program in the world.
struct Running {
    number: u64,
    host: SimHost,
    program: Arc<Program>,
    shards: Vec<Shard>,
    main: Box<dyn Main>,
    stop: Arc<StopRequest>,
    stealing: bool,
    _signals: Option<StopSignals>,
}

impl Running {
    /// Sets a program up; its main fiber runs when its turn comes.
    fn open<B: IntoFiber>(
        number: u64,
        mut builder: Builder,
        body: B,
        outcome: Outcome<B::Output>,
    ) -> Result<Running, RunError> {
        let count = builder.shard_count();
        if count > SHARDS_MAX {
            return Err(RunError::Setup(IoError::new(errno::EINVAL, OpKind::Setup, Stage::Setup).with_context(
                format!(
                    "{count} shards: a program in a simulated world has {SHARDS_MAX} at most; ask for fewer, with \
                 WO_SHARDS or Builder::shards"
                ),
            )));
        }
        let host = builder.host();
        let stop = Arc::new(StopRequest::default());
        let setup = builder.setup(Arc::clone(&stop));
        let (mut shards, mut doors, mut all_caps) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..count {
            let event_loop = setup.event_loop().map_err(RunError::Setup)?;
            let (caps, waker) = (Rc::new(event_loop.caps().clone()), event_loop.waker());
            let mut context = Context::empty();
            context.swap();
            let driver = setup.driver(event_loop);
            local(Local::note_waits);
            context.swap();
            doors.push(Door { home: driver.home(), waker: waker.clone() });
            all_caps.push(caps);
            shards.push(Shard { driver: Some(driver), context, waker, rest: Tick::Busy });
        }
        let program = Arc::new(Program::new(doors, Arc::clone(&stop), builder.blocking()));
        let signals = builder
            .heeds_stop_signals()
            .then(|| StopSignals::heed(&stop, &program.wakers(), builder.grace_of_stop()))
            .transpose();
        for (index, (shard, caps)) in shards.iter_mut().zip(all_caps).enumerate() {
            shard.context.here = Some(Here { program: Arc::clone(&program), index, caps });
            shard.enter(|driver| {
                setup.join(driver, &program, index);
                if index > 0 {
                    driver.leave_out_main();
                }
            });
        }
        let (signals, refusal) = match signals {
            Ok(signals) => (signals, None),
            Err(error) => (None, Some(error)),
        };
        let fiber = shards[0].enter(|_| refusal.is_none().then(|| spawn(body))).flatten();
        let main = MainFiber { fiber, outcome };
        let mut running = Running {
            number,
            host,
            program,
            shards,
            main: Box::new(main),
            stop,
            stealing: builder.steals(),
            _signals: signals,
        };
        match refusal {
            None => Ok(running),
            Some(error) => {
                running.end(None);
                Err(RunError::Setup(error))
            }
        }
    }

    /// How often threads from outside of the world woke one of its shards.
    fn strange_wakes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.waker.strange_rings()).sum()
    }

    /// Ticks one shard. True when the program has come to its end, for the reason given if not by itself.
    fn tick(&mut self, index: usize) -> (bool, Option<RunError>) {
        let (shard, main) = (&mut self.shards[index], &self.main);
        if shard.waker.is_rung() {
            shard.waker.acknowledge();
        }
        let ticked = shard.enter(|driver| driver.tick(|| index == 0 && main.is_finished()));
        match ticked {
            Some(Ok(rest)) => {
                self.shards[index].rest = rest;
                if self.stealing && rest == Tick::Busy {
                    // What it left to others may be waiting for any of them.
                    self.shards.iter_mut().for_each(|shard| shard.rest = Tick::Busy);
                }
                (rest == Tick::Done, None)
            }
            Some(Err(Ending::GracePassed)) => (true, Some(RunError::Stopped { signal: self.stop.signal() })),
            Some(Err(Ending::Kernel(error))) => (true, Some(RunError::Kernel(error))),
            None => (false, None),
        }
    }

    /// Ends every shard: fibers are unwound at home, ops waited for, loops closed.
    fn end(&mut self, ending: Option<RunError>) {
        self.program.end();
        let mut stuck = Vec::new();
        for shard in &mut self.shards {
            shard.enter(Driver::unwind);
        }
        for shard in &mut self.shards {
            let Some(driver) = shard.driver.take() else { continue };
            shard.context.swap();
            stuck.extend(driver.drain().err().unwrap_or_default());
            shard.context.swap();
            shard.context.here = None;
        }
        // The handle of the main fiber may have the last hold of what it returned.
        let ending = match (ending, self.program.take_failure()) {
            (Some(RunError::Stopped { .. }), Some(error)) => Some(RunError::Kernel(error)),
            (ending, _) => ending,
        };
        self.main.finish(ending, stuck);
    }

    /// Who waits for what, in words; first the circles among them.
    fn describe(&mut self) -> String {
        let mut words = String::new();
        let several = self.shards.len() > 1;
        let asks = Asks::of(&self.program);
        let mut waiting = Vec::new();
        for (index, shard) in self.shards.iter_mut().enumerate() {
            for Parked { id, who, wait } in shard.enter(|_| task::parked()).unwrap_or_default() {
                let place = (index, id);
                let actor = asks.actor_at(place);
                // Writing to a string cannot fail.
                let _ = write!(words, "\n  {}: ", self.host.name());
                if several {
                    let _ = write!(words, "shard {index}, ");
                }
                let _ = write!(words, "{who}");
                if let Some((name, _)) = &actor {
                    let _ = write!(words, ", actor {name},");
                }
                let is_idle = actor.is_some_and(|(_, is_idle)| is_idle);
                let asked = if wait.kind == OpKind::Ask { asks.ask_at(place) } else { None };
                let _ = match (wait.kind, wait.fiber, asked) {
                    _ if is_idle => write!(words, " waits for a message"),
                    (OpKind::Ask, _, Some(asked)) => write!(words, " waits in ask {asked}"),
                    (_, Some(fiber), _) => write!(words, " waits for the end of fiber {fiber}"),
                    (OpKind::Join, ..) => write!(words, " waits for the fibers of its scope"),
                    (OpKind::None, ..) => write!(words, " waits for another fiber"),
                    (kind, ..) => write!(words, " waits in {kind}"),
                };
                if !is_idle {
                    waiting.push(Waiting { place, asks: wait.kind == OpKind::Ask, joins: wait.fiber });
                }
            }
        }
        let circles = asks.circles(&waiting).into_iter().map(|circle| format!("\n  {}: {circle}", self.host.name()));
        circles.collect::<String>() + &words
    }
}

/// How far a world got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Something happened.
    Some,
    /// The limit was reached, and nothing is left to do before it.
    Limit,
    /// Nothing will ever happen again.
    Quiescent,
}

/// The programs of a world, taking turns.
pub(crate) struct Scheduler {
    world: SimWorld,
    running: Vec<Running>,
    /// Wakes by threads from outside, of the programs that have ended; and whether any was reported.
    strange: u64,
    strangers_told: bool,
    real_time: RealTime,
    /// Turns that waited for something real.
    real_waits: u64,
}

impl Scheduler {
    pub(crate) fn new(world: SimWorld) -> Scheduler {
        Scheduler {
            world,
            running: Vec::new(),
            strange: 0,
            strangers_told: false,
            real_time: RealTime::new(),
            real_waits: 0,
        }
    }

    /// Starts a program on a host of the world; answers its number, and where its value will be.
    pub(crate) fn start<B: IntoFiber>(
        &mut self,
        builder: Builder,
        body: B,
    ) -> Result<(u64, Outcome<B::Output>), RunError> {
        let outcome: Outcome<B::Output> = Rc::default();
        // Only to tell programs apart, those of other worlds too: what happens in a world does not depend on it.
        static STARTED: AtomicU64 = AtomicU64::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed) + 1;
        self.running.push(Running::open(number, builder, body, Rc::clone(&outcome))?);
        Ok((number, outcome))
    }

    /// Whether this program runs still.
    pub(crate) fn is_running(&self, number: u64) -> bool {
        self.running.iter().any(|running| running.number == number)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Takes a program out, to be ended.
    fn take(&mut self, at: usize) -> Running {
        let running = self.running.remove(at);
        self.strange += running.strange_wakes();
        running
    }

    /// How often threads from outside of the world woke something in it.
    pub(crate) fn strange_wakes(&self) -> u64 {
        self.strange + self.running.iter().map(Running::strange_wakes).sum::<u64>()
    }

    /// Says so, once, when a thread from outside has woken something: what happens then is no function of the seed.
    fn report_strangers(&mut self) {
        if !self.strangers_told && self.strange_wakes() > 0 {
            self.strangers_told = true;
            say(format_args!(
                "a thread from outside woke a fiber of a simulated world: what happens from now on is no function of \
                 its seed; start fibers, or call wo::blocking, instead of threads of your own"
            ));
        }
    }

    /// What happens from now on is the world's, after something that was not.
    pub(crate) fn begin(&mut self) {
        self.real_time.begin();
    }

    /// How often a turn waited for something real.
    pub(crate) fn real_waits(&self) -> u64 {
        self.real_waits
    }

    /// Says so, once, when a fiber has waited for something real: the world stood still meanwhile.
    #[cold]
    fn note_real_wait(&mut self, at: usize, span: std::time::Duration) {
        self.real_waits += 1;
        if self.real_waits == 1 {
            say(format_args!(
                "a fiber on the simulated host {:?} waited {span:.1?} of real time, while its world stood still; call \
                 wo::sleep, wo::net and wo::blocking instead of std::thread::sleep, std::net and what else blocks",
                self.running[at].host.name()
            ));
        }
    }

    /// One turn: every shard that has something to do ticks once; without any, the world moves on, to `limit` at most.
    pub(crate) fn turn(&mut self, limit: Instant) -> Progress {
        self.report_strangers();
        if self.end_dark() {
            return Progress::Some;
        }
        let now = self.world.now();
        let mut ready = Vec::new();
        for (at, running) in self.running.iter_mut().enumerate() {
            for (index, shard) in running.shards.iter_mut().enumerate() {
                if shard.has_work(now) {
                    ready.push((at, index));
                }
            }
        }
        if ready.is_empty() {
            return self.pass_time(limit);
        }
        if ready.len() > 1 {
            let first = self.world.draw(ready.len() as u64) as usize;
            ready.rotate_left(first);
        }
        let mut ended = Vec::new();
        for (at, index) in ready {
            self.world.note_turn(&self.running[at].host, index);
            let (over, why) = self.running[at].tick(index);
            if let Some(span) = self.real_time.turn_ended() {
                self.note_real_wait(at, span);
            }
            if over && !ended.iter().any(|(other, _)| *other == at) {
                ended.push((at, why));
            }
        }
        ended.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        for (at, why) in ended {
            self.take(at).end(why);
        }
        Progress::Some
    }

    /// Ends the programs of hosts without power.
    pub(crate) fn end_dark(&mut self) -> bool {
        let dark = self.running.iter().position(|running| running.host.is_cut());
        let Some(at) = dark else { return false };
        let mut running = self.take(at);
        let step = running.host.steps();
        let error = IoError::new(errno::EHOSTDOWN, OpKind::Wait, Stage::Completion)
            .with_context(format!("the power of the simulated host was cut at step {step}"));
        running.end(Some(RunError::Kernel(error)));
        true
    }

    fn pass_time(&mut self, limit: Instant) -> Progress {
        let timers = self.running.iter().flat_map(|running| &running.shards).filter_map(|shard| match shard.rest {
            Tick::Idle(until) => until,
            Tick::Busy | Tick::Done => None,
        });
        let next = timers.min().unwrap_or(Instant::NEVER);
        if self.world.step(next.min(limit)) {
            return Progress::Some;
        }
        if next <= limit && next != Instant::NEVER {
            self.world.advance(next);
            return Progress::Some;
        }
        if limit == Instant::NEVER {
            return Progress::Quiescent;
        }
        self.world.advance(limit);
        Progress::Limit
    }

    /// The error of a world in which nothing will ever happen again.
    pub(crate) fn deadlock(&mut self) -> IoError {
        let mut waiting: String = self.running.iter_mut().map(Running::describe).collect();
        // Programs of one host share its processes and what is in flight.
        let mut hosts: Vec<&SimHost> = Vec::new();
        for running in &self.running {
            if !hosts.iter().any(|host| host.is(&running.host)) {
                hosts.push(&running.host);
            }
        }
        for host in hosts {
            for words in host.describe_waiting() {
                // As above.
                let _ = write!(waiting, "\n  {}: {words}", host.name());
            }
        }
        IoError::new(errno::EDEADLK, OpKind::Wait, Stage::Completion).with_context(format!(
            "the simulated world is quiescent: every fiber waits and nothing can wake it{}{waiting}",
            if waiting.is_empty() { "" } else { ":" }
        ))
    }

    /// Ends a program from outside, as a kill does; the host goes on.
    pub(crate) fn kill(&mut self, number: u64) -> bool {
        let Some(at) = self.running.iter().position(|running| running.number == number) else { return false };
        self.take(at).end(Some(RunError::Stopped { signal: Some(SIGKILL) }));
        true
    }

    /// Asks a program to stop, as SIGTERM does: its scopes are cancelled, and it has its grace.
    pub(crate) fn stop(&mut self, number: u64) -> bool {
        let Some(running) = self.running.iter_mut().find(|running| running.number == number) else { return false };
        running.stop.ask(SIGTERM);
        running.shards.iter().for_each(|shard| shard.waker.wake());
        true
    }

    /// Ends every program, the latest first.
    pub(crate) fn end_all(&mut self, mut why: impl FnMut() -> Option<RunError>) {
        while let Some(last) = self.running.len().checked_sub(1) {
            self.take(last).end(why());
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.end_all(|| Some(RunError::Stopped { signal: None }));
    }
}

/// Runs one program in a world, to its end; see [`Builder::run`].
pub(crate) fn run_alone<B: IntoFiber>(mut builder: Builder, body: B) -> Result<B::Output, RunError> {
    let host = builder.host();
    let seed = builder.seed_of_world();
    let speaks = builder.heeds_stop_signals();
    let mut scheduler = Scheduler::new(SimWorld::of(&host));
    let (number, outcome) = scheduler.start(builder, body)?;
    while scheduler.is_running(number) {
        if scheduler.turn(Instant::NEVER) == Progress::Quiescent {
            let mut error = Some(scheduler.deadlock());
            scheduler.end_all(|| error.take().map(RunError::Kernel));
        }
    }
    let ended = outcome.borrow_mut().take().unwrap_or(Err(RunError::Stopped { signal: None }));
    if speaks && matches!(ended, Err(RunError::Kernel(_) | RunError::Panicked(_))) {
        say_replay(seed);
    }
    ended
}

/// The line that runs this program again.
fn say_replay(seed: u64) {
    let program = std::env::args().map(|word| if word.contains(' ') { format!("{word:?}") } else { word });
    say(format_args!("replay: WO_IO=sim WO_SEED={seed} {}", program.collect::<Vec<_>>().join(" ")));
}
