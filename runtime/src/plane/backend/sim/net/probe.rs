//! A sender without room asks, from time to time, whether the other end is still there, as TCP does.
//!
//! Nothing travels for it while the other end could answer: that one would say by itself that there is room again. But
//! one that has gone, with its host's power or because it gave the connection up, never would. Whoever has it on a wire
//! that is cut, or on a host without power, asks 15 times, later and later, and gives the connection up; one that
//! has started again, or that knows of no connection any more, answers with a reset.

use std::time::Duration;

use crate::plane::backend::sim::events::Event;
use crate::plane::backend::sim::net::packet::{Packet, Segment};
use crate::plane::backend::sim::world::{ObjectId, Side, State};

/// The first pause before it asks; it doubles.
const PAUSE: Duration = Duration::from_millis(200);
/// Pauses no longer than this.
const PAUSE_MAX: Duration = Duration::from_secs(120);
/// How often it asks in vain.
const PROBES_MAX: u32 = 15;

/// How far the asking has come.
#[derive(Debug, Default)]
pub(super) struct Probing {
    /// It will ask.
    planned: bool,
    /// How often it has looked since there was room.
    looks: u32,
    /// How often nobody could answer, one after the other.
    unanswered: u32,
}

impl Probing {
    /// There is room again.
    pub(super) fn answered(&mut self) {
        (self.looks, self.unanswered) = (0, 0);
    }
}

impl State {
    /// A sender waits for room: it will ask for it.
    pub(super) fn wait_for_room(&mut self, end: ObjectId) {
        let Some(stream) = self.stream_mut(end) else { return };
        if stream.peer.host() == end.host() || stream.probing.planned {
            return;
        }
        stream.probing.planned = true;
        let pause = PAUSE.saturating_mul(1 << stream.probing.looks.min(20)).min(PAUSE_MAX);
        self.time.plan(self.time.now() + pause, end.host(), Event::Probe(end));
    }

    /// It asks.
    pub(in crate::plane::backend::sim) fn probe(&mut self, end: ObjectId) {
        let waits = self.objects.get(&end).is_some_and(|object| !object.waiting[Side::Out as usize].is_empty());
        let Some(stream) = self.stream_mut(end) else { return };
        stream.probing.planned = false;
        if !waits || !stream.is_open() || stream.has_room() {
            return;
        }
        let peer = stream.peer;
        let (silent, gone) = (self.is_silent(end, peer), self.is_gone(peer));
        let Some(stream) = self.stream_mut(end) else { return };
        stream.probing.looks += 1;
        stream.probing.unanswered = if silent { stream.probing.unanswered + 1 } else { 0 };
        if stream.probing.unanswered >= PROBES_MAX {
            self.give_up_connection(end);
            return;
        }
        if gone && !silent {
            let (from, to) = (end.host(), peer.host());
            let way = self.draw_way_between(from, to) + self.draw_way_between(to, from);
            let reset = Packet::Segment { from: peer, to: end, segment: Segment::Reset };
            self.time.plan(self.time.now() + way, from, Event::Arrive(reset));
        }
        self.wait_for_room(end);
    }

    /// Whether nothing will happen any more but that somebody asks for room, and gets none.
    pub(in crate::plane::backend::sim) fn is_hopeless(&mut self) -> bool {
        let Some(ends) = self.time.only_probing() else { return false };
        ends.into_iter().all(|end| {
            let peer = self.stream_mut(end).map(|stream| stream.peer);
            peer.is_none_or(|peer| !self.is_silent(end, peer) && !self.is_gone(peer))
        })
    }

    /// Whether no answer of the other end would arrive.
    fn is_silent(&self, end: ObjectId, peer: ObjectId) -> bool {
        let (from, to) = (end.host(), peer.host());
        self.is_dark(to) || [(from, to), (to, from)].iter().any(|wire| self.network.cut.contains(wire))
    }

    /// Whether the other end knows of no connection any more.
    fn is_gone(&mut self, peer: ObjectId) -> bool {
        !self.stream_mut(peer).is_some_and(|stream| stream.is_open())
    }
}
