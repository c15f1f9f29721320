//! UDP on the loopback: datagrams arrive in order and unharmed, unless the receiver's buffer is full.
//!
//! A datagram for a port nobody holds is answered; a connected sender learns of it as `ECONNREFUSED` on its next
//! call, an unconnected one never does.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::plane::addr::SocketAddress;
use crate::plane::backend::sim::exec::Answer;
use crate::plane::backend::sim::net::address::{self, Family, Protocol};
use crate::plane::backend::sim::net::datagram::Remote;
use crate::plane::backend::sim::net::packet::Packet;
use crate::plane::backend::sim::net::tcp::nearest;
use crate::plane::backend::sim::ops::InFlight;
use crate::plane::backend::sim::world::{Errno, ObjectId, State};
use crate::plane::time::Instant;

/// The most bytes one UDP datagram carries.
const DATAGRAM_BYTES_MAX: usize = 65_507;

impl State {
    pub(super) fn connect_udp(&mut self, object: ObjectId, target: &SocketAddress) -> Answer {
        let socket = self.socket(object)?;
        let (family, only_v6) = (socket.family, socket.options.only_v6);
        if socket.local.is_none() {
            self.bind_ip(object, &SocketAddress::Ip(family.unbound())).map_err(|_| libc::EAGAIN)?;
        }
        // Unlike a dial, it takes a plain IPv4 address on an IPv6 socket.
        let mapped = match target {
            SocketAddress::Ip(plain) if plain.is_ipv4() && family == Family::V6 => {
                if only_v6 {
                    return Err(libc::EAFNOSUPPORT);
                }
                SocketAddress::Ip(family.shown(*plain))
            }
            other => other.clone(),
        };
        let target = self.reachable(object, &mapped)?;
        self.settle_source(object, target.ip())?;
        let socket = self.socket_mut(object)?;
        let shown = socket.family.shown(target);
        if let Some(mailbox) = socket.mailbox() {
            mailbox.remote = Remote::Ip { address: target, shown };
        }
        Ok(Some(0))
    }

    pub(super) fn send_udp(&mut self, object: ObjectId, op: &mut InFlight) -> Answer {
        let target = self.udp_target(object, op)?;
        let socket = self.socket_mut(object)?;
        let bound = socket.local.is_some();
        let Some(mailbox) = socket.mailbox() else { return Err(libc::EINVAL) };
        let (shut, wire) = (mailbox.shut_write, mailbox.wire);
        let count = op.want();
        if count > DATAGRAM_BYTES_MAX {
            return Err(libc::EMSGSIZE);
        }
        if !bound {
            let any = socket.family.unbound();
            self.bind_ip(object, &SocketAddress::Ip(any)).map_err(|_| libc::EAGAIN)?;
        }
        let socket = self.socket_mut(object)?;
        socket.take_error()?;
        if shut {
            return Err(libc::EPIPE);
        }
        let Some(local) = socket.local else { return Err(libc::EINVAL) };
        let mut source = local.address;
        if source.ip().is_unspecified() {
            source.set_ip(self.source_for(target.ip()));
        }
        if source.is_ipv4() != target.is_ipv4() {
            return Err(libc::ENETUNREACH);
        }
        let bytes = op.operand.gather(0, count);
        let arrival = self.send_packet(Packet::Datagram { from: object, source, target, bytes }, wire);
        if let Ok(socket) = self.socket_mut(object)
            && let Some(mailbox) = socket.mailbox()
        {
            mailbox.wire = arrival;
        }
        Ok(Some(count))
    }

    /// Where a datagram goes: to the address it names, or to the connected one.
    fn udp_target(&mut self, object: ObjectId, op: &InFlight) -> Result<SocketAddr, Errno> {
        let socket = self.socket_mut(object)?;
        let (family, only_v6, broadcast) = (socket.family, socket.options.only_v6, socket.options.broadcast);
        let Some(named) = op.operand.address() else {
            return match socket.mailbox().map(|mailbox| &mailbox.remote) {
                Some(Remote::Ip { address, .. }) => Ok(*address),
                _ => Err(libc::EDESTADDRREQ),
            };
        };
        let SocketAddress::Ip(named) = named else { return Err(libc::EAFNOSUPPORT) };
        if family == Family::V4 && named.is_ipv6() {
            return Err(libc::EAFNOSUPPORT);
        }
        if named.port() == 0 {
            return Err(libc::EINVAL);
        }
        let target = address::destination(address::canonical(named));
        if target.ip() == IpAddr::V4(Ipv4Addr::BROADCAST) && !broadcast {
            return Err(libc::EACCES);
        }
        if self.host_at(target.ip()).is_none() || target.is_ipv4() && family == Family::V6 && only_v6 {
            return Err(libc::ENETUNREACH);
        }
        Ok(target)
    }

    pub(super) fn on_datagram(&mut self, from: ObjectId, source: SocketAddr, target: SocketAddr, bytes: Vec<u8>) {
        let Some(receiver) = self.receiver_for(source, target) else {
            self.send_packet(Packet::Unreachable { to: from }, Instant::ORIGIN);
            return;
        };
        let Ok(socket) = self.socket_mut(receiver) else { return };
        let (sender, buffer) = (socket.family.shown(source), socket.options.receive_buffer);
        if let Some(mailbox) = socket.mailbox()
            && !mailbox.is_full(bytes.len(), buffer)
        {
            mailbox.deliver(Some(SocketAddress::Ip(sender)), bytes);
            self.touch(receiver);
        }
    }

    /// Who receives at `target` from `source`: the nearest fit, one connected to the source before any other.
    fn receiver_for(&self, source: SocketAddr, target: SocketAddr) -> Option<ObjectId> {
        let fits = self.here.ports.holders(Protocol::Udp, target.port()).iter().filter_map(|holder| {
            let socket = self.socket(*holder).ok()?;
            let fit = socket.local?.fit(target.ip())?;
            match socket.remote_ip() {
                None => Some((fit, *holder)),
                Some(remote) => (remote == source).then_some((fit + 4, *holder)),
            }
        });
        nearest(fits, source)
    }

    pub(super) fn on_unreachable(&mut self, to: ObjectId) {
        let Ok(socket) = self.socket_mut(to) else { return };
        if socket.remote_ip().is_some() {
            socket.error = Some(libc::ECONNREFUSED);
            self.touch(to);
        }
    }
}
