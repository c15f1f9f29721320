//! The io_uring backend.
//!
//! An op becomes a submission entry whose word is its token; its completion carries the token back. What is queued
//! goes to the kernel in one entry of it, at [`flush`](Backend::flush) or [`wait`](Backend::wait); completions are
//! copied out in one batch by [`reap`](Backend::reap). Words with `MARK` are the backend's own business and are
//! sorted there: the doorbell's, a missed cancel's (`cancels`), a deadline's end, and ops that need a second look
//! (`retained`). What the ring cannot do on this kernel runs on the worker pool, whose answers join the same batch.
//!
//! In the exclusive mode the kernel binds the ring to the thread that set it up, so a backend cannot leave its
//! thread: it is not `Send`. A process forked from the ring's cannot use it either and is told so by every call that
//! would enter the kernel.

use std::collections::HashSet;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::time::Duration;

use io_uring::types::Timespec;
use io_uring::{opcode, squeue};

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::plane::addr::SocketAddress;
use crate::plane::backend::pool::{WorkerPool, job_for};
use crate::plane::backend::{
    Backend, BackendConfig, Caps, Feature, Full, RawCompletion, SetupStep, SocketKind, SocketOption, SocketOptionName,
    Waker, affinity, os,
};
use crate::plane::fd::{Fd, RawDescriptor};
use crate::plane::op::{RawOp, RawSlice};
use crate::plane::time::Instant;
use crate::plane::token::{Class, Token};
use cancels::Cancels;
use lower::{Lowered, Lowering};
use retained::{MARK, Next, Outcome, RetainedOps, Whereabouts, is_interrupted};
use ring::{Posted, Ring, Wait};

mod cancels;
mod lower;
mod probe;
mod retained;
mod ring;
mod setup;
mod table;

/// The word of the doorbell's poll.
const DOORBELL: u64 = MARK | Token::new(Class::Wake, 0, 0).raw();
/// In a marked word: this is the completion of a cancel, whose target is the rest of the word. Only a cancel that did
/// not succeed completes.
const CANCEL: u64 = 1 << 62;
/// The word of a wait's deadline, where it needs an entry of its own.
const DEADLINE: u64 = MARK | Token::new(Class::Internal, 0, 1).raw();

/// Registered buffers of one ring at most. A pool is one buffer, however many pieces it is handed out in.
const REGISTERED_BUFFERS_MAX: u16 = 64;

/// A kernel that completes ops by io_uring. Made, used and dropped on one thread:
///
/// ```compile_fail,E0277
/// use wo::plane::backend::{Backend, BackendConfig};
/// use wo::plane::backend::uring::UringBackend;
///
/// fn elsewhere<T: Send>(_: T) {}
/// elsewhere(UringBackend::open(&BackendConfig::default()).unwrap());
/// ```
///
/// Dropping it closes the ring. The kernel then cancels what is still in flight, but in its own time: the memory of
/// such ops has to stay where it is, see [`Backend::close`].
#[derive(Debug)]
pub struct UringBackend {
    ring: Ring,
    caps: Caps,
    lowering: Lowering,
    sorter: Sorter,
    pool: ManuallyDrop<WorkerPool>,
    /// The ops the pool has, and the ring has not.
    pooled: HashSet<Token>,
    /// The span of a deadline that is an entry of its own, until the kernel has read it.
    deadline: Box<Timespec>,
    registered: Registered,
    /// An entry of the kernel failed where there was no way to say so; the next that can says it.
    failure: Option<IoError>,
    /// The ring is this thread's.
    thread: PhantomData<*const ()>,
}

/// What raw completions are sorted into.
#[derive(Debug)]
struct Sorter {
    retained: RetainedOps,
    cancels: Cancels,
    waker: Waker,
    /// The doorbell's poll has ended and is to be submitted again.
    unarmed: bool,
    /// Whether one poll goes on ringing.
    multishot: bool,
    /// Completions that are the loop's to see and that it has not reaped.
    ready: Vec<Ready>,
}

/// A completion that was taken out of the ring before the loop asked for it.
#[derive(Debug)]
struct Ready {
    completion: RawCompletion,
    /// Its result is a descriptor.
    opens: bool,
}

/// The table of registered buffers.
#[derive(Debug, Default)]
struct Registered {
    has_table: bool,
    places: u16,
    /// Registrations fail with this `errno`, by order of the shim.
    fail: Option<i32>,
    refused: bool,
}

impl UringBackend {
    /// How often the completion queue was found overflowing. An overflow costs time and loses nothing; where it is
    /// frequent, [`BackendConfig::completion_entries`] should be larger.
    pub fn overflows(&self) -> u64 {
        self.ring.overflows()
    }

    /// Queues what the backend itself has to submit: the doorbell's poll when it has ended, held ops when they may
    /// go on, cancels that missed their op. Enters the kernel only when the queue is full.
    fn keep_house(&mut self) -> IoResult<()> {
        while self.sorter.chores() > 0 {
            if self.ring.is_full() {
                self.enter(Wait::No, OpKind::Wait)?;
                continue;
            }
            if let Some(entry) = self.sorter.next_chore(&self.lowering) {
                // SAFETY: a doorbell's and a cancel's entry point at nothing; a held op's operands are valid until
                // its terminal completion, as whoever submitted it promised.
                let pushed = unsafe { self.ring.push(&entry) };
                debug_assert!(pushed.is_ok(), "there was room");
            }
        }
        Ok(())
    }

    fn enter(&mut self, wait: Wait, kind: OpKind) -> IoResult<()> {
        let UringBackend { ring, sorter, .. } = self;
        ring.enter(wait, kind, |posted| sorter.stash(posted))
    }

    /// Waits with a deadline that is an entry of its own.
    fn wait_by_entry(&mut self, span: Duration) -> IoResult<()> {
        while self.ring.is_full() {
            self.enter(Wait::No, OpKind::Wait)?;
        }
        *self.deadline = ring::span(span);
        // SAFETY: the span lives as long as the backend, and is not written again before the kernel has read it,
        // which it does inside the entry below: `enter` is done, or the ring is, only when all was taken.
        let pushed = unsafe { self.ring.push(&ring::deadline(&self.deadline, DEADLINE)) };
        debug_assert!(pushed.is_ok(), "there was room");
        // Completions may have come with making room.
        let wait = if self.has_answers() { Wait::No } else { Wait::Forever };
        self.enter(wait, OpKind::Wait)
    }

    /// Whether a completion can be reaped without the kernel's help.
    fn has_answers(&self) -> bool {
        !self.sorter.ready.is_empty() || self.ring.has_posted() || self.pool.has_completions()
    }

    fn refuse_registration(&mut self, memory: RawSlice, error: i32) {
        if !std::mem::replace(&mut self.registered.refused, true) {
            let error = IoError::new(error, OpKind::Setup, Stage::Registration)
                .with_context("io_uring (going on without registered buffers; to have them, raise `ulimit -l`)");
            self.caps.steps.push(SetupStep { tried: format!("registering a buffer of {} bytes", memory.len), error });
        }
    }
}

impl Sorter {
    /// Gives on what the loop is to see of a raw completion. It is given on in two places, and all of it inlined: every
    /// op passes here, and a completion that is first put together in pieces and then copied whole waits for the
    /// processor.
    #[inline(always)]
    fn sort(&mut self, posted: Posted, give: impl FnOnce(RawCompletion)) {
        let Posted { word, res, more } = posted;
        if word & MARK != 0 {
            if let Some(completion) = self.sort_marked(posted) {
                give(completion);
            }
            return;
        }
        let token = Token::from_raw(word);
        let res = if res < 0 { self.refusal(token, res) } else { res };
        if !more {
            self.cancels.ended(token);
        }
        give(RawCompletion { token, res, more });
    }

    /// What an op's refusal is to the loop. The kernel interrupts one that is under way when it is cancelled, and for
    /// no other reason. One that waited for a socket too often in vain is given to a thread of the kernel's, which it
    /// may fail to start: then it is ended as cancelled, unasked, see [`retained`].
    #[cold]
    #[inline(never)]
    fn refusal(&self, token: Token, res: i32) -> i32 {
        match res {
            res if is_interrupted(res) => -errno::ECANCELED,
            res if res == -errno::ECANCELED && !self.cancels.has(token) => -errno::EAGAIN,
            res => res,
        }
    }

    #[inline(never)]
    fn sort_marked(&mut self, Posted { word, res, more }: Posted) -> Option<RawCompletion> {
        match word {
            DOORBELL => {
                if !self.multishot {
                    // A poll that is made anew finds the last ring again, unless it is taken away.
                    self.waker.drain();
                }
                self.waker.acknowledge();
                self.unarmed |= !more;
                None
            }
            DEADLINE => None,
            _ if word & CANCEL != 0 => {
                if res == -errno::ENOENT {
                    self.cancels.missed(Token::from_raw(word & !(MARK | CANCEL)));
                }
                None
            }
            _ => {
                let token = Token::from_raw(word & !MARK);
                match self.retained.completed(token, res, more) {
                    Outcome::Deliver(res) => {
                        if !more {
                            self.cancels.ended(token);
                        }
                        Some(RawCompletion { token, res, more })
                    }
                    Outcome::Held => None,
                }
            }
        }
    }

    /// The poll that completes when the waker is rung.
    fn doorbell(&self) -> squeue::Entry {
        let event = self.waker.event().unwrap_or(-1);
        let events = libc::POLLIN as u32;
        opcode::PollAdd::new(io_uring::types::Fd(event), events).multi(self.multishot).build().user_data(DOORBELL)
    }

    /// Sorts a completion the loop has not asked for yet.
    fn stash(&mut self, posted: Posted) {
        let opens = self.opens(posted);
        let mut seen = None;
        self.sort(posted, |completion| seen = Some(Ready { completion, opens }));
        self.ready.extend(seen);
    }

    /// Whether the completion brings a descriptor.
    fn opens(&self, posted: Posted) -> bool {
        let token = Token::from_raw(posted.word & !MARK);
        posted.res >= 0 && posted.word & MARK != 0 && self.retained.opens(token)
    }

    /// The op ends here, without the kernel.
    fn end(&mut self, token: Token, res: i32) {
        self.cancels.ended(token);
        self.ready.push(Ready { completion: RawCompletion { token, res, more: false }, opens: false });
    }

    /// Entries the backend has to submit for itself, at most.
    fn chores(&self) -> usize {
        usize::from(self.unarmed) + self.retained.held() + self.cancels.missed_ones()
    }

    /// The next entry the backend has to submit for itself; none when a chore is done without.
    fn next_chore(&mut self, lowering: &Lowering) -> Option<squeue::Entry> {
        if std::mem::take(&mut self.unarmed) {
            return Some(self.doorbell());
        }
        if let Some((token, next)) = self.retained.next_held(lowering) {
            return match next {
                Next::Entry(entry) => Some(entry),
                Next::Ended(res) => {
                    self.end(token, res);
                    None
                }
            };
        }
        let missed = self.cancels.next_missed()?;
        self.cancel(missed)
    }

    /// The entry that cancels an op; none when it ends without the kernel.
    fn cancel(&mut self, target: Token) -> Option<squeue::Entry> {
        let word = match self.retained.cancel(target) {
            Whereabouts::Elsewhere => target.raw(),
            Whereabouts::Kernel(word) => word,
            Whereabouts::Held => return None,
        };
        self.cancels.ask(target);
        let entry = opcode::AsyncCancel::new(word).build().user_data(MARK | CANCEL | target.raw());
        Some(entry.flags(squeue::Flags::SKIP_SUCCESS))
    }
}

/// Descriptors that came and were never reaped have no owner but the backend.
impl Drop for UringBackend {
    fn drop(&mut self) {
        // In a forked child the pool's threads are not there to be joined.
        if !self.ring.is_home() {
            return;
        }
        // SAFETY: dropped once, here, and not used again.
        unsafe { ManuallyDrop::drop(&mut self.pool) };
        // What still overflows moves into the queue as it is emptied.
        loop {
            self.ring.drain(|posted| self.sorter.stash(posted));
            if !self.ring.is_overflowing() || self.ring.collect().is_err() || !self.ring.has_posted() {
                break;
            }
        }
        for Ready { completion, opens } in self.sorter.ready.drain(..) {
            if opens {
                os::close(completion.res);
            }
        }
    }
}

impl Backend for UringBackend {
    fn open(config: &BackendConfig) -> IoResult<UringBackend> {
        let shim = &config.shim;
        let kernel = probe::kernel(shim)?;
        let setup::SetUp { ring, mode, steps } = setup::set_up(config)?;
        let mut caps = probe::probe(&ring, kernel, shim)?;
        (caps.mode, caps.steps) = (Some(mode), steps);
        let lowering = Lowering {
            native: caps.ops,
            multishot_accept: caps.has(Feature::MultishotAccept),
            write_flags: probe::write_flags(),
        };
        let waker = Waker::with_event()?;
        let sorter = Sorter {
            retained: RetainedOps::default(),
            cancels: Cancels::default(),
            waker: waker.clone(),
            unarmed: true,
            multishot: caps.has(Feature::MultishotPoll),
            ready: Vec::new(),
        };
        let mut ring = Ring::new(ring);
        if let Err(error) = ring.register_descriptor() {
            let error = IoError::new(error.raw_os_error().unwrap_or(errno::EIO), OpKind::Setup, Stage::Registration)
                .with_context("io_uring (going on with the plain descriptor)");
            caps.steps.push(SetupStep { tried: "registering the ring's descriptor".into(), error });
        }
        // The kernel's workers inherit the pin of their thread, and would wait for the loop to let them run.
        let others = affinity::others();
        if !others.is_empty()
            && let Err(error) = ring.register_worker_cpus(&others)
        {
            let error = IoError::new(error.raw_os_error().unwrap_or(errno::EIO), OpKind::Setup, Stage::Registration)
                .with_context("io_uring (going on with workers on the loop's CPU)");
            caps.steps.push(SetupStep { tried: format!("giving the workers the CPUs {others:?}"), error });
        }
        let mut backend = UringBackend {
            ring,
            caps,
            lowering,
            sorter,
            pool: ManuallyDrop::new(WorkerPool::new(waker)),
            pooled: HashSet::new(),
            deadline: Box::default(),
            registered: Registered { fail: shim.fail_registration, ..Registered::default() },
            failure: None,
            thread: PhantomData,
        };
        // Arms the doorbell, and shows that the ring can be entered.
        backend.keep_house()?;
        backend.enter(Wait::No, OpKind::Setup)?;
        Ok(backend)
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline(always)]
    unsafe fn submit(&mut self, token: Token, op: RawOp) -> Result<(), Full> {
        debug_assert_eq!(token.raw() & MARK, 0, "{token:?} is of no class");
        if self.ring.is_full() || !self.ring.is_home() {
            return Err(Full);
        }
        // SAFETY: the caller vouches for the operands until the terminal completion, which comes after the lowering,
        // after the last use of a retained copy, and after the pool is done with a job.
        unsafe {
            let entry = match lower::lower(&op, &self.lowering) {
                Lowered::Entry(entry) => entry.user_data(token.raw()),
                Lowered::Retained(entry) => entry.user_data(self.sorter.retained.keep(token, op)),
                Lowered::Pool => {
                    self.pool.submit(token, job_for(op));
                    self.pooled.insert(token);
                    return Ok(());
                }
                Lowered::Refused(errno) => {
                    self.sorter.end(token, -errno);
                    return Ok(());
                }
            };
            self.ring.push(&entry)
        }
    }

    fn cancel(&mut self, target: Token) -> Result<(), Full> {
        if self.ring.is_full() || !self.ring.is_home() {
            return Err(Full);
        }
        if self.pool.in_flight() > 0 && self.pooled.contains(&target) {
            // One that runs is left alone, and ends with its own answer.
            self.pool.cancel(target);
            return Ok(());
        }
        match self.sorter.cancel(target) {
            // SAFETY: the entry points at nothing.
            Some(entry) => unsafe { self.ring.push(&entry) },
            None => Ok(()),
        }
    }

    fn flush(&mut self) -> IoResult<()> {
        if self.failure.is_some() {
            return self.failure.take().map_or(Ok(()), Err);
        }
        self.keep_house()?;
        if self.ring.queued() > 0 || self.ring.has_task_work() || self.ring.is_overflowing() {
            self.enter(Wait::No, OpKind::Wait)?;
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Option<Duration>) -> IoResult<()> {
        if self.has_answers() || timeout == Some(Duration::ZERO) {
            // Nothing to wait for; and nothing to enter the kernel for, unless something is queued.
            return self.flush();
        }
        if self.failure.is_some() {
            return self.flush();
        }
        if self.sorter.chores() > 0 {
            self.keep_house()?;
            // A held op that was cancelled has ended.
            if self.has_answers() {
                return self.flush();
            }
        }
        match timeout {
            None => self.enter(Wait::Forever, OpKind::Wait),
            Some(span) if self.caps.has(Feature::WaitDeadline) => self.enter(Wait::For(span), OpKind::Wait),
            Some(span) => self.wait_by_entry(span),
        }
    }

    #[inline]
    fn has_completions(&mut self) -> bool {
        self.has_answers() || self.ring.has_task_work() || self.ring.is_overflowing()
    }

    fn reap(&mut self, out: &mut Vec<RawCompletion>) {
        if !self.ring.is_home() {
            return;
        }
        let before = out.len();
        if !self.sorter.ready.is_empty() {
            out.extend(self.sorter.ready.drain(..).map(|ready| ready.completion));
        }
        loop {
            let sorter = &mut self.sorter;
            out.reserve(self.ring.posted());
            self.ring.drain(|posted| sorter.sort(posted, |completion| out.push(completion)));
            // Work for the ring is left for the next entry, which every tick makes; but answering "nothing" to a
            // loop that was told there is something would have it ask for ever.
            if !(self.ring.is_overflowing() || out.len() == before && self.ring.has_task_work()) {
                break;
            }
            if let Err(error) = self.ring.collect() {
                self.failure = Some(error);
                break;
            }
            if !self.ring.has_posted() {
                break;
            }
        }
        if self.pool.in_flight() == 0 {
            return;
        }
        // After the doorbell was acknowledged: an answer pushed since then rings it again.
        let pooled = out.len();
        self.pool.reap(out);
        for completion in &out[pooled..] {
            self.pooled.remove(&completion.token);
        }
    }

    fn submission_space(&self) -> usize {
        self.ring.space()
    }

    fn unsubmitted(&self) -> usize {
        // What the backend has to submit for itself counts: a loop that never sleeps must flush for it as well.
        self.ring.queued() + self.sorter.chores()
    }

    fn waker(&self) -> Waker {
        self.sorter.waker.clone()
    }

    fn now(&self) -> Instant {
        Instant::real()
    }

    unsafe fn register_buffer(&mut self, memory: RawSlice) -> Option<u16> {
        if !self.caps.has(Feature::RegisteredBuffers) || self.registered.places == REGISTERED_BUFFERS_MAX {
            return None;
        }
        let place = self.registered.places;
        let registered = (|| {
            if let Some(errno) = self.registered.fail {
                return Err(std::io::Error::from_raw_os_error(errno));
            }
            if !self.registered.has_table {
                self.ring.register_buffer_table(REGISTERED_BUFFERS_MAX)?;
                self.registered.has_table = true;
            }
            // SAFETY: the caller vouches for the memory until the backend is closed, and the ring with it.
            unsafe { self.ring.register_buffer(place, memory) }
        })();
        match registered {
            Ok(()) => {
                self.registered.places += 1;
                Some(place)
            }
            Err(error) => {
                self.refuse_registration(memory, error.raw_os_error().unwrap_or(errno::EIO));
                None
            }
        }
    }

    // Descriptors are plain and blocking: the ring tries without waiting and arms a poll of its own.

    fn socket(&mut self, domain: socket2::Domain, kind: SocketKind) -> IoResult<Fd> {
        os::socket(domain, kind, false)
    }

    fn socket_pair(&mut self, kind: SocketKind) -> IoResult<(Fd, Fd)> {
        os::socket_pair(kind, false)
    }

    fn pipe(&mut self) -> IoResult<(Fd, Fd)> {
        os::pipe(false)
    }

    fn bind(&mut self, fd: &Fd, address: &SocketAddress) -> IoResult<()> {
        os::bind(fd, address)
    }

    fn listen(&mut self, fd: &Fd, backlog: u32) -> IoResult<()> {
        os::listen(fd, backlog)
    }

    fn local_address(&mut self, fd: &Fd) -> IoResult<SocketAddress> {
        os::local_address(fd)
    }

    fn peer_address(&mut self, fd: &Fd) -> IoResult<SocketAddress> {
        os::peer_address(fd)
    }

    fn set_socket_option(&mut self, fd: &Fd, option: SocketOption) -> IoResult<()> {
        os::set_socket_option(fd, option)
    }

    fn socket_option(&mut self, fd: &Fd, name: SocketOptionName) -> IoResult<SocketOption> {
        os::socket_option(fd, name)
    }

    unsafe fn try_send(&mut self, fd: &Fd, buf: RawSlice) -> Option<i32> {
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { os::try_send(fd, buf) }
    }

    fn adopt(&mut self, raw: RawDescriptor) -> Fd {
        Fd::system(raw)
    }

    fn foreign(&mut self, raw: RawDescriptor) -> IoResult<Fd> {
        Ok(Fd::foreign(raw))
    }

    fn has_positions(&mut self, fd: &Fd) -> IoResult<bool> {
        os::has_positions(fd)
    }

    fn try_lock(&mut self, fd: &Fd) -> IoResult<bool> {
        os::try_lock(fd)
    }

    fn unlock(&mut self, fd: &Fd) -> IoResult<()> {
        os::unlock(fd)
    }

    fn close(self) {}
}
