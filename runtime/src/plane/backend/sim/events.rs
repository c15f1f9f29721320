//! Virtual time, what will happen in it, and chance.
//!
//! Nothing in a simulated world happens except as an event taken from its timeline, the earliest first and, at one
//! moment, in the order they were planned. The clock stands still between events. Chance comes from the seed alone,
//! drawn in the order things happen, so one seed is one run.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::OpKind;
use crate::plane::backend::RawCompletion;
use crate::plane::backend::sim::disk::Survival;
use crate::plane::backend::sim::durable::Syncing;
use crate::plane::backend::sim::net::packet::Packet;
use crate::plane::backend::sim::site::HostId;
use crate::plane::backend::sim::world::{LoopId, ObjectId};
use crate::plane::fd::RawDescriptor;
use crate::plane::time::Instant;

/// How long things take, in nanoseconds; each taking draws its own span, so that seeds differ in the order in
/// which independent things end.
pub(super) mod span_nanos {
    use std::ops::Range;

    /// From the moment an op's result stands to the moment its loop sees it.
    pub(crate) const COMPLETION: Range<u64> = 100..1_000;
    /// The same for an op on the disk.
    pub(crate) const DISK: Range<u64> = 5_000..40_000;
    /// The same for a sync.
    pub(crate) const SYNC: Range<u64> = 100_000..300_000;
    /// A packet's way over the loopback.
    pub(crate) const LOOPBACK: Range<u64> = 10_000..25_000;
}

/// The seed's stream of chance (SplitMix64).
#[derive(Debug)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Whether something of this likelihood, 0 to 1, happens. What is impossible draws nothing.
    pub(super) fn happens(&mut self, likelihood: f64) -> bool {
        likelihood > 0.0 && ((self.next() >> 11) as f64) < likelihood * (1_u64 << 53) as f64
    }

    /// A number of the range, which is not empty.
    pub(super) fn within(&mut self, range: Range<u64>) -> u64 {
        let width = range.end - range.start;
        range.start + ((u128::from(self.next()) * u128::from(width)) >> 64) as u64
    }
}

/// Something that will happen.
#[derive(Debug)]
pub(super) enum Event {
    /// A completion reaches its loop.
    Complete(Posted),
    /// A packet arrives.
    Arrive(Packet),
    /// A connection request that was dropped is sent again.
    Redial(ObjectId),
    /// What one end of a connection has sent and was lost is sent again.
    Resend(ObjectId),
    /// An end of a connection that waits for room asks whether the other is still there.
    Probe(ObjectId),
    /// A process has slept long enough.
    Process { pid: u32, sleep: u64 },
    /// A sync reaches the disk; its completion comes right after.
    Synced(Syncing, SyncFate),
}

/// How a sync ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncFate {
    Well,
    /// It is said to have ended well, and nothing was done.
    Lies,
    /// With this error; the cache has dropped what it covered, and of that so much reached the disk.
    Fails(i32, Survival),
}

/// A completion on its way to its loop.
#[derive(Debug)]
pub(super) struct Posted {
    pub(super) to: LoopId,
    pub(super) completion: RawCompletion,
    pub(super) kind: OpKind,
}

impl Posted {
    /// The descriptor it brings, if it brings one.
    pub(super) fn descriptor(&self) -> Option<RawDescriptor> {
        let brings = matches!(self.kind, OpKind::Accept | OpKind::Open) && self.completion.res >= 0;
        brings.then_some(self.completion.res)
    }
}

/// The clock and everything planned.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    now: u64,
    planned: BTreeMap<(u64, u64), (HostId, Event)>,
    sequence: u64,
    /// How many of what is planned are probes.
    probes: usize,
}

impl Timeline {
    pub(super) fn now(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    /// Plans an event on a host. One planned for the past happens now.
    pub(super) fn plan(&mut self, at: Instant, host: HostId, event: Event) {
        self.sequence += 1;
        self.probes += usize::from(matches!(event, Event::Probe(_)));
        self.planned.insert((at.as_nanos().max(self.now), self.sequence), (host, event));
    }

    /// When the next event is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.planned.first_key_value().map(|((at, _), _)| Instant::from_nanos(*at))
    }

    /// Who will ask for room, if nothing else is planned.
    pub(super) fn only_probing(&self) -> Option<Vec<ObjectId>> {
        let end = |(_, event): &(HostId, Event)| match event {
            Event::Probe(end) => Some(*end),
            _ => None,
        };
        (self.planned.len() == self.probes).then(|| self.planned.values().filter_map(end).collect())
    }

    /// Moves the clock to the next event and takes it, unless it is due after `last`.
    pub(super) fn take(&mut self, last: Instant) -> Option<(HostId, Event)> {
        if self.next()? > last {
            return None;
        }
        let ((at, _), event) = self.planned.pop_first()?;
        self.now = at;
        self.probes -= usize::from(matches!(event.1, Event::Probe(_)));
        Some(event)
    }

    /// Takes back every completion that is on its way to this loop.
    pub(super) fn recall(&mut self, home: LoopId) -> Vec<Posted> {
        let theirs = |event: &Event| matches!(event, Event::Complete(posted) if posted.to == home);
        let keys: Vec<(u64, u64)> =
            self.planned.iter().filter(|(_, (_, event))| theirs(event)).map(|(key, _)| *key).collect();
        keys.iter()
            .filter_map(|key| match self.planned.remove(key) {
                Some((_, Event::Complete(posted))) => Some(posted),
                _ => None,
            })
            .collect()
    }

    /// Nothing is planned on a host any more, but what is on its way there.
    pub(super) fn forget(&mut self, host: HostId) {
        let mut probes = 0;
        self.planned.retain(|_, (at, event)| {
            let stays = *at != host || matches!(event, Event::Arrive(_));
            probes += usize::from(stays && matches!(event, Event::Probe(_)));
            stays
        });
        self.probes = probes;
    }

    /// Moves the clock forward; never backward.
    ///
    /// The caller has taken every event due before `to`.
    pub(super) fn advance(&mut self, to: Instant) {
        debug_assert!(self.next().is_none_or(|next| next >= to), "an event was passed over");
        self.now = self.now.max(to.as_nanos());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: HostId = HostId(0);

    fn redials(timeline: &mut Timeline, last: u64) -> Vec<(u64, u64)> {
        std::iter::from_fn(|| match timeline.take(Instant::from_nanos(last))? {
            (_, Event::Redial(object)) => Some((timeline.now().as_nanos(), object.0)),
            _ => None,
        })
        .collect()
    }

    #[test]
    fn events_come_by_time_then_by_order_of_planning() {
        let mut timeline = Timeline::default();
        for (at, name) in [(30, 0), (10, 1), (20, 2), (10, 3)] {
            timeline.plan(Instant::from_nanos(at), HOST, Event::Redial(ObjectId(name)));
        }
        assert_eq!(redials(&mut timeline, 20), [(10, 1), (10, 3), (20, 2)]);
        assert_eq!(timeline.now().as_nanos(), 20);
        assert_eq!(redials(&mut timeline, u64::MAX), [(30, 0)]);
    }

    #[test]
    fn the_past_happens_now() {
        let mut timeline = Timeline::default();
        timeline.advance(Instant::from_nanos(50));
        timeline.plan(Instant::from_nanos(10), HOST, Event::Redial(ObjectId(7)));
        assert_eq!(redials(&mut timeline, 50), [(50, 7)]);
    }

    #[test]
    fn chance_is_the_seed_and_stays_in_range() {
        let draw = |seed| {
            let mut chance = Chance::new(seed);
            (0..1000).map(|_| chance.within(5..9)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!((5..9).all(|number| draw(1).contains(&number)) && draw(1).iter().all(|n| (5..9).contains(n)));
    }
}
