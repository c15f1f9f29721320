//! IP addresses of a simulated host, and who holds which port.
//!
//! A host has the loopback addresses (127.0.0.0/8 and ::1), an address in 10.0.0.0/16, and routes to the other hosts
//! of its world and nowhere else.
//! Inside, addresses are canonical (an IPv4 address is never in its IPv6 form); a socket of the IPv6 family shows
//! them mapped.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::plane::backend::sim::world::{ObjectId, State};
use crate::plane::time::Instant;

/// A socket's family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
    Unix,
}

impl Family {
    /// The address no socket of this family is bound to yet.
    pub(crate) fn unbound(self) -> SocketAddr {
        match self {
            Family::V6 => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
            Family::V4 | Family::Unix => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        }
    }

    /// How a socket of this family shows a canonical address.
    pub(crate) fn shown(self, address: SocketAddr) -> SocketAddr {
        match (self, address.ip()) {
            (Family::V6, IpAddr::V4(ip)) => SocketAddr::from((ip.to_ipv6_mapped(), address.port())),
            _ => address,
        }
    }
}

/// The address without its IPv6 disguise, flow and scope.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Where a packet to this address goes: to "any" means to the host itself.
pub(crate) fn destination(target: SocketAddr) -> SocketAddr {
    match target.ip() {
        ip if !ip.is_unspecified() => target,
        IpAddr::V4(_) => SocketAddr::from((Ipv4Addr::LOCALHOST, target.port())),
        IpAddr::V6(_) => SocketAddr::from((Ipv6Addr::LOCALHOST, target.port())),
    }
}

impl State {
    /// Whether this host has this address.
    pub(crate) fn is_here(&self, ip: IpAddr) -> bool {
        self.host_at(ip) == Some(self.current)
    }

    /// The address a packet to `target` comes from when its socket is bound to none.
    pub(crate) fn source_for(&self, target: IpAddr) -> IpAddr {
        match target {
            IpAddr::V4(ip) if ip.is_loopback() || ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V4(_) => IpAddr::V4(self.current.ip()),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        }
    }
}

/// What a bound socket answers for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local {
    /// Canonical; an unspecified address stands for all of its family.
    pub(crate) address: SocketAddr,
    /// An unspecified IPv6 address that stands for all of IPv4 as well.
    pub(crate) dual: bool,
}

impl Local {
    /// How closely it fits a packet's target: none if not at all, more for a nearer fit.
    pub(crate) fn fit(&self, target: IpAddr) -> Option<u8> {
        match (self.address.ip(), target) {
            (own, target) if own == target => Some(3),
            (own, target) if own.is_unspecified() && own.is_ipv4() == target.is_ipv4() => Some(2),
            (_, IpAddr::V4(_)) if self.dual => Some(1),
            _ => None,
        }
    }

    /// Whether some packet could be meant for either; of the ports nothing is said.
    pub(crate) fn overlaps(&self, other: &Local) -> bool {
        let covers = |a: &Local, b: &Local| a.fit(b.address.ip()).is_some();
        covers(self, other) || covers(other, self)
    }
}

/// The two kinds of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

/// A port whose connection ended here first: old packets may still be about (TIME_WAIT).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resting {
    pub(crate) local: Local,
    pub(crate) until: Instant,
    pub(crate) reuse_address: bool,
    pub(crate) reuse_port: bool,
}

impl Resting {
    /// Whether both shut the same sockets out.
    fn is_like(&self, other: &Resting) -> bool {
        let what =
            |resting: &Resting| (resting.local.address, resting.local.dual, resting.reuse_address, resting.reuse_port);
        what(self) == what(other)
    }
}

/// Who holds which port. A listener's port is held by the listener and by each connection it accepted.
#[derive(Debug)]
pub(crate) struct Ports {
    tcp: BTreeMap<u16, Vec<ObjectId>>,
    udp: BTreeMap<u16, Vec<ObjectId>>,
    resting: BTreeMap<u16, Vec<Resting>>,
    /// Where the search for a free port goes on.
    next: u16,
}

impl Ports {
    /// The ports given out to those who ask for any.
    pub(crate) const EPHEMERAL: std::ops::Range<u16> = 32_768..61_000;

    /// No port held; the search for free ones begins at `first`.
    pub(crate) fn new(first: u16) -> Ports {
        Ports { tcp: BTreeMap::new(), udp: BTreeMap::new(), resting: BTreeMap::new(), next: first }
    }

    /// Nobody holds a port, and none rests.
    pub(crate) fn clear(&mut self) {
        (self.tcp, self.udp, self.resting) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    }

    fn held(&self, protocol: Protocol) -> &BTreeMap<u16, Vec<ObjectId>> {
        match protocol {
            Protocol::Tcp => &self.tcp,
            Protocol::Udp => &self.udp,
        }
    }

    fn held_mut(&mut self, protocol: Protocol) -> &mut BTreeMap<u16, Vec<ObjectId>> {
        match protocol {
            Protocol::Tcp => &mut self.tcp,
            Protocol::Udp => &mut self.udp,
        }
    }

    /// Who holds `port`, in the order they came.
    pub(crate) fn holders(&self, protocol: Protocol, port: u16) -> &[ObjectId] {
        self.held(protocol).get(&port).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn hold(&mut self, protocol: Protocol, port: u16, holder: ObjectId) {
        self.held_mut(protocol).entry(port).or_default().push(holder);
    }

    pub(crate) fn release(&mut self, protocol: Protocol, port: u16, holder: ObjectId) {
        let held = self.held_mut(protocol);
        if let Some(holders) = held.get_mut(&port) {
            holders.retain(|other| *other != holder);
            if holders.is_empty() {
                held.remove(&port);
            }
        }
    }

    /// Lets a port rest from now on.
    pub(crate) fn rest(&mut self, resting: Resting, now: Instant) {
        let at = self.resting.entry(resting.local.address.port()).or_default();
        // One connection after another may end here: what is alike rests as one, up to the last.
        at.retain(|other| other.until > now && !other.is_like(&resting));
        at.push(resting);
    }

    /// What rests at `port` at this moment.
    pub(crate) fn resting(&mut self, port: u16, now: Instant) -> &[Resting] {
        let Some(resting) = self.resting.get_mut(&port) else { return &[] };
        resting.retain(|resting| resting.until > now);
        resting
    }

    /// A port nobody holds; `fresh` also passes by those that rest. None when all are held.
    pub(crate) fn ephemeral(&mut self, protocol: Protocol, fresh: bool, now: Instant) -> Option<u16> {
        for _ in Ports::EPHEMERAL {
            let port = self.next;
            self.next = if port + 1 < Ports::EPHEMERAL.end { port + 1 } else { Ports::EPHEMERAL.start };
            let rests = fresh && protocol == Protocol::Tcp && !self.resting(port, now).is_empty();
            if self.holders(protocol, port).is_empty() && !rests {
                return Some(port);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(address: &str, dual: bool) -> Local {
        Local { address: address.parse().unwrap(), dual }
    }

    #[test]
    fn the_nearest_fit_wins() {
        let target = "127.0.0.1".parse().unwrap();
        assert_eq!(local("127.0.0.1:1", false).fit(target), Some(3));
        assert_eq!(local("0.0.0.0:1", false).fit(target), Some(2));
        assert_eq!(local("[::]:1", true).fit(target), Some(1));
        assert_eq!(local("[::]:1", false).fit(target), None);
        assert_eq!(local("127.0.0.2:1", false).fit(target), None);
    }

    #[test]
    fn wildcards_overlap_what_they_stand_for() {
        let overlap = |a: &str, a_dual, b: &str| {
            let (a, b) = (local(a, a_dual), local(b, false));
            assert_eq!(a.overlaps(&b), b.overlaps(&a));
            a.overlaps(&b)
        };
        assert!(overlap("0.0.0.0:1", false, "127.0.0.1:1"));
        assert!(overlap("[::]:1", true, "0.0.0.0:1"));
        assert!(overlap("[::]:1", true, "127.0.0.1:1"));
        assert!(overlap("[::]:1", false, "[::1]:1"));
        assert!(!overlap("[::]:1", false, "0.0.0.0:1"));
        assert!(!overlap("[::1]:1", false, "0.0.0.0:1"));
        assert!(!overlap("127.0.0.1:1", false, "127.0.0.2:1"));
    }

    #[test]
    fn free_ports_go_round_and_end() {
        let mut ports = Ports::new(Ports::EPHEMERAL.end - 1);
        let first = ports.ephemeral(Protocol::Tcp, true, Instant::ORIGIN).unwrap();
        assert_eq!(first, Ports::EPHEMERAL.end - 1);
        ports.hold(Protocol::Tcp, first, ObjectId(1));
        for _ in 1..Ports::EPHEMERAL.len() {
            let port = ports.ephemeral(Protocol::Tcp, true, Instant::ORIGIN).unwrap();
            ports.hold(Protocol::Tcp, port, ObjectId(1));
        }
        assert_eq!(ports.ephemeral(Protocol::Tcp, true, Instant::ORIGIN), None);
        assert!(ports.ephemeral(Protocol::Udp, true, Instant::ORIGIN).is_some());
        ports.release(Protocol::Tcp, first, ObjectId(1));
        assert_eq!(ports.ephemeral(Protocol::Tcp, true, Instant::ORIGIN), Some(first));
    }

    #[test]
    fn a_resting_port_wakes_up() {
        let mut ports = Ports::new(40_000);
        let until = Instant::from_nanos(10);
        let local = local("127.0.0.1:40000", false);
        let resting = Resting { local, until, reuse_address: false, reuse_port: false };
        ports.rest(resting, Instant::ORIGIN);
        ports.rest(Resting { reuse_port: true, until: Instant::from_nanos(5), ..resting }, Instant::ORIGIN);
        ports.rest(resting, Instant::ORIGIN);
        assert_eq!(ports.resting[&40_000].len(), 2, "what is alike rests as one");
        ports.rest(resting, Instant::from_nanos(5));
        assert_eq!(ports.resting[&40_000].len(), 1, "what has rested is not kept");
        assert_eq!(ports.ephemeral(Protocol::Tcp, false, Instant::ORIGIN), Some(40_000));
        ports.next = 40_000;
        assert_eq!(ports.ephemeral(Protocol::Tcp, true, Instant::ORIGIN), Some(40_001));
        assert!(ports.resting(40_000, until).is_empty());
    }
}
