//! Simulated sockets: what every kind has in common, and which file answers for which kind.
//!
//! A socket is its family, its kind, its options, the address it holds, and the phase of its life. Streams (TCP and
//! Unix) share [`stream`], once they are connected; datagrams share the mailbox in [`datagram`]. What differs, how an
//! address is found and a connection made, is in [`tcp`], [`udp`] and [`unix`].

use std::collections::VecDeque;
use std::net::SocketAddr;

use crate::plane::addr::SocketAddress;
use crate::plane::backend::sim::exec::Answer;
use crate::plane::backend::sim::net::address::{Family, Local, Protocol};
use crate::plane::backend::sim::net::datagram::{Mailbox, Remote};
use crate::plane::backend::sim::net::options::Options;
use crate::plane::backend::sim::net::packet::Packet;
use crate::plane::backend::sim::net::stream::Stream;
use crate::plane::backend::sim::net::unix::UnixName;
use crate::plane::backend::sim::ops::InFlight;
use crate::plane::backend::sim::world::{Body, Errno, ObjectId, State};
use crate::plane::backend::{SocketKind, SocketOption, SocketOptionName};
use crate::plane::op::{Half, Readiness};

pub(super) mod address;
pub(super) mod datagram;
pub(super) mod options;
pub(super) mod packet;
mod probe;
pub(super) mod stream;
mod tcp;
mod udp;
pub(super) mod unix;

/// The longest accept queue a listener can ask for.
const BACKLOG_MAX: u32 = 4096;

/// A socket.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) family: Family,
    pub(super) kind: SocketKind,
    pub(super) options: Options,
    /// The IP address and port it holds.
    local: Option<Local>,
    /// The Unix name it holds.
    name: Option<UnixName>,
    /// The pending error: the next call that looks takes it.
    error: Option<Errno>,
    phase: Phase,
}

/// The phase of a socket's life.
#[derive(Debug)]
enum Phase {
    /// A stream socket that is not connected and does not listen.
    Fresh,
    /// A stream socket that accepts, or did until its reading half was shut down.
    Listening(Listener),
    /// A TCP socket whose dial is under way.
    Dialling(Dial),
    /// A connected stream socket.
    Connected(Stream),
    /// A datagram socket.
    Datagrams(Mailbox),
}

/// Connections that wait to be accepted.
#[derive(Debug, Default)]
struct Listener {
    backlog: usize,
    queue: VecDeque<ObjectId>,
    /// TCP connections between welcome and confirm.
    half_made: usize,
    /// Unix sockets that wait for room in the queue.
    waiting: Vec<ObjectId>,
}

impl Listener {
    /// Linux lets one more wait than was asked for.
    fn is_full(&self) -> bool {
        self.queue.len() + self.half_made > self.backlog
    }
}

/// A dial under way.
#[derive(Debug)]
struct Dial {
    target: SocketAddr,
    /// What the socket held before, and holds again when the dial fails.
    before: Option<Local>,
    /// How often it was sent.
    tries: u32,
}

impl Socket {
    fn new(family: Family, kind: SocketKind) -> Socket {
        let phase = match kind {
            SocketKind::Stream => Phase::Fresh,
            SocketKind::Datagram => Phase::Datagrams(Mailbox::new()),
        };
        let options = Options::new(family);
        Socket { family, kind, options, local: None, name: None, error: None, phase }
    }

    fn take_error(&mut self) -> Result<(), Errno> {
        self.error.take().map_or(Ok(()), Err)
    }

    fn stream(&mut self) -> Option<&mut Stream> {
        match &mut self.phase {
            Phase::Connected(stream) => Some(stream),
            _ => None,
        }
    }

    fn mailbox(&mut self) -> Option<&mut Mailbox> {
        match &mut self.phase {
            Phase::Datagrams(mailbox) => Some(mailbox),
            _ => None,
        }
    }

    /// The canonical address a UDP socket is connected to.
    fn remote_ip(&self) -> Option<SocketAddr> {
        match &self.phase {
            Phase::Datagrams(Mailbox { remote: Remote::Ip { address, .. }, .. }) => Some(*address),
            _ => None,
        }
    }

    fn protocol(&self) -> Protocol {
        match self.kind {
            SocketKind::Stream => Protocol::Tcp,
            SocketKind::Datagram => Protocol::Udp,
        }
    }

    fn is_listening(&self) -> bool {
        matches!(self.phase, Phase::Listening(_))
    }
}

impl State {
    pub(super) fn socket(&self, object: ObjectId) -> Result<&Socket, Errno> {
        match self.body(object)? {
            Body::Socket(socket) => Ok(socket),
            _ => Err(libc::ENOTSOCK),
        }
    }

    pub(super) fn socket_mut(&mut self, object: ObjectId) -> Result<&mut Socket, Errno> {
        match self.body_mut(object)? {
            Body::Socket(socket) => Ok(socket),
            _ => Err(libc::ENOTSOCK),
        }
    }

    pub(super) fn make_socket(&mut self, family: Family, kind: SocketKind) -> ObjectId {
        self.add(Body::Socket(Box::new(Socket::new(family, kind))))
    }

    pub(super) fn bind(&mut self, object: ObjectId, address: &SocketAddress) -> Result<(), Errno> {
        match self.socket(object)?.family {
            Family::Unix => self.bind_unix(object, address),
            Family::V4 | Family::V6 => self.bind_ip(object, address),
        }
    }

    pub(super) fn listen(&mut self, object: ObjectId, backlog: u32) -> Result<(), Errno> {
        let backlog = backlog.min(BACKLOG_MAX) as usize;
        let socket = self.socket_mut(object)?;
        match &mut socket.phase {
            Phase::Fresh => {}
            Phase::Listening(listener) => {
                listener.backlog = backlog;
                return Ok(());
            }
            Phase::Dialling(_) | Phase::Connected(_) => return Err(libc::EINVAL),
            Phase::Datagrams(_) => return Err(libc::EOPNOTSUPP),
        }
        match socket.family {
            Family::Unix if socket.name.is_none() => return Err(libc::EINVAL),
            Family::Unix => {}
            Family::V4 | Family::V6 => self.claim_for_listening(object)?,
        }
        self.socket_mut(object)?.phase = Phase::Listening(Listener { backlog, ..Listener::default() });
        Ok(())
    }

    pub(super) fn accept(&mut self, object: ObjectId) -> Answer {
        if !self.has_room_for_descriptor() {
            return Err(libc::EMFILE);
        }
        let socket = self.socket_mut(object)?;
        let listener = match &mut socket.phase {
            Phase::Listening(listener) => listener,
            Phase::Datagrams(_) => return Err(libc::EOPNOTSUPP),
            _ => return Err(libc::EINVAL),
        };
        let Some(child) = listener.queue.pop_front() else { return Ok(None) };
        for waiting in std::mem::take(&mut listener.waiting) {
            self.touch(waiting);
        }
        self.install(child).map(|raw| Some(raw as usize))
    }

    pub(super) fn connect(&mut self, object: ObjectId, op: &mut InFlight) -> Answer {
        let target = op.operand.address().ok_or(libc::EAFNOSUPPORT)?;
        let socket = self.socket(object)?;
        match (socket.family, socket.kind) {
            (Family::Unix, SocketKind::Stream) => self.connect_unix(object, &target),
            (Family::Unix, SocketKind::Datagram) => self.connect_unix_datagram(object, &target),
            (_, SocketKind::Stream) => self.connect_tcp(object, &target, &mut op.begun),
            (_, SocketKind::Datagram) => self.connect_udp(object, &target),
        }
    }

    pub(super) fn recv(&mut self, object: ObjectId, op: &mut InFlight) -> Answer {
        match self.socket(object)?.kind {
            SocketKind::Stream => self.recv_stream(object, op),
            SocketKind::Datagram => self.recv_datagram(object, op),
        }
    }

    pub(super) fn send(&mut self, object: ObjectId, op: &mut InFlight, all: bool) -> Answer {
        let socket = self.socket(object)?;
        match (socket.family, socket.kind) {
            (_, SocketKind::Stream) => self.send_stream(object, op, all),
            (Family::Unix, SocketKind::Datagram) => self.send_unix_datagram(object, op),
            (_, SocketKind::Datagram) => self.send_udp(object, op),
        }
    }

    pub(super) fn shutdown(&mut self, object: ObjectId, half: Half) -> Result<(), Errno> {
        let (read, write) = (half != Half::Write, half != Half::Read);
        let socket = self.socket_mut(object)?;
        let answer = match &mut socket.phase {
            Phase::Fresh if socket.family == Family::Unix => Ok(()),
            Phase::Fresh => Err(libc::ENOTCONN),
            Phase::Listening(_) if read => {
                self.stop_listening(object);
                Ok(())
            }
            Phase::Listening(_) => Ok(()),
            Phase::Dialling(_) => {
                self.abandon_dial(object, libc::ECONNRESET);
                Ok(())
            }
            Phase::Connected(_) => self.shut_stream(object, read, write),
            Phase::Datagrams(mailbox) => {
                mailbox.shut_read |= read;
                mailbox.shut_write |= write;
                if mailbox.is_connected() || socket.family == Family::Unix { Ok(()) } else { Err(libc::ENOTCONN) }
            }
        };
        self.touch(object);
        answer
    }

    /// Ends a listener; its unaccepted connections are reset, and the socket is fresh again.
    fn stop_listening(&mut self, object: ObjectId) {
        let Ok(socket) = self.socket_mut(object) else { return };
        let Phase::Listening(listener) = std::mem::replace(&mut socket.phase, Phase::Fresh) else { return };
        for child in listener.queue {
            self.discard(child);
        }
        for waiting in listener.waiting {
            self.touch(waiting);
        }
    }

    /// Ends a listener, and gives its address up.
    pub(super) fn give_up_listening(&mut self, object: ObjectId) {
        let Ok(socket) = self.socket_mut(object) else { return };
        if !socket.is_listening() {
            return;
        }
        let (local, name) = (socket.local.take(), socket.name.take());
        if let Some(local) = local {
            self.here.ports.release(Protocol::Tcp, local.address.port(), object);
        }
        if let Some(name) = name {
            self.here.unix_names.release(&name, object);
        }
        self.stop_listening(object);
        self.touch(object);
    }

    /// The last user of a socket let go, or a connection nobody accepted loses its listener.
    pub(super) fn end_socket(&mut self, object: ObjectId, socket: Socket) {
        let protocol = socket.protocol();
        if let Some(local) = socket.local {
            self.here.ports.release(protocol, local.address.port(), object);
        }
        if let Some(name) = &socket.name {
            self.here.unix_names.release(name, object);
        }
        match socket.phase {
            Phase::Fresh | Phase::Dialling(_) => {}
            Phase::Listening(listener) => {
                for child in listener.queue {
                    self.discard(child);
                }
                for waiting in listener.waiting {
                    self.touch(waiting);
                }
            }
            Phase::Connected(stream) => self.end_stream(object, socket.family, &socket.options, socket.local, stream),
            Phase::Datagrams(mailbox) => {
                for sender in mailbox.waiting {
                    self.touch(sender);
                }
            }
        }
    }

    pub(super) fn socket_readiness(&self, object: ObjectId) -> Readiness {
        let Ok(socket) = self.socket(object) else { return Readiness::default() };
        let error = socket.error.is_some();
        match &socket.phase {
            Phase::Fresh => Readiness { writable: true, hangup: true, error, readable: false },
            Phase::Dialling(_) => Readiness { error, ..Readiness::default() },
            Phase::Listening(listener) => Readiness { readable: !listener.queue.is_empty(), ..Readiness::default() },
            Phase::Connected(stream) => {
                let ready = stream.readiness();
                Readiness { error, readable: ready.readable || error, writable: ready.writable || error, ..ready }
            }
            Phase::Datagrams(mailbox) => Readiness {
                readable: error || mailbox.shut_read || !mailbox.is_empty(),
                writable: true,
                error,
                hangup: mailbox.shut_read && mailbox.shut_write,
            },
        }
    }

    pub(super) fn local_address(&self, object: ObjectId) -> Result<SocketAddress, Errno> {
        let socket = self.socket(object)?;
        Ok(match (&socket.name, socket.local) {
            (Some(name), _) => name.address(),
            (None, Some(local)) => SocketAddress::Ip(socket.family.shown(local.address)),
            (None, None) if socket.family == Family::Unix => SocketAddress::Unnamed,
            (None, None) => SocketAddress::Ip(socket.family.unbound()),
        })
    }

    pub(super) fn peer_address(&self, object: ObjectId) -> Result<SocketAddress, Errno> {
        let socket = self.socket(object)?;
        match &socket.phase {
            Phase::Connected(stream) if stream.is_open() || socket.family == Family::Unix => Ok(stream.remote.clone()),
            Phase::Datagrams(mailbox) => mailbox.remote_address().ok_or(libc::ENOTCONN),
            _ => Err(libc::ENOTCONN),
        }
    }

    pub(super) fn set_option(&mut self, object: ObjectId, option: SocketOption) -> Result<(), Errno> {
        let socket = self.socket_mut(object)?;
        let bound = socket.local.is_some();
        socket.options.set(socket.family, socket.kind, bound, option)
    }

    pub(super) fn option(&mut self, object: ObjectId, name: SocketOptionName) -> Result<SocketOption, Errno> {
        let socket = self.socket_mut(object)?;
        if name == SocketOptionName::Error {
            return Ok(SocketOption::Error(socket.error.take().unwrap_or(0)));
        }
        socket.options.get(socket.family, socket.kind, name)
    }

    /// A packet has come to its end.
    pub(super) fn arrive(&mut self, packet: Packet) {
        match packet {
            Packet::Dial { from, source, target, window } => self.on_dial(from, source, target, window),
            Packet::Welcome { from, to, source, window } => self.on_welcome(from, to, source, window),
            Packet::Refuse { to, source } => self.on_refuse(to, source),
            Packet::Confirm { from, to } => self.on_confirm(from, to),
            Packet::Segment { from, to, segment } => self.on_segment(from, to, segment),
            Packet::Datagram { from, source, target, bytes } => self.on_datagram(from, source, target, bytes),
            Packet::Unreachable { to } => self.on_unreachable(to),
        }
    }
}
