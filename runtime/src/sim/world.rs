//! A world under test.

use std::collections::BTreeMap;
use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use crate::error::{IoError, IoResult, say};
use crate::fiber::IntoFiber;
use crate::plane::Instant;
use crate::plane::backend::sim::{Link, NetworkCounters, SimHost, SimWorld, foreign};
use crate::shard::main::start_in;
use crate::shard::simulated::{Progress, Scheduler};
use crate::shard::{Builder, Environment, RunError};
use crate::sim::program::Program;
use crate::sim::swarm::Swarm;

type Action = Box<dyn FnOnce(&mut World)>;

/// A simulated world: hosts, their programs, a network and a clock, all on the thread that made it.
///
/// Nothing happens in it but while one of the calls that run it is under way. A test that fails has the seed on
/// stderr; one of a [`sweep`](World::sweep) has the line that runs that seed again with it.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::sim::{Link, World};
///
/// let mut world = World::new(1);
/// let (left, right) = (world.host("left"), world.host("right"));
/// world.set_links(Link { latency: Duration::from_millis(20)..Duration::from_millis(30), ..Link::default() });
/// world.at(Duration::from_secs(1), {
///     let (left, right) = (left.clone(), right.clone());
///     move |world| world.partition(&left, &right)
/// });
/// let program = world.start(&left, || async {
///     wo::sleep(Duration::from_secs(2)).await?;
///     Ok::<_, wo::IoError>("two seconds later")
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
    /// `WO_SEED` would give it its seed.
    swept: bool,
}

impl World {
    /// A world that is a function of its programs and `seed`.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::sim::World;
    ///
    /// let world = World::new(7);
    /// assert_eq!((world.seed(), world.elapsed().as_secs()), (7, 0));
    /// ```
    pub fn new(seed: u64) -> World {
        let first = SimHost::new(seed);
        let world = SimWorld::of(&first);
        let scheduler = Scheduler::new(world.clone());
        World { seed, world, first: Some(first), scheduler, planned: BTreeMap::new(), plans: 0, swept: false }
    }

    /// Runs a test once for each seed of `seeds`; or, when `WO_SEED` is set, for that one alone. This is the call that
    /// the line of a failure replays.
    ///
    /// # Panics
    ///
    /// When the test does; the seed is said on stderr. When `WO_SEED`, or another of wo's variables, is not understood.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wo::sim::World;
    ///
    /// World::sweep(0..10, |world| {
    ///     let host = world.host("sleeper");
    ///     let program = world.start(&host, || wo::sleep(Duration::from_secs(1)));
    ///     assert!(world.finish(program).unwrap().is_ok());
    /// });
    /// ```
    pub fn sweep(seeds: std::ops::Range<u64>, mut test: impl FnMut(&mut World)) {
        let environment = Environment::read().unwrap_or_else(|error| panic!("{error}"));
        let (one, several) = match environment.seed {
            Some(seed) => (Some(seed), 0..0),
            None => (None, seeds),
        };
        for seed in one.into_iter().chain(several) {
            let mut world = World::new(seed);
            world.swept = true;
            test(&mut world);
        }
    }

    /// The seed.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::sim::World;
    ///
    /// assert_eq!(World::new(3).seed(), 3);
    /// ```
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Another host: a disk, an address, and no program yet.
    ///
    /// # Panics
    ///
    /// When the world has as many hosts as it may, which is a thousand.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::sim::World;
    ///
    /// let mut world = World::new(1);
    /// let (server, client) = (world.host("server"), world.host("client"));
    /// assert_eq!(server.name(), "server");
    /// assert_ne!(server.ip(), client.ip());
    /// ```
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
    /// What keeps it from starting is its outcome: its host is without power, or of another world.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::sim::World;
    ///
    /// let mut world = World::new(1);
    /// let host = world.host("only");
    /// let program = world.start(&host, || async {
    ///     wo::yield_now().await?;
    ///     Ok::<_, wo::IoError>(42)
    /// });
    /// assert_eq!(world.finish(program)??, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start<B: IntoFiber>(&mut self, host: &SimHost, body: B) -> Program<B::Output> {
        self.start_with(host, Builder::new(), body)
    }

    /// The same, set up as a builder says: its shards, its grace, its reductions.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::sim::World;
    ///
    /// let mut world = World::new(1);
    /// let host = world.host("wide");
    /// let program = world.start_with(&host, wo::Builder::new().shards(4), || async { wo::shards() });
    /// assert_eq!(world.finish(program)?, 4);
    /// # Ok::<(), wo::RunError>(())
    /// ```
    pub fn start_with<B: IntoFiber>(&mut self, host: &SimHost, builder: Builder, body: B) -> Program<B::Output> {
        if !self.world.has(host) {
            return Program::failed(RunError::Setup(foreign(host)));
        }
        match self.scheduler.start(builder.simulated(host), body) {
            Ok((number, outcome)) => Program { number, outcome },
            Err(error) => Program::failed(error),
        }
    }

    /// Starts a whole program on a host by its `main` function, which is under `#[wo::main]`: unchanged, with its own
    /// shards and its own environment, as the attribute and the `WO_*` variables say. A test of a binary crate calls it
    /// with `crate::main`. Its outcome is the program's exit status.
    ///
    /// What it reads outside of the runtime is the test's own: arguments, variables.
    ///
    /// # Panics
    ///
    /// When `main` does before it begins as a fiber.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::process::ExitCode;
    /// use std::time::Duration;
    /// use wo::sim::World;
    ///
    /// mod server {
    ///     #[wo::main]
    ///     pub fn main() -> wo::IoResult<()> {
    ///         wo::sleep(std::time::Duration::from_secs(86_400))
    ///     }
    /// }
    ///
    /// let mut world = World::new(1);
    /// let host = world.host("server");
    /// let program = world.start_main(&host, server::main);
    /// assert_eq!(world.finish(program)?, ExitCode::SUCCESS);
    /// assert_eq!(world.elapsed(), Duration::from_secs(86_400));
    /// # Ok::<(), wo::RunError>(())
    /// ```
    pub fn start_main(&mut self, host: &SimHost, main: impl FnOnce() -> ExitCode) -> Program<ExitCode> {
        if !self.world.has(host) {
            return Program::failed(RunError::Setup(foreign(host)));
        }
        match start_in(&mut self.scheduler, host, main) {
            Ok((number, outcome)) => Program { number, outcome },
            Err(error) => Program::failed(error),
        }
    }

    /// Ends a program as a kill does: its fibers are dropped, its descriptors closed. Its host and what it wrote stay.
    /// False when it had ended.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wo::RunError;
    /// use wo::sim::World;
    ///
    /// let mut world = World::new(1);
    /// let host = world.host("sleeper");
    /// let program = world.start(&host, || wo::sleep(Duration::MAX));
    /// assert!(world.kill(&program) && !world.kill(&program));
    /// assert!(matches!(program.take(), Some(Err(RunError::Stopped { signal: Some(9) }))));
    /// ```
    pub fn kill<T>(&mut self, program: &Program<T>) -> bool {
        self.scheduler.kill(program.number)
    }

    /// Asks a program to stop, as SIGTERM does: every verb in it answers ECANCELED from now on, and what has not ended
    /// within its grace is dropped. False when it had ended.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wo::sim::World;
    ///
    /// let mut world = World::new(1);
    /// let host = world.host("server");
    /// let program = world.start(&host, || async { wo::sleep(Duration::MAX).await });
    /// world.run_for(Duration::from_secs(5));
    /// assert!(world.stop(&program));
    /// assert!(world.finish(program)?.unwrap_err().is_cancelled());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop<T>(&mut self, program: &Program<T>) -> bool {
        self.scheduler.stop(program.number)
    }

    /// Cuts a host's power, and ends its programs without a word to anybody. What was not synced is in the host's
    /// [`disk`](SimHost::disk) as long as nobody decides what is left of it.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::fs;
    /// use wo::sim::World;
    ///
    /// let mut world = World::new(1);
    /// let host = world.host("server");
    /// let program = world.start(&host, || async { fs::write("/tmp/note", "not synced").await });
    /// world.finish(program)??;
    /// world.crash(&host);
    /// assert!(host.is_cut());
    /// // With nothing synced, the seed decides what is left.
    /// world.restart(&host)?;
    /// assert!(!host.is_cut());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn crash(&mut self, host: &SimHost) {
        host.cut_power();
        self.scheduler.end_dark();
    }

    /// Puts a host's power on again, with what the seed says is left of its disk; no program runs there yet.
    ///
    /// # Errors
    ///
    /// A program runs there still: EBUSY. It is of another world: EXDEV.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::fs::{self, File};
    /// use wo::sim::World;
    ///
    /// let mut world = World::new(1);
    /// let host = world.host("server");
    /// let program = world.start(&host, || async {
    ///     let file = File::create("/kept").await?;
    ///     file.write_all(b"synced").await?;
    ///     file.sync_all().await?;
    ///     fs::sync_dir("/").await
    /// });
    /// world.finish(program)??;
    /// world.crash(&host);
    /// world.restart(&host)?;
    /// let again = world.start(&host, || fs::read("/kept"));
    /// assert_eq!(world.finish(again)??, b"synced");
    /// # let _: Option<wo::IoError> = None;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restart(&mut self, host: &SimHost) -> IoResult<()> {
        if !self.world.has(host) {
            return Err(foreign(host));
        }
        let seed = self.world.draw(u64::MAX);
        let left = host.disk().after_power_cut(crate::plane::backend::sim::Survival::Seeded(seed));
        self.scheduler.end_dark();
        host.power_on(left)
    }

    /// Has `action` happen when the world is so old, or at once when it is older.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wo::sim::World;
    ///
    /// let mut world = World::new(1);
    /// world.at(Duration::from_secs(5), |world| assert_eq!(world.elapsed().as_secs(), 5));
    /// world.run()?;
    /// # Ok::<(), wo::IoError>(())
    /// ```
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
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::sim::World;
    ///
    /// let mut world = World::new(1);
    /// let host = world.host("stuck");
    /// let program = world.start(&host, || async {
    ///     let (sender, receiver) = wo::oneshot::<()>();
    ///     let received = receiver.recv().await;
    ///     drop(sender);
    ///     received
    /// });
    /// let error = world.finish(program).unwrap_err();
    /// assert!(error.to_string().contains("stuck: fiber 0 (main) waits in receive"));
    /// ```
    pub fn finish<T>(&mut self, program: Program<T>) -> Result<T, RunError> {
        self.scheduler.begin();
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
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wo::sim::World;
    ///
    /// let mut world = World::new(1);
    /// let host = world.host("sleepers");
    /// for seconds in 1..=3 {
    ///     let _program = world.start(&host, move || wo::sleep(Duration::from_secs(seconds)));
    /// }
    /// world.run()?;
    /// assert_eq!(world.elapsed().as_secs(), 3);
    /// # Ok::<(), wo::IoError>(())
    /// ```
    pub fn run(&mut self) -> IoResult<()> {
        self.scheduler.begin();
        while !self.scheduler.is_empty() || !self.planned.is_empty() {
            if let Progress::Quiescent = self.turn(Instant::NEVER) {
                return Err(self.give_up());
            }
        }
        Ok(())
    }

    /// Runs the world for so long. Programs that have nothing to do meanwhile are no error.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wo::sim::World;
    ///
    /// let mut world = World::new(1);
    /// let host = world.host("sleeper");
    /// let program = world.start(&host, || wo::sleep(Duration::from_secs(3)));
    /// world.run_for(Duration::from_secs(2));
    /// assert!(!program.has_ended());
    /// world.run_for(Duration::from_secs(2));
    /// assert!(program.has_ended());
    /// ```
    pub fn run_for(&mut self, span: Duration) {
        self.scheduler.begin();
        let end = self.world.now() + span;
        // A fiber that never parks has something to do at every moment: it is the clock that ends it.
        while self.turn(end) == Progress::Some && self.world.now() <= end {}
    }

    /// One turn: everybody who can do something does, or time passes.
    fn turn(&mut self, limit: Instant) -> Progress {
        let next = self.planned.first_key_value().map(|((at, _), _)| *at);
        if next.is_some_and(|at| at <= self.world.now())
            && let Some((_, action)) = self.planned.pop_first()
        {
            action(self);
            self.scheduler.begin();
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
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wo::sim::World;
    ///
    /// let mut world = World::new(1);
    /// world.run_for(Duration::from_secs(7));
    /// assert_eq!(world.elapsed(), Duration::from_secs(7));
    /// ```
    pub fn elapsed(&self) -> Duration {
        self.world.now() - Instant::ORIGIN
    }

    /// How every wire behaves that was not told otherwise.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::sim::{Link, World};
    ///
    /// let world = World::new(1);
    /// world.set_links(Link { loss: 0.1, ..Link::default() });
    /// ```
    pub fn set_links(&self, link: Link) {
        self.world.set_links(link);
    }

    /// How the wires between two hosts behave, both ways.
    ///
    /// # Panics
    ///
    /// When a host is of another world.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wo::sim::{Link, World};
    ///
    /// let mut world = World::new(1);
    /// let (near, far) = (world.host("near"), world.host("far"));
    /// let slow = Duration::from_millis(80)..Duration::from_millis(120);
    /// world.set_link(&near, &far, Link { latency: slow, ..Link::default() });
    /// ```
    pub fn set_link(&self, a: &SimHost, b: &SimHost, link: Link) {
        self.world.set_link(a, b, link.clone());
        self.world.set_link(b, a, link);
    }

    /// Nothing gets from either host to the other any more.
    ///
    /// # Panics
    ///
    /// When a host is of another world.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wo::sim::World;
    ///
    /// let mut world = World::new(1);
    /// let (a, b) = (world.host("a"), world.host("b"));
    /// world.partition(&a, &b);
    /// world.run_for(Duration::from_secs(1));
    /// ```
    pub fn partition(&self, a: &SimHost, b: &SimHost) {
        self.cut(a, b);
        self.cut(b, a);
    }

    /// Nothing gets from one host to the other any more; the other way is left as it is.
    ///
    /// # Panics
    ///
    /// When a host is of another world.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wo::sim::World;
    ///
    /// let mut world = World::new(1);
    /// let (a, b) = (world.host("a"), world.host("b"));
    /// world.cut(&a, &b);
    /// world.run_for(Duration::from_secs(1));
    /// ```
    pub fn cut(&self, from: &SimHost, to: &SimHost) {
        self.world.cut(from, to);
    }

    /// Both wires between two hosts work again.
    ///
    /// # Panics
    ///
    /// When a host is of another world.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wo::sim::World;
    ///
    /// let mut world = World::new(1);
    /// let (a, b) = (world.host("a"), world.host("b"));
    /// world.partition(&a, &b);
    /// world.heal(&a, &b);
    /// world.run_for(Duration::from_secs(1));
    /// ```
    pub fn heal(&self, a: &SimHost, b: &SimHost) {
        self.world.mend(a, b);
        self.world.mend(b, a);
    }

    /// What the network did so far.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::sim::World;
    ///
    /// let world = World::new(1);
    /// assert_eq!(world.counters().sent, 0);
    /// ```
    pub fn counters(&self) -> NetworkCounters {
        self.world.counters()
    }

    /// The circles in which actors asked each other, or one itself, written `Deadlock[a.m1->b.m2->a.m1]`: each is the
    /// message that the one before it waits for. Whoever asked last was told, with `AskError::Deadlock`, and the others
    /// were answered. The first thousand.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::sim::World;
    ///
    /// let world = World::new(1);
    /// assert!(world.deadlocks().is_empty());
    /// ```
    pub fn deadlocks(&self) -> Vec<String> {
        self.world.deadlocks()
    }

    /// How often threads from outside of the world woke something in it: a thread that a program started by itself, or
    /// one of the test's. The first time is said on stderr. From then on a run is no function of its seed.
    ///
    /// What a world cannot see are threads that keep to themselves, and programs that read the system's clock.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::sim::World;
    ///
    /// let mut world = World::new(1);
    /// let host = world.host("threaded");
    /// let program = world.start(&host, || async {
    ///     let (sender, receiver) = wo::oneshot();
    ///     std::thread::spawn(move || sender.send("from outside")).join().unwrap().unwrap();
    ///     receiver.recv().await
    /// });
    /// assert_eq!(world.finish(program)??, "from outside");
    /// # let _ = world.strange_wakes();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn strange_wakes(&self) -> u64 {
        self.scheduler.strange_wakes()
    }

    /// How often a fiber waited for something real, a tenth of a second or longer: it slept by the system's clock, read
    /// from a socket of the system's, or met a lock that another thread held. The first time is said on stderr. The
    /// world stood still meanwhile, so its run is the same function of its seed; it takes that long each time.
    ///
    /// It is a hint, for people: a wait may be missed, as where the system keeps no account of its threads.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wo::sim::World;
    ///
    /// let mut world = World::new(1);
    /// let host = world.host("sleeper");
    /// let program = world.start(&host, || async { std::thread::sleep(Duration::from_millis(150)) });
    /// world.finish(program)?;
    /// assert_eq!(world.real_waits(), u64::from(cfg!(target_os = "linux")));
    /// assert!(world.elapsed() < Duration::from_millis(1));
    /// # Ok::<(), wo::RunError>(())
    /// ```
    pub fn real_waits(&self) -> u64 {
        self.scheduler.real_waits()
    }

    /// Draws a number below `bound` from the world's chance; 0 when `bound` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::sim::World;
    ///
    /// let draws = |seed| (0..10).map({ let world = World::new(seed); move |_| world.draw(1000) }).collect::<Vec<_>>();
    /// assert!(draws(1) == draws(1) && draws(1) != draws(2));
    /// ```
    pub fn draw(&self, bound: u64) -> u64 {
        self.world.draw(bound)
    }

    /// The faults this world's seed selects; another call draws others.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wo::sim::World;
    ///
    /// let mut world = World::new(7);
    /// let hosts = [world.host("server"), world.host("client")];
    /// world.swarm().unleash(&mut world, &hosts, Duration::from_secs(5));
    /// ```
    pub fn swarm(&self) -> Swarm {
        Swarm::draw(&self.world)
    }

    /// A digest of everything that happened so far. Two runs that agree in it were the same run.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::fs;
    /// use wo::sim::World;
    ///
    /// let run = |seed| {
    ///     let mut world = World::new(seed);
    ///     let host = world.host("writer");
    ///     let program = world.start(&host, || fs::write("/tmp/file", "bytes"));
    ///     world.finish(program).unwrap().unwrap();
    ///     world.digest()
    /// };
    /// assert!(run(1) == run(1) && run(1) != run(2));
    /// ```
    pub fn digest(&self) -> u64 {
        self.world.digest()
    }

    /// Keeps a line for everything that happens from now on.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::fs;
    /// use wo::sim::World;
    ///
    /// let mut world = World::new(1);
    /// world.keep_trace();
    /// let host = world.host("writer");
    /// let program = world.start(&host, || fs::write("/tmp/file", "bytes"));
    /// world.finish(program)??;
    /// assert!(world.trace().lines().any(|line| line.contains(" open ")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keep_trace(&self) {
        self.world.keep_trace();
    }

    /// The lines kept so far; empty when none are kept.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::sim::World;
    ///
    /// let world = World::new(1);
    /// assert!(world.trace().is_empty(), "nobody asked for it");
    /// ```
    pub fn trace(&self) -> String {
        self.world.trace()
    }
}

/// A test that fails says how to run it again. Without a sweep that is what was run before.
impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let (seed, age) = (self.seed, self.elapsed());
        let thread = std::thread::current();
        let test = thread.name().filter(|name| self.swept && *name != "main");
        // A harness names the thread of a test after it.
        let replay = test.map(|test| format!("; replay: WO_SEED={seed} cargo test -- --exact {test}"));
        let replay = replay.unwrap_or_default();
        say(format_args!("the simulated world had seed {seed} and was {age:?} old{replay}"));
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("seed", &self.seed).field("elapsed", &self.elapsed()).finish_non_exhaustive()
    }
}
