//! The latest changes of a table, for those who watch it.
//!
//! Changes are kept in the order of their sequences, up to a number and a size; when one falls off the end, the floor
//! rises to its sequence. Everything above the floor is there, so a watcher that stands at the floor or above misses
//! nothing, and one below it is told so.

use std::collections::VecDeque;

use crate::record::Record;
use crate::row::Stored;

/// Bytes of rows that changes hold on to, at most, as they are encoded.
const BYTES_MAX: usize = 64 << 20;

pub(crate) struct Event<R: Record> {
    pub(crate) sequence: u64,
    pub(crate) key: R::Key,
    /// None when the row has gone.
    pub(crate) row: Option<Stored<R>>,
    bytes: u32,
}

pub(crate) struct History<R: Record> {
    events: VecDeque<Event<R>>,
    floor: u64,
    bytes: usize,
    max: usize,
}

impl<R: Record> History<R> {
    pub(crate) fn new(max: usize) -> History<R> {
        History { events: VecDeque::new(), floor: 0, bytes: 0, max }
    }

    /// Adds the latest change.
    pub(crate) fn push(&mut self, sequence: u64, key: R::Key, row: Option<Stored<R>>, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.bytes += bytes as usize;
        self.events.push_back(Event { sequence, key, row, bytes });
        while self.events.len() > self.max || self.bytes > BYTES_MAX {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.bytes as usize;
            self.floor = oldest.sequence;
        }
    }

    /// Forgets the changes from this sequence on, which never happened; `before` is the last that did.
    pub(crate) fn rollback(&mut self, from: u64, before: u64) {
        while self.events.back().is_some_and(|event| event.sequence >= from) {
            if let Some(event) = self.events.pop_back() {
                self.bytes -= event.bytes as usize;
            }
        }
        self.floor = self.floor.min(before);
    }

    /// Forgets everything up to this sequence: it is known by its outcome alone.
    pub(crate) fn begin_at(&mut self, floor: u64) {
        self.events.clear();
        self.bytes = 0;
        self.floor = floor;
    }

    /// The lowest sequence to watch from.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// The changes after this sequence, in order.
    pub(crate) fn after(&self, sequence: u64) -> impl Iterator<Item = &Event<R>> {
        let at = self.events.partition_point(|event| event.sequence <= sequence);
        self.events.range(at..)
    }

    /// How many changes are kept.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }
}
