//! The bytes of a simulated file, twice: as programs see them, in the page cache, and as the disk holds them.
//!
//! A write changes the cache and takes space of the disk. What of it reaches the disk before a sync says so is
//! [`unsynced`]: in a power cut any part of it may, and none has to.
//!
//! [`unsynced`]: super::unsynced

use std::ops::Range;

use crate::plane::backend::sim::durable::Covered;
use crate::plane::backend::sim::events::SyncFate;
use crate::plane::backend::sim::sparse::{BLOCK_BYTES, PAGE_BYTES, Sparse, blocks_of};
use crate::plane::backend::sim::unsynced::{Choose, Unsynced};
use crate::plane::backend::sim::world::Errno;
use crate::plane::time::Instant;

/// The longest a file can be.
pub(super) const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// How much of the disk is taken, and how much there is, in pages.
#[derive(Clone, Debug)]
pub(super) struct Space {
    pub(super) used: u64,
    size: u64,
}

impl Space {
    pub(super) fn new(bytes: u64) -> Space {
        Space { used: 0, size: bytes / PAGE_BYTES as u64 }
    }

    /// Changes its size. What is taken stays taken, also when that is more.
    pub(super) fn resize(&mut self, bytes: u64) {
        self.size = bytes / PAGE_BYTES as u64;
    }

    fn free(&self) -> u64 {
        self.size.saturating_sub(self.used)
    }

    fn take(&mut self) -> bool {
        let free = self.free() > 0;
        self.used += u64::from(free);
        free
    }

    fn give_back(&mut self, pages: usize) {
        self.used -= pages as u64;
    }
}

/// A file's contents.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    cached: Sparse,
    stored: Sparse,
    unsynced: Unsynced,
    /// Bytes that cannot be read until they are written anew.
    bad: Vec<Range<u64>>,
}

impl Pages {
    pub(super) fn len(&self) -> u64 {
        self.cached.len
    }

    /// The number of pages that take space.
    pub(super) fn count(&self) -> u64 {
        self.cached.count()
    }

    /// The bytes at `offset`, as many as there are up to `count`; fewer when a bad one follows.
    pub(super) fn read(&self, offset: u64, count: usize) -> Result<Vec<u8>, Errno> {
        let end = offset.saturating_add(count as u64).min(self.cached.len);
        let overlaps = |bad: &&Range<u64>| bad.start < end && bad.end > offset;
        match self.bad.iter().filter(overlaps).map(|bad| bad.start).min() {
            Some(start) if start <= offset => Err(libc::EIO),
            Some(start) => Ok(self.cached.read(offset, start - offset)),
            None => Ok(self.cached.read(offset, count as u64)),
        }
    }

    /// Writes at `offset`, as much as the disk has room for; refused when that is nothing.
    pub(super) fn write(&mut self, space: &mut Space, offset: u64, bytes: &[u8], now: Instant) -> Result<usize, Errno> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let room = FILE_BYTES_MAX.saturating_sub(offset);
        if room == 0 {
            return Err(libc::EFBIG);
        }
        let bytes = &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        let len = self.cached.len;
        let written = self.cached.write(offset, bytes, || space.take());
        if written == 0 {
            return Err(libc::ENOSPC);
        }
        self.mend(offset..offset + written as u64);
        for number in blocks_of(offset, written as u64) {
            self.unsynced.wrote(number, self.cached.block(number), now);
        }
        if self.cached.len > len || self.unsynced.resize_in_flight(now) {
            self.unsynced.resized(self.cached.len, false);
        }
        Ok(written)
    }

    /// Takes space for a run of bytes; all of it or none.
    pub(super) fn reserve(&mut self, space: &mut Space, offset: u64, len: u64, keep_size: bool) -> Result<(), Errno> {
        let end = offset.checked_add(len).filter(|end| *end <= FILE_BYTES_MAX).ok_or(libc::EFBIG)?;
        let page = PAGE_BYTES as u64;
        let run = offset / page..end.div_ceil(page);
        let missing = (run.end - run.start) - self.cached.pages_in(run.clone());
        if missing > space.free() {
            return Err(libc::ENOSPC);
        }
        space.used += missing;
        for number in run.clone() {
            self.cached.page(number);
        }
        self.unsynced.reserved(run);
        if !keep_size && end > self.cached.len {
            self.unsynced.resized(end, false);
            self.cached.len = end;
        }
        Ok(())
    }

    /// Sets the length: the end is cut off, or zeros follow.
    pub(super) fn truncate(&mut self, space: &mut Space, len: u64) -> Result<(), Errno> {
        if len > FILE_BYTES_MAX {
            return Err(libc::EINVAL);
        }
        space.give_back(self.cached.cut(len));
        if len != self.cached.len {
            self.unsynced.resized(len, len < self.cached.len);
            self.cached.len = len;
        }
        Ok(())
    }

    /// Gives the space back, of a file without a name; what the disk holds of it stays until the disk forgets the name.
    pub(super) fn free(&mut self, space: &mut Space) {
        space.give_back(self.cached.clear());
    }

    /// The change made last completes at `at`.
    pub(super) fn stamp(&mut self, at: Instant) {
        self.unsynced.stamp(at);
    }

    /// Every op has completed, or never will.
    pub(super) fn rest(&mut self) {
        self.unsynced.rest();
    }

    /// A sync begins, and covers what had completed by now.
    pub(super) fn sync_begins(&mut self) {
        self.unsynced.syncs += 1;
    }

    /// A sync has ended. When it failed, the cache has dropped what it covered, and of that the disk holds so much as
    /// survived; nothing of it is unsynced any more.
    pub(super) fn sync_ends(&mut self, covered: &Covered, fate: SyncFate) {
        self.unsynced.syncs -= 1;
        match fate {
            SyncFate::Well => self.unsynced.store(&mut self.stored, covered),
            SyncFate::Lies => {}
            SyncFate::Fails(_, survival) => {
                for number in self.unsynced.drop_pages(&mut self.stored, covered, &mut *survival.choices()) {
                    self.cached.replace_block(number, &self.stored.block(number));
                }
            }
        }
    }

    /// For each unit of what is not synced, how many states of it the disk may hold.
    pub(super) fn options(&self) -> Vec<usize> {
        self.unsynced.options()
    }

    /// What is left of the file in a power cut.
    pub(super) fn image(&self, choose: &mut Choose<'_>) -> Pages {
        let mut stored = self.stored.clone();
        self.unsynced.apply(&mut stored, choose);
        Pages { cached: stored.clone(), stored, unsynced: Unsynced::default(), bad: self.bad.clone() }
    }

    /// Turns one bit over, on the disk and in the cache; refused beyond the end.
    pub(super) fn flip_bit(&mut self, bit: u64) -> Result<(), Errno> {
        if bit / 8 >= self.cached.len {
            return Err(libc::EINVAL);
        }
        let (number, at, mask) = (bit / 8 / BLOCK_BYTES as u64, (bit / 8) as usize % BLOCK_BYTES, 1_u8 << (bit % 8));
        let flip = |contents: &mut Sparse| {
            let mut block = contents.block(number);
            block[at] ^= mask;
            contents.set_block(number, &block);
        };
        flip(&mut self.cached);
        if bit / 8 < self.stored.len {
            flip(&mut self.stored);
        }
        self.unsynced.flip(number, at, mask);
        Ok(())
    }

    /// These bytes cannot be read until they are written anew.
    pub(super) fn damage(&mut self, bytes: Range<u64>) {
        self.bad.push(bytes);
    }

    /// Bytes that were written are good again.
    fn mend(&mut self, written: Range<u64>) {
        if self.bad.is_empty() {
            return;
        }
        let parts = |bad: Range<u64>| [bad.start..bad.end.min(written.start), bad.start.max(written.end)..bad.end];
        let bad = std::mem::take(&mut self.bad);
        self.bad = bad.into_iter().flat_map(parts).filter(|part| !part.is_empty()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = PAGE_BYTES as u64;
    const NOW: Instant = Instant::ORIGIN;

    #[test]
    fn bytes_come_back_across_pages_and_holes() {
        let (mut space, mut pages) = (Space::new(1 << 20), Pages::default());
        let bytes: Vec<u8> = (0..10_000u32).map(|number| number as u8).collect();
        assert_eq!(pages.write(&mut space, 3 * PAGE - 7, &bytes, NOW), Ok(10_000));
        assert_eq!(pages.len(), 3 * PAGE - 7 + 10_000);
        assert_eq!(pages.count(), 4);
        assert_eq!(pages.read(3 * PAGE - 7, usize::MAX).unwrap(), bytes);
        assert_eq!(pages.read(3 * PAGE - 9, 4).unwrap(), [0, 0, 0, 1]);
        assert_eq!(pages.read(pages.len(), 5).unwrap(), []);
    }

    #[test]
    fn cutting_and_growing_leaves_zeros() {
        let (mut space, mut pages) = (Space::new(1 << 20), Pages::default());
        pages.write(&mut space, 0, &[9; 5000], NOW).unwrap();
        pages.truncate(&mut space, 10).unwrap();
        assert_eq!((pages.count(), space.used), (1, 1));
        pages.truncate(&mut space, 5000).unwrap();
        let mut expected = vec![0; 5000];
        expected[..10].fill(9);
        assert_eq!(pages.read(0, 5000).unwrap(), expected);
        assert_eq!(pages.truncate(&mut space, u64::MAX), Err(libc::EINVAL));
    }

    #[test]
    fn a_full_disk_writes_short_then_refuses() {
        let (mut space, mut pages) = (Space::new(2 * PAGE), Pages::default());
        assert_eq!(pages.write(&mut space, 0, &[1; 3 * PAGE_BYTES], NOW), Ok(2 * PAGE_BYTES));
        assert_eq!(pages.write(&mut space, 2 * PAGE, &[1], NOW), Err(libc::ENOSPC));
        assert_eq!(pages.write(&mut space, 0, &[2], NOW), Ok(1), "a page the file has needs no room");
        assert_eq!(pages.reserve(&mut space, 0, 3 * PAGE, false), Err(libc::ENOSPC));
        assert_eq!((pages.len(), space.used), (2 * PAGE, 2));
        pages.truncate(&mut space, 0).unwrap();
        assert_eq!(pages.reserve(&mut space, 0, PAGE + 1, true), Ok(()));
        assert_eq!((pages.len(), space.used), (0, 2));
        pages.free(&mut space);
        assert_eq!(space.used, 0);
    }

    #[test]
    fn the_end_of_the_number_line_is_an_error() {
        let (mut space, mut pages) = (Space::new(1 << 20), Pages::default());
        assert_eq!(pages.write(&mut space, FILE_BYTES_MAX, &[1], NOW), Err(libc::EFBIG));
        assert_eq!(pages.write(&mut space, FILE_BYTES_MAX - 1, &[1, 2], NOW), Ok(1));
        assert_eq!(pages.reserve(&mut space, FILE_BYTES_MAX, 1, false), Err(libc::EFBIG));
    }

    #[test]
    fn bad_bytes_end_a_read_until_they_are_written() {
        let (mut space, mut pages) = (Space::new(1 << 20), Pages::default());
        pages.write(&mut space, 0, &[7; 100], NOW).unwrap();
        pages.damage(10..20);
        assert_eq!(pages.read(0, 100).unwrap(), [7; 10]);
        assert_eq!(pages.read(15, 1), Err(libc::EIO));
        assert_eq!(pages.read(20, 100).unwrap(), [7; 80]);
        pages.write(&mut space, 12, &[8; 2], NOW).unwrap();
        assert_eq!(pages.read(12, 100).unwrap(), [8; 2]);
        assert_eq!(pages.read(14, 1), Err(libc::EIO));
    }
}
