//! What every contract test works with: a backend, the memory its ops point at, and the completions seen so far.
//!
//! The rig owns all operands and gives them back only when nothing is in flight any more, so that a test that fails
//! half-way leaves no memory to the kernel.

use std::any::Any;
use std::collections::HashMap;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use wo_runtime::error::OpKind;
use wo_runtime::plane::backend::operand::{self, OpenHow};
use wo_runtime::plane::backend::{Backend, BackendConfig, RawCompletion, SocketKind};
use wo_runtime::plane::op::{RawOp, RawSlice};
use wo_runtime::plane::token::{Class, Token};
use wo_runtime::plane::{Fd, SocketAddress};

/// Nothing here takes this long; it catches a hang.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// One backend under test, and how to set it up.
pub struct Subject<B> {
    pub config: BackendConfig,
    backend: PhantomData<B>,
}

impl<B: Backend> Subject<B> {
    pub fn new(config: BackendConfig) -> Subject<B> {
        Subject { config, backend: PhantomData }
    }

    pub fn rig(&self) -> Rig<B> {
        self.rig_with(|_| {})
    }

    pub fn rig_with(&self, change: impl FnOnce(&mut BackendConfig)) -> Rig<B> {
        let mut config = self.config.clone();
        change(&mut config);
        Rig::open(&config)
    }
}

/// Memory of an op's, owned by the rig.
#[derive(Clone, Copy)]
pub struct Memory {
    ptr: NonNull<u8>,
    len: usize,
}

impl Memory {
    pub fn slice(self) -> RawSlice {
        RawSlice { ptr: self.ptr.as_ptr(), len: u32::try_from(self.len).unwrap(), fixed: RawSlice::NOT_FIXED }
    }

    /// A part of it.
    pub fn part(self, from: usize, len: usize) -> Memory {
        assert!(from + len <= self.len);
        // SAFETY: the place is inside the same allocation.
        Memory { ptr: unsafe { self.ptr.add(from) }, len }
    }
}

pub struct Rig<B: Backend> {
    backend: Option<B>,
    next: u32,
    seen: HashMap<Token, VecDeque<RawCompletion>>,
    in_flight: Vec<Token>,
    operands: Vec<Box<dyn Any>>,
    scratch: Option<PathBuf>,
}

impl<B: Backend> Rig<B> {
    pub fn open(config: &BackendConfig) -> Rig<B> {
        let backend = B::open(config).expect("the backend is to be had here");
        Rig {
            backend: Some(backend),
            next: 0,
            seen: HashMap::new(),
            in_flight: Vec::new(),
            operands: Vec::new(),
            scratch: None,
        }
    }

    pub fn backend(&mut self) -> &mut B {
        self.backend.as_mut().expect("open until the rig is dropped")
    }

    /// The backend, to be dropped before the rig.
    pub fn take_backend(&mut self) -> Option<B> {
        self.backend.take()
    }

    pub fn expect_nothing_reaped(&mut self) {
        let mut out = Vec::new();
        self.backend().reap(&mut out);
        assert_eq!(out, []);
    }

    /// Keeps a value where ops may point at it.
    pub fn operand<T: 'static>(&mut self, value: T) -> NonNull<T> {
        self.boxed(Box::new(value))
    }

    pub fn boxed<T: 'static>(&mut self, value: Box<T>) -> NonNull<T> {
        // The box is kept by its pointer, so that no later move of it invalidates what the ops were given.
        let ptr = NonNull::from(Box::leak(value));
        self.operands.push(Box::new(Kept(ptr)));
        ptr
    }

    pub fn path(&mut self, path: &Path) -> NonNull<operand::Path> {
        let path = operand::Path::new(path, OpKind::Open).unwrap();
        self.operand(path)
    }

    /// Memory with these bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> Memory {
        let mut kept = bytes.to_vec();
        let memory = Memory { ptr: NonNull::new(kept.as_mut_ptr()).unwrap(), len: kept.len() };
        self.operands.push(Box::new(kept));
        memory
    }

    /// Memory of zeros.
    pub fn room(&mut self, len: usize) -> Memory {
        self.bytes(&vec![0; len])
    }

    /// What the memory holds; no op may be in flight on it.
    pub fn holds(&self, memory: Memory) -> &[u8] {
        // SAFETY: the rig owns the memory, and the test does not look while an op may write.
        unsafe { std::slice::from_raw_parts(memory.ptr.as_ptr(), memory.len) }
    }

    pub fn token(&mut self) -> Token {
        self.next += 1;
        Token::new(Class::User, self.next >> 8, self.next)
    }

    /// Submits an op, flushing where the queue is full.
    pub fn start(&mut self, op: RawOp) -> Token {
        let token = self.token();
        // SAFETY: the rig keeps all operands until nothing is in flight.
        while unsafe { self.backend().submit(token, op) }.is_err() {
            self.backend().flush().unwrap();
        }
        self.in_flight.push(token);
        token
    }

    pub fn cancel(&mut self, token: Token) {
        while self.backend().cancel(token).is_err() {
            self.backend().flush().unwrap();
        }
    }

    /// Takes in whatever is there.
    pub fn reap(&mut self) {
        let mut out = Vec::new();
        self.backend().reap(&mut out);
        for completion in out {
            let at = self.in_flight.iter().position(|token| *token == completion.token);
            let at = at.unwrap_or_else(|| panic!("{completion:?} of an op that is not in flight"));
            if !completion.more {
                self.in_flight.swap_remove(at);
            }
            self.seen.entry(completion.token).or_default().push_back(completion);
        }
    }

    /// The op's next completion, waiting for it.
    pub fn next(&mut self, token: Token) -> RawCompletion {
        let end = self.backend().now() + PATIENCE;
        loop {
            if let Some(completion) = self.seen.get_mut(&token).and_then(VecDeque::pop_front) {
                return completion;
            }
            let now = self.backend().now();
            assert!(now < end, "{token:?} did not complete");
            self.backend().wait(Some(end - now)).unwrap();
            self.reap();
        }
    }

    /// The result of the op's terminal completion, which must be its only one.
    pub fn finish(&mut self, token: Token) -> i32 {
        let completion = self.next(token);
        assert!(!completion.more, "{completion:?} of an op that completes once");
        completion.res
    }

    /// Whether a completion of the op is there, without waiting.
    pub fn is_done(&self, token: Token) -> bool {
        self.seen.get(&token).is_some_and(|seen| !seen.is_empty())
    }

    /// Expects completions of an op that was submitted past the rig.
    pub fn adopt_token(&mut self, token: Token) {
        self.in_flight.push(token);
    }

    /// These were reaped past the rig.
    pub fn forget(&mut self, tokens: &[Token]) {
        self.in_flight.retain(|token| !tokens.contains(token));
    }

    /// Submits an op and waits for its result.
    pub fn run(&mut self, op: RawOp) -> i32 {
        let token = self.start(op);
        self.finish(token)
    }

    /// Gives the kernel a chance to complete what it should not, and expects that nothing did.
    pub fn expect_silence(&mut self) {
        self.backend().flush().unwrap();
        let before = self.seen.values().map(VecDeque::len).sum::<usize>();
        let (start, span) = (self.backend().now(), Duration::from_millis(20));
        while self.backend().now() - start < span {
            self.backend().wait(Some(span)).unwrap();
            self.reap();
        }
        let after = self.seen.values().map(VecDeque::len).sum::<usize>();
        assert_eq!(before, after, "{:?}", self.seen);
    }

    /// Gives the op a chance to complete, and expects that it did not.
    pub fn expect_silence_of(&mut self, token: Token) {
        let (start, span) = (self.backend().now(), Duration::from_millis(20));
        while self.backend().now() - start < span {
            self.backend().wait(Some(span)).unwrap();
            self.reap();
        }
        assert!(!self.is_done(token), "{token:?} completed: {:?}", self.seen[&token]);
    }

    pub fn pair(&mut self) -> (Fd, Fd) {
        self.backend().socket_pair(SocketKind::Stream).unwrap()
    }

    /// A listening TCP socket and its address.
    pub fn listener(&mut self) -> (Fd, SocketAddress) {
        let any = SocketAddress::from(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
        let backend = self.backend();
        let fd = backend.socket(any.domain(), SocketKind::Stream).unwrap();
        backend.bind(&fd, &any).unwrap();
        backend.listen(&fd, 64).unwrap();
        let address = backend.local_address(&fd).unwrap();
        (fd, address)
    }

    /// Starts to connect to an address.
    pub fn connect(&mut self, address: &SocketAddress) -> (Fd, Token) {
        let fd = self.backend().socket(address.domain(), SocketKind::Stream).unwrap();
        let address = self.operand(operand::PeerAddress::new(address).unwrap());
        let token = self.start(RawOp::Connect { fd: fd.raw(), address });
        (fd, token)
    }

    pub fn send(&mut self, fd: &Fd, bytes: &[u8]) -> i32 {
        let buf = self.bytes(bytes).slice();
        self.run(RawOp::Send { fd: fd.raw(), buf, all: true })
    }

    pub fn recv(&mut self, fd: &Fd, len: usize) -> Vec<u8> {
        let memory = self.room(len);
        let res = self.run(RawOp::Recv { fd: fd.raw(), buf: memory.slice() });
        let count = usize::try_from(res).unwrap_or_else(|_| panic!("recv: {res}"));
        self.holds(memory)[..count].to_vec()
    }

    /// A directory of this test's own, in this backend's file system.
    pub fn scratch(&mut self) -> PathBuf {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("wo-contract-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        for part in dir.ancestors().collect::<Vec<_>>().into_iter().rev().skip(1) {
            let path = self.path(part);
            let res = self.run(RawOp::Mkdir { path, mode: 0o755 });
            assert!(res == 0 || res == -libc::EEXIST, "mkdir {}: {res}", part.display());
        }
        self.scratch = Some(dir.clone());
        dir
    }

    pub fn open_file(&mut self, path: &Path, how: OpenHow) -> Result<Fd, i32> {
        let path = self.path(path);
        match self.run(RawOp::Open { path, how }) {
            raw if raw >= 0 => Ok(self.backend().adopt(raw)),
            refused => Err(-refused),
        }
    }
}

/// A box by its pointer.
struct Kept<T>(NonNull<T>);

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a leaked box and is dropped once, with the rig.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl<B: Backend> Drop for Rig<B> {
    fn drop(&mut self) {
        // What was started must end; a test that fails leaves its operands to the kernel instead.
        if std::thread::panicking() {
            std::mem::forget(std::mem::take(&mut self.operands));
        } else {
            for token in self.in_flight.clone() {
                self.cancel(token);
            }
            while let Some(token) = self.in_flight.last().copied() {
                self.next(token);
            }
        }
        if let Some(backend) = self.backend.take() {
            backend.close();
        }
        if let Some(dir) = self.scratch.take() {
            // In a simulated file system it never was.
            let _ = std::fs::remove_dir_all(dir);
        }
    }
}
