//! Unix sockets: names, streams and datagrams.
//!
//! A path name is a socket file, which outlives its socket: connecting to it then is refused. An abstract name goes
//! with its socket. Unix sockets meet without a wire: connecting, sending and closing happen at once.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::plane::addr::SocketAddress;
use crate::plane::backend::SocketKind;
use crate::plane::backend::sim::exec::Answer;
use crate::plane::backend::sim::fs::Inode;
use crate::plane::backend::sim::net::Phase;
use crate::plane::backend::sim::net::address::Family;
use crate::plane::backend::sim::net::datagram::Remote;
use crate::plane::backend::sim::net::stream::Stream;
use crate::plane::backend::sim::ops::InFlight;
use crate::plane::backend::sim::world::{Errno, ObjectId, State};

/// Letters a Unix datagram socket holds before its senders wait.
const LETTERS_MAX: usize = 512;
/// What a Unix datagram costs of its sender's buffer besides its bytes.
const LETTER_BYTES: usize = 32;

/// The name a Unix socket is bound to, or was accepted at.
#[derive(Clone, Debug)]
pub(crate) enum UnixName {
    /// A socket file, and the path it was bound by.
    File(Inode, PathBuf),
    /// A name of Linux's abstract namespace; each kind of socket has its own.
    Abstract(SocketKind, Vec<u8>),
}

impl UnixName {
    pub(super) fn address(&self) -> SocketAddress {
        match self {
            UnixName::File(_, path) => SocketAddress::Unix(path.clone()),
            UnixName::Abstract(_, name) => SocketAddress::Abstract(name.clone()),
        }
    }
}

/// Who holds which name.
#[derive(Debug, Default)]
pub(crate) struct UnixNames {
    files: BTreeMap<Inode, ObjectId>,
    streams: BTreeMap<Vec<u8>, ObjectId>,
    datagrams: BTreeMap<Vec<u8>, ObjectId>,
}

impl UnixNames {
    fn names(&mut self, kind: SocketKind) -> &mut BTreeMap<Vec<u8>, ObjectId> {
        match kind {
            SocketKind::Stream => &mut self.streams,
            SocketKind::Datagram => &mut self.datagrams,
        }
    }

    /// Gives a name up, if it is this socket's.
    pub(super) fn release(&mut self, name: &UnixName, holder: ObjectId) {
        match name {
            UnixName::File(inode, _) if self.files.get(inode) == Some(&holder) => {
                self.files.remove(inode);
            }
            UnixName::Abstract(kind, name) if self.names(*kind).get(name) == Some(&holder) => {
                self.names(*kind).remove(name);
            }
            _ => {}
        }
    }
}

impl State {
    pub(super) fn bind_unix(&mut self, object: ObjectId, address: &SocketAddress) -> Result<(), Errno> {
        let socket = self.socket(object)?;
        let (kind, named) = (socket.kind, socket.name.is_some());
        let name = match address {
            // A name that is taken is the first thing Linux sees.
            SocketAddress::Unix(path) if named && self.here.fs.lookup(path.as_os_str().as_bytes()).is_ok() => {
                return Err(libc::EADDRINUSE);
            }
            _ if named => return Err(libc::EINVAL),
            SocketAddress::Unix(path) => {
                let inode = self
                    .here
                    .fs
                    .make_socket(path.as_os_str().as_bytes(), self.time.now())
                    .map_err(|errno| if errno == libc::EEXIST { libc::EADDRINUSE } else { errno })?;
                self.here.fs.stamp(self.time.now());
                self.here.unix_names.files.insert(inode, object);
                UnixName::File(inode, path.clone())
            }
            SocketAddress::Abstract(name) => {
                let names = self.here.unix_names.names(kind);
                if names.contains_key(name) {
                    return Err(libc::EADDRINUSE);
                }
                names.insert(name.clone(), object);
                UnixName::Abstract(kind, name.clone())
            }
            SocketAddress::Ip(_) | SocketAddress::Unnamed => return Err(libc::EINVAL),
        };
        self.socket_mut(object)?.name = Some(name);
        Ok(())
    }

    /// Who is bound to an address.
    fn find_unix(&mut self, address: &SocketAddress, kind: SocketKind) -> Result<ObjectId, Errno> {
        let found = match address {
            SocketAddress::Unix(path) => {
                let inode = self.here.fs.lookup(path.as_os_str().as_bytes())?;
                self.here.unix_names.files.get(&inode)
            }
            SocketAddress::Abstract(name) => self.here.unix_names.names(kind).get(name),
            SocketAddress::Ip(_) | SocketAddress::Unnamed => return Err(libc::EINVAL),
        };
        let object = *found.ok_or(libc::ECONNREFUSED)?;
        if self.socket(object)?.kind != kind {
            return Err(libc::EPROTOTYPE);
        }
        Ok(object)
    }

    /// How a Unix socket is seen by the one it meets.
    fn unix_address(&self, object: ObjectId) -> SocketAddress {
        match self.socket(object).map(|socket| &socket.name) {
            Ok(Some(name)) => name.address(),
            _ => SocketAddress::Unnamed,
        }
    }

    /// Connects at once, or waits while the listener's queue is full.
    pub(super) fn connect_unix(&mut self, object: ObjectId, target: &SocketAddress) -> Answer {
        match &self.socket(object)?.phase {
            Phase::Fresh => {}
            Phase::Connected(_) => return Err(libc::EISCONN),
            _ => return Err(libc::EINVAL),
        }
        let found = self.find_unix(target, SocketKind::Stream)?;
        let own = self.unix_address(object);
        let socket = self.socket_mut(found)?;
        let name = socket.name.clone();
        let Phase::Listening(listener) = &mut socket.phase else { return Err(libc::ECONNREFUSED) };
        if listener.queue.len() > listener.backlog {
            listener.waiting.push(object);
            return Ok(None);
        }
        let child = self.make_socket(Family::Unix, SocketKind::Stream);
        if let Ok(socket) = self.socket_mut(child) {
            socket.name = name;
        }
        let at = self.unix_address(found);
        self.join(object, at, child, own);
        if let Ok(socket) = self.socket_mut(found)
            && let Phase::Listening(listener) = &mut socket.phase
        {
            listener.queue.push_back(child);
            self.touch(found);
        }
        Ok(Some(0))
    }

    /// Connects two streams; each comes with the address at which the other sees it.
    fn join(&mut self, a: ObjectId, b_address: SocketAddress, b: ObjectId, a_address: SocketAddress) {
        for (end, peer, remote) in [(a, b, b_address), (b, a, a_address)] {
            if let Ok(socket) = self.socket_mut(end) {
                let window = socket.options.send_buffer;
                socket.phase = Phase::Connected(Stream::new(peer, remote, window));
            }
        }
    }

    /// Makes a connected pair.
    pub(in crate::plane::backend::sim) fn make_pair(&mut self, kind: SocketKind) -> (ObjectId, ObjectId) {
        let (a, b) = (self.make_socket(Family::Unix, kind), self.make_socket(Family::Unix, kind));
        match kind {
            SocketKind::Stream => self.join(a, SocketAddress::Unnamed, b, SocketAddress::Unnamed),
            SocketKind::Datagram => {
                for (end, object) in [(a, b), (b, a)] {
                    self.set_unix_remote(end, object, SocketAddress::Unnamed);
                }
            }
        }
        (a, b)
    }

    fn set_unix_remote(&mut self, object: ObjectId, remote: ObjectId, address: SocketAddress) {
        if let Ok(socket) = self.socket_mut(object)
            && let Some(mailbox) = socket.mailbox()
        {
            mailbox.remote = Remote::Unix { object: remote, address };
        }
    }

    pub(super) fn connect_unix_datagram(&mut self, object: ObjectId, target: &SocketAddress) -> Answer {
        let found = self.find_unix(target, SocketKind::Datagram)?;
        self.may_send(object, found)?;
        let address = self.unix_address(found);
        self.set_unix_remote(object, found, address);
        Ok(Some(0))
    }

    /// A connected socket takes datagrams from its peer alone.
    fn may_send(&mut self, object: ObjectId, to: ObjectId) -> Result<(), Errno> {
        match self.socket_mut(to)?.mailbox().map(|mailbox| &mailbox.remote) {
            Some(Remote::Unix { object: remote, .. }) if *remote != object => Err(libc::EPERM),
            _ => Ok(()),
        }
    }

    /// Delivers at once, or waits while the receiver's queue is full.
    pub(super) fn send_unix_datagram(&mut self, object: ObjectId, op: &mut InFlight) -> Answer {
        let count = op.want();
        let socket = self.socket_mut(object)?;
        let send_buffer = socket.options.send_buffer;
        let Some(mailbox) = socket.mailbox() else { return Err(libc::EINVAL) };
        let (shut, connected) = (
            mailbox.shut_write,
            match &mailbox.remote {
                Remote::Unix { object, .. } => Some(*object),
                _ => None,
            },
        );
        let to = match (op.operand.address(), connected) {
            (Some(named), _) => self.find_unix(&named, SocketKind::Datagram)?,
            (None, Some(connected)) => connected,
            (None, None) => return Err(libc::ENOTCONN),
        };
        if count + LETTER_BYTES > send_buffer {
            return Err(libc::EMSGSIZE);
        }
        if shut {
            return Err(libc::EPIPE);
        }
        if self.socket(to).is_err() {
            return Err(libc::ECONNREFUSED);
        }
        self.may_send(object, to)?;
        let sender = self.socket(object)?.name.as_ref().map(UnixName::address);
        let Some(mailbox) = self.socket_mut(to)?.mailbox() else { return Err(libc::EPROTOTYPE) };
        if mailbox.shut_read {
            return Err(libc::EPIPE);
        }
        if mailbox.len() >= LETTERS_MAX {
            mailbox.waiting.push(object);
            return Ok(None);
        }
        mailbox.deliver(sender, op.operand.gather(0, count));
        self.touch(to);
        Ok(Some(count))
    }
}
