//! An allocator that counts for the whole process, so a test binary that uses it holds one test.

#![allow(dead_code, reason = "each test counts something else")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The system's allocator, with counts of what was asked for and what is in use.
pub struct Counting;

pub static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
pub static LIVE: AtomicI64 = AtomicI64::new(0);
pub static BYTES: AtomicI64 = AtomicI64::new(0);
/// The most bytes that were asked for at once.
pub static LARGEST: AtomicI64 = AtomicI64::new(0);

fn count(allocations: u64, live: i64, bytes: i64) {
    ALLOCATIONS.fetch_add(allocations, Ordering::Relaxed);
    LIVE.fetch_add(live, Ordering::Relaxed);
    BYTES.fetch_add(bytes, Ordering::Relaxed);
}

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, 1, layout.size() as i64);
        LARGEST.fetch_max(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, -1, -(layout.size() as i64));
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, 0, size as i64 - layout.size() as i64);
        LARGEST.fetch_max(size as i64, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { System.realloc(memory, layout, size) }
    }
}
