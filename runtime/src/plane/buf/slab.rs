//! The memory of a pool: one page-aligned slab of same-size buffers, and the ways home for them.
//!
//! A buffer is its place in the slab. It is either out, with exactly one owner, or on the plain free list, or in the
//! home ring. Only the home thread touches the free list: it takes from there, and puts back there what is dropped
//! on it. A buffer dropped on another thread is pushed into the home ring, and the home thread moves the ring's
//! contents to the free list when that has run dry. A place is in the ring at most once and the ring has room for
//! all of them, so it is never full. Every buffer that is out holds a share of the slab, so the memory outlives the
//! pool, and a buffer may come home to a pool that is gone.

use std::alloc::{Layout, alloc, dealloc};
use std::cell::UnsafeCell;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use concurrent_queue::ConcurrentQueue;

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::plane::op::RawSlice;

/// Slabs begin at a page, which is what the kernel pins when it registers one.
const PAGE_BYTES: usize = 4096;

/// Buffers lie this far apart at least, so that two of them, used on two cores, share no cache line.
const LINE_BYTES: usize = 64;

/// Names a thread for the whole run of the process; a number is never given twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ThreadName(u64);

impl ThreadName {
    fn current() -> ThreadName {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        thread_local!(static NAME: u64 = NEXT.fetch_add(1, Ordering::Relaxed));
        ThreadName(NAME.with(|name| *name))
    }
}

pub(super) struct Slab {
    memory: NonNull<u8>,
    layout: Layout,
    stride: usize,
    size: usize,
    count: u32,
    home: ThreadName,
    /// Touched by the home thread only.
    free: UnsafeCell<Vec<u32>>,
    returning: ConcurrentQueue<u32>,
    /// The index it is registered under; written, and read to any effect, by the home thread only.
    registered: AtomicU16,
}

// SAFETY: the memory is plain bytes on the heap, each buffer's used by its one owner; the free list is touched by the
// home thread alone, checked by `with_free`; the rest is `Sync`.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

impl Slab {
    /// A slab of `count` buffers of `size` bytes whose home is this thread.
    pub(super) fn new(count: usize, size: usize) -> IoResult<Slab> {
        let refuse = |errno, why: &str| {
            IoError::new(errno, OpKind::None, Stage::Setup)
                .with_context(format!("a pool of {count} buffers of {size} bytes: {why}"))
        };
        if count == 0 || size == 0 {
            return Err(refuse(errno::EINVAL, "both must be at least 1"));
        }
        let places = u32::try_from(count).map_err(|_| refuse(errno::EINVAL, "at most 2^32 - 1 buffers"))?;
        let stride = size.checked_next_multiple_of(LINE_BYTES);
        let layout = stride
            .and_then(|stride| stride.checked_mul(count))
            .and_then(|bytes| Layout::from_size_align(bytes, PAGE_BYTES).ok())
            .ok_or_else(|| refuse(errno::EINVAL, "larger than the address space"))?;
        // SAFETY: the layout's size is not zero, since neither factor is.
        let memory = NonNull::new(unsafe { alloc(layout) })
            .ok_or_else(|| refuse(errno::ENOMEM, "no memory for them; make the pool smaller"))?;
        Ok(Slab {
            memory,
            layout,
            stride: layout.size() / count,
            size,
            count: places,
            home: ThreadName::current(),
            free: UnsafeCell::new((0..places).rev().collect()),
            returning: ConcurrentQueue::bounded(count),
            registered: AtomicU16::new(RawSlice::NOT_FIXED),
        })
    }

    pub(super) fn count(&self) -> usize {
        self.count as usize
    }

    /// The bytes of one buffer.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// The bytes of the whole.
    pub(super) fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// The whole slab's first byte.
    pub(super) fn memory(&self) -> NonNull<u8> {
        self.memory
    }

    /// The first byte of the buffer at `place`.
    pub(super) fn buffer(&self, place: u32) -> NonNull<u8> {
        debug_assert!(place < self.count, "place {place} of {}", self.count);
        // SAFETY: a place of this slab lies inside its memory.
        unsafe { self.memory.add(place as usize * self.stride) }
    }

    pub(super) fn is_home(&self) -> bool {
        ThreadName::current() == self.home
    }

    /// Takes a buffer's place out. For the home thread.
    pub(super) fn take(&self) -> Option<u32> {
        self.with_free(|free| {
            if free.is_empty() {
                free.extend(self.returning.try_iter());
            }
            free.pop()
        })
    }

    /// The number of buffers that are not out. For the home thread.
    pub(super) fn available(&self) -> usize {
        self.with_free(|free| free.len()) + self.returning.len()
    }

    /// Brings a buffer home, from whichever thread its owner lets go of it. Each place taken is given back once.
    pub(super) fn give_back(&self, place: u32) {
        if self.is_home() {
            self.with_free(|free| {
                free.push(place);
                debug_assert!(free.len() <= self.count as usize, "a buffer came home twice");
            });
        } else {
            let pushed = self.returning.push(place);
            debug_assert!(pushed.is_ok(), "the home ring has room for every buffer of the pool");
        }
    }

    /// The index it is registered under, while it is, seen from the home thread.
    pub(super) fn registered(&self) -> Option<u16> {
        let index = self.registered.load(Ordering::Relaxed);
        (index != RawSlice::NOT_FIXED && self.is_home()).then_some(index)
    }

    pub(super) fn is_registered(&self) -> bool {
        self.registered.load(Ordering::Relaxed) != RawSlice::NOT_FIXED
    }

    pub(super) fn set_registered(&self, index: u16) {
        self.registered.store(index, Ordering::Relaxed);
    }

    fn with_free<R>(&self, body: impl FnOnce(&mut Vec<u32>) -> R) -> R {
        debug_assert!(self.is_home(), "the free list of a pool is its home thread's alone");
        // SAFETY: every caller is on the home thread, `take` and `available` because the pool is not `Send` and
        // `give_back` because it looked; and no body here calls back into the slab's free list.
        body(unsafe { &mut *self.free.get() })
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and the last share of the slab is gone: no buffer is out.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

impl fmt::Debug for Slab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slab")
            .field("count", &self.count)
            .field("size", &self.size)
            .field("registered", &self.is_registered())
            .finish_non_exhaustive()
    }
}
