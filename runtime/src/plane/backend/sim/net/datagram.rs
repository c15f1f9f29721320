//! The receiving side of datagram sockets, UDP and Unix: a bounded queue of letters.

use std::collections::VecDeque;
use std::net::SocketAddr;

use crate::plane::addr::SocketAddress;
use crate::plane::backend::sim::exec::Answer;
use crate::plane::backend::sim::net::address::Family;
use crate::plane::backend::sim::ops::InFlight;
use crate::plane::backend::sim::world::{ObjectId, State};
use crate::plane::op::RawOp;
use crate::plane::time::Instant;

/// What a datagram costs of its receiver's buffer besides its bytes.
const LETTER_BYTES: usize = 768;

/// A datagram that was delivered.
#[derive(Debug)]
struct Letter {
    sender: Option<SocketAddress>,
    bytes: Vec<u8>,
}

/// Whom a datagram socket is connected to.
#[derive(Debug)]
pub(super) enum Remote {
    Nobody,
    /// A canonical address, and how the socket shows it.
    Ip {
        address: SocketAddr,
        shown: SocketAddr,
    },
    /// A Unix socket, or what was one.
    Unix {
        object: ObjectId,
        address: SocketAddress,
    },
}

/// What a datagram socket has received and not yet read.
#[derive(Debug)]
pub(crate) struct Mailbox {
    letters: VecDeque<Letter>,
    bytes: usize,
    pub(super) shut_read: bool,
    pub(super) shut_write: bool,
    pub(super) remote: Remote,
    /// Unix senders that wait for room.
    pub(super) waiting: Vec<ObjectId>,
    /// When the last datagram sent arrives: on one wire they stay in order.
    pub(super) wire: Instant,
}

impl Mailbox {
    /// An empty mailbox that takes from anybody.
    pub(super) fn new() -> Mailbox {
        Mailbox {
            letters: VecDeque::new(),
            bytes: 0,
            shut_read: false,
            shut_write: false,
            remote: Remote::Nobody,
            waiting: Vec::new(),
            wire: Instant::ORIGIN,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.letters.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.letters.len()
    }

    pub(super) fn is_connected(&self) -> bool {
        !matches!(self.remote, Remote::Nobody)
    }

    pub(super) fn remote_address(&self) -> Option<SocketAddress> {
        match &self.remote {
            Remote::Nobody => None,
            Remote::Ip { shown, .. } => Some(SocketAddress::Ip(*shown)),
            Remote::Unix { address, .. } => Some(address.clone()),
        }
    }

    /// Whether `bytes` more would exceed a buffer of this size.
    pub(super) fn is_full(&self, bytes: usize, buffer: usize) -> bool {
        self.bytes + bytes + LETTER_BYTES > buffer
    }

    pub(super) fn deliver(&mut self, sender: Option<SocketAddress>, bytes: Vec<u8>) {
        self.bytes += bytes.len() + LETTER_BYTES;
        self.letters.push_back(Letter { sender, bytes });
    }

    fn take(&mut self) -> Option<Letter> {
        let letter = self.letters.pop_front()?;
        self.bytes -= letter.bytes.len() + LETTER_BYTES;
        Some(letter)
    }
}

impl State {
    /// Receives one datagram; what does not fit the buffer is lost, and the op is told.
    pub(super) fn recv_datagram(&mut self, object: ObjectId, op: &mut InFlight) -> Answer {
        let socket = self.socket_mut(object)?;
        socket.take_error()?;
        let unix = socket.family == Family::Unix;
        let Some(mailbox) = socket.mailbox() else { return Err(libc::EINVAL) };
        let Some(letter) = mailbox.take() else { return Ok(mailbox.shut_read.then_some(0)) };
        let waiting = if unix { std::mem::take(&mut mailbox.waiting) } else { Vec::new() };
        let count = op.want().min(letter.bytes.len());
        op.operand.scatter(0, &letter.bytes[..count]);
        if matches!(op.operand.op(), RawOp::RecvFrom { .. }) {
            op.operand.received(letter.sender.as_ref(), count < letter.bytes.len());
        }
        for sender in waiting {
            self.touch(sender);
        }
        Ok(Some(count))
    }
}
