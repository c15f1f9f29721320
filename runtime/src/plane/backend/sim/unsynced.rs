//! What of a file the disk may hold, or not, until a sync has ended.
//!
//! Each block that was written keeps the states it went through since the disk was last known to hold it, and so does
//! the length. In a power cut each of these units is in one of its states, independently of the others: the disk
//! writes back when and in what order it likes, block by block, and a block whole or not at all. Only a cut goes with
//! the length: where the file was cut and the disk knows it, nothing older can be found again.
//!
//! A change counts as made when its op has completed. A sync covers what had completed when it was issued, and has its
//! effect when it completes itself: a write that is in flight beside it is not covered, and a power cut before its
//! completion finds the blocks as unsynced as before.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::plane::backend::sim::durable::Covered;
use crate::plane::backend::sim::sparse::{BLOCK_BYTES, Block, Sparse};
use crate::plane::time::Instant;

/// States kept of one block; past it, states in the middle are forgotten.
const VERSIONS_MAX: usize = 16;

/// Chooses one of so many states, by number; 0 is the oldest, the one the disk holds for sure.
pub(super) type Choose<'a> = dyn FnMut(usize) -> usize + 'a;

#[derive(Clone, Debug)]
struct Version {
    order: u64,
    /// When the op that made it completes.
    landed: Instant,
    bytes: Arc<Block>,
}

#[derive(Clone, Debug)]
struct Resize {
    order: u64,
    landed: Instant,
    len: u64,
    /// What lay here and beyond is gone; none when the file only grew.
    cut: Option<u64>,
}

#[derive(Clone, Debug)]
struct Reservation {
    landed: Instant,
    pages: Range<u64>,
}

/// What is not synced of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Unsynced {
    /// Changes made, ever.
    orders: u64,
    blocks: BTreeMap<u64, Vec<Version>>,
    resizes: Vec<Resize>,
    reservations: Vec<Reservation>,
    /// The blocks of the change whose completion is not known yet.
    fresh: Vec<u64>,
    /// Syncs in flight.
    pub(super) syncs: u32,
}

/// How many of these changes had completed at `until`.
fn landed(states: impl DoubleEndedIterator<Item = Instant> + ExactSizeIterator, until: Instant) -> usize {
    states.enumerate().rev().find(|(_, landed)| *landed <= until).map_or(0, |(index, _)| index + 1)
}

/// How many states of a block a sync covered.
fn covered_of(number: u64, versions: &[Version], covered: &Covered) -> usize {
    if covered.has(number) { landed(versions.iter().map(|version| version.landed), covered.until) } else { 0 }
}

impl Unsynced {
    /// A block was written; this is what it holds now.
    pub(super) fn wrote(&mut self, number: u64, bytes: Block, now: Instant) {
        self.orders += 1;
        let versions = self.blocks.entry(number).or_default();
        // A state that a sync in flight may cover is needed yet; one that has been overtaken may be forgotten.
        if versions.len() >= VERSIONS_MAX && self.syncs == 0 && versions[2].landed <= now {
            versions.remove(1);
        }
        versions.push(Version { order: self.orders, landed: Instant::NEVER, bytes: Arc::new(bytes) });
        self.fresh.push(number);
    }

    /// The length was changed to `len`; what lay there and beyond is gone when the file was cut.
    pub(super) fn resized(&mut self, len: u64, was_cut: bool) {
        self.orders += 1;
        let cut = was_cut.then_some(len);
        self.resizes.push(Resize { order: self.orders, landed: Instant::NEVER, len, cut });
    }

    /// Whether the length was changed by an op that has not completed. Then the length a write finds is not yet the
    /// file's, and the write changes it as well.
    pub(super) fn resize_in_flight(&self, now: Instant) -> bool {
        self.resizes.iter().rev().any(|resize| resize.landed > now)
    }

    /// Pages were given space without being written.
    pub(super) fn reserved(&mut self, pages: Range<u64>) {
        self.reservations.push(Reservation { landed: Instant::NEVER, pages });
    }

    /// The change made last completes at `at`.
    pub(super) fn stamp(&mut self, at: Instant) {
        for number in self.fresh.drain(..) {
            for version in self.blocks.get_mut(&number).into_iter().flatten().rev() {
                if version.landed != Instant::NEVER {
                    break;
                }
                version.landed = at;
            }
        }
        for resize in self.resizes.iter_mut().rev().take_while(|resize| resize.landed == Instant::NEVER) {
            resize.landed = at;
        }
        for reservation in self.reservations.iter_mut().rev().take_while(|one| one.landed == Instant::NEVER) {
            reservation.landed = at;
        }
    }

    /// Every op has completed, or never will.
    pub(super) fn rest(&mut self) {
        self.syncs = 0;
        self.fresh.clear();
        self.blocks.values_mut().flatten().for_each(|version| version.landed = Instant::ORIGIN);
        self.resizes.iter_mut().for_each(|resize| resize.landed = Instant::ORIGIN);
        self.reservations.iter_mut().for_each(|one| one.landed = Instant::ORIGIN);
    }

    /// For each unit, how many states the disk may hold: the length first, then block by block.
    pub(super) fn options(&self) -> Vec<usize> {
        let resizes = Some(self.resizes.len()).filter(|resizes| *resizes > 0);
        resizes.into_iter().chain(self.blocks.values().map(Vec::len)).map(|states| states + 1).collect()
    }

    /// Puts what `choose` says has reached the disk into what the disk holds.
    pub(super) fn apply(&self, stored: &mut Sparse, choose: &mut Choose<'_>) {
        let resizes = if self.resizes.is_empty() { 0 } else { choose(self.resizes.len() + 1) };
        self.put(stored, resizes, |_, versions| choose(versions.len() + 1));
        stored.blank_beyond_end();
    }

    fn put(&self, stored: &mut Sparse, resizes: usize, mut reached: impl FnMut(u64, &[Version]) -> usize) {
        let resizes = &self.resizes[..resizes];
        let cuts: Vec<(u64, u64)> =
            resizes.iter().filter_map(|resize| resize.cut.map(|cut| (resize.order, cut))).collect();
        for (_, cut) in &cuts {
            stored.cut(*cut);
        }
        for (number, versions) in &self.blocks {
            let Some(version) = reached(*number, versions).checked_sub(1).map(|index| &versions[index]) else {
                continue;
            };
            let mut bytes = *version.bytes;
            let start = number * BLOCK_BYTES as u64;
            for (_, cut) in cuts.iter().filter(|(order, _)| *order > version.order) {
                bytes[cut.saturating_sub(start).min(BLOCK_BYTES as u64) as usize..].fill(0);
            }
            stored.set_block(*number, &bytes);
        }
        if let Some(last) = resizes.last() {
            stored.len = last.len;
        }
    }

    /// The disk holds what a sync covered.
    pub(super) fn store(&mut self, stored: &mut Sparse, covered: &Covered) {
        let resizes = landed(self.resizes.iter().map(|resize| resize.landed), covered.until);
        self.put(stored, resizes, |number, versions| covered_of(number, versions, covered));
        if covered.blocks.is_none() {
            for reservation in self.reservations.iter().filter(|one| one.landed <= covered.until) {
                for number in reservation.pages.clone() {
                    stored.page(number);
                }
            }
            self.reservations.retain(|one| one.landed > covered.until);
        }
        self.forget(resizes, covered);
    }

    /// The cache drops what a sync covered, and of that the disk holds what `choose` says: the numbers of the blocks
    /// that were dropped. The length is kept, and is still to be synced.
    pub(super) fn drop_pages(&mut self, stored: &mut Sparse, covered: &Covered, choose: &mut Choose<'_>) -> Vec<u64> {
        let mut dropped = Vec::new();
        self.put(stored, 0, |number, versions| {
            let states = covered_of(number, versions, covered);
            if states == 0 {
                return 0;
            }
            if states == versions.len() {
                dropped.push(number);
            }
            choose(states + 1)
        });
        self.forget(0, covered);
        dropped
    }

    fn forget(&mut self, resizes: usize, covered: &Covered) {
        self.resizes.drain(..resizes);
        self.blocks.retain(|number, versions| {
            versions.drain(..covered_of(*number, versions, covered));
            !versions.is_empty()
        });
    }

    /// Turns bits of a block over in every state that is kept of it.
    pub(super) fn flip(&mut self, number: u64, at: usize, mask: u8) {
        for version in self.blocks.get_mut(&number).into_iter().flatten() {
            Arc::make_mut(&mut version.bytes)[at] ^= mask;
        }
    }
}
