//! One arm of a two-armed test: a kernel, and the account of what it answered.

use std::fmt::{Debug, Display};
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use wo_runtime::error::{IoResult, OpKind};
use wo_runtime::plane::backend::operand::{Datagram, FileStat, Listing, OpenHow, PeerAddress};
use wo_runtime::plane::backend::sim::SimBackend;
use wo_runtime::plane::backend::{Backend, BackendConfig, SocketKind, SocketOption, SocketOptionName};
use wo_runtime::plane::op::{Half, NO_OFFSET, RawOp, Readiness};
use wo_runtime::plane::{Fd, SocketAddress, Token};

use crate::rig::{PATIENCE, Rig};

/// An op that Linux leaves waiting is watched for this long.
const MOMENT: Duration = Duration::from_millis(25);

/// Runs a scenario on every kernel and compares the accounts line by line.
#[macro_export]
macro_rules! on_every_kernel {
    ($scenario:ident) => {
        let simulated = $crate::on_the_ring!($scenario);
        let mut epoll =
            $crate::against_linux::arm::Arm::<wo_runtime::plane::backend::poll::PollBackend>::real(simulated.clone());
        $scenario(&mut epoll);
        $crate::against_linux::arm::compare("epoll", &simulated, &epoll.finish());
    };
}

/// The same on the simulated kernel and io_uring alone; answers the account. For what readiness cannot tell: a
/// datagram socket that was shut down has nothing to receive, and no end either; and a read of nothing waits.
#[macro_export]
macro_rules! on_the_ring {
    ($scenario:ident) => {{
        let mut simulated = $crate::against_linux::arm::Arm::simulated();
        $scenario(&mut simulated);
        let simulated = simulated.finish();
        let mut ring =
            $crate::against_linux::arm::Arm::<wo_runtime::plane::backend::uring::UringBackend>::real(simulated.clone());
        $scenario(&mut ring);
        $crate::against_linux::arm::compare("io_uring", &simulated, &ring.finish());
        simulated
    }};
}

pub struct Arm<B: Backend> {
    pub rig: Rig<B>,
    account: Vec<String>,
    /// What the simulated arm answered.
    expected: Option<Vec<String>>,
    scratch: Option<PathBuf>,
    ports: Vec<u16>,
}

impl Arm<SimBackend> {
    pub fn simulated() -> Arm<SimBackend> {
        Arm::new(None)
    }
}

impl<B: Backend> Arm<B> {
    pub fn real(expected: Vec<String>) -> Arm<B> {
        Arm::new(Some(expected))
    }
}

pub fn compare(kernel: &str, simulated: &[String], real: &[String]) {
    let lines = 0..simulated.len().max(real.len());
    let differing: Vec<String> = lines
        .filter(|line| simulated.get(*line) != real.get(*line))
        .take(12)
        .map(|line| {
            let before = simulated[line.saturating_sub(4).min(simulated.len())..line.min(simulated.len())].join("\n  ");
            let (ours, theirs) = (simulated.get(line), real.get(line));
            format!("  {before}\nline {line} simulated: {ours:?}\nline {line} on {kernel}:  {theirs:?}")
        })
        .collect();
    assert!(differing.is_empty(), "simulated and {kernel} differ:\n{}", differing.join("\n\n"));
}

/// The name of an errno, or the number.
fn outcome(res: i32) -> String {
    match res {
        0.. => res.to_string(),
        _ => std::io::Error::from_raw_os_error(-res).to_string(),
    }
}

impl<B: Backend> Arm<B> {
    fn new(expected: Option<Vec<String>>) -> Arm<B> {
        let rig = Rig::open(&BackendConfig::default());
        Arm { rig, account: Vec::new(), expected, scratch: None, ports: Vec::new() }
    }

    pub fn finish(self) -> Vec<String> {
        self.account
    }

    pub fn note(&mut self, what: impl Display, answer: impl Debug) {
        self.account.push(format!("{what}: {answer:?}"));
    }

    /// Writes down what a call answered, and whether it was good.
    pub fn call<T>(&mut self, what: impl Display, answer: IoResult<T>) -> Option<T> {
        match answer {
            Ok(value) => {
                self.account.push(format!("{what}: ok"));
                Some(value)
            }
            Err(error) => {
                self.account.push(format!("{what}: {}", outcome(-error.errno())));
                None
            }
        }
    }

    /// The result of an op, or none when it waits for ever, which ends it.
    fn patiently(&mut self, token: Token, what: &str) -> Option<i32> {
        let foretold = self.expected.as_ref().and_then(|expected| expected.get(self.account.len()));
        let waits = foretold.is_some_and(|line| *line == format!("{what}: waits"));
        let patience = if waits || self.expected.is_none() { MOMENT } else { PATIENCE };
        let end = self.rig.backend().now() + patience;
        while !self.rig.is_done(token) {
            let now = self.rig.backend().now();
            if now >= end {
                self.rig.cancel(token);
                assert_eq!(self.rig.finish(token), -libc::ECANCELED, "{what}");
                return None;
            }
            self.rig.backend().wait(Some(end - now)).unwrap();
            self.rig.reap();
        }
        Some(self.rig.finish(token))
    }

    /// Waits for an op and writes its result down.
    pub fn end(&mut self, what: impl Display, token: Token) -> i32 {
        let what = what.to_string();
        let answer = self.patiently(token, &what);
        let shown = answer.map_or("waits".to_owned(), outcome);
        self.account.push(format!("{what}: {shown}"));
        answer.unwrap_or(-libc::ECANCELED)
    }

    pub fn op(&mut self, what: impl Display, op: RawOp) -> i32 {
        let token = self.rig.start(op);
        self.end(what, token)
    }

    /// The descriptor an op brings; its number is not written down.
    pub fn descriptor(&mut self, what: impl Display, op: RawOp) -> Option<Fd> {
        let what = what.to_string();
        let token = self.rig.start(op);
        let answer = self.patiently(token, &what);
        let shown = match answer {
            None => "waits".to_owned(),
            Some(0..) => "a descriptor".to_owned(),
            Some(res) => outcome(res),
        };
        self.account.push(format!("{what}: {shown}"));
        answer.filter(|res| *res >= 0).map(|raw| self.rig.backend().adopt(raw))
    }

    pub fn socket(&mut self, domain: socket2::Domain, kind: SocketKind) -> Fd {
        self.rig.backend().socket(domain, kind).unwrap()
    }

    pub fn bind(&mut self, what: impl Display, fd: &Fd, address: &SocketAddress) -> bool {
        let answer = self.rig.backend().bind(fd, address);
        self.call(what, answer).is_some()
    }

    pub fn listen(&mut self, what: impl Display, fd: &Fd, backlog: u32) -> bool {
        let answer = self.rig.backend().listen(fd, backlog);
        self.call(what, answer).is_some()
    }

    pub fn accept(&mut self, what: impl Display, fd: &Fd) -> Option<Fd> {
        self.descriptor(what, RawOp::Accept { fd: fd.raw(), multishot: false })
    }

    pub fn connect(&mut self, what: impl Display, fd: &Fd, address: &SocketAddress) -> i32 {
        let address = self.rig.operand(PeerAddress::new(address).unwrap());
        self.op(what, RawOp::Connect { fd: fd.raw(), address })
    }

    pub fn send(&mut self, what: impl Display, fd: &Fd, bytes: &[u8]) -> i32 {
        let buf = self.rig.bytes(bytes).slice();
        self.op(what, RawOp::Send { fd: fd.raw(), buf, all: false })
    }

    pub fn write(&mut self, what: impl Display, fd: &Fd, bytes: &[u8]) -> i32 {
        let buf = self.rig.bytes(bytes).slice();
        self.op(what, RawOp::Write { fd: fd.raw(), buf, offset: NO_OFFSET })
    }

    pub fn recv(&mut self, what: impl Display, fd: &Fd, len: usize) -> Vec<u8> {
        let room = self.rig.room(len);
        let res = self.op(what, RawOp::Recv { fd: fd.raw(), buf: room.slice() });
        let bytes = self.rig.holds(room)[..usize::try_from(res).unwrap_or(0)].to_vec();
        self.note("bytes", String::from_utf8_lossy(&bytes));
        bytes
    }

    pub fn read(&mut self, what: impl Display, fd: &Fd, len: usize) -> Vec<u8> {
        let room = self.rig.room(len);
        let res = self.op(what, RawOp::Read { fd: fd.raw(), buf: room.slice(), offset: NO_OFFSET });
        self.rig.holds(room)[..usize::try_from(res).unwrap_or(0)].to_vec()
    }

    pub fn shutdown(&mut self, what: impl Display, fd: &Fd, half: Half) -> i32 {
        self.op(what, RawOp::Shutdown { fd: fd.raw(), half })
    }

    /// Waits until a descriptor is ready, and writes down for what.
    pub fn poll(&mut self, what: impl Display, fd: &Fd, wanted: Readiness) {
        let what = what.to_string();
        let token = self.rig.start(RawOp::Poll { fd: fd.raw(), wanted });
        let answer = match self.patiently(token, &what) {
            None => "waits".to_owned(),
            Some(res @ 0..) => format!("{:?}", Readiness::from_bits(res)),
            Some(res) => outcome(res),
        };
        self.account.push(format!("{what}: {answer}"));
    }

    /// Waits until the other end is known to have gone.
    pub fn await_trouble(&mut self, what: impl Display, fd: &Fd) {
        let what = what.to_string();
        loop {
            let token = self.rig.start(RawOp::Poll { fd: fd.raw(), wanted: Readiness::default() });
            let answer = match self.patiently(token, &what) {
                None => "waits".to_owned(),
                Some(0) => {
                    // io_uring also tells that the other end finished, for which there is no word here.
                    self.rig.backend().wait(Some(Duration::from_millis(1))).unwrap();
                    self.rig.reap();
                    continue;
                }
                Some(res @ 1..) => format!("{:?}", Readiness::from_bits(res)),
                Some(res) => outcome(res),
            };
            self.account.push(format!("{what}: {answer}"));
            return;
        }
    }

    /// Numbers ports anew: one that was given back may be given out again.
    pub fn forget_ports(&mut self) {
        self.ports.clear();
    }

    /// A port nobody holds, and nobody is given who asks for any: tests run side by side.
    pub fn port(&mut self) -> u16 {
        loop {
            let port = next_port();
            let free = [SocketKind::Stream, SocketKind::Datagram].into_iter().all(|kind| {
                let probe = self.rig.backend().socket(socket2::Domain::IPV6, kind).unwrap();
                self.rig.backend().bind(&probe, &at("::", port)).is_ok()
            });
            if free {
                return port;
            }
        }
    }

    pub fn send_to(&mut self, what: impl Display, fd: &Fd, bytes: &[u8], to: Option<&SocketAddress>) -> i32 {
        let buf = self.rig.bytes(bytes).slice();
        let datagram = self.rig.boxed(Datagram::to(buf, to).unwrap());
        self.op(what, RawOp::SendTo { fd: fd.raw(), datagram })
    }

    pub fn recv_from(&mut self, what: impl Display, fd: &Fd, len: usize) -> i32 {
        let room = self.rig.room(len);
        let datagram = self.rig.boxed(Datagram::from_anyone(room.slice()));
        let res = self.op(what, RawOp::RecvFrom { fd: fd.raw(), datagram });
        if res >= 0 {
            // SAFETY: the op on it has ended, and the rig keeps it.
            let datagram = unsafe { datagram.as_ref() };
            let (sender, truncated) = (datagram.sender(), datagram.is_truncated());
            let sender = sender.map(|sender| self.shown(&sender));
            self.note("sender, truncated", (sender, truncated));
            let bytes = self.rig.holds(room)[..res as usize].to_vec();
            self.note("bytes", String::from_utf8_lossy(&bytes));
        }
        res
    }

    pub fn set(&mut self, fd: &Fd, option: SocketOption) {
        let answer = self.rig.backend().set_socket_option(fd, option);
        self.call(format!("set {option:?}"), answer);
    }

    pub fn get(&mut self, fd: &Fd, name: SocketOptionName) {
        let answer = self.rig.backend().socket_option(fd, name).map_err(|error| outcome(-error.errno()));
        self.note("get", answer);
    }

    /// Writes down where a socket is and whom it is connected to.
    pub fn addresses(&mut self, what: impl Display, fd: &Fd) {
        for (side, answer) in
            [("local", self.rig.backend().local_address(fd)), ("peer", self.rig.backend().peer_address(fd))]
        {
            let shown = match answer {
                Ok(address) => self.shown(&address),
                Err(error) => outcome(-error.errno()),
            };
            self.account.push(format!("{what} {side}: {shown}"));
        }
    }

    /// An address without what differs by nature.
    pub fn shown(&mut self, address: &SocketAddress) -> String {
        match address {
            SocketAddress::Ip(ip) => {
                let port = ip.port();
                let place = self.ports.iter().position(|seen| *seen == port).unwrap_or_else(|| {
                    self.ports.push(port);
                    self.ports.len() - 1
                });
                if port == 0 { format!("{} port 0", ip.ip()) } else { format!("{} port #{place}", ip.ip()) }
            }
            SocketAddress::Unix(path) => match self.scratch.as_ref().map(|scratch| path.strip_prefix(scratch)) {
                Some(Ok(path)) => format!("file {}", path.display()),
                _ => format!("file {}", path.display()),
            },
            SocketAddress::Abstract(name) => {
                let own = format!("wo-{}-", std::process::id());
                format!("abstract {}", String::from_utf8_lossy(name).trim_start_matches(&own))
            }
            _ => "unnamed".to_owned(),
        }
    }

    /// A path in this arm's own directory.
    pub fn path(&mut self, name: &str) -> PathBuf {
        if self.scratch.is_none() {
            self.scratch = Some(self.rig.scratch());
        }
        // By hand: `join` would drop what the tests put there on purpose.
        PathBuf::from(format!("{}/{name}", self.scratch.as_ref().unwrap().display()))
    }

    pub fn file(&mut self, name: &str) -> SocketAddress {
        SocketAddress::Unix(self.path(name))
    }

    pub fn abstract_name(&self, name: &str) -> SocketAddress {
        SocketAddress::Abstract(format!("wo-{}-{name}", std::process::id()).into_bytes())
    }

    pub fn open(&mut self, name: &str, how: OpenHow) -> Option<Fd> {
        let path = self.path(name);
        let path = self.rig.path(&path);
        self.descriptor(format!("open {name}"), RawOp::Open { path, how })
    }

    pub fn with_path(&mut self, name: &str, op: impl FnOnce(std::ptr::NonNull<OperandPath>) -> RawOp) -> i32 {
        let path = self.path(name);
        let path = self.rig.path(&path);
        let op = op(path);
        self.op(format!("{:?} {name}", op.kind()), op)
    }

    pub fn rename(&mut self, from: &str, to: &str, replace: bool) -> i32 {
        let (from_path, to_path) = (self.path(from), self.path(to));
        let (from_path, to_path) = (self.rig.path(&from_path), self.rig.path(&to_path));
        let op = RawOp::Rename { from: from_path, to: to_path, replace };
        self.op(format!("rename {from} {to} {replace}"), op)
    }

    pub fn stat(&mut self, name: &str) {
        let path = self.path(name);
        let (path, into) = (self.rig.path(&path), self.rig.operand(FileStat::default()));
        let res = self.op(format!("stat {name}"), RawOp::StatPath { path, follow: true, into });
        if res == 0 {
            // SAFETY: the op on it has ended, and the rig keeps it.
            let found = unsafe { into.as_ref() };
            // A directory's length is the file system's own affair.
            let len =
                if found.kind() == wo_runtime::plane::backend::operand::FileKind::Directory { 0 } else { found.len() };
            let (kind, mode, links) = (found.kind(), found.mode(), found.links());
            self.note("kind, mode, links, length", (kind, format!("{mode:o}"), links, len));
        }
    }

    pub fn list(&mut self, name: &str) {
        let path = self.path(name);
        let (path, into) = (self.rig.path(&path), self.rig.operand(Listing::default()));
        if self.op(format!("list {name}"), RawOp::ReadDir { path, into }) == 0 {
            // SAFETY: the op on it has ended, and the rig keeps it.
            let entries = unsafe { into.as_ref() }.entries.clone();
            self.note("entries", entries);
        }
    }

    /// A connected pair over TCP: the dialler, the accepted end, and the listener.
    pub fn tcp(&mut self) -> (Fd, Fd, Fd) {
        let (listener, address) = self.rig.listener();
        let (client, connecting) = self.rig.connect(&address);
        assert_eq!(self.rig.finish(connecting), 0);
        let raw = self.rig.run(RawOp::Accept { fd: listener.raw(), multishot: false });
        assert!(raw >= 0, "accept: {raw}");
        let server = self.rig.backend().adopt(raw);
        (client, server, listener)
    }
}

pub type OperandPath = wo_runtime::plane::backend::operand::Path;

pub fn ip(text: &str) -> SocketAddress {
    SocketAddress::from(text.parse::<SocketAddr>().unwrap())
}

/// The next port of this process's own, below those the system gives out. Other processes that run these tests are
/// kept off by a name of the abstract namespace per block of ports, which goes with the process.
fn next_port() -> u16 {
    const FIRST: u16 = 10_000;
    const BLOCK: u16 = 100;
    const BLOCKS: u16 = 220;
    static OWN: Mutex<(Vec<(u16, UnixListener)>, usize)> = Mutex::new((Vec::new(), 0));
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let (blocks, used) = &mut *own;
    if *used == blocks.len() * usize::from(BLOCK) {
        let claimed = (0..BLOCKS).find_map(|block| {
            let name = format!("wo-against-linux-ports-{block}");
            let name = std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap();
            Some((block, UnixListener::bind_addr(&name).ok()?))
        });
        match claimed {
            Some(block) => blocks.push(block),
            // All are taken: begin again with the oldest of our own, whose sockets are long closed.
            None if !blocks.is_empty() => *used = 0,
            None => panic!("other runs of these tests hold every port set aside for them"),
        }
    }
    let (block, _) = blocks[*used / usize::from(BLOCK)];
    let port = FIRST + block * BLOCK + (*used % usize::from(BLOCK)) as u16;
    *used += 1;
    port
}

/// A host's address with this port.
pub fn at(host: &str, port: u16) -> SocketAddress {
    SocketAddress::from(SocketAddr::new(host.parse().unwrap(), port))
}

/// The same address with another's port.
pub fn at_port_of(host: &str, other: &SocketAddress) -> SocketAddress {
    at(host, other.as_ip().unwrap().port())
}

/// An absolute path's op, for paths outside the arm's directory.
pub fn absolute<B: Backend>(arm: &mut Arm<B>, path: &str) -> std::ptr::NonNull<OperandPath> {
    let path = OperandPath::new(Path::new(path), OpKind::Open).unwrap();
    arm.rig.operand(path)
}
