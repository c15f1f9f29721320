//! The simulated kernel: sockets, pipes, files and time in memory, a function of the program and one seed.
//!
//! Nothing here enters the operating system or looks at a real clock. An op takes effect when it is flushed, or
//! later when what it waits for happens; its completion travels through the world's line of events and reaches the
//! loop after a short span that the seed draws. Waiting moves the virtual clock to the next event, or to the end of
//! the timeout, whichever is first, and takes no time. Two runs of one program with one seed are the same run;
//! another seed puts independent completions in another order.
//!
//! Computing takes no virtual time either, with one exception: a loop that looks at the kernel again and again without
//! waiting would stop the clock for everyone else, so after a hundred such looks each further one takes a microsecond,
//! and another for every hundred before it.
//!
//! Files are cached: what was not synced may be lost when the host's power is cut; see [`Disk`] and [`SimHost`].
//!
//! The simulated host is alone: it has its loopback, and every other address is without a route (`ENETUNREACH`). It
//! answers as Linux does otherwise; [`SimBackend::control`] makes it fail. A kind of op it lacks completes with
//! `-ENOSYS`. A job runs to its end inside the flush that hands it over, on a thread of its own as on a real kernel's
//! workers, while the world stands still; so jobs happen in the program's order. One that waits for its own loop waits
//! for ever, and what it asks of the real system is real.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, SystemTime};

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::plane::addr::SocketAddress;
use crate::plane::backend::caps::KernelVersion;
use crate::plane::backend::discard;
use crate::plane::backend::sim::control::Rule;
use crate::plane::backend::sim::memory::Operand;
use crate::plane::backend::sim::net::address::Family;
use crate::plane::backend::sim::ops::InFlight;
use crate::plane::backend::sim::process::Refusal;
use crate::plane::backend::sim::site::{HostId, Table};
use crate::plane::backend::sim::world::{Errno, LoopId, ObjectId, State, World};
use crate::plane::backend::{
    Backend, BackendConfig, BackendKind, Caps, Feature, Full, OpSet, RawCompletion, SocketKind, SocketOption,
    SocketOptionName, Waker,
};
use crate::plane::backend::{real_time, thread};
use crate::plane::fd::{DescriptorTable, Fd, RawDescriptor};
use crate::plane::op::{RawOp, RawSlice};
use crate::plane::time::Instant;
use crate::plane::token::Token;

pub use control::{Held, SimControl};
pub use disk::{Disk, Survival};
pub use faults::DiskFaults;
pub(crate) use host::foreign;
pub use host::{SimHost, SimWorld};
pub use network::{Link, NetworkCounters};
pub(crate) use process::{Lead, ProcessHandle, Status};
pub use script::{Invocation, Script};

mod control;
mod disk;
mod durable;
mod events;
mod exec;
mod faults;
mod file;
mod fs;
mod host;
mod journal;
mod memory;
mod net;
mod network;
mod ops;
mod pages;
mod pipe;
mod power;
mod process;
mod script;
mod site;
mod sparse;
mod trace;
mod unsynced;
mod wall;
mod world;

/// Looks at the kernel without waiting that take no time, what each further one takes, and after how many it takes as
/// much again.
const FREE_LOOKS: u32 = 100;
const LOOK: Duration = Duration::from_micros(1);
const LONGER_EACH: u32 = 100;

/// Buffers that can be registered at most.
const REGISTERED_MAX: u16 = 16_384;

/// The features the simulated kernel has, unless the shim hides them.
const FEATURES: [Feature; 5] =
    [Feature::MultishotAccept, Feature::RegisteredBuffers, Feature::WaitDeadline, Feature::NoDrop, Feature::Truncate];

/// One loop's kernel in a simulated world. Opening it makes the world, from the configuration's seed; dropping it
/// ends its ops in flight without a word.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::plane::Instant;
/// use wo::plane::backend::sim::SimBackend;
/// use wo::plane::backend::{Backend, BackendConfig};
///
/// let mut sim = SimBackend::open(&BackendConfig { seed: 7, ..BackendConfig::default() })?;
/// sim.wait(Some(Duration::from_secs(30 * 86_400)))?; // a month, at once
/// assert_eq!(sim.now(), Instant::ORIGIN + Duration::from_secs(30 * 86_400));
/// # Ok::<(), wo::error::IoError>(())
/// ```
pub struct SimBackend {
    world: Arc<World>,
    host: HostId,
    home: LoopId,
    /// What closes this host's descriptors, and what tells them from others.
    table: Arc<dyn DescriptorTable>,
    identity: u64,
    caps: Caps,
    waker: Waker,
    queue: Vec<Entry>,
    queue_max: usize,
    registered: u16,
    registration_refused: bool,
    /// Looks at the kernel since the last wait.
    looks: u32,
    /// The loop was told that its host has no power any more; since then it only ends.
    told_of_power: bool,
}

/// What waits to be handed over, in order.
#[derive(Debug)]
enum Entry {
    Submit(InFlight),
    Cancel(Token),
}

impl SimBackend {
    /// The fault controls of this loop's world.
    pub fn control(&self) -> SimControl {
        SimControl::new(Arc::clone(&self.world), self.host, self.home)
    }

    /// Whether something has reached this loop; nothing happens meanwhile.
    pub(crate) fn is_ready(&self) -> bool {
        self.world.lock().has_ready(self.home)
    }

    /// The loop has nothing to do: its looks are free again.
    pub(crate) fn rest(&mut self) {
        self.looks = 0;
    }

    /// The addresses of the hosts of this name.
    pub(crate) fn addresses_of(&self, name: &str) -> Vec<Ipv4Addr> {
        if name == "localhost" { vec![Ipv4Addr::LOCALHOST] } else { self.world.lock().addresses_of(name) }
    }

    pub(crate) fn note_deadlock(&mut self, circle: String) {
        self.world.lock().note_deadlock(self.host, circle);
    }

    fn at_home(&self) -> MutexGuard<'_, State> {
        self.world.at(self.host)
    }

    /// Hands the queue over. Jobs run here, without the world's lock, since they may use it.
    fn hand_over(&mut self) {
        let (world, host) = (Arc::clone(&self.world), self.host);
        let mut state = world.at(host);
        for entry in self.queue.drain(..) {
            match entry {
                Entry::Cancel(token) => state.cancel(self.home, token),
                Entry::Submit(op) if !self.caps.supports(op.kind()) => state.post(&op, -errno::ENOSYS, false),
                Entry::Submit(op) if asks_hidden(&self.caps, op.operand.op()) => state.post(&op, -errno::EINVAL, false),
                Entry::Submit(mut op) if op.kind() == OpKind::Job && !state.here.power.is_cut() => {
                    let ruled = state.here.controls.rule_for(OpKind::Job);
                    drop(state);
                    let res = match ruled {
                        Some(Rule::Answer(res)) => res,
                        _ => op.operand.take_call().map_or(-errno::EINVAL, run),
                    };
                    state = world.at(host);
                    state.post(&op, res, false);
                }
                Entry::Submit(op) => state.issue(op),
            }
        }
    }

    /// Looks at the kernel without waiting: what is due has happened. See the module's text on the clock.
    fn look(&mut self) {
        self.looks = self.looks.saturating_add(1);
        let mut state = self.at_home();
        let now = state.time.now();
        let taken =
            self.looks.checked_sub(FREE_LOOKS + 1).map_or(Duration::ZERO, |more| LOOK * (1 + more / LONGER_EACH));
        state.run_until(now + taken);
    }

    /// Lets things happen until something is ready for this loop.
    fn wait_until(&mut self, deadline: Option<Instant>) -> IoResult<()> {
        let mut state = self.at_home();
        while !state.here.power.is_cut() && !state.has_ready(self.home) && !self.waker.is_rung() {
            if state.step(deadline.unwrap_or(Instant::NEVER)) {
                continue;
            }
            if state.here.power.is_cut() {
                break;
            }
            let Some(deadline) = deadline else { return Err(self.quiescent(&state)) };
            state.time.advance(deadline);
            return Ok(());
        }
        if state.here.power.is_cut() {
            drop(state);
            return self.heed_power().map(drop);
        }
        // What happens at this same moment is part of this wake.
        let now = state.time.now();
        state.run_until(now);
        Ok(())
    }

    /// Whether the power is cut. The first time that is an error, which ends the loop; from then on every op it has
    /// is answered, so that it comes to its end.
    fn heed_power(&mut self) -> IoResult<bool> {
        let mut state = self.at_home();
        if !state.here.power.is_cut() {
            return Ok(false);
        }
        state.abandon(self.home);
        if self.told_of_power {
            return Ok(true);
        }
        let steps = state.here.power.steps();
        drop(state);
        self.told_of_power = true;
        Err(IoError::new(libc::EHOSTDOWN, OpKind::Wait, Stage::Completion)
            .with_context(format!("the power of the simulated host was cut at step {steps}")))
    }

    fn quiescent(&self, state: &State) -> IoError {
        let held = match state.here.controls.held() {
            0 => String::new(),
            held => format!("; {held} completions are held back by the fault controls"),
        };
        IoError::new(libc::EDEADLK, OpKind::Wait, Stage::Completion).with_context(format!(
            "the simulated world is quiescent: every fiber waits and nothing can wake it ({}{held})",
            state.describe_waiting(self.home)
        ))
    }

    /// Starts a program that the host knows: a handle of the process, a descriptor of it that is readable at its end,
    /// and this side's ends of its pipes.
    ///
    /// # Errors
    ///
    /// ENOENT when the host knows no such program, which names those it knows; EMFILE.
    pub(crate) fn start_process(
        &mut self,
        invocation: &Invocation,
        leads: [Lead; 3],
    ) -> IoResult<(ProcessHandle, Fd, [Option<Fd>; 3])> {
        let mut state = self.at_home();
        let started = state.start_process(invocation, leads).map_err(|refusal| {
            let program = &invocation.program;
            let (errno, why) = match refusal {
                Refusal::Unknown(known) => {
                    let host = state.name_of(self.host);
                    let remedy = "give it one with sim::Host::program, or run with WO_IO=auto";
                    (
                        errno::ENOENT,
                        format!("no such program on the simulated host {host:?}, which has {known}; {remedy}"),
                    )
                }
                Refusal::Errno(errno) => (errno, "its pipes on the simulated host".to_owned()),
            };
            IoError::new(errno, OpKind::Spawn, Stage::Completion).with_context(format!("{program:?}: {why}"))
        })?;
        drop(state);
        let handle = ProcessHandle { world: Arc::clone(&self.world), host: self.host, pid: started.pid };
        Ok((handle, self.own(started.handle), started.pipes.map(|raw| raw.map(|raw| self.own(raw)))))
    }

    fn adopt_object(&self, state: &mut State, object: ObjectId) -> Result<Fd, Errno> {
        state.install(object).map(|raw| self.own(raw))
    }

    fn own(&self, raw: RawDescriptor) -> Fd {
        Fd::of_table(raw, Arc::clone(&self.table))
    }

    /// A synchronous call on a descriptor.
    /// Whether any opening of what this descriptor has open is locked.
    pub(crate) fn is_locked(&self, fd: &Fd) -> IoResult<bool> {
        self.call(fd, OpKind::Lock, String::new, |state, object| state.is_locked(object))
    }

    fn call<T>(
        &self,
        fd: &Fd,
        op: OpKind,
        context: impl FnOnce() -> String,
        call: impl FnOnce(&mut State, ObjectId) -> Result<T, Errno>,
    ) -> IoResult<T> {
        if !self.owns(fd) {
            return Err(fd.strayed(op));
        }
        let mut state = self.at_home();
        let answer = state.lookup(fd.raw()).and_then(|object| call(&mut state, object));
        state.settle();
        answer.map_err(|errno| IoError::new(errno, op, Stage::Completion).with_context(context()))
    }

    fn pair(
        &self,
        op: OpKind,
        what: &'static str,
        make: impl FnOnce(&mut State) -> (ObjectId, ObjectId),
    ) -> IoResult<(Fd, Fd)> {
        let mut state = self.at_home();
        let (a, b) = make(&mut state);
        let installed = state.install(a).and_then(|a| match state.install(b) {
            Ok(b) => Ok((a, b)),
            Err(errno) => {
                // The number was given out a moment ago, so it is open.
                let _ = state.close(a);
                Err(errno)
            }
        });
        if installed.is_err() {
            state.end(b);
        }
        state.settle();
        drop(state);
        installed
            .map(|(a, b)| (self.own(a), self.own(b)))
            .map_err(|errno| IoError::new(errno, op, Stage::Completion).with_context(what))
    }
}

/// Whether an op asks for a feature the shim hides.
fn asks_hidden(caps: &Caps, op: &RawOp) -> bool {
    matches!(op, RawOp::Accept { multishot: true, .. }) && !caps.has(Feature::MultishotAccept)
}

/// Runs a job to its end; one that panics is answered as an error, and the hook has reported it.
///
/// It has a thread of its own, so that it finds no loop there, as on a worker of a real kernel.
fn run(call: Box<dyn FnOnce() -> i32 + Send>) -> i32 {
    real_time::excuse();
    let mark = thread::mark();
    let work = move || {
        thread::serve(mark);
        call()
    };
    match std::thread::Builder::new().name("wo-job".into()).spawn(work) {
        Ok(job) => job.join().unwrap_or_else(|panic| {
            discard(panic);
            -errno::EIO
        }),
        Err(refusal) => -refusal.raw_os_error().unwrap_or(errno::EAGAIN),
    }
}

impl Backend for SimBackend {
    fn open(config: &BackendConfig) -> IoResult<SimBackend> {
        let shim = &config.shim;
        if let Some(errno) = shim.fail_setup {
            return Err(IoError::new(errno, OpKind::Setup, Stage::Setup)
                .with_context("the simulated kernel: the shim of its configuration refuses it"));
        }
        let mut caps = Caps::new(BackendKind::Sim, shim.kernel.unwrap_or(KernelVersion { major: 0, minor: 0 }));
        caps.ops = OpSet::ALL.minus(shim.hidden_ops);
        for feature in FEATURES {
            caps.set(feature, !shim.hides(feature));
        }
        let host = config.host.clone().unwrap_or_else(|| SimHost::new(config.seed));
        let world = Arc::clone(host.world());
        let host = host.id();
        let home = {
            let mut state = world.at(host);
            if state.here.power.is_cut() {
                return Err(IoError::new(libc::EHOSTDOWN, OpKind::Setup, Stage::Setup)
                    .with_context("the simulated host has no power; put it on with SimHost::power_on"));
            }
            state.enter()
        };
        let table = Arc::new(Table { world: Arc::clone(&world), host });
        let identity = table.identity();
        Ok(SimBackend {
            world,
            host,
            home,
            table,
            identity,
            caps,
            waker: Waker::flag(),
            queue: Vec::new(),
            queue_max: config.submission_entries.max(1).next_power_of_two() as usize,
            registered: 0,
            registration_refused: shim.fail_registration.is_some(),
            looks: 0,
            told_of_power: false,
        })
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    unsafe fn submit(&mut self, token: Token, op: RawOp) -> Result<(), Full> {
        if self.submission_space() == 0 {
            return Err(Full);
        }
        // SAFETY: the caller promises the memory until the terminal completion was reaped or the backend was closed;
        // the operand is dropped when the result stands, which is before, and closing drops all that are left.
        let operand = unsafe { Operand::new(op) };
        self.queue.push(Entry::Submit(InFlight::new(self.home, token, operand)));
        Ok(())
    }

    fn cancel(&mut self, target: Token) -> Result<(), Full> {
        if self.submission_space() == 0 {
            return Err(Full);
        }
        self.queue.push(Entry::Cancel(target));
        Ok(())
    }

    fn flush(&mut self) -> IoResult<()> {
        self.hand_over();
        if !self.heed_power()? {
            self.look();
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Option<Duration>) -> IoResult<()> {
        self.hand_over();
        if self.heed_power()? {
            return Ok(());
        }
        let now = self.now();
        // The end of time is no deadline.
        let deadline = timeout.map(|timeout| now + timeout).filter(|deadline| *deadline != Instant::NEVER);
        if deadline == Some(now) {
            self.look();
            self.waker.acknowledge();
            return Ok(());
        }
        self.looks = 0;
        let answer = self.wait_until(deadline);
        self.waker.acknowledge();
        answer
    }

    fn has_completions(&mut self) -> bool {
        self.look();
        self.at_home().has_ready(self.home)
    }

    fn reap(&mut self, out: &mut Vec<RawCompletion>) {
        self.at_home().reap(self.home, out);
    }

    fn submission_space(&self) -> usize {
        self.queue_max - self.queue.len()
    }

    fn unsubmitted(&self) -> usize {
        self.queue.len()
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn now(&self) -> Instant {
        self.at_home().time.now()
    }

    fn wall_clock(&self) -> SystemTime {
        let state = self.at_home();
        state.here.fs.wall.at(state.time.now()).to_system()
    }

    unsafe fn register_buffer(&mut self, _memory: RawSlice) -> Option<u16> {
        let room = self.registered < REGISTERED_MAX;
        if self.registration_refused || !self.caps.has(Feature::RegisteredBuffers) || !room {
            return None;
        }
        self.registered += 1;
        Some(self.registered - 1)
    }

    fn socket(&mut self, domain: socket2::Domain, kind: SocketKind) -> IoResult<Fd> {
        let family = match domain {
            socket2::Domain::IPV4 => Ok(Family::V4),
            socket2::Domain::IPV6 => Ok(Family::V6),
            socket2::Domain::UNIX => Ok(Family::Unix),
            _ => Err(libc::EAFNOSUPPORT),
        };
        let mut state = self.at_home();
        family
            .and_then(|family| {
                let object = state.make_socket(family, kind);
                self.adopt_object(&mut state, object)
            })
            .map_err(|errno| {
                IoError::new(errno, OpKind::Socket, Stage::Completion).with_context(format!("{kind:?} {domain:?}"))
            })
    }

    fn socket_pair(&mut self, kind: SocketKind) -> IoResult<(Fd, Fd)> {
        self.pair(OpKind::Socket, "socket pair", |state| state.make_pair(kind))
    }

    fn pipe(&mut self) -> IoResult<(Fd, Fd)> {
        self.pair(OpKind::Open, "pipe", State::make_pipe)
    }

    fn bind(&mut self, fd: &Fd, address: &SocketAddress) -> IoResult<()> {
        address.to_kernel(OpKind::Bind)?;
        self.call(fd, OpKind::Bind, || address.to_string(), |state, object| state.bind(object, address))
    }

    fn listen(&mut self, fd: &Fd, backlog: u32) -> IoResult<()> {
        self.call(fd, OpKind::Listen, String::new, |state, object| state.listen(object, backlog))
    }

    fn local_address(&mut self, fd: &Fd) -> IoResult<SocketAddress> {
        self.call(fd, OpKind::SocketOption, String::new, |state, object| state.local_address(object))
    }

    fn peer_address(&mut self, fd: &Fd) -> IoResult<SocketAddress> {
        self.call(fd, OpKind::SocketOption, String::new, |state, object| state.peer_address(object))
    }

    fn set_socket_option(&mut self, fd: &Fd, option: SocketOption) -> IoResult<()> {
        let context = || format!("{option:?}");
        self.call(fd, OpKind::SocketOption, context, |state, object| state.set_option(object, option))
    }

    fn socket_option(&mut self, fd: &Fd, name: SocketOptionName) -> IoResult<SocketOption> {
        self.call(fd, OpKind::SocketOption, || format!("{name:?}"), |state, object| state.option(object, name))
    }

    unsafe fn try_send(&mut self, fd: &Fd, buf: RawSlice) -> Option<i32> {
        // SAFETY: the caller vouches for the memory during the call, and the operand ends with it.
        let operand = unsafe { Operand::new(RawOp::Send { fd: fd.raw(), buf, all: false }) };
        let mut op = InFlight::new(self.home, Token::from_raw(0), operand);
        let mut state = self.at_home();
        let sent = state.try_at_once(&mut op);
        state.settle();
        sent
    }

    fn adopt(&mut self, raw: RawDescriptor) -> Fd {
        self.own(raw)
    }

    fn owns(&self, fd: &Fd) -> bool {
        fd.is_of(self.identity)
    }

    fn foreign(&mut self, raw: RawDescriptor) -> IoResult<Fd> {
        Err(IoError::new(errno::EBADF, OpKind::Open, Stage::Submit).with_context(format!(
            "descriptor {raw}: a descriptor of the operating system does not exist in a simulated world; \
             run the program with WO_IO=auto to use it"
        )))
    }

    fn has_positions(&mut self, fd: &Fd) -> IoResult<bool> {
        self.call(fd, OpKind::Stat, String::new, |state, object| state.has_positions(object))
    }

    fn try_lock(&mut self, fd: &Fd) -> IoResult<bool> {
        self.call(fd, OpKind::Lock, String::new, |state, object| state.try_lock(object))
    }

    fn unlock(&mut self, fd: &Fd) -> IoResult<()> {
        self.call(fd, OpKind::Lock, String::new, |state, object| state.unlock(object))
    }

    fn close(self) {}
}

impl Drop for SimBackend {
    fn drop(&mut self) {
        // Ops that were never handed over end here, before the world is asked to forget the others.
        self.queue.clear();
        self.at_home().leave(self.home);
    }
}

impl fmt::Debug for SimBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimBackend")
            .field("now", &self.now())
            .field("unsubmitted", &self.queue.len())
            .finish_non_exhaustive()
    }
}
