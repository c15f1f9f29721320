//! TCP on the loopback: ports, listening, and the making of connections.
//!
//! A dial travels to the port's listener, which makes its end and welcomes; the dialler is connected when the welcome
//! arrives, and the listener may accept once it is confirmed. Nobody listening answers with a reset. A listener whose
//! queue is full drops the dial, which is sent again after 1, 2, 4 … seconds and given up after 127, as Linux does.
//!
//! The host is isolated: an address that is not its own has no route (`ENETUNREACH`) and cannot be bound
//! (`EADDRNOTAVAIL`).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::plane::addr::SocketAddress;
use crate::plane::backend::SocketKind;
use crate::plane::backend::sim::events::Event;
use crate::plane::backend::sim::exec::Answer;
use crate::plane::backend::sim::net::address::{self, Family, Local, Protocol};
use crate::plane::backend::sim::net::packet::{Packet, Segment};
use crate::plane::backend::sim::net::stream::Stream;
use crate::plane::backend::sim::net::{Dial, Phase};
use crate::plane::backend::sim::world::{Errno, ObjectId, State};
use crate::plane::time::Instant;

/// How often a dial is sent before it is given up.
const DIALS_MAX: u32 = 7;

impl State {
    /// Binds an IP socket of either kind.
    pub(super) fn bind_ip(&mut self, object: ObjectId, address: &SocketAddress) -> Result<(), Errno> {
        let socket = self.socket(object)?;
        let (family, protocol) = (socket.family, socket.protocol());
        let asked = match (family, address) {
            (Family::V4, SocketAddress::Ip(asked)) if asked.is_ipv4() => *asked,
            (Family::V6, SocketAddress::Ip(asked)) if asked.is_ipv6() => *asked,
            (Family::V6, SocketAddress::Ip(_)) => return Err(libc::EINVAL),
            _ => return Err(libc::EAFNOSUPPORT),
        };
        if socket.local.is_some() || !matches!(socket.phase, Phase::Fresh | Phase::Datagrams(_)) {
            return Err(libc::EINVAL);
        }
        let mut local = Local { address: address::canonical(asked), dual: false };
        let mapped = asked.is_ipv6() && local.address.is_ipv4();
        if mapped && socket.options.only_v6 {
            return Err(libc::EINVAL);
        }
        let any = local.address.ip().is_unspecified();
        if !any && !self.is_here(local.address.ip()) {
            return Err(libc::EADDRNOTAVAIL);
        }
        local.dual = any && local.address.is_ipv6() && !socket.options.only_v6;
        if asked.port() == 0 {
            let port = self.here.ports.ephemeral(protocol, true, self.time.now()).ok_or(libc::EADDRINUSE)?;
            local.address.set_port(port);
        } else if self.is_taken(object, &local) {
            return Err(libc::EADDRINUSE);
        }
        self.hold(object, protocol, local);
        Ok(())
    }

    fn hold(&mut self, object: ObjectId, protocol: Protocol, local: Local) {
        self.here.ports.hold(protocol, local.address.port(), object);
        if let Ok(socket) = self.socket_mut(object) {
            socket.local = Some(local);
        }
    }

    /// Whether somebody else holds the port in a way that shuts this socket out.
    ///
    /// Sockets share a port when all say `ReusePort`, or when all say `ReuseAddress` and, for TCP, none listens.
    fn is_taken(&mut self, object: ObjectId, local: &Local) -> bool {
        let Ok(socket) = self.socket(object) else { return false };
        let (protocol, port) = (socket.protocol(), local.address.port());
        let (reuse_address, reuse_port) = (socket.options.reuse_address, socket.options.reuse_port);
        let held = self.here.ports.holders(protocol, port).iter().filter(|holder| **holder != object).any(|holder| {
            let Ok(other) = self.socket(*holder) else { return false };
            let listens = protocol == Protocol::Tcp && other.is_listening();
            let shared =
                reuse_port && other.options.reuse_port || reuse_address && other.options.reuse_address && !listens;
            other.local.is_some_and(|held| held.overlaps(local)) && !shared
        });
        let now = self.time.now();
        let rests = protocol == Protocol::Tcp
            && self.here.ports.resting(port, now).iter().any(|resting| {
                let shared = reuse_port && resting.reuse_port || reuse_address && resting.reuse_address;
                resting.local.overlaps(local) && !shared
            });
        held || rests
    }

    /// Makes sure a socket about to listen has a port, to itself or shared with other listeners by consent.
    pub(super) fn claim_for_listening(&mut self, object: ObjectId) -> Result<(), Errno> {
        let socket = self.socket(object)?;
        let (held, unbound) = (socket.local, SocketAddress::Ip(socket.family.unbound()));
        match held {
            None => self.bind_ip(object, &unbound),
            Some(local) if self.is_taken(object, &local) => Err(libc::EADDRINUSE),
            Some(_) => Ok(()),
        }
    }

    /// Where a socket may connect to: the canonical, local destination.
    pub(super) fn reachable(&self, object: ObjectId, target: &SocketAddress) -> Result<SocketAddr, Errno> {
        let socket = self.socket(object)?;
        let asked = match (socket.family, target) {
            (Family::V4, SocketAddress::Ip(asked)) if asked.is_ipv4() => *asked,
            (Family::V6, SocketAddress::Ip(asked)) if asked.is_ipv6() => *asked,
            (Family::V6, SocketAddress::Ip(_)) => return Err(libc::EINVAL),
            _ => return Err(libc::EAFNOSUPPORT),
        };
        let target = address::destination(address::canonical(asked));
        let mapped = asked.is_ipv6() && target.is_ipv4();
        if self.host_at(target.ip()).is_none() || mapped && socket.options.only_v6 {
            return Err(libc::ENETUNREACH);
        }
        Ok(target)
    }

    /// Gives a socket that is about to send to `target` an address of its own, as near as it can be.
    pub(super) fn settle_source(&mut self, object: ObjectId, target: IpAddr) -> Result<SocketAddr, Errno> {
        let socket = self.socket(object)?;
        let protocol = socket.protocol();
        let Some(local) = socket.local else {
            let port = self.here.ports.ephemeral(protocol, false, self.time.now()).ok_or(libc::EADDRNOTAVAIL)?;
            let source = SocketAddr::new(self.source_for(target), port);
            self.hold(object, protocol, Local { address: source, dual: false });
            return Ok(source);
        };
        let mut source = local.address;
        if source.ip().is_unspecified() {
            source.set_ip(self.source_for(target));
        }
        if source.is_ipv4() != target.is_ipv4() {
            return Err(libc::ENETUNREACH);
        }
        self.socket_mut(object)?.local = Some(Local { address: source, dual: false });
        Ok(source)
    }

    /// Starts a dial on the first call, and answers how it went on the later ones.
    pub(super) fn connect_tcp(&mut self, object: ObjectId, target: &SocketAddress, begun: &mut bool) -> Answer {
        let socket = self.socket_mut(object)?;
        match &socket.phase {
            Phase::Dialling(_) if *begun => return Ok(None),
            Phase::Connected(_) if *begun => return Ok(Some(0)),
            _ if *begun => return Err(socket.error.take().unwrap_or(libc::ECONNABORTED)),
            Phase::Fresh => {}
            Phase::Dialling(_) => return Err(libc::EALREADY),
            _ => return Err(libc::EISCONN),
        }
        let target = self.reachable(object, target)?;
        let before = self.socket(object)?.local;
        let source = self.settle_source(object, target.ip())?;
        let socket = self.socket_mut(object)?;
        socket.error = None;
        socket.phase = Phase::Dialling(Dial { target, before, tries: 1 });
        let window = socket.options.receive_buffer;
        *begun = true;
        self.send_packet(Packet::Dial { from: object, source, target, window }, Instant::ORIGIN);
        if self.host_at(target.ip()) != Some(self.current) {
            self.drop_dial(object);
        }
        Ok(None)
    }

    /// A dial will not succeed; the socket may try again.
    pub(super) fn abandon_dial(&mut self, object: ObjectId, errno: Errno) {
        if let Ok(socket) = self.socket_mut(object)
            && let Phase::Dialling(Dial { before, .. }) = std::mem::replace(&mut socket.phase, Phase::Fresh)
        {
            socket.error = Some(errno);
            let held = std::mem::replace(&mut socket.local, before);
            if let (Some(held), None) = (held, before) {
                self.here.ports.release(Protocol::Tcp, held.address.port(), object);
            }
        }
        self.touch(object);
    }

    /// Sends a dropped dial again, or gives it up.
    pub(in crate::plane::backend::sim) fn redial(&mut self, object: ObjectId) {
        let Ok(socket) = self.socket_mut(object) else { return };
        let Phase::Dialling(dial) = &mut socket.phase else { return };
        if dial.tries == DIALS_MAX {
            self.abandon_dial(object, libc::ETIMEDOUT);
            return;
        }
        dial.tries += 1;
        let (target, window) = (dial.target, socket.options.receive_buffer);
        let Some(Local { address: source, .. }) = socket.local else { return };
        self.send_packet(Packet::Dial { from: object, source, target, window }, Instant::ORIGIN);
        if self.host_at(target.ip()) != Some(self.current) {
            self.drop_dial(object);
        }
    }

    /// Who listens nearest to `target`; listeners that share a port share its callers by their ports.
    fn listener_for(&self, source: SocketAddr, target: SocketAddr) -> Option<ObjectId> {
        let fits = self.here.ports.holders(Protocol::Tcp, target.port()).iter().filter_map(|holder| {
            let socket = self.socket(*holder).ok()?;
            let fit = socket.local?.fit(target.ip())?;
            socket.is_listening().then_some((fit, *holder))
        });
        nearest(fits, source)
    }

    pub(super) fn on_dial(&mut self, from: ObjectId, source: SocketAddr, target: SocketAddr, window: usize) {
        let Some(listener) = self.listener_for(source, target) else {
            self.send_packet(Packet::Refuse { to: from, source: target }, Instant::ORIGIN);
            return;
        };
        let Ok(socket) = self.socket_mut(listener) else { return };
        let (family, options) = (socket.family, socket.options.clone());
        let Phase::Listening(waiting) = &mut socket.phase else { return };
        if waiting.is_full() {
            self.drop_dial(from);
            return;
        }
        waiting.half_made += 1;
        let child = self.make_socket(family, SocketKind::Stream);
        self.hold(child, Protocol::Tcp, Local { address: target, dual: false });
        let welcome = Packet::Welcome { from: child, to: from, source: target, window: options.receive_buffer };
        self.send_packet(welcome, Instant::ORIGIN);
        if let Ok(socket) = self.socket_mut(child) {
            let remote = SocketAddress::Ip(family.shown(source));
            let mut stream = Stream::new(from, remote, options.send_buffer + window);
            stream.listener = Some(listener);
            socket.phase = Phase::Connected(stream);
            socket.options = options;
        }
    }

    /// Lets a dial get lost, or be taken for lost until it is answered: it will be sent again. A dial to another host
    /// has seen to that when it was sent.
    fn drop_dial(&mut self, dialler: ObjectId) {
        if dialler.host() != self.current {
            return;
        }
        let Ok(socket) = self.socket_mut(dialler) else { return };
        let Phase::Dialling(dial) = &socket.phase else { return };
        let pause = Duration::from_secs(1 << (dial.tries - 1));
        self.time.plan(self.time.now() + pause, self.current, Event::Redial(dialler));
    }

    pub(super) fn on_welcome(&mut self, from: ObjectId, to: ObjectId, source: SocketAddr, window: usize) {
        if let Ok(socket) = self.socket_mut(to)
            && let Phase::Dialling(dial) = &socket.phase
            && dial.target == source
        {
            let remote = SocketAddress::Ip(socket.family.shown(source));
            let window = socket.options.send_buffer + window;
            socket.phase = Phase::Connected(Stream::new(from, remote, window));
            let arrival = self.send_packet(Packet::Confirm { from: to, to: from }, Instant::ORIGIN);
            if let Some(stream) = self.stream_mut(to) {
                stream.delay(arrival);
            }
            self.touch(to);
            return;
        }
        // The dialler has lost interest.
        self.send_packet(Packet::Segment { from: to, to: from, segment: Segment::Reset }, Instant::ORIGIN);
    }

    pub(super) fn on_refuse(&mut self, to: ObjectId, source: SocketAddr) {
        if let Ok(socket) = self.socket(to)
            && let Phase::Dialling(dial) = &socket.phase
            && dial.target == source
        {
            self.abandon_dial(to, libc::ECONNREFUSED);
        }
    }

    pub(super) fn on_confirm(&mut self, from: ObjectId, to: ObjectId) {
        let Some(listener) = self.stream_mut(to).and_then(|stream| stream.listener.take()) else {
            self.send_packet(Packet::Segment { from: to, to: from, segment: Segment::Reset }, Instant::ORIGIN);
            return;
        };
        self.drop_half_made(listener);
        match self.socket_mut(listener).map(|socket| &mut socket.phase) {
            Ok(Phase::Listening(waiting)) => {
                waiting.queue.push_back(to);
                self.touch(listener);
            }
            _ => self.discard(to),
        }
    }

    /// A connection of this listener's is through its handshake, or was given up.
    pub(super) fn drop_half_made(&mut self, listener: ObjectId) {
        if let Ok(socket) = self.socket_mut(listener)
            && let Phase::Listening(waiting) = &mut socket.phase
        {
            waiting.half_made = waiting.half_made.saturating_sub(1);
        }
    }
}

/// The best fit; among equals the caller's port decides, so that a caller always meets the same one.
pub(super) fn nearest(fits: impl Iterator<Item = (u8, ObjectId)>, source: SocketAddr) -> Option<ObjectId> {
    let mut best: Vec<(u8, ObjectId)> = Vec::new();
    for fit in fits {
        match best.first() {
            Some(first) if first.0 > fit.0 => {}
            Some(first) if first.0 == fit.0 => best.push(fit),
            _ => best = vec![fit],
        }
    }
    (!best.is_empty()).then(|| best[usize::from(source.port()) % best.len()].1)
}
