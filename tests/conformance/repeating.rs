//! A kernel that can be told to say everything again: each completion so far, once more and too late. Or to keep its
//! words to itself for a while.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use wo_runtime::error::IoResult;
use wo_runtime::plane::backend::{
    Backend, BackendConfig, Caps, Full, RawCompletion, SocketKind, SocketOption, SocketOptionName, Waker,
};
use wo_runtime::plane::fd::RawDescriptor;
use wo_runtime::plane::op::{RawOp, RawSlice};
use wo_runtime::plane::{Fd, Instant, SocketAddress, Token};

#[derive(Debug, Default)]
struct Said {
    before: Vec<RawCompletion>,
    again: Vec<RawCompletion>,
    /// What was said since it keeps its words to itself; none while it does not.
    kept: Option<Vec<RawCompletion>>,
}

/// Makes a [`Repeating`] repeat itself.
pub struct Switch(Rc<RefCell<Said>>);

impl Switch {
    /// Every completion so far will be reaped once more; answers how many those are.
    pub fn repeat_all(&self) -> u64 {
        let mut said = self.0.borrow_mut();
        let before = std::mem::take(&mut said.before);
        said.again = before;
        said.again.len() as u64
    }

    /// From here on no completion is told.
    pub fn hold(&self) {
        self.0.borrow_mut().kept.get_or_insert_default();
    }

    /// Whether the last word of this op is among what is kept.
    pub fn keeps_the_last_of(&self, token: Token) -> bool {
        self.0.borrow().kept.iter().flatten().any(|completion| completion.token == token && !completion.more)
    }

    /// Tells what was kept.
    pub fn release(&self) {
        let mut said = self.0.borrow_mut();
        let kept = said.kept.take().unwrap_or_default();
        said.again.extend(kept);
    }
}

/// A backend over another.
pub struct Repeating<B> {
    inner: B,
    said: Rc<RefCell<Said>>,
}

impl<B: Backend> Repeating<B> {
    /// Over `inner`.
    pub fn new(inner: B) -> Repeating<B> {
        Repeating { inner, said: Rc::default() }
    }

    /// What makes it repeat itself.
    pub fn switch(&self) -> Switch {
        Switch(Rc::clone(&self.said))
    }
}

impl<B: Backend> fmt::Debug for Repeating<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repeating").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<B: Backend> Backend for Repeating<B> {
    fn open(config: &BackendConfig) -> IoResult<Repeating<B>> {
        B::open(config).map(Repeating::new)
    }

    fn has_completions(&mut self) -> bool {
        !self.said.borrow().again.is_empty() || self.inner.has_completions()
    }

    fn reap(&mut self, out: &mut Vec<RawCompletion>) {
        let mut said = self.said.borrow_mut();
        if let Some(kept) = &mut said.kept {
            return self.inner.reap(kept);
        }
        out.append(&mut said.again);
        let fresh = out.len();
        self.inner.reap(out);
        said.before.extend_from_slice(&out[fresh..]);
    }

    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    unsafe fn submit(&mut self, token: Token, op: RawOp) -> Result<(), Full> {
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { self.inner.submit(token, op) }
    }

    fn cancel(&mut self, target: Token) -> Result<(), Full> {
        self.inner.cancel(target)
    }

    fn flush(&mut self) -> IoResult<()> {
        self.inner.flush()
    }

    fn wait(&mut self, timeout: Option<Duration>) -> IoResult<()> {
        self.inner.wait(timeout)
    }

    fn submission_space(&self) -> usize {
        self.inner.submission_space()
    }

    fn unsubmitted(&self) -> usize {
        self.inner.unsubmitted()
    }

    fn waker(&self) -> Waker {
        self.inner.waker()
    }

    fn now(&self) -> Instant {
        self.inner.now()
    }

    unsafe fn register_buffer(&mut self, memory: RawSlice) -> Option<u16> {
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { self.inner.register_buffer(memory) }
    }

    fn socket(&mut self, domain: socket2::Domain, kind: SocketKind) -> IoResult<Fd> {
        self.inner.socket(domain, kind)
    }

    fn socket_pair(&mut self, kind: SocketKind) -> IoResult<(Fd, Fd)> {
        self.inner.socket_pair(kind)
    }

    fn owns(&self, fd: &Fd) -> bool {
        self.inner.owns(fd)
    }

    fn wall_clock(&self) -> SystemTime {
        self.inner.wall_clock()
    }

    fn has_positions(&mut self, fd: &Fd) -> IoResult<bool> {
        self.inner.has_positions(fd)
    }

    fn try_lock(&mut self, fd: &Fd) -> IoResult<bool> {
        self.inner.try_lock(fd)
    }

    fn unlock(&mut self, fd: &Fd) -> IoResult<()> {
        self.inner.unlock(fd)
    }

    fn pipe(&mut self) -> IoResult<(Fd, Fd)> {
        self.inner.pipe()
    }

    fn bind(&mut self, fd: &Fd, address: &SocketAddress) -> IoResult<()> {
        self.inner.bind(fd, address)
    }

    fn listen(&mut self, fd: &Fd, backlog: u32) -> IoResult<()> {
        self.inner.listen(fd, backlog)
    }

    fn local_address(&mut self, fd: &Fd) -> IoResult<SocketAddress> {
        self.inner.local_address(fd)
    }

    fn peer_address(&mut self, fd: &Fd) -> IoResult<SocketAddress> {
        self.inner.peer_address(fd)
    }

    fn set_socket_option(&mut self, fd: &Fd, option: SocketOption) -> IoResult<()> {
        self.inner.set_socket_option(fd, option)
    }

    fn socket_option(&mut self, fd: &Fd, name: SocketOptionName) -> IoResult<SocketOption> {
        self.inner.socket_option(fd, name)
    }

    unsafe fn try_send(&mut self, fd: &Fd, buf: RawSlice) -> Option<i32> {
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { self.inner.try_send(fd, buf) }
    }

    fn adopt(&mut self, raw: RawDescriptor) -> Fd {
        self.inner.adopt(raw)
    }

    fn foreign(&mut self, raw: RawDescriptor) -> IoResult<Fd> {
        self.inner.foreign(raw)
    }

    fn close(self) {
        self.inner.close();
    }
}
