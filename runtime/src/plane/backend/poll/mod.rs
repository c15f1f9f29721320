//! The readiness backend: completions made from readiness, epoll on Linux.
//!
//! An op waits in its descriptor's queue (`source`) until [`flush`](Backend::flush) tries it (`turns`, `perform`); when
//! it would wait, the poller watches the descriptor (`watcher`), and an event makes the queue ready to be tried again.
//! Whatever has no readiness (files, paths, jobs) runs on the worker pool. All roads end in one list of completions,
//! each token's last one leaving it once.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{IoError, IoResult, OpKind, errno};
use crate::plane::addr::SocketAddress;
use crate::plane::backend::pool::{WorkerPool, job_for};
use crate::plane::backend::{
    Backend, BackendConfig, BackendKind, Caps, Feature, Full, KernelVersion, OpSet, RawCompletion, SetupStep,
    SocketKind, SocketOption, SocketOptionName, Waker, calls, os,
};
use crate::plane::fd::{Fd, RawDescriptor};
use crate::plane::op::{NO_OFFSET, RawOp, RawSlice};
use crate::plane::time::Instant;
use crate::plane::token::Token;
use source::{Departure, Departures, Kind, Pending, Side, Source};
use watcher::Watcher;

mod perform;
mod source;
mod turns;
mod watcher;

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
    watcher: Watcher,
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
        let mut backend = match PollBackend::open(config) {
            Ok(backend) => backend,
            Err(error) => {
                let context = format!("{}; and before it was tried, io_uring was refused: {refusal}", error.context());
                return Err(error.with_context(context));
            }
        };
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

    /// Closes the books of a descriptor. Ops keep theirs open, so none waits, unless somebody broke the promise to
    /// keep a foreign one open; then it ends.
    fn forget(&mut self, fd: RawDescriptor, still_open: bool) {
        let Some(source) = self.take_source(fd) else { return };
        if still_open && source.key.is_some() {
            self.watcher.unwatch(fd);
        }
        for queue in [&source.reads, &source.writes] {
            for (at, pending) in queue.ops.iter().enumerate() {
                self.places.remove(&pending.token);
                // What the pool has ends when the pool gives it back.
                if at > 0 || !queue.in_pool {
                    self.complete(pending.token, -errno::ECANCELED);
                }
            }
        }
        for (token, _) in &source.polls {
            self.places.remove(token);
            self.complete(*token, -errno::ECANCELED);
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
}

impl Backend for PollBackend {
    /// Sets the poller up.
    ///
    /// # Errors
    ///
    /// No descriptors or memory for the poller and the waker.
    fn open(config: &BackendConfig) -> IoResult<PollBackend> {
        let kernel = os::kernel();
        let mut caps = Caps::new(BackendKind::Epoll, config.shim.kernel.unwrap_or(kernel));
        caps.ops = NATIVE.minus(config.shim.hidden_ops);
        for feature in [Feature::MultishotAccept, Feature::WaitDeadline, Feature::NoDrop] {
            caps.set(feature, !config.shim.hides(feature));
        }
        let since = |release| caps.kernel >= release;
        let waker = Waker::with_event()?;
        Ok(PollBackend {
            watcher: Watcher::new(&waker, since(PRECISE_WAIT))?,
            sources: Vec::new(),
            places: HashMap::default(),
            listed: Vec::new(),
            stalled: Vec::new(),
            done: Vec::new(),
            returned: Vec::new(),
            pool: WorkerPool::new(waker.clone()),
            waker,
            departures: Arc::default(),
            no_nowait: !since(NOWAIT_STREAMS),
            no_signal_flag: since(NO_SIGNAL_FLAG),
            caps,
            unflushed: 0,
            entries: config.submission_entries.clamp(1, 1 << 15).next_power_of_two() as usize,
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
            // A disk is never waited for here.
            RawOp::WriteDurable { .. }
            | RawOp::Open { .. }
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
            let interrupted = !self.watcher.wait(span)?;
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
