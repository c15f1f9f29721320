//! The trace of a world: a digest of everything that happened, and when told so, the lines themselves.
//!
//! Two runs with the same trace are the same run. The digest is always kept; it costs a few multiplications an event.

use std::fmt::Write as _;

use crate::plane::backend::sim::events::Event;
use crate::plane::backend::sim::net::packet::{Packet, Segment};
use crate::plane::backend::sim::site::HostId;
use crate::plane::backend::sim::wall::WallTime;
use crate::plane::time::Instant;

/// FNV-1a's numbers.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

#[derive(Debug)]
pub(super) struct Trace {
    digest: u64,
    /// The lines, when they are kept.
    pub(super) lines: Option<String>,
}

impl Trace {
    pub(super) fn new() -> Trace {
        Trace { digest: OFFSET, lines: None }
    }

    pub(super) fn digest(&self) -> u64 {
        self.digest
    }

    fn word(&mut self, word: u64) {
        // Word by word instead of byte by byte: it is to tell runs apart, not to spread keys.
        self.digest = (self.digest ^ word).wrapping_mul(PRIME).rotate_left(29);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    /// A host's wall clock was set.
    pub(super) fn note_wall(&mut self, now: Instant, host: HostId, time: WallTime) {
        let (seconds, nanos) = time.parts();
        [now.as_nanos(), u64::from(host.0), seconds as u64, u64::from(nanos)]
            .into_iter()
            .for_each(|word| self.word(word));
        if let Some(lines) = &mut self.lines {
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "{} {} wall clock {seconds}.{nanos:09}", now.as_nanos(), host.ip());
        }
    }

    /// A shard of a host's program has its turn.
    pub(super) fn note_turn(&mut self, now: Instant, host: HostId, shard: usize) {
        self.word(now.as_nanos());
        self.word(u64::from(host.0) << 32 | shard as u64);
        if let Some(lines) = &mut self.lines {
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "{} {} turn {shard}", now.as_nanos(), host.ip());
        }
    }

    /// Something is said of a host.
    pub(super) fn note_words(&mut self, now: Instant, host: HostId, words: &str) {
        self.word(now.as_nanos());
        self.bytes(words.as_bytes());
        if let Some(lines) = &mut self.lines {
            // As above.
            let _ = writeln!(lines, "{} {} {words}", now.as_nanos(), host.ip());
        }
    }

    /// Something happens.
    pub(super) fn note(&mut self, now: Instant, host: HostId, event: &Event) {
        self.word(now.as_nanos());
        self.word(u64::from(host.0));
        match event {
            Event::Complete(posted) => {
                self.word(posted.kind as u64);
                self.word(posted.completion.res as u64);
            }
            Event::Arrive(packet) => match packet {
                Packet::Segment { segment: Segment::Data(bytes), .. } | Packet::Datagram { bytes, .. } => {
                    self.bytes(bytes);
                }
                Packet::Segment { from, .. } | Packet::Dial { from, .. } | Packet::Welcome { from, .. } => {
                    self.word(from.0);
                }
                Packet::Confirm { to, .. } | Packet::Refuse { to, .. } | Packet::Unreachable { to } => self.word(to.0),
            },
            Event::Redial(object) | Event::Resend(object) | Event::Probe(object) => self.word(object.0),
            Event::Process { pid, sleep } => {
                self.word((*pid).into());
                self.word(*sleep);
            }
            Event::Synced(..) => self.word(u64::MAX),
        }
        if let Some(lines) = &mut self.lines {
            // Writing to a string cannot fail.
            let _ = match event {
                Event::Complete(posted) => {
                    writeln!(lines, "{} {} {} {}", now.as_nanos(), host.ip(), posted.kind, posted.completion.res)
                }
                other => writeln!(lines, "{} {} {other:?}", now.as_nanos(), host.ip()),
            };
        }
    }
}
