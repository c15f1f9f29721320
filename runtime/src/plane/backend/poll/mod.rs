//! The readiness backend: completions made from readiness, epoll on Linux.
//!
//! An op waits in its descriptor's queue ([`source`]) until [`flush`](Backend::flush) tries it ([`perform`]); when it
//! would wait, the poller watches the descriptor, and an event makes the queue ready to be tried again. Whatever has
//! no readiness (files, paths, jobs) runs on the worker pool. Both roads end in the same list of completions, each
//! token's last one leaving it once.
//!
//! A descriptor is registered once, for both directions, by edges; that costs a system call per connection instead of
//! one per wait. The poller's registrations are `polling`'s; the wait itself is one `epoll_pwait2` on its descriptor,
//! where the crate's own takes five system calls, to be woken from elsewhere and to time out; both are done here by
//! other means.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use polling::{Event, PollMode, Poller};

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::plane::addr::SocketAddress;
use crate::plane::backend::pool::{WorkerPool, job_for};
use crate::plane::backend::{
    Backend, BackendConfig, BackendKind, Caps, Feature, Full, KernelVersion, OpSet, RawCompletion, SetupStep,
    SocketKind, SocketOption, SocketOptionName, Waker, calls, os,
};
use crate::plane::fd::{Fd, RawDescriptor};
use crate::plane::op::{NO_OFFSET, RawOp, RawSlice, Readiness};
use crate::plane::time::Instant;
use crate::plane::token::Token;
use perform::Outcome;
use source::{Departure, Departures, Kind, Pending, Side, Source};

mod perform;
mod source;

/// The poller's key of the waker's event; no descriptor has it.
const WAKE_KEY: usize = usize::MAX - 1;
/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;
/// Attempts on one side of one descriptor before the others get their turn.
const ATTEMPTS_MAX: u32 = 64;
/// How often to try what no event announces.
const STALLED_RETRY: Duration = Duration::from_millis(1);
/// A read of at most this many bytes may be served from the page cache on the loop itself.
const CACHED_READ_BYTES_MAX: u32 = 128 * 1024;

/// Kernels from these on have epoll_pwait2, take RWF_NOWAIT on pipes and devices, and take RWF_NOSIGNAL.
const PRECISE_WAIT: KernelVersion = KernelVersion { major: 5, minor: 11 };
const NOWAIT_STREAMS: KernelVersion = KernelVersion { major: 6, minor: 4 };
const NO_SIGNAL_FLAG: KernelVersion = KernelVersion { major: 6, minor: 18 };

/// What the poller does itself; the rest is the worker pool's.
const NATIVE: OpSet = OpSet::EMPTY
    .with(OpKind::Nop)
    .with(OpKind::Recv)
    .with(OpKind::Send)
    .with(OpKind::RecvFrom)
    .with(OpKind::SendTo)
    .with(OpKind::Accept)
    .with(OpKind::Connect)
    .with(OpKind::Shutdown)
    .with(OpKind::Poll);

/// The readiness backend.
pub struct PollBackend {
    poller: Poller,
    events: Vec<libc::epoll_event>,
    /// By descriptor number.
    sources: Vec<Option<Box<Source>>>,
    /// Where each op in a queue waits.
    places: HashMap<Token, Place, BuildHasherDefault<TokenHasher>>,
    /// Sources with something to try.
    listed: Vec<RawDescriptor>,
    /// Sources whose try would wait for something no event announces.
    stalled: Vec<(RawDescriptor, Side)>,
    done: Vec<Done>,
    /// What the pool gave back, on its way into `done`.
    returned: Vec<Done>,
    pool: WorkerPool,
    waker: Waker,
    departures: Arc<Departures>,
    caps: Caps,
    /// Ops taken since the last flush, and how many may be: the same bound as a ring of that size has, so that what
    /// runs on one kernel runs on the other.
    unflushed: usize,
    entries: usize,
    /// Registrations made so far, for keys that no older event can have.
    registrations: u32,
    /// The kernel has epoll_pwait2.
    waits_precisely: bool,
    /// The kernel knows RWF_NOWAIT on files alone.
    no_nowait: bool,
    /// The kernel has RWF_NOSIGNAL.
    no_signal_flag: bool,
}

/// Where an op waits.
#[derive(Clone, Copy, Debug)]
enum Place {
    Queue(RawDescriptor, Side),
    Polls(RawDescriptor),
}

/// A completion nobody has reaped.
#[derive(Debug)]
struct Done {
    completion: RawCompletion,
    /// Its result is a descriptor nobody owns yet.
    opens: bool,
}

/// Tokens are packed words whose low half differs: one multiplication spreads them.
#[derive(Default)]
struct TokenHasher(u64);

impl Hasher for TokenHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

impl PollBackend {
    /// Sets the poller up after io_uring was refused, keeping the refusal among the steps of its [`Caps`].
    ///
    /// # Errors
    ///
    /// As [`Backend::open`].
    pub fn open_after(config: &BackendConfig, refusal: IoError) -> IoResult<PollBackend> {
        let mut backend = PollBackend::open(config)?;
        backend.caps.steps.push(SetupStep { tried: "io_uring".into(), error: refusal });
        Ok(backend)
    }

    fn complete(&mut self, token: Token, res: i32) {
        self.done.push(Done { completion: RawCompletion { token, res, more: false }, opens: false });
    }

    /// The books of a descriptor, begun when there are none; none for a number that cannot be a descriptor.
    fn source(&mut self, fd: RawDescriptor) -> Option<&mut Source> {
        let index = usize::try_from(fd).ok()?;
        if index >= self.sources.len() {
            // The table grows with what the system gives out, never with a number somebody made up.
            if !perform::is_open(fd) {
                return None;
            }
            self.sources.resize_with((index + 1).next_power_of_two(), || None);
        }
        let unknown = || Box::new(Source::new(false, Kind::Unknown, false, self.no_nowait));
        Some(self.sources[index].get_or_insert_with(unknown))
    }

    /// The books of a descriptor, where there are some.
    fn known(&mut self, fd: RawDescriptor) -> Option<&mut Source> {
        self.sources.get_mut(usize::try_from(fd).ok()?)?.as_deref_mut()
    }

    fn take_source(&mut self, fd: RawDescriptor) -> Option<Box<Source>> {
        self.sources.get_mut(usize::try_from(fd).ok()?)?.take()
    }

    fn put_source(&mut self, fd: RawDescriptor, source: Box<Source>) {
        self.sources[fd as usize] = Some(source);
    }

    /// Owns a descriptor of which nothing is known but this.
    fn own(&mut self, fd: &Fd, kind: Kind, nonblocking: bool) {
        self.settle_departures();
        self.forget(fd.raw(), false);
        let no_nowait = self.no_nowait;
        if let Some(source) = self.source(fd.raw()) {
            *source = Source::new(true, kind, nonblocking, no_nowait);
        }
    }

    /// Makes a descriptor's own `Fd`.
    fn watched(&mut self, raw: RawDescriptor, kind: Kind, nonblocking: bool) -> Fd {
        let fd = Fd::watched(raw, self.departures.clone());
        self.own(&fd, kind, nonblocking);
        fd
    }

    /// Takes a plain `Fd` that was just made over as one of this backend's own.
    fn made(&mut self, fd: Fd, kind: Kind) -> Fd {
        match fd.into_raw() {
            Ok(raw) => self.watched(raw, kind, true),
            Err(shared) => shared,
        }
    }

    fn settle_departures(&mut self) {
        for departure in self.departures.take() {
            match departure {
                // The system forgets a closed descriptor's registration; the books follow.
                Departure::Closed(fd) => self.forget(fd, false),
                Departure::Released(fd) => self.forget(fd, true),
            }
        }
    }

    /// Closes the books of a descriptor. Ops keep their descriptor open, so none waits; if one does, it ends.
    fn forget(&mut self, fd: RawDescriptor, still_open: bool) {
        let Some(source) = self.take_source(fd) else { return };
        debug_assert!(source.is_idle(), "descriptor {fd} left with ops waiting: {source:?}");
        if still_open && source.key.is_some() {
            self.unregister(fd);
        }
        let queued = source.reads.ops.iter().chain(&source.writes.ops).map(|pending| pending.token);
        for token in queued.chain(source.polls.iter().map(|(token, _)| *token)) {
            self.places.remove(&token);
            self.complete(token, -errno::ECANCELED);
        }
    }

    /// What a descriptor is, asked once while it stays the same.
    fn kind(&mut self, fd: RawDescriptor) -> Result<Kind, i32> {
        match self.source(fd) {
            None => Err(errno::EBADF),
            Some(source) if source.kind != Kind::Unknown => Ok(source.kind),
            Some(source) => {
                source.kind = perform::kind_of(fd)?;
                Ok(source.kind)
            }
        }
    }

    fn enqueue(&mut self, fd: RawDescriptor, side: Side, token: Token, op: RawOp) {
        let Some(source) = self.source(fd) else { return self.complete(token, -errno::EBADF) };
        source.queue(side).ops.push_back(Pending::new(token, op));
        self.places.insert(token, Place::Queue(fd, side));
        self.list(fd);
    }

    fn list(&mut self, fd: RawDescriptor) {
        if let Some(source) = self.known(fd)
            && !source.listed
        {
            source.listed = true;
            self.listed.push(fd);
        }
    }

    /// A read or write: of a stream it waits for its turn; of a file the pool does it, in order only when it uses
    /// the file's own position.
    ///
    /// # Safety
    ///
    /// As [`Backend::submit`].
    unsafe fn transfer(&mut self, fd: RawDescriptor, side: Side, offset: u64, token: Token, op: RawOp) {
        match self.kind(fd) {
            Err(errno) => self.complete(token, -errno),
            Ok(Kind::File) if offset != NO_OFFSET => {
                if let RawOp::Read { buf, .. } = op
                    && buf.len <= CACHED_READ_BYTES_MAX
                {
                    // SAFETY: the caller vouches for the memory.
                    if let Some(res) = unsafe { perform::read_cached(fd, buf, offset) } {
                        return self.complete(token, res);
                    }
                }
                // SAFETY: the caller vouches for the operands until the token is reaped.
                self.pool.submit(token, unsafe { job_for(op) });
            }
            Ok(_) => self.enqueue(fd, side, token, op),
        }
    }

    /// Tries what waits on a descriptor, as far as it is ready.
    fn advance(&mut self, fd: RawDescriptor) {
        let Some(mut source) = self.take_source(fd) else { return };
        source.listed = false;
        let again = self.advance_side(fd, &mut source, Side::Read) | self.advance_side(fd, &mut source, Side::Write);
        self.advance_polls(fd, &mut source);
        if !source.owned && source.is_idle() {
            if source.key.take().is_some() {
                self.unregister(fd);
            }
            source.unlearn(self.no_nowait);
        }
        self.put_source(fd, source);
        if again {
            self.list(fd);
        }
    }

    /// Tries one side's ops in order; true when the turn ended before the ops did.
    fn advance_side(&mut self, fd: RawDescriptor, source: &mut Source, side: Side) -> bool {
        let mut attempts = 0;
        loop {
            let nature = source.nature();
            let queue = source.queue(side);
            if !queue.ready || queue.in_pool {
                return false;
            }
            let Some(pending) = queue.ops.front_mut() else { return false };
            if attempts == ATTEMPTS_MAX {
                return true;
            }
            attempts += 1;
            let token = pending.token;
            // SAFETY: the op is in its queue, so its terminal completion was not reaped, and its submitter vouched
            // for its operands until then.
            match unsafe { perform::attempt(nature, self.no_signal_flag, pending) } {
                Outcome::Done(res) => self.end_first(source, side, res),
                Outcome::More(res) => self.accepted(token, res),
                Outcome::Part => {}
                Outcome::NoNowait => source.no_nowait = true,
                Outcome::Stalled => {
                    queue.ready = false;
                    self.stalled.push((fd, side));
                }
                Outcome::Wait => {
                    queue.ready = false;
                    self.watch(fd, source, side);
                }
                Outcome::Watch => self.watch(fd, source, side),
                Outcome::Pool => {
                    queue.in_pool = true;
                    let op = pending.op;
                    // SAFETY: as above; the op leaves the queue when the pool gives it back.
                    self.pool.submit(token, unsafe { job_for(op) });
                }
            }
        }
    }

    fn end_first(&mut self, source: &mut Source, side: Side, res: i32) {
        if let Some(pending) = source.queue(side).ops.pop_front() {
            self.places.remove(&pending.token);
            let opens = matches!(pending.op, RawOp::Accept { .. }) && res >= 0;
            self.done.push(Done { completion: RawCompletion { token: pending.token, res, more: false }, opens });
        }
    }

    fn accepted(&mut self, token: Token, res: i32) {
        self.done.push(Done { completion: RawCompletion { token, res, more: true }, opens: true });
    }

    /// Sees to it that the poller watches a descriptor. What it refuses to watch is left to the pool, and any other
    /// refusal ends the op that wanted to wait.
    fn watch(&mut self, fd: RawDescriptor, source: &mut Source, side: Side) {
        match self.register(fd, source) {
            Ok(()) => {
                let alone = source.owned && !source.nonblocking && matches!(source.kind, Kind::Pipe | Kind::Device);
                if alone && source.no_nowait {
                    source.nonblocking = perform::make_nonblocking(fd);
                }
            }
            Err(libc::EPERM) => {
                source.kind = Kind::File;
                source.queue(side).ready = true;
            }
            Err(errno) => {
                source.queue(side).ready = true;
                self.end_first(source, side, -errno);
            }
        }
    }

    fn register(&mut self, fd: RawDescriptor, source: &mut Source) -> Result<(), i32> {
        if source.key.is_some() {
            return Ok(());
        }
        self.registrations = self.registrations.wrapping_add(1);
        let event = Event::all(source::key(self.registrations, fd));
        // SAFETY: epoll forgets a descriptor by itself when it is closed, and `forget` or `advance` removes one that
        // stays open; an event of a registration that is gone resolves to nothing by its key.
        let mut added = unsafe { self.poller.add_with_mode(fd, event, PollMode::Edge) };
        if added.as_ref().is_err_and(|error| error.raw_os_error() == Some(errno::EEXIST)) {
            // A registration of an earlier life of this very open file; it is ours now.
            // SAFETY: the descriptor is open while ops wait on it.
            let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
            added = self.poller.modify_with_mode(borrowed, event, PollMode::Edge);
        }
        added.map_err(|error| error.raw_os_error().unwrap_or(errno::EIO))?;
        source.key = Some(event.key);
        Ok(())
    }

    fn unregister(&self, fd: RawDescriptor) {
        if fd >= 0 {
            // SAFETY: the call only looks the number up; one that is closed by now is refused, which is as good.
            let _ = self.poller.delete(unsafe { BorrowedFd::borrow_raw(fd) });
        }
    }

    /// Answers the poll ops of a descriptor that is ready for them.
    fn advance_polls(&mut self, fd: RawDescriptor, source: &mut Source) {
        if source.polls.is_empty() {
            return;
        }
        // Registered first, asked second: what changes after the question is an event.
        let refusal = match self.register(fd, source) {
            // What no poller watches is always ready, as poll(2) says.
            Ok(()) | Err(libc::EPERM) => None,
            Err(errno) => Some(-errno),
        };
        let mut at = 0;
        while let Some(&(token, wanted)) = source.polls.get(at) {
            let res = refusal.unwrap_or_else(|| perform::ready_now(fd, wanted).map_or_else(|e| -e, Readiness::to_bits));
            if res == 0 {
                at += 1;
                continue;
            }
            source.polls.remove(at);
            self.places.remove(&token);
            self.complete(token, res);
        }
    }

    /// Takes what the pool finished: the first op of a queue, or an op of its own.
    fn take_returned(&mut self) {
        let mut returned = std::mem::take(&mut self.returned);
        returned.extend(self.pool.finished().map(|(completion, opens)| Done { completion, opens }));
        for done in returned.drain(..) {
            match self.places.get(&done.completion.token) {
                Some(&Place::Queue(fd, side)) => self.come_back(fd, side, done.completion),
                _ => self.done.push(done),
            }
        }
        self.returned = returned;
    }

    /// The pool has ended its try of a queue's first op.
    fn come_back(&mut self, fd: RawDescriptor, side: Side, completion: RawCompletion) {
        let Some(mut source) = self.take_source(fd) else { return };
        let queue = source.queue(side);
        queue.in_pool = false;
        if let Some(first) = queue.ops.front() {
            let goes_on = match first.op {
                RawOp::Accept { multishot, .. } => multishot && completion.res >= 0,
                _ => false,
            };
            let again = completion.res == -errno::EAGAIN;
            let cancelled = first.cancelled;
            if goes_on {
                self.accepted(completion.token, completion.res);
            }
            if (goes_on || again) && cancelled {
                self.end_first(&mut source, side, -errno::ECANCELED);
            } else if !goes_on && !again {
                self.end_first(&mut source, side, completion.res);
            }
        }
        self.put_source(fd, source);
        self.list(fd);
    }

    /// Waits for events, at most so long; false when a signal interrupted.
    fn poll(&mut self, timeout: Option<Duration>) -> IoResult<bool> {
        let (epoll, buffer, room) = (self.poller.as_raw_fd(), self.events.as_mut_ptr(), EVENTS_MAX as libc::c_int);
        let mut count = -1;
        if self.waits_precisely {
            let spec = timeout.map(|span| libc::timespec {
                tv_sec: libc::time_t::try_from(span.as_secs()).unwrap_or(libc::time_t::MAX),
                tv_nsec: span.subsec_nanos() as _,
            });
            let spec = spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
            let no_mask = std::ptr::null::<libc::sigset_t>();
            // SAFETY: the buffer has room for this many events; the time lives during the call; no mask is given.
            count = unsafe { libc::syscall(libc::SYS_epoll_pwait2, epoll, buffer, room, spec, no_mask, 0usize) } as i32;
            // Older than 5.11, or a filter that does not know the call.
            self.waits_precisely = count >= 0 || !matches!(calls::last_errno(), errno::ENOSYS | libc::EPERM);
        }
        if !self.waits_precisely {
            let millis =
                timeout.map_or(-1, |span| i32::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX));
            // SAFETY: the buffer has room for this many events.
            count = unsafe { libc::epoll_wait(epoll, buffer, room, millis) };
        }
        if count < 0 {
            return match calls::last_errno() {
                errno::EINTR => Ok(false),
                errno => Err(IoError::new(errno, OpKind::Wait, Stage::Completion).with_context("epoll")),
            };
        }
        // SAFETY: the kernel wrote this many events, and the capacity is at least that.
        unsafe { self.events.set_len(count as usize) };
        Ok(true)
    }

    /// Makes the queues of descriptors with events ready, and tries them.
    fn dispatch(&mut self) {
        const READABLE: u32 = (libc::EPOLLIN | libc::EPOLLPRI | libc::EPOLLHUP | libc::EPOLLERR) as u32;
        const WRITABLE: u32 = (libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR) as u32;
        for at in 0..self.events.len() {
            let libc::epoll_event { events, u64: key } = self.events[at];
            let key = key as usize;
            let fd = source::descriptor(key);
            let Some(source) = self.known(fd).filter(|source| source.key == Some(key)) else { continue };
            source.reads.ready |= events & READABLE != 0;
            source.writes.ready |= events & WRITABLE != 0;
            if !source.is_idle() {
                self.advance(fd);
            }
        }
        self.events.clear();
    }

    /// Tries again what no event announces.
    fn retry_stalled(&mut self) {
        for (fd, side) in std::mem::take(&mut self.stalled) {
            if let Some(source) = self.known(fd) {
                source.queue(side).ready = true;
                self.list(fd);
            }
        }
    }

    fn try_listed(&mut self) {
        let mut listed = std::mem::take(&mut self.listed);
        for fd in listed.drain(..) {
            self.advance(fd);
        }
        // What was listed again meanwhile has had its turn.
        listed.append(&mut self.listed);
        self.listed = listed;
    }
}

impl Backend for PollBackend {
    /// Sets the poller up.
    ///
    /// # Errors
    ///
    /// No descriptors or memory for the poller and the waker.
    fn open(config: &BackendConfig) -> IoResult<PollBackend> {
        let refused = |error: std::io::Error| {
            IoError::new(error.raw_os_error().unwrap_or(0), OpKind::Setup, Stage::Setup)
                .with_context("epoll: the loop's poller needs four descriptors; raise `ulimit -n`")
        };
        let poller = Poller::new().map_err(refused)?;
        let waker = Waker::with_event()?;
        if let Some(event) = waker.event() {
            // SAFETY: the waker is kept, and so its event, for as long as the poller.
            unsafe { poller.add_with_mode(event, Event::readable(WAKE_KEY), PollMode::Edge) }.map_err(refused)?;
        }
        let kernel = os::kernel();
        let mut caps = Caps::new(BackendKind::Epoll, config.shim.kernel.unwrap_or(kernel));
        caps.ops = NATIVE.minus(config.shim.hidden_ops);
        for feature in [Feature::MultishotAccept, Feature::WaitDeadline, Feature::NoDrop] {
            caps.set(feature, !config.shim.hides(feature));
        }
        let since = |release| caps.kernel >= release;
        Ok(PollBackend {
            poller,
            events: Vec::with_capacity(EVENTS_MAX),
            sources: Vec::new(),
            places: HashMap::default(),
            listed: Vec::new(),
            stalled: Vec::new(),
            done: Vec::new(),
            returned: Vec::new(),
            pool: WorkerPool::new(waker.clone()),
            waker,
            departures: Arc::default(),
            waits_precisely: since(PRECISE_WAIT),
            no_nowait: !since(NOWAIT_STREAMS),
            no_signal_flag: since(NO_SIGNAL_FLAG),
            caps,
            unflushed: 0,
            entries: config.submission_entries.clamp(1, 1 << 15).next_power_of_two() as usize,
            registrations: 0,
        })
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    unsafe fn submit(&mut self, token: Token, op: RawOp) -> Result<(), Full> {
        if self.unflushed == self.entries {
            return Err(Full);
        }
        self.unflushed += 1;
        self.settle_departures();
        match op {
            RawOp::Nop => self.complete(token, 0),
            RawOp::Recv { fd, .. } | RawOp::RecvFrom { fd, .. } | RawOp::Accept { fd, .. } => {
                self.enqueue(fd, Side::Read, token, op);
            }
            RawOp::Send { fd, .. } | RawOp::SendTo { fd, .. } | RawOp::Connect { fd, .. } => {
                self.enqueue(fd, Side::Write, token, op);
            }
            RawOp::Read { fd, offset, .. } | RawOp::ReadVectored { fd, offset, .. } => {
                // SAFETY: the caller's promise is passed on.
                unsafe { self.transfer(fd, Side::Read, offset, token, op) };
            }
            RawOp::Write { fd, offset, .. } | RawOp::WriteVectored { fd, offset, .. } => {
                // SAFETY: the caller's promise is passed on.
                unsafe { self.transfer(fd, Side::Write, offset, token, op) };
            }
            RawOp::Poll { fd, wanted } => match self.source(fd) {
                None => self.complete(token, -errno::EBADF),
                Some(source) => {
                    source.polls.push((token, wanted));
                    self.places.insert(token, Place::Polls(fd));
                    self.list(fd);
                }
            },
            RawOp::Shutdown { fd, half } => {
                // What was submitted before it comes before it, as far as it does not wait.
                self.advance(fd);
                self.complete(token, calls::shutdown(fd, half));
            }
            RawOp::Close { fd } => {
                let kind = self.kind(fd).unwrap_or(Kind::Unknown);
                self.forget(fd, false);
                match perform::close(fd, kind) {
                    Some(res) => self.complete(token, res),
                    // SAFETY: the op has no operands.
                    None => self.pool.submit(token, unsafe { job_for(op) }),
                }
            }
            RawOp::Open { .. }
            | RawOp::StatFd { .. }
            | RawOp::StatPath { .. }
            | RawOp::Sync { .. }
            | RawOp::Allocate { .. }
            | RawOp::Truncate { .. }
            | RawOp::Rename { .. }
            | RawOp::Unlink { .. }
            | RawOp::Mkdir { .. }
            | RawOp::ReadDir { .. }
            | RawOp::Job { .. } => {
                // SAFETY: the caller vouches for the operands until the token is reaped.
                self.pool.submit(token, unsafe { job_for(op) });
            }
        }
        Ok(())
    }

    fn cancel(&mut self, target: Token) -> Result<(), Full> {
        if self.unflushed == self.entries {
            return Err(Full);
        }
        match self.places.get(&target).copied() {
            // One of the pool's own, or nothing.
            None => drop(self.pool.cancel(target)),
            Some(Place::Polls(fd)) => {
                if let Some(source) = self.known(fd) {
                    source.polls.retain(|(token, _)| *token != target);
                }
                self.places.remove(&target);
                self.complete(target, -errno::ECANCELED);
                // Nobody may be left to watch it for.
                self.list(fd);
            }
            Some(Place::Queue(fd, side)) => {
                let Some(source) = self.known(fd) else { return Ok(()) };
                let queue = source.queue(side);
                let Some(at) = queue.ops.iter().position(|pending| pending.token == target) else { return Ok(()) };
                if at == 0 && queue.in_pool {
                    // It ends when the pool gives it back, which it does at once when it has not begun.
                    queue.ops[0].cancelled = true;
                    self.pool.cancel(target);
                    return Ok(());
                }
                let sent = queue.ops.remove(at).map_or(0, |pending| pending.sent);
                self.places.remove(&target);
                self.complete(target, if sent > 0 { sent as i32 } else { -errno::ECANCELED });
                self.list(fd);
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> IoResult<()> {
        self.unflushed = 0;
        self.settle_departures();
        self.take_returned();
        self.try_listed();
        Ok(())
    }

    fn wait(&mut self, timeout: Option<Duration>) -> IoResult<()> {
        self.flush()?;
        let until = timeout.filter(|span| !span.is_zero()).map(|span| Instant::real() + span);
        let mut left = timeout;
        loop {
            // The kernel is asked even when there is something to reap, or a busy loop would starve the others.
            let at_once = self.has_completions() || !self.listed.is_empty() || self.waker.is_rung();
            let mut span = if at_once { Some(Duration::ZERO) } else { left };
            if !self.stalled.is_empty() {
                span = Some(span.map_or(STALLED_RETRY, |span| span.min(STALLED_RETRY)));
            }
            let interrupted = !self.poll(span)?;
            let rung = self.waker.is_rung();
            if rung {
                self.waker.acknowledge();
            }
            self.dispatch();
            self.retry_stalled();
            self.flush()?;
            if at_once || rung || interrupted || self.has_completions() || !self.listed.is_empty() {
                return Ok(());
            }
            // Events that completed nothing end no wait.
            if timeout.is_some() {
                left = Some(until.map_or(Duration::ZERO, |until| until - Instant::real()));
            }
            if left == Some(Duration::ZERO) {
                return Ok(());
            }
        }
    }

    fn has_completions(&mut self) -> bool {
        !self.done.is_empty() || self.pool.has_completions()
    }

    fn reap(&mut self, out: &mut Vec<RawCompletion>) {
        self.take_returned();
        out.extend(self.done.drain(..).map(|done| done.completion));
    }

    fn submission_space(&self) -> usize {
        self.entries - self.unflushed
    }

    fn unsubmitted(&self) -> usize {
        self.unflushed.max(self.listed.len())
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn now(&self) -> Instant {
        Instant::real()
    }

    unsafe fn register_buffer(&mut self, _memory: RawSlice) -> Option<u16> {
        None
    }

    fn socket(&mut self, domain: socket2::Domain, kind: SocketKind) -> IoResult<Fd> {
        let fd = os::socket(domain, kind, true)?;
        Ok(self.made(fd, Kind::Socket))
    }

    fn socket_pair(&mut self, kind: SocketKind) -> IoResult<(Fd, Fd)> {
        let (one, other) = os::socket_pair(kind, true)?;
        Ok((self.made(one, Kind::Socket), self.made(other, Kind::Socket)))
    }

    fn pipe(&mut self) -> IoResult<(Fd, Fd)> {
        let (reader, writer) = os::pipe(true)?;
        Ok((self.made(reader, Kind::Pipe), self.made(writer, Kind::Pipe)))
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
        self.settle_departures();
        if self.known(fd.raw()).is_some_and(|source| !source.writes.ops.is_empty()) {
            // It would overtake what waits.
            return None;
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { os::try_send(fd, buf) }
    }

    fn adopt(&mut self, raw: RawDescriptor) -> Fd {
        self.watched(raw, Kind::Unknown, false)
    }

    fn foreign(&mut self, raw: RawDescriptor) -> IoResult<Fd> {
        Ok(Fd::foreign(raw))
    }

    fn close(self) {}
}

impl Drop for PollBackend {
    fn drop(&mut self) {
        self.departures.end();
        for done in self.done.drain(..) {
            if done.opens && done.completion.res >= 0 {
                os::close(done.completion.res);
            }
        }
    }
}

impl fmt::Debug for PollBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PollBackend")
            .field("waiting", &self.places.len())
            .field("done", &self.done.len())
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}
