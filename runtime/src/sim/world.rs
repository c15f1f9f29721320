//! A world under test.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::error::{IoError, IoResult, say};
use crate::fiber::IntoFiber;
use crate::plane::Instant;
use crate::plane::backend::sim::{Link, NetworkCounters, SimHost, SimWorld};
use crate::shard::simulated::{Progress, Scheduler};
use crate::shard::{Builder, RunError};
use crate::sim::program::Program;
use crate::sim::swarm::Swarm;

type Action = Box<dyn FnOnce(&mut World)>;

/// A simulated world: hosts, their programs, a network and a clock, all on the thread that made it.
///
/// Nothing happens in it but while one of the calls that run it is under way. A test that fails has the seed on
/// stderr, with the line that runs it again.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo_runtime::fiber;
/// use wo_runtime::plane::backend::sim::Link;
/// use wo_runtime::sim::World;
///
/// let mut world = World::new(1);
/// let (left, right) = (world.host("left"), world.host("right"));
/// world.set_links(Link { latency: Duration::from_millis(20)..Duration::from_millis(30), ..Link::default() });
/// world.at(Duration::from_secs(1), {
///     let (left, right) = (left.clone(), right.clone());
///     move |world| world.partition(&left, &right)
/// });
/// let program = world.start(&left, || async {
///     fiber::sleep(Duration::from_secs(2)).await?;
///     Ok::<_, wo_runtime::error::IoError>("two seconds later")
/// });
/// assert_eq!(world.finish(program)??, "two seconds later");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct World {
    seed: u64,
    world: SimWorld,
    /// The host every world begins with, until it is given out.
    first: Option<SimHost>,
    scheduler: Scheduler,
    /// What the test has planned, in order.
    planned: BTreeMap<(Instant, u64), Action>,
    plans: u64,
}

impl World {
    /// A world that is a function of its programs and `seed`.
    pub fn new(seed: u64) -> World {
        let first = SimHost::new(seed);
        let world = SimWorld::of(&first);
        let scheduler = Scheduler::new(world.clone());
        World { seed, world, first: Some(first), scheduler, planned: BTreeMap::new(), plans: 0 }
    }

    /// Runs a test once for each seed of `seeds`; or, when `WO_SEED` is set, for that one alone. This is the call that
    /// the line of a failure replays.
    ///
    /// # Panics
    ///
    /// When the test does; the seed is said on stderr.
    pub fn sweep(seeds: std::ops::Range<u64>, mut test: impl FnMut(&mut World)) {
        let asked = crate::shard::Environment::read().ok().and_then(|environment| environment.seed);
        for seed in asked.map_or(seeds, |seed| seed..seed.saturating_add(1)) {
            test(&mut World::new(seed));
        }
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Another host: a disk, an address, and no program yet.
    ///
    /// # Panics
    ///
    /// When the world has as many hosts as it may, which is a thousand.
    pub fn host(&mut self, name: &str) -> SimHost {
        match self.first.take() {
            Some(first) => {
                first.rename(name);
                first
            }
            None => self.world.host(name).unwrap_or_else(|refusal| panic!("{refusal}")),
        }
    }

    /// Starts a program on a host, with one shard.
    ///
    /// What keeps it from starting, its host being without power, is its outcome.
    pub fn start<B: IntoFiber>(&mut self, host: &SimHost, body: B) -> Program<B::Output> {
        self.start_with(host, Builder::new(), body)
    }

    /// The same, set up as a builder says: its shards, its grace, its reductions.
    pub fn start_with<B: IntoFiber>(&mut self, host: &SimHost, builder: Builder, body: B) -> Program<B::Output> {
        match self.scheduler.start(builder.simulated(host), body) {
            Ok((number, outcome)) => Program { number, outcome },
            Err(error) => Program::failed(error),
        }
    }

    /// Ends a program as a kill does: its fibers are dropped, its descriptors closed. Its host and what it wrote stay.
    /// False when it had ended.
    pub fn kill<T>(&mut self, program: &Program<T>) -> bool {
        self.scheduler.kill(program.number)
    }

    /// Cuts a host's power, and ends its programs without a word to anybody. What was not synced is in the host's
    /// [`disk`](SimHost::disk) as long as nobody decides what is left of it.
    pub fn crash(&mut self, host: &SimHost) {
        host.cut_power();
        self.scheduler.end_dark();
    }

    /// Puts a host's power on again, with what the seed says is left of its disk; no program runs there yet.
    ///
    /// # Errors
    ///
    /// A program runs there still: EBUSY.
    pub fn restart(&mut self, host: &SimHost) -> IoResult<()> {
        let seed = self.world.draw(u64::MAX);
        let left = host.disk().after_power_cut(crate::plane::backend::sim::Survival::Seeded(seed));
        self.scheduler.end_dark();
        host.power_on(left)
    }

    /// Has `action` happen when the world is so old, or at once when it is older.
    pub fn at(&mut self, age: Duration, action: impl FnOnce(&mut World) + 'static) {
        self.plans += 1;
        self.planned.insert((Instant::ORIGIN + age, self.plans), Box::new(action));
    }

    /// Runs the world until this program has ended, and gives its value.
    ///
    /// # Errors
    ///
    /// Why there is none. When nothing can ever happen again that is [`RunError::Kernel`] with `EDEADLK`, naming every
    /// fiber and what it waits for; all programs have ended then.
    pub fn finish<T>(&mut self, program: Program<T>) -> Result<T, RunError> {
        while self.scheduler.is_running(program.number) {
            if let Progress::Quiescent = self.turn(Instant::NEVER) {
                self.give_up();
            }
        }
        program.take().unwrap_or(Err(RunError::Stopped { signal: None }))
    }

    /// Runs the world until every program has ended and every planned action has happened.
    ///
    /// # Errors
    ///
    /// Nothing can ever happen again, and programs wait: EDEADLK, naming every fiber and what it waits for.
    pub fn run(&mut self) -> IoResult<()> {
        while !self.scheduler.is_empty() || !self.planned.is_empty() {
            if let Progress::Quiescent = self.turn(Instant::NEVER) {
                return Err(self.give_up());
            }
        }
        Ok(())
    }

    /// Runs the world for so long. Programs that have nothing to do meanwhile are no error.
    pub fn run_for(&mut self, span: Duration) {
        let end = self.world.now() + span;
        while self.turn(end) == Progress::Some {}
    }

    /// One turn: everybody who can do something does, or time passes.
    fn turn(&mut self, limit: Instant) -> Progress {
        let next = self.planned.first_key_value().map(|((at, _), _)| *at);
        if next.is_some_and(|at| at <= self.world.now())
            && let Some((_, action)) = self.planned.pop_first()
        {
            action(self);
            return Progress::Some;
        }
        let until = next.map_or(limit, |at| at.min(limit));
        match self.scheduler.turn(until) {
            Progress::Limit if until < limit => Progress::Some,
            progress => progress,
        }
    }

    /// Nothing will ever happen again: every program ends, and the error says who waits for what.
    fn give_up(&mut self) -> IoError {
        let error = self.scheduler.deadlock();
        self.scheduler.end_all(|| Some(RunError::Kernel(error.clone())));
        error
    }

    /// How old the world is.
    pub fn elapsed(&self) -> Duration {
        self.world.now() - Instant::ORIGIN
    }

    /// How every wire behaves that was not told otherwise.
    pub fn set_links(&self, link: Link) {
        self.world.set_links(link);
    }

    /// How the wires between two hosts behave, both ways.
    pub fn set_link(&self, a: &SimHost, b: &SimHost, link: Link) {
        self.world.set_link(a, b, link.clone());
        self.world.set_link(b, a, link);
    }

    /// Nothing gets from either host to the other any more.
    pub fn partition(&self, a: &SimHost, b: &SimHost) {
        self.cut(a, b);
        self.cut(b, a);
    }

    /// Nothing gets from one host to the other any more; the other way is left as it is.
    pub fn cut(&self, from: &SimHost, to: &SimHost) {
        self.world.cut(from, to);
    }

    /// Both wires between two hosts work again.
    pub fn heal(&self, a: &SimHost, b: &SimHost) {
        self.world.mend(a, b);
        self.world.mend(b, a);
    }

    /// What the network did so far.
    pub fn counters(&self) -> NetworkCounters {
        self.world.counters()
    }

    /// Draws a number below `bound` from the world's chance; 0 when `bound` is 0.
    pub fn draw(&self, bound: u64) -> u64 {
        self.world.draw(bound)
    }

    /// The faults this world's seed selects; another call draws others.
    pub fn swarm(&self) -> Swarm {
        Swarm::draw(&self.world)
    }

    /// A digest of everything that happened so far. Two runs that agree in it were the same run.
    pub fn digest(&self) -> u64 {
        self.world.digest()
    }

    /// Keeps a line for everything that happens from now on.
    pub fn keep_trace(&self) {
        self.world.keep_trace();
    }

    /// The lines kept so far; empty when none are kept.
    pub fn trace(&self) -> String {
        self.world.trace()
    }
}

/// A test that fails says how to run it again.
impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let thread = std::thread::current();
            let test = thread.name().filter(|name| *name != "main").unwrap_or("");
            say(format_args!(
                "the simulated world had seed {} and was {:?} old; replay: WO_SEED={} cargo test {test}",
                self.seed,
                self.elapsed(),
                self.seed
            ));
        }
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("seed", &self.seed).field("elapsed", &self.elapsed()).finish_non_exhaustive()
    }
}
