//! The network between hosts: latency, loss, duplication, reordering, partitions.
//!
//! Each direction between two hosts is a wire of its own. A datagram may be lost, doubled or overtaken. Packets of a
//! connection are not: what is lost of it arrives later, when it has been sent again, after 0.2, 0.4, 0.8 … seconds,
//! and everything behind it waits for it, as TCP has it; after 15 times in vain the connection is given up
//! (`ETIMEDOUT`). A dial that is lost is sent again by its dialler.
//!
//! A packet for a host without power is lost like one on a wire that is cut.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Duration;

use crate::plane::backend::sim::events::{Event, span_nanos};
use crate::plane::backend::sim::net::packet::{Packet, Segment};
use crate::plane::backend::sim::site::HostId;
use crate::plane::backend::sim::world::{ObjectId, State};
use crate::plane::time::Instant;

/// The first pause before a lost packet of a connection is sent again; it doubles.
const RESEND: Duration = Duration::from_millis(200);
/// Pauses no longer than this.
const RESEND_MAX: Duration = Duration::from_secs(120);
/// How often it is sent again before the connection is given up.
const RESENDS_MAX: u32 = 15;

/// How one direction between two hosts behaves. Likelihoods go from 0, never, to 1, always.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::sim::Link;
///
/// let far = Link { latency: Duration::from_millis(40)..Duration::from_millis(60), ..Link::default() };
/// let bad = Link { loss: 0.3, duplicate: 0.1, reorder: 0.2, ..far };
/// assert_eq!(bad.latency.start, Duration::from_millis(40));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// How long a packet is under way; drawn anew for each, evenly. 0.1 to 0.5 milliseconds unless told.
    pub latency: Range<Duration>,
    /// How likely a packet takes `tail` times as long.
    pub slow: f64,
    /// What a slow packet's latency is multiplied by; 10 unless told.
    pub tail: u32,
    /// How likely a packet is lost.
    pub loss: f64,
    /// How likely a datagram arrives twice.
    pub duplicate: f64,
    /// How likely a datagram is overtaken by those sent after it: it takes up to 10 times as long.
    pub reorder: f64,
}

impl Default for Link {
    fn default() -> Link {
        Link {
            latency: Duration::from_micros(100)..Duration::from_micros(500),
            slow: 0.0,
            tail: 10,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
        }
    }
}

/// What a network did so far.
///
/// # Examples
///
/// ```
/// use wo::sim::World;
///
/// let counters = World::new(1).counters();
/// assert_eq!((counters.sent, counters.lost, counters.blocked), (0, 0, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkCounters {
    /// Packets sent from one host to another; those sent again are not counted again.
    pub sent: u64,
    /// Datagrams that were lost by chance.
    pub lost: u64,
    /// Datagrams that were delivered twice.
    pub duplicated: u64,
    /// Datagrams that were held up for others to overtake.
    pub reordered: u64,
    /// Packets of connections that were sent again.
    pub resent: u64,
    /// Datagrams and dials that ran into a partition or a host without power.
    pub blocked: u64,
}

/// Packets of one end of a connection that wait to be sent again, in order.
#[derive(Debug, Default)]
struct Backlog {
    packets: VecDeque<Packet>,
    tries: u32,
}

#[derive(Debug, Default)]
pub(super) struct Network {
    pub(super) common: Link,
    pub(super) links: BTreeMap<(HostId, HostId), Link>,
    pub(super) cut: BTreeSet<(HostId, HostId)>,
    pub(super) counters: NetworkCounters,
    backlogs: BTreeMap<ObjectId, Backlog>,
}

impl Network {
    fn link(&self, from: HostId, to: HostId) -> Link {
        self.links.get(&(from, to)).unwrap_or(&self.common).clone()
    }

    pub(super) fn forget(&mut self, host: HostId) {
        self.backlogs.retain(|end, _| end.host() != host);
    }
}

impl Packet {
    /// The end of a connection whose packets stay in order; none for what is on its own.
    fn end(&self) -> Option<ObjectId> {
        match self {
            Packet::Welcome { from, .. } | Packet::Confirm { from, .. } | Packet::Segment { from, .. } => Some(*from),
            Packet::Dial { .. } | Packet::Refuse { .. } | Packet::Datagram { .. } | Packet::Unreachable { .. } => None,
        }
    }
}

impl State {
    /// Where a packet from this host goes; none when no host has the address.
    fn destination(&self, packet: &Packet) -> Option<HostId> {
        match packet {
            Packet::Dial { target, .. } | Packet::Datagram { target, .. } => self.host_at(target.ip()),
            Packet::Refuse { to, .. }
            | Packet::Welcome { to, .. }
            | Packet::Confirm { to, .. }
            | Packet::Segment { to, .. }
            | Packet::Unreachable { to } => Some(to.host()),
        }
    }

    /// Sends a packet that arrives no earlier than `earliest`; answers when it does, or would have.
    pub(super) fn send_packet(&mut self, packet: Packet, earliest: Instant) -> Instant {
        let now = self.time.now();
        let (from, Some(to)) = (self.current, self.destination(&packet)) else { return now };
        if self.here.power.is_cut() {
            return now;
        }
        if from == to {
            let way = Duration::from_nanos(self.chance.within(span_nanos::LOOPBACK));
            let arrival = (now + way).max(earliest);
            self.time.plan(arrival, to, Event::Arrive(packet));
            return arrival;
        }
        self.network.counters.sent += 1;
        self.put_on_wire(from, to, packet, earliest)
    }

    fn put_on_wire(&mut self, from: HostId, to: HostId, packet: Packet, earliest: Instant) -> Instant {
        let now = self.time.now();
        let link = self.network.link(from, to);
        if let Some(end) = packet.end() {
            let waits = self.network.backlogs.contains_key(&end);
            if waits || self.network.cut.contains(&(from, to)) || self.chance.happens(link.loss) {
                self.stall(end, packet);
                return now;
            }
            let arrival = (now + self.draw_way(&link)).max(earliest);
            self.time.plan(arrival, to, Event::Arrive(packet));
            return arrival;
        }
        if self.network.cut.contains(&(from, to)) {
            self.network.counters.blocked += 1;
            return now;
        }
        let datagram = matches!(packet, Packet::Datagram { .. });
        if self.chance.happens(link.loss) {
            self.network.counters.lost += u64::from(datagram);
            return now;
        }
        let mut arrival = (now + self.draw_way(&link)).max(earliest);
        let mut wire = arrival;
        if datagram && self.chance.happens(link.reorder) {
            let way = u64::try_from(link.latency.end.as_nanos()).unwrap_or(u64::MAX).max(1);
            arrival += Duration::from_nanos(self.chance.within(way..way.saturating_mul(10)));
            wire = earliest;
            self.network.counters.reordered += 1;
        }
        if datagram && self.chance.happens(link.duplicate) {
            self.network.counters.duplicated += 1;
            let again = now + self.draw_way(&link);
            self.time.plan(again.max(arrival), to, Event::Arrive(packet.clone()));
        }
        self.time.plan(arrival, to, Event::Arrive(packet));
        wire
    }

    /// How long a packet between these hosts takes.
    pub(super) fn draw_way_between(&mut self, from: HostId, to: HostId) -> Duration {
        let link = self.network.link(from, to);
        self.draw_way(&link)
    }

    fn draw_way(&mut self, link: &Link) -> Duration {
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let (start, end) = (nanos(link.latency.start), nanos(link.latency.end));
        let way = Duration::from_nanos(if end > start { self.chance.within(start..end) } else { start });
        if self.chance.happens(link.slow) { way.saturating_mul(link.tail) } else { way }
    }

    /// Keeps a lost packet of a connection until it is sent again, and what comes behind it.
    fn stall(&mut self, end: ObjectId, packet: Packet) {
        let backlog = self.network.backlogs.entry(end).or_default();
        backlog.packets.push_back(packet);
        if backlog.packets.len() == 1 && backlog.tries == 0 {
            let at = self.time.now() + RESEND;
            self.time.plan(at, end.host(), Event::Resend(end));
        }
    }

    /// Sends the packets that were lost again, or gives their connection up.
    pub(super) fn resend(&mut self, end: ObjectId) {
        let Some(backlog) = self.network.backlogs.get_mut(&end) else { return };
        let Some(to) = backlog.packets.front().and_then(|packet| match packet {
            Packet::Welcome { to, .. } | Packet::Confirm { to, .. } | Packet::Segment { to, .. } => Some(to.host()),
            _ => None,
        }) else {
            return;
        };
        backlog.tries += 1;
        let (tries, from) = (backlog.tries, end.host());
        let link = self.network.link(from, to);
        let lost = self.network.cut.contains(&(from, to)) || self.is_dark(to) || self.chance.happens(link.loss);
        if lost && tries >= RESENDS_MAX {
            self.network.backlogs.remove(&end);
            self.give_up_connection(end);
        } else if lost {
            let pause = RESEND.saturating_mul(1 << tries.min(20)).min(RESEND_MAX);
            self.time.plan(self.time.now() + pause, from, Event::Resend(end));
        } else {
            let packets = self.network.backlogs.remove(&end).unwrap_or_default().packets;
            let mut earliest = self.time.now();
            for packet in packets {
                self.network.counters.resent += 1;
                let arrival = (self.time.now() + self.draw_way(&link)).max(earliest);
                self.time.plan(arrival, to, Event::Arrive(packet));
                earliest = arrival;
            }
            self.delay_stream(end, earliest);
        }
    }

    /// A packet has come to a host without power. One of a connection is sent again.
    pub(super) fn lose(&mut self, packet: Packet) {
        match packet.end() {
            Some(end) if !matches!(packet, Packet::Segment { segment: Segment::Read(_), .. }) => {
                self.stall(end, packet)
            }
            Some(_) => {}
            None => self.network.counters.blocked += 1,
        }
    }
}
