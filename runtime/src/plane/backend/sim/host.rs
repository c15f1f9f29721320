//! A simulated host that outlives the programs that run on it.

use std::ffi::OsString;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::{Arc, MutexGuard};
use std::time::SystemTime;

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::plane::backend::sim::control::SimControl;
use crate::plane::backend::sim::disk::Disk;
use crate::plane::backend::sim::network::{Link, NetworkCounters};
use crate::plane::backend::sim::script::{Invocation, Script};
use crate::plane::backend::sim::site::{HOSTS_MAX, HostId};
use crate::plane::backend::sim::wall::WallTime;
use crate::plane::backend::sim::world::{LoopId, State, World};
use crate::plane::time::Instant;

/// A simulated world from the side of what runs in it: several hosts, one network, one clock.
///
/// A clone is the same world.
#[derive(Clone)]
pub struct SimWorld {
    world: Arc<World>,
}

impl SimWorld {
    /// The hosts a world has room for.
    pub const HOSTS_MAX: usize = HOSTS_MAX;

    /// The world a host is in.
    pub fn of(host: &SimHost) -> SimWorld {
        SimWorld { world: Arc::clone(&host.world) }
    }

    /// Another host, with a disk and an address of its own.
    ///
    /// # Errors
    ///
    /// The world has as many as it may: ENOSPC.
    pub fn host(&self, name: &str) -> IoResult<SimHost> {
        let host = self.world.lock().add_host(name).ok_or_else(|| {
            IoError::new(errno::ENOSPC, OpKind::Setup, Stage::Setup)
                .with_context(format!("{name}: a simulated world has {HOSTS_MAX} hosts at most"))
        })?;
        Ok(SimHost { world: Arc::clone(&self.world), host })
    }

    /// The world's clock.
    pub fn now(&self) -> Instant {
        self.world.lock().time.now()
    }

    /// A digest of everything that happened so far. Two runs that agree in it were the same run.
    pub fn digest(&self) -> u64 {
        self.world.lock().trace.digest()
    }

    /// Keeps a line of text for everything that happens from now on.
    pub fn keep_trace(&self) {
        self.world.lock().trace.lines.get_or_insert_default();
    }

    /// The lines kept so far; empty when none are kept.
    pub fn trace(&self) -> String {
        self.world.lock().trace.lines.clone().unwrap_or_default()
    }

    /// The circles of actors of which one was told.
    pub(crate) fn deadlocks(&self) -> Vec<String> {
        self.world.lock().deadlocks.clone()
    }

    /// How every wire behaves that was not told otherwise.
    pub fn set_links(&self, link: Link) {
        self.world.lock().network.common = link;
    }

    /// How the wire from one host to another behaves.
    ///
    /// # Panics
    ///
    /// When a host is of another world.
    pub fn set_link(&self, from: &SimHost, to: &SimHost, link: Link) {
        [from, to].into_iter().for_each(|host| self.expect_own(host));
        self.world.lock().network.links.insert((from.host, to.host), link);
    }

    /// Nothing gets from one host to the other any more; the other way is left as it is.
    ///
    /// # Panics
    ///
    /// When a host is of another world.
    pub fn cut(&self, from: &SimHost, to: &SimHost) {
        [from, to].into_iter().for_each(|host| self.expect_own(host));
        self.world.lock().network.cut.insert((from.host, to.host));
    }

    /// What is sent from one host to the other gets there again.
    ///
    /// # Panics
    ///
    /// When a host is of another world.
    pub fn mend(&self, from: &SimHost, to: &SimHost) {
        [from, to].into_iter().for_each(|host| self.expect_own(host));
        self.world.lock().network.cut.remove(&(from.host, to.host));
    }

    /// What the network did so far.
    pub fn counters(&self) -> NetworkCounters {
        self.world.lock().network.counters
    }

    /// A shard of a program on this host has its turn.
    pub(crate) fn note_turn(&self, host: &SimHost, shard: usize) {
        let mut state = self.world.lock();
        let now = state.time.now();
        state.trace.note_turn(now, host.host, shard);
    }

    /// Draws a number below `bound` from the world's chance; 0 when `bound` is 0.
    pub fn draw(&self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.world.lock().chance.within(0..bound) }
    }

    /// Lets the next event happen, unless it is due after `last`; false then, and when none will change anything.
    pub(crate) fn step(&self, last: Instant) -> bool {
        let mut state = self.world.lock();
        !(last == Instant::NEVER && state.is_hopeless()) && state.step(last)
    }

    /// Whether this host is one of its own.
    pub(crate) fn has(&self, host: &SimHost) -> bool {
        Arc::ptr_eq(&self.world, &host.world)
    }

    /// # Panics
    ///
    /// When this host is of another world: the numbers of hosts mean others there.
    fn expect_own(&self, host: &SimHost) {
        assert!(self.has(host), "{}", foreign(host));
    }

    /// Moves the clock to `to`; everything due before has happened.
    pub(crate) fn advance(&self, to: Instant) {
        self.world.lock().run_until(to);
    }
}

/// How a host is refused that is of another world.
pub(crate) fn foreign(host: &SimHost) -> IoError {
    IoError::new(errno::EXDEV, OpKind::Setup, Stage::Setup).with_context(format!(
        "the simulated host {:?} is of the world with seed {}; a world runs its own, which World::host makes",
        host.name(),
        host.world.lock().seed
    ))
}

impl fmt::Debug for SimWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimWorld").field("now", &self.now()).finish_non_exhaustive()
    }
}

/// A host in a simulated world: a disk, a clock, and power that can be cut. Programs run on it one after another; a
/// clone is the same host.
///
/// # Examples
///
/// Every crash of a program, by running it once: before each change of the disk, and at the end.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use wo::fs::File;
/// use wo::sim::{Disk, Host};
///
/// let host = Host::new(7);
/// let acknowledged = Arc::new(Mutex::new(0));
/// let crashes = Arc::new(Mutex::new(Vec::<(Disk, usize)>::new()));
/// let (acks, seen) = (Arc::clone(&acknowledged), Arc::clone(&crashes));
/// host.before_disk_changes(move |disk| seen.lock().unwrap().push((disk, *acks.lock().unwrap())));
/// let acks = Arc::clone(&acknowledged);
/// wo::Builder::new().simulated(&host).run(|| async move {
///     let file = File::create("/tmp/log").await?;
///     for record in 0..3 {
///         file.write_all_at(vec![record + 1; 512], 512 * u64::from(record)).await.0?;
///         file.sync_data().await?;
///         *acks.lock().unwrap() += 1;
///     }
///     Ok::<_, wo::IoError>(())
/// })??;
/// for (disk, acknowledged) in &*crashes.lock().unwrap() {
///     for image in disk.images() {
///         // The name was never synced, so the whole file may be lost; but if it is there, so is what was synced.
///         let Ok(log) = image.read("/tmp/log") else { continue };
///         assert!(log.len() >= 512 * acknowledged && log[..512 * acknowledged].iter().all(|byte| *byte > 0));
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SimHost {
    world: Arc<World>,
    host: HostId,
}

impl SimHost {
    /// A host alone in a world of its own, which is a function of `seed`.
    pub fn new(seed: u64) -> SimHost {
        SimHost { world: Arc::new(World::new(seed)), host: HostId(0) }
    }

    /// The world it is in, to open a loop there.
    pub(super) fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// Its name.
    pub fn name(&self) -> String {
        self.at_home().here.name.clone()
    }

    /// Gives it another name.
    pub(crate) fn rename(&self, name: &str) {
        name.clone_into(&mut self.at_home().here.name);
    }

    /// The address the other hosts of its world reach it at; its own programs may use it as well as the loopback.
    pub fn ip(&self) -> Ipv4Addr {
        self.host.ip()
    }

    /// Resets every TCP connection this host has, of which both ends are told `ECONNRESET`; answers how many.
    pub fn reset_connections(&self) -> usize {
        self.at_home().reset_connections()
    }

    /// Has its programs find a program of this name, instead of what they found before: what `script` says it does each
    /// time it is started. An unknown one is not found: ENOENT.
    ///
    /// It is asked while the world stands still, and must not use the host: it panics if it does.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::process::Command;
    /// use wo::sim::{Script, World};
    ///
    /// let mut world = World::new(1);
    /// let host = world.host("small");
    /// host.program("cat", |_| Script::new().copy());
    /// let program = world.start(&host, || async {
    ///     let copied = Command::new("cat").capture("there and back").await?;
    ///     assert_eq!(copied.stdout, b"there and back");
    ///     Ok::<_, wo::IoError>(Command::new("dog").status().await.unwrap_err())
    /// });
    /// assert!(world.finish(program)??.to_string().contains("which has cat"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn program(&self, name: impl Into<OsString>, script: impl FnMut(&Invocation) -> Script + Send + 'static) {
        self.at_home().here.processes.install(name.into(), Box::new(script));
    }

    /// What its processes wrote to the standard streams that they share with the program that started them; the first
    /// mebibyte of it, and no more.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::process::Command;
    /// use wo::sim::{Script, World};
    ///
    /// let mut world = World::new(1);
    /// let host = world.host("small");
    /// host.program("greet", |greeted| Script::new().stdout(greeted.args[0].as_encoded_bytes()));
    /// let program = world.start(&host, || async { Command::new("greet").arg("hello").status().await });
    /// assert!(world.finish(program)??.success());
    /// assert_eq!(host.console(), b"hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn console(&self) -> Vec<u8> {
        self.at_home().here.processes.console().to_vec()
    }

    /// What the ops of its programs and its processes wait for, in words.
    pub(crate) fn describe_waiting(&self) -> Vec<String> {
        self.at_home().describe_waiting_here()
    }

    /// Whether both are the same host.
    pub(crate) fn is(&self, other: &SimHost) -> bool {
        Arc::ptr_eq(&self.world, &other.world) && self.host == other.host
    }

    /// Which of its world's hosts it is.
    pub(super) fn id(&self) -> HostId {
        self.host
    }

    fn at_home(&self) -> MutexGuard<'_, State> {
        self.world.at(self.host)
    }

    /// The fault controls. A completion injected with them reaches the host's first loop.
    pub fn control(&self) -> SimControl {
        SimControl::new(Arc::clone(&self.world), self.host, LoopId::FIRST)
    }

    /// A copy of the disk, and of what the page cache holds, as they are now; after a power cut, as they were then.
    pub fn disk(&self) -> Disk {
        Disk(self.at_home().here.fs.clone())
    }

    /// What its wall clock says; see [`wo::wall_clock`](crate::fiber::wall_clock) for its programs' side.
    pub fn wall_clock(&self) -> SystemTime {
        let state = self.at_home();
        state.here.fs.wall.at(state.time.now()).to_system()
    }

    /// Sets its wall clock, ahead or back: a jump. It goes on from there; its programs' timers, deadlines and
    /// [`now`](crate::fiber::now) know nothing of it, and a restart leaves it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wo::sim::World;
    ///
    /// let mut world = World::new(1);
    /// let host = world.host("clock");
    /// let (jumping, hour) = (host.clone(), Duration::from_secs(3600));
    /// world.at(Duration::from_secs(1), move |_| jumping.set_wall_clock(jumping.wall_clock() - hour));
    /// let program = world.start(&host, || async {
    ///     let (before, begun) = (wo::wall_clock(), wo::now());
    ///     wo::sleep(Duration::from_secs(2)).await?;
    ///     assert_eq!(before.duration_since(wo::wall_clock()).unwrap(), Duration::from_secs(3598));
    ///     Ok::<_, wo::IoError>(wo::now() - begun)
    /// });
    /// assert_eq!(world.finish(program)??, Duration::from_secs(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_wall_clock(&self, time: SystemTime) {
        let mut state = self.at_home();
        let (now, time) = (state.time.now(), WallTime::from_system(time));
        state.here.fs.wall.set(now, time);
        state.trace.note_wall(now, self.host, time);
    }

    /// The number of steps so far, of all programs that ran here: ops issued, and events that happened.
    pub fn steps(&self) -> u64 {
        self.at_home().here.power.steps()
    }

    /// Cuts the power at this step: the ones before it have happened, it does not. The program that runs then ends
    /// with [`RunError::Kernel`] and `EHOSTDOWN`; its fibers are dropped, and nothing they do meanwhile has an effect.
    ///
    /// Running the same program with the same seed once for each step up to [`steps`](SimHost::steps) is every crash
    /// there is.
    ///
    /// [`RunError::Kernel`]: crate::shard::RunError::Kernel
    pub fn cut_power_at(&self, step: u64) {
        self.at_home().here.power.cut_at(step);
    }

    /// Cuts the power now.
    pub fn cut_power(&self) {
        self.at_home().here.power.cut();
    }

    /// Whether the power is cut.
    pub fn is_cut(&self) -> bool {
        self.at_home().here.power.is_cut()
    }

    /// Puts the power on, with this disk: that of before, after a power cut or not, or any other. Nothing else is left
    /// of what was: no socket, no name, no event. The clock goes on, and the seed's chance.
    ///
    /// # Errors
    ///
    /// A program runs here: EBUSY.
    pub fn power_on(&self, disk: Disk) -> IoResult<()> {
        let mut state = self.at_home();
        if state.loops() > 0 {
            return Err(IoError::new(errno::EBUSY, OpKind::Setup, Stage::Setup)
                .with_context("a program runs on this simulated host; cut its power first, and let it end"));
        }
        state.begin_anew(disk);
        Ok(())
    }

    /// Has `watcher` see the disk before each of its changes, and before each sync takes effect, instead of who saw it
    /// before. What the program has told its callers by then is the most that a crash with this disk may contradict.
    ///
    /// It is called while the world stands still, and must not use the host: it panics if it does.
    pub fn before_disk_changes(&self, watcher: impl FnMut(Disk) + Send + 'static) {
        self.at_home().here.power.watch(Some(Box::new(watcher)));
    }

    /// Nobody watches the disk any more.
    pub fn unwatch_disk(&self) {
        self.at_home().here.power.watch(None);
    }
}

impl fmt::Debug for SimHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimHost").field("power", &self.at_home().here.power).finish_non_exhaustive()
    }
}
