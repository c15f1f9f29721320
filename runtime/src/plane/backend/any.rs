//! The three kernels behind one type: a predictable branch instead of a vtable.

use std::net::Ipv4Addr;
use std::time::{Duration, SystemTime};

use crate::error::IoResult;
use crate::plane::addr::SocketAddress;
use crate::plane::backend::caps::Caps;
use crate::plane::backend::config::{BackendConfig, Selection};
use crate::plane::backend::poll::PollBackend;
use crate::plane::backend::sim::SimBackend;
use crate::plane::backend::socket::{SocketKind, SocketOption, SocketOptionName};
#[cfg(target_os = "linux")]
use crate::plane::backend::uring::UringBackend;
use crate::plane::backend::waker::Waker;
use crate::plane::backend::{Backend, Full, RawCompletion};
use crate::plane::fd::{Fd, RawDescriptor};
use crate::plane::op::{RawOp, RawSlice};
use crate::plane::time::Instant;
use crate::plane::token::Token;

/// Whichever kernel was selected.
// One per loop, never moved in its life: a box would cost an indirection per op and save nothing.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub enum AnyBackend {
    /// io_uring.
    #[cfg(target_os = "linux")]
    Uring(UringBackend),
    /// Readiness.
    Poll(PollBackend),
    /// The simulated kernel.
    Sim(SimBackend),
}

macro_rules! each {
    ($self:expr, $backend:ident => $call:expr) => {
        match $self {
            #[cfg(target_os = "linux")]
            AnyBackend::Uring($backend) => $call,
            AnyBackend::Poll($backend) => $call,
            AnyBackend::Sim($backend) => $call,
        }
    };
}

impl AnyBackend {
    /// Its loop has nothing to do before something happens: a simulated kernel counts its looks anew.
    pub(crate) fn rest(&mut self) {
        if let AnyBackend::Sim(sim) = self {
            sim.rest();
        }
    }

    /// Actors would wait for each other for ever, and one of them was told: a simulated world keeps it.
    pub(crate) fn note_deadlock(&mut self, circle: String) {
        if let AnyBackend::Sim(sim) = self {
            sim.note_deadlock(circle);
        }
    }

    /// The addresses of a simulated world's hosts of this name, the loopback's for `localhost`; none on a real kernel,
    /// which has name servers to ask.
    pub fn simulated_hosts(&self, name: &str) -> Option<Vec<Ipv4Addr>> {
        match self {
            AnyBackend::Sim(sim) => Some(sim.addresses_of(name)),
            _ => None,
        }
    }

    /// Sets the selected kernel up. `Auto` takes io_uring, and epoll when that is refused, keeping the refusal as
    /// the last of [`Caps::steps`].
    ///
    /// # Errors
    ///
    /// A refusal under `Uring`, `Epoll` or `Sim`, or of both under `Auto`.
    pub fn select(selection: Selection, config: &BackendConfig) -> IoResult<AnyBackend> {
        match selection {
            #[cfg(target_os = "linux")]
            Selection::Uring => UringBackend::open(config).map(AnyBackend::Uring),
            #[cfg(target_os = "linux")]
            Selection::Auto => match UringBackend::open(config) {
                Ok(uring) => Ok(AnyBackend::Uring(uring)),
                Err(refusal) => PollBackend::open_after(config, refusal).map(AnyBackend::Poll),
            },
            #[cfg(not(target_os = "linux"))]
            Selection::Auto => PollBackend::open(config).map(AnyBackend::Poll),
            #[cfg(not(target_os = "linux"))]
            Selection::Uring => {
                use crate::error::{IoError, OpKind, Stage, errno};
                Err(IoError::new(errno::ENOSYS, OpKind::Setup, Stage::Setup)
                    .with_context("io_uring exists on Linux only; use WO_IO=auto"))
            }
            Selection::Epoll => PollBackend::open(config).map(AnyBackend::Poll),
            Selection::Sim => SimBackend::open(config).map(AnyBackend::Sim),
        }
    }
}

impl Backend for AnyBackend {
    fn open(config: &BackendConfig) -> IoResult<AnyBackend> {
        AnyBackend::select(Selection::Auto, config)
    }

    fn caps(&self) -> &Caps {
        each!(self, backend => backend.caps())
    }

    #[inline(always)]
    unsafe fn submit(&mut self, token: Token, op: RawOp) -> Result<(), Full> {
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { each!(self, backend => backend.submit(token, op)) }
    }

    fn cancel(&mut self, target: Token) -> Result<(), Full> {
        each!(self, backend => backend.cancel(target))
    }

    fn flush(&mut self) -> IoResult<()> {
        each!(self, backend => backend.flush())
    }

    fn wait(&mut self, timeout: Option<Duration>) -> IoResult<()> {
        each!(self, backend => backend.wait(timeout))
    }

    fn has_completions(&mut self) -> bool {
        each!(self, backend => backend.has_completions())
    }

    fn reap(&mut self, out: &mut Vec<RawCompletion>) {
        each!(self, backend => backend.reap(out));
    }

    fn submission_space(&self) -> usize {
        each!(self, backend => backend.submission_space())
    }

    fn unsubmitted(&self) -> usize {
        each!(self, backend => backend.unsubmitted())
    }

    fn waker(&self) -> Waker {
        each!(self, backend => backend.waker())
    }

    fn now(&self) -> Instant {
        each!(self, backend => backend.now())
    }

    fn wall_clock(&self) -> SystemTime {
        each!(self, backend => backend.wall_clock())
    }

    unsafe fn register_buffer(&mut self, memory: RawSlice) -> Option<u16> {
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { each!(self, backend => backend.register_buffer(memory)) }
    }

    fn socket(&mut self, domain: socket2::Domain, kind: SocketKind) -> IoResult<Fd> {
        each!(self, backend => backend.socket(domain, kind))
    }

    fn socket_pair(&mut self, kind: SocketKind) -> IoResult<(Fd, Fd)> {
        each!(self, backend => backend.socket_pair(kind))
    }

    fn pipe(&mut self) -> IoResult<(Fd, Fd)> {
        each!(self, backend => backend.pipe())
    }

    fn bind(&mut self, fd: &Fd, address: &SocketAddress) -> IoResult<()> {
        each!(self, backend => backend.bind(fd, address))
    }

    fn listen(&mut self, fd: &Fd, backlog: u32) -> IoResult<()> {
        each!(self, backend => backend.listen(fd, backlog))
    }

    fn local_address(&mut self, fd: &Fd) -> IoResult<SocketAddress> {
        each!(self, backend => backend.local_address(fd))
    }

    fn peer_address(&mut self, fd: &Fd) -> IoResult<SocketAddress> {
        each!(self, backend => backend.peer_address(fd))
    }

    fn set_socket_option(&mut self, fd: &Fd, option: SocketOption) -> IoResult<()> {
        each!(self, backend => backend.set_socket_option(fd, option))
    }

    fn socket_option(&mut self, fd: &Fd, name: SocketOptionName) -> IoResult<SocketOption> {
        each!(self, backend => backend.socket_option(fd, name))
    }

    unsafe fn try_send(&mut self, fd: &Fd, buf: RawSlice) -> Option<i32> {
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { each!(self, backend => backend.try_send(fd, buf)) }
    }

    fn adopt(&mut self, raw: RawDescriptor) -> Fd {
        each!(self, backend => backend.adopt(raw))
    }

    #[inline]
    fn owns(&self, fd: &Fd) -> bool {
        each!(self, backend => backend.owns(fd))
    }

    fn foreign(&mut self, raw: RawDescriptor) -> IoResult<Fd> {
        each!(self, backend => backend.foreign(raw))
    }

    fn has_positions(&mut self, fd: &Fd) -> IoResult<bool> {
        each!(self, backend => backend.has_positions(fd))
    }

    fn try_lock(&mut self, fd: &Fd) -> IoResult<bool> {
        each!(self, backend => backend.try_lock(fd))
    }

    fn unlock(&mut self, fd: &Fd) -> IoResult<()> {
        each!(self, backend => backend.unlock(fd))
    }

    fn close(self) {
        each!(self, backend => backend.close());
    }
}
