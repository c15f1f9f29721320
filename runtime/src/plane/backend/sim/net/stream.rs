//! A connected stream, TCP or Unix: bounded bytes both ways, half-close, reset.
//!
//! Sending moves bytes into the wire at once and counts them as unread until the other end says it read them; a
//! sender whose window is full of unread bytes waits. What was received stands in the inbox until it is read, also
//! after the end or a reset came. An end that closes with bytes unread resets the other; so does a packet for an end
//! that is gone.
//!
//! TCP and Unix answer a few things differently, as they do in Linux: a TCP reset is told once as `ECONNRESET` (or
//! `EPIPE` when the end had come before it), sending into a closed Unix socket is `EPIPE` at once.

use std::collections::VecDeque;
use std::time::Duration;

use crate::plane::addr::SocketAddress;
use crate::plane::backend::sim::exec::Answer;
use crate::plane::backend::sim::net::address::{Family, Local, Resting};
use crate::plane::backend::sim::net::options::Options;
use crate::plane::backend::sim::net::packet::{Packet, Segment};
use crate::plane::backend::sim::net::probe::Probing;
use crate::plane::backend::sim::net::{Phase, Socket};
use crate::plane::backend::sim::ops::InFlight;
use crate::plane::backend::sim::world::{Body, Errno, Object, ObjectId, State};
use crate::plane::op::Readiness;
use crate::plane::time::Instant;

/// How long a port rests after its connection ended here first.
const RESTING: Duration = Duration::from_secs(60);

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(super) peer: ObjectId,
    /// The other end's address, as this end's family shows it.
    pub(super) remote: SocketAddress,
    /// The listener it will queue at once the handshake is through.
    pub(super) listener: Option<ObjectId>,
    inbox: VecDeque<u8>,
    /// The other end sends no more.
    ended: bool,
    /// The connection is no more: reset, or the other end is gone.
    broken: bool,
    shut_read: bool,
    shut_write: bool,
    /// This end finished while the other had not.
    closed_first: bool,
    /// Nobody ever accepted this end.
    forsaken: bool,
    /// Bytes sent and not yet read by the other end, and how many there may be.
    unread: usize,
    pub(super) window: usize,
    pub(super) probing: Probing,
    /// When the last packet sent arrives: later ones arrive no earlier.
    wire: Instant,
}

impl Stream {
    pub(super) fn new(peer: ObjectId, remote: SocketAddress, window: usize) -> Stream {
        Stream {
            peer,
            remote,
            listener: None,
            inbox: VecDeque::new(),
            ended: false,
            broken: false,
            shut_read: false,
            shut_write: false,
            closed_first: false,
            forsaken: false,
            unread: 0,
            window,
            probing: Probing::default(),
            wire: Instant::ORIGIN,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        !self.broken
    }

    pub(super) fn has_room(&self) -> bool {
        self.unread < self.window
    }

    /// What is sent from now on arrives no earlier than this.
    pub(super) fn delay(&mut self, until: Instant) {
        self.wire = self.wire.max(until);
    }

    pub(super) fn readiness(&self) -> Readiness {
        Readiness {
            readable: !self.inbox.is_empty() || self.ended || self.broken || self.shut_read,
            writable: self.has_room() || self.broken || self.shut_write,
            error: false,
            hangup: self.broken || (self.ended || self.shut_read) && self.shut_write,
        }
    }
}

impl State {
    pub(super) fn recv_stream(&mut self, object: ObjectId, op: &mut InFlight) -> Answer {
        let socket = self.socket_mut(object)?;
        let unix = socket.family == Family::Unix;
        let stream = match &mut socket.phase {
            Phase::Connected(stream) => stream,
            Phase::Dialling(_) => return Ok(None),
            _ => return Err(if unix { libc::EINVAL } else { libc::ENOTCONN }),
        };
        let count = op.want().min(stream.inbox.len());
        if !stream.inbox.is_empty() {
            let (front, back) = stream.inbox.as_slices();
            let front = &front[..count.min(front.len())];
            op.operand.scatter(0, front);
            op.operand.scatter(front.len(), &back[..count - front.len()]);
            stream.inbox.drain(..count);
            let peer = stream.peer;
            if count > 0 {
                self.transmit(object, peer, Segment::Read(count));
            }
            return Ok(Some(count));
        }
        let (over, shut) = (stream.ended, stream.broken || stream.shut_read);
        if over && !unix {
            return Ok(Some(0));
        }
        socket.take_error()?;
        Ok((over || shut).then_some(0))
    }

    pub(super) fn send_stream(&mut self, object: ObjectId, op: &mut InFlight, all: bool) -> Answer {
        let socket = self.socket_mut(object)?;
        let unix = socket.family == Family::Unix;
        let stream = match &mut socket.phase {
            Phase::Connected(stream) => stream,
            Phase::Dialling(_) => return Ok(None),
            _ => return Err(if unix { libc::ENOTCONN } else { libc::EPIPE }),
        };
        if stream.shut_write || stream.broken {
            if !unix {
                socket.take_error()?;
            }
            return Err(libc::EPIPE);
        }
        let left = op.want() - op.done;
        let count = left.min(stream.window.saturating_sub(stream.unread));
        if count == 0 && left > 0 {
            if !unix {
                self.wait_for_room(object);
            }
            return Ok(None);
        }
        stream.unread += count;
        let peer = stream.peer;
        let bytes = op.operand.gather(op.done, count);
        op.done += count;
        if count > 0 {
            self.transmit(object, peer, Segment::Data(bytes));
        }
        Ok((!all || op.done == op.want()).then_some(op.done))
    }

    pub(super) fn shut_stream(&mut self, object: ObjectId, read: bool, write: bool) -> Result<(), Errno> {
        let socket = self.socket_mut(object)?;
        let unix = socket.family == Family::Unix;
        let Some(stream) = socket.stream() else { return Err(libc::ENOTCONN) };
        // Both ends have said goodbye, or the connection broke: TCP knows of no connection any more.
        if !unix && (stream.broken || stream.ended && stream.shut_write) {
            return Err(libc::ENOTCONN);
        }
        let (peer, broken) = (stream.peer, stream.broken);
        let finishes = write && !stream.shut_write;
        let deafens = unix && read && !stream.shut_read;
        stream.closed_first |= finishes && !stream.ended;
        stream.shut_read |= read;
        stream.shut_write |= write;
        if finishes && !broken {
            self.transmit(object, peer, Segment::Finish);
        }
        if deafens && !broken {
            self.transmit(object, peer, Segment::Deaf);
        }
        Ok(())
    }

    /// The end of one end: tells the other, and lets the port rest if this end was the first to go.
    pub(super) fn end_stream(
        &mut self,
        object: ObjectId,
        family: Family,
        options: &Options,
        local: Option<Local>,
        stream: Stream,
    ) {
        if let Some(listener) = stream.listener {
            self.drop_half_made(listener);
        }
        if stream.broken {
            return;
        }
        let unread = !stream.inbox.is_empty() || stream.forsaken;
        let abrupt = unread || options.linger == Some(Duration::ZERO);
        let farewell = match family {
            Family::Unix => Some(Segment::Gone { unread }),
            _ if abrupt => Some(Segment::Reset),
            _ => (!stream.shut_write).then_some(Segment::Finish),
        };
        if let Some(segment) = farewell {
            self.send_segment(family, object, stream.peer, segment, stream.wire);
        }
        let first = stream.closed_first || !stream.shut_write && !stream.ended;
        if let Some(local) = local
            && first
            && !abrupt
        {
            let now = self.time.now();
            let (reuse_address, reuse_port) = (options.reuse_address, options.reuse_port);
            self.here.ports.rest(Resting { local, until: now + RESTING, reuse_address, reuse_port }, now);
        }
    }

    /// Removes a connection nobody will accept, and resets its other end.
    pub(super) fn discard(&mut self, object: ObjectId) {
        if let Some(stream) = self.stream_mut(object) {
            stream.forsaken = true;
        }
        self.end(object);
    }

    /// Removes a connection whose other end is gone already.
    pub(super) fn forget(&mut self, object: ObjectId) {
        if let Some(stream) = self.stream_mut(object) {
            stream.broken = true;
        }
        self.end(object);
    }

    /// Sends a segment from one end of a connection, behind all it has sent before.
    pub(super) fn transmit(&mut self, from: ObjectId, to: ObjectId, segment: Segment) {
        let Ok(Socket { family, phase: Phase::Connected(stream), .. }) = self.socket(from) else { return };
        let arrival = self.send_segment(*family, from, to, segment, stream.wire);
        if let Some(stream) = self.stream_mut(from) {
            stream.wire = arrival;
        }
    }

    /// Sends a segment that arrives no earlier than `earliest`; answers when it does.
    fn send_segment(
        &mut self,
        family: Family,
        from: ObjectId,
        to: ObjectId,
        segment: Segment,
        earliest: Instant,
    ) -> Instant {
        if family == Family::Unix {
            self.on_segment(from, to, segment);
            return self.time.now();
        }
        self.send_packet(Packet::Segment { from, to, segment }, earliest)
    }

    /// What this end sends from now on arrives no earlier than `until`.
    pub(in crate::plane::backend::sim) fn delay_stream(&mut self, end: ObjectId, until: Instant) {
        if let Some(stream) = self.stream_mut(end) {
            stream.delay(until);
        }
    }

    /// Breaks every TCP connection of this host, and tells both ends; answers how many.
    pub(in crate::plane::backend::sim) fn reset_connections(&mut self) -> usize {
        let here = self.current;
        let open = |(object, entry): (&ObjectId, &Object)| match &entry.body {
            Body::Socket(socket) if object.host() == here && socket.family != Family::Unix => match &socket.phase {
                Phase::Connected(stream) if !stream.broken && stream.listener.is_none() => Some((*object, stream.peer)),
                _ => None,
            },
            _ => None,
        };
        let ends: Vec<(ObjectId, ObjectId)> = self.objects.iter().filter_map(open).collect();
        for (end, peer) in &ends {
            self.transmit(*end, *peer, Segment::Reset);
            let Ok(socket) = self.socket_mut(*end) else { continue };
            socket.error = Some(libc::ECONNRESET);
            if let Some(stream) = socket.stream() {
                stream.broken = true;
            }
            self.touch(*end);
        }
        self.settle();
        ends.len()
    }

    /// Nothing this end sends arrives any more: it is told, and the connection is no more.
    pub(in crate::plane::backend::sim) fn give_up_connection(&mut self, end: ObjectId) {
        let Ok(socket) = self.socket_mut(end) else { return };
        let Phase::Connected(stream) = &mut socket.phase else { return };
        if stream.listener.is_some() {
            self.forget(end);
            return;
        }
        stream.broken = true;
        socket.error = Some(libc::ETIMEDOUT);
        self.touch(end);
    }

    pub(super) fn stream_mut(&mut self, object: ObjectId) -> Option<&mut Stream> {
        self.socket_mut(object).ok()?.stream()
    }

    pub(super) fn on_segment(&mut self, from: ObjectId, to: ObjectId, segment: Segment) {
        let Ok(socket) = self.socket_mut(to) else {
            // Nobody is there any more: whoever sends data is told so.
            if matches!(segment, Segment::Data(_)) {
                self.send_packet(Packet::Segment { from: to, to: from, segment: Segment::Reset }, Instant::ORIGIN);
            }
            return;
        };
        let Phase::Connected(stream) = &mut socket.phase else { return };
        if stream.peer != from {
            return;
        }
        match segment {
            // Data for an end that has finished and listens no more: TCP resets both.
            Segment::Data(_) if socket.family != Family::Unix && stream.shut_read && stream.shut_write => {
                stream.broken = true;
                socket.error = Some(libc::ECONNRESET);
                self.send_packet(Packet::Segment { from: to, to: from, segment: Segment::Reset }, Instant::ORIGIN);
            }
            Segment::Data(bytes) => stream.inbox.extend(bytes),
            Segment::Read(count) => {
                stream.unread = stream.unread.saturating_sub(count);
                stream.probing.answered();
            }
            Segment::Finish => stream.ended = true,
            Segment::Deaf => stream.shut_write = true,
            Segment::Reset if stream.listener.is_some() => {
                self.forget(to);
                return;
            }
            Segment::Reset => {
                stream.broken = true;
                socket.error = Some(if stream.ended { libc::EPIPE } else { libc::ECONNRESET });
            }
            Segment::Gone { unread } => {
                (stream.ended, stream.broken) = (true, true);
                if unread {
                    socket.error = Some(libc::ECONNRESET);
                }
            }
        }
        self.touch(to);
    }
}
