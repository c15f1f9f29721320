//! Kernels behind one trait that speaks completions: `(token, result, more)`.
//!
//! Two promises hold everything above together. [`Backend::submit`] answering [`Full`] means only "flush and try
//! again": a refusal by the kernel always arrives as a completion. And every submitted token ends in exactly one
//! completion without `more`, whatever happens to it on the way, cancelling included.
//!
//! The synchronous calls (sockets, addresses, options) go through the backend as well, so nothing above this folder
//! knows whether its descriptors are the operating system's or a simulated kernel's.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::error::IoResult;
use crate::plane::addr::SocketAddress;
use crate::plane::fd::{Fd, RawDescriptor};
use crate::plane::op::{RawOp, RawSlice};
use crate::plane::time::Instant;
use crate::plane::token::Token;

pub use any::AnyBackend;
pub use caps::{BackendKind, Caps, Feature, KernelVersion, Mode, ModePolicy, OpSet, SetupStep};
pub use config::{BackendConfig, Selection, Shim};
pub(crate) use pool::discard;
pub use socket::{SocketKind, SocketOption, SocketOptionName};
pub use waker::Waker;

pub(crate) mod affinity;
mod any;
mod calls;
mod caps;
mod config;
mod interrupt;
pub mod operand;
pub mod os;
pub mod poll;
mod pool;
mod process;
pub(crate) mod real_time;
pub mod sim;
mod socket;
pub(crate) mod thread;
#[cfg(target_os = "linux")]
pub mod uring;
mod waker;

/// The submission queue has no room: flush, then try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// One completion as the backend hands it to the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawCompletion {
    /// The token the op was submitted with.
    pub token: Token,
    /// A count, a descriptor, bits, 0, or `-errno`.
    pub res: i32,
    /// More completions of this token will come.
    pub more: bool,
}

/// A kernel that completes ops. One loop owns it, on one thread; only its [`Waker`] may be used elsewhere.
pub trait Backend: fmt::Debug + Sized + 'static {
    /// Sets the kernel up by the ladder of `config`.
    ///
    /// # Errors
    ///
    /// What the kernel refused, at which stage, the likely cause and the remedy.
    fn open(config: &BackendConfig) -> IoResult<Self>;

    /// What this backend has on this kernel; it never changes.
    fn caps(&self) -> &Caps;

    /// Queues an op.
    ///
    /// # Errors
    ///
    /// [`Full`] means only "flush and try again". Whatever the kernel refuses arrives as a completion.
    ///
    /// # Safety
    ///
    /// What `op` points at stays valid, and untouched, until the token's terminal completion was reaped or the
    /// backend was closed.
    unsafe fn submit(&mut self, token: Token, op: RawOp) -> Result<(), Full>;

    /// Asks for the end of an op in flight. Its terminal completion still comes: `-ECANCELED` when the cancel won,
    /// its real result when that raced ahead. The request itself has no completion anybody sees, and an unknown or
    /// ended token is ignored.
    ///
    /// # Errors
    ///
    /// [`Full`] means "flush and try again".
    fn cancel(&mut self, target: Token) -> Result<(), Full>;

    /// Hands everything queued to the kernel without waiting. An interrupted call is tried again.
    ///
    /// # Errors
    ///
    /// What made the whole queue unusable; an op's own failure is its completion.
    fn flush(&mut self) -> IoResult<()>;

    /// Hands everything queued to the kernel and waits until a completion is ready, the waker was rung, or
    /// `timeout` has passed; without a timeout, for as long as it takes. Being interrupted by a signal ends the wait
    /// early and is no error.
    ///
    /// # Errors
    ///
    /// As [`flush`](Backend::flush).
    fn wait(&mut self, timeout: Option<Duration>) -> IoResult<()>;

    /// Whether [`reap`](Backend::reap) would find something; never enters the kernel.
    fn has_completions(&mut self) -> bool;

    /// Copies every completion that is ready to the end of `out` and gives its place back; never waits.
    fn reap(&mut self, out: &mut Vec<RawCompletion>);

    /// Room for this many more submissions before [`Full`].
    fn submission_space(&self) -> usize;

    /// Ops queued and not yet handed to the kernel.
    fn unsubmitted(&self) -> usize;

    /// The door for other threads. Ringing it ends a wait, or the next one, early.
    fn waker(&self) -> Waker;

    /// This kernel's monotonic clock.
    fn now(&self) -> Instant;

    /// This kernel's wall clock, which may be set back or ahead at any time.
    fn wall_clock(&self) -> SystemTime {
        SystemTime::now()
    }

    /// Registers memory so that ops on it may name it by index; the answer is the index, or none when the kernel
    /// has no room or the feature is missing, which is no error.
    ///
    /// # Safety
    ///
    /// The memory stays valid until the backend was closed.
    unsafe fn register_buffer(&mut self, memory: RawSlice) -> Option<u16>;

    /// Makes a socket, close-on-exec.
    fn socket(&mut self, domain: socket2::Domain, kind: SocketKind) -> IoResult<Fd>;

    /// Makes a connected pair of Unix sockets.
    fn socket_pair(&mut self, kind: SocketKind) -> IoResult<(Fd, Fd)>;

    /// Makes a pipe: the end to read from, then the end to write to.
    fn pipe(&mut self) -> IoResult<(Fd, Fd)>;

    /// Binds a socket to an address.
    fn bind(&mut self, fd: &Fd, address: &SocketAddress) -> IoResult<()>;

    /// Starts to listen.
    fn listen(&mut self, fd: &Fd, backlog: u32) -> IoResult<()>;

    /// The address a socket is bound to.
    fn local_address(&mut self, fd: &Fd) -> IoResult<SocketAddress>;

    /// The address a socket is connected to.
    fn peer_address(&mut self, fd: &Fd) -> IoResult<SocketAddress>;

    /// Sets a socket option.
    fn set_socket_option(&mut self, fd: &Fd, option: SocketOption) -> IoResult<()>;

    /// Reads a socket option.
    fn socket_option(&mut self, fd: &Fd, name: SocketOptionName) -> IoResult<SocketOption>;

    /// Sends at once what can be sent without waiting: a count or `-errno`; none when nothing can, or when this
    /// backend would rather have it submitted.
    ///
    /// # Safety
    ///
    /// The memory is valid for reading during the call.
    unsafe fn try_send(&mut self, fd: &Fd, buf: RawSlice) -> Option<i32>;

    /// Takes ownership of a descriptor that one of this kernel's completions brought.
    fn adopt(&mut self, raw: RawDescriptor) -> Fd;

    /// Whether a descriptor is this kernel's own: another's number means another thing here.
    fn owns(&self, fd: &Fd) -> bool {
        fd.is_system()
    }

    /// Takes a descriptor of the operating system into use without ever closing it.
    ///
    /// On io_uring a read that the descriptor itself ends with `ECANCELED`, as a timer's descriptor does when the clock
    /// is set (`TFD_TIMER_CANCEL_ON_SET`), looks like one the kernel could not start, and is made again. Such a
    /// descriptor is waited for with a [`Poll`](crate::plane::ops::Poll), and read by whoever owns it.
    ///
    /// # Errors
    ///
    /// A simulated kernel has no such descriptors and says so.
    fn foreign(&mut self, raw: RawDescriptor) -> IoResult<Fd>;

    /// Whether reads and writes of a descriptor may name their place: a regular file's, a directory's, a block device's
    /// may; a pipe, a socket, a terminal gives and takes what comes next. Never waits.
    fn has_positions(&mut self, fd: &Fd) -> IoResult<bool>;

    /// Locks what a descriptor has open, exclusively; false when another opening of it has the lock. The lock ends with
    /// the descriptor. Never waits.
    fn try_lock(&mut self, fd: &Fd) -> IoResult<bool>;

    /// Takes the lock of [`try_lock`](Backend::try_lock) off, whoever else still has a share of the descriptor: an op
    /// in flight, or a child that was forked and has not replaced its image yet. Never waits.
    fn unlock(&mut self, fd: &Fd) -> IoResult<()>;

    /// Ends the backend. Ops still in flight may never complete; the caller has drained them, or leaks what they
    /// point at.
    fn close(self);
}
