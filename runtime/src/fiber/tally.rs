//! Numbers a shard counts for itself and any thread may read.
//!
//! Each number has one writer, the shard's own thread, so counting is a load and a store, no locked operation. Threads
//! that are no shard count beside, in numbers that several may write. A sum over both is exact once everybody is
//! quiet, and never goes back.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many numbers there are; what they mean is the business of those who count.
const NUMBERS: usize = 6;

/// One shard's numbers, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Tally {
    own: [AtomicU64; NUMBERS],
    others: [AtomicU64; NUMBERS],
}

impl Tally {
    /// Counts one more, on the shard's own thread; answers how many there were.
    #[inline]
    pub(crate) fn count(&self, which: usize) -> u64 {
        let number = &self.own[which];
        let before = number.load(Ordering::Relaxed);
        number.store(before + 1, Ordering::Relaxed);
        before
    }

    /// Counts one more, on any thread.
    pub(crate) fn count_from_outside(&self, which: usize) {
        self.others[which].fetch_add(1, Ordering::Relaxed);
    }

    /// The number, as far as this thread can see.
    pub(crate) fn sum(&self, which: usize) -> u64 {
        self.own[which].load(Ordering::Relaxed) + self.others[which].load(Ordering::Relaxed)
    }

    /// All numbers begin at zero again; nobody counts meanwhile.
    pub(crate) fn clear(&self) {
        self.own.iter().chain(&self.others).for_each(|number| number.store(0, Ordering::Relaxed));
    }
}
