//! The counting allocator: the system's, plus a count of the bytes a thread holds, and of the most it held.
//!
//! The count is the thread's own, so it costs one addition and cannot disturb what it measures. The subjects it is
//! used on run on one thread; memory that one thread allocates and another frees would be charged to the first.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

/// The most bytes the calling thread has held since [`begin_peak`].
pub fn peak_bytes() -> i64 {
    PEAK.get()
}

/// From here on a new peak counts.
pub fn begin_peak() {
    PEAK.set(LIVE.get());
}

/// Bytes the calling thread has allocated and not freed since it started, by the sizes asked for.
pub fn live_bytes() -> i64 {
    LIVE.get()
}

/// The system allocator with the count.
#[derive(Debug)]
pub struct Counting;

fn count(bytes: usize, sign: i64) {
    // A thread that is ending has no thread-local storage left; what it frees then is nobody's figure.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + sign * bytes as i64);
        PEAK.with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: every call goes to `System` with the arguments it came with; the count touches no allocated memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller's promises about `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller's promises about `layout` are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(layout.size(), -1);
        count(size, 1);
        // SAFETY: the caller's promises about `block`, `layout` and `size` are passed on.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: the caller's promises about `block` and `layout` are passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_follows_allocation_growth_and_release() {
        let start = live_bytes();
        let mut block: Vec<u8> = Vec::with_capacity(1000);
        assert_eq!(live_bytes() - start, 1000);
        block.reserve_exact(3000);
        assert_eq!(live_bytes() - start, 3000);
        drop(block);
        assert_eq!(live_bytes() - start, 0);
    }

    #[test]
    fn another_threads_memory_is_not_counted_here() {
        let start = live_bytes();
        std::thread::scope(|scope| {
            scope.spawn(|| drop(std::hint::black_box(vec![0u8; 1 << 20])));
        });
        assert!((live_bytes() - start).abs() < 1 << 16);
    }

    #[test]
    fn the_peak_stays_when_what_made_it_has_gone() {
        begin_peak();
        let before = live_bytes();
        drop(std::hint::black_box(vec![0u8; 100_000]));
        assert!(peak_bytes() >= before + 100_000);
        begin_peak();
        assert!(peak_bytes() < before + 100_000);
    }
}
