//! The memory of ended fibers, kept for the next ones.
//!
//! Many fibers live short and are of few sizes, so a shard keeps some of their memory by size: taking it is two loads.
//! What is kept is bounded; the rest is the allocator's.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::{self, NonNull};

/// Sizes are rounded up to this, which is also the alignment.
const STEP_BYTES: usize = 16;
/// Cells larger than this are never kept.
const KEPT_BYTES_MAX: usize = 1024;
/// All that one shard keeps.
const SHARD_BYTES_MAX: usize = 512 << 10;

const SIZES: usize = KEPT_BYTES_MAX / STEP_BYTES;

/// Kept memory begins with the address of the next.
struct Kept {
    next: *mut Kept,
}

/// What one shard keeps. Without a destructor: [`give_up`](Memory::give_up) ends it.
pub(crate) struct Memory {
    sizes: [Cell<*mut Kept>; SIZES],
    bytes: Cell<usize>,
}

impl Memory {
    pub(crate) const fn new() -> Memory {
        Memory { sizes: [const { Cell::new(ptr::null_mut()) }; SIZES], bytes: Cell::new(0) }
    }

    /// Memory of this layout, which [`rounded`] answered.
    #[inline(always)]
    pub(super) fn take(&self, layout: Layout) -> NonNull<u8> {
        if let Some(size) = size_of_list(layout) {
            let kept = self.sizes[size].get();
            if let Some(memory) = NonNull::new(kept) {
                // SAFETY: what is in a list was put there by `put`, is nobody's, and begins with its successor.
                self.sizes[size].set(unsafe { (*kept).next });
                self.bytes.set(self.bytes.get() - layout.size());
                return memory.cast();
            }
        }
        allocate(layout)
    }

    /// Takes memory back.
    ///
    /// # Safety
    ///
    /// It came from [`take`](Memory::take) on any thread, with this layout, and is nobody's.
    #[inline(always)]
    pub(super) unsafe fn put(&self, memory: NonNull<u8>, layout: Layout) {
        match size_of_list(layout) {
            Some(size) if self.bytes.get() + layout.size() <= SHARD_BYTES_MAX => {
                let kept = memory.cast::<Kept>();
                // SAFETY: the memory is nobody's, large enough and aligned: a cell's header is larger than a pointer.
                unsafe { kept.write(Kept { next: self.sizes[size].get() }) };
                self.sizes[size].set(kept.as_ptr());
                self.bytes.set(self.bytes.get() + layout.size());
            }
            // SAFETY: the caller's promise.
            _ => unsafe { free(memory, layout) },
        }
    }

    /// Gives all that is kept back to the allocator.
    pub(crate) fn give_up(&self) {
        for (size, list) in self.sizes.iter().enumerate() {
            let layout = Layout::from_size_align((size + 1) * STEP_BYTES, STEP_BYTES).expect("a small layout");
            let mut next = list.replace(ptr::null_mut());
            while let Some(kept) = NonNull::new(next) {
                // SAFETY: as in `take`; memory in a list was allocated with the list's layout.
                unsafe {
                    next = kept.read().next;
                    free(kept.cast(), layout);
                }
            }
        }
        self.bytes.set(0);
    }
}

/// The layout cells of this layout are allocated with.
pub(super) const fn rounded(layout: Layout) -> Layout {
    if layout.size() > KEPT_BYTES_MAX || layout.align() > STEP_BYTES {
        return layout;
    }
    match Layout::from_size_align(layout.size().next_multiple_of(STEP_BYTES), STEP_BYTES) {
        Ok(rounded) => rounded,
        Err(_) => layout,
    }
}

/// Gives memory back to the allocator.
///
/// # Safety
///
/// It was allocated here with this layout, and is nobody's.
pub(super) unsafe fn free(memory: NonNull<u8>, layout: Layout) {
    // SAFETY: the caller's promise.
    unsafe { dealloc(memory.as_ptr(), layout) };
}

#[inline(always)]
const fn size_of_list(layout: Layout) -> Option<usize> {
    if layout.size() > KEPT_BYTES_MAX || layout.align() > STEP_BYTES {
        return None;
    }
    Some(layout.size() / STEP_BYTES - 1)
}

#[cold]
#[inline(never)]
fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: a cell's layout is not empty.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize) -> Layout {
        rounded(Layout::from_size_align(size, 8).unwrap())
    }

    #[test]
    fn memory_is_used_again_by_its_size() {
        let memory = Memory::new();
        let (small, large) = (layout(72), layout(800));
        let (a, b) = (memory.take(small), memory.take(large));
        // SAFETY: each came from `take` with its layout, and is given back once.
        unsafe {
            memory.put(a, small);
            memory.put(b, large);
        }
        assert_eq!(memory.take(layout(80)), a);
        assert_eq!(memory.take(large), b);
        // SAFETY: as above.
        unsafe {
            memory.put(a, small);
            memory.put(b, large);
        }
        memory.give_up();
        assert_eq!(memory.bytes.get(), 0);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let memory = Memory::new();
        let layout = layout(KEPT_BYTES_MAX);
        let taken: Vec<_> = (0..2 * SHARD_BYTES_MAX / KEPT_BYTES_MAX).map(|_| memory.take(layout)).collect();
        for taken in taken {
            // SAFETY: each came from `take` with this layout, and is given back once.
            unsafe { memory.put(taken, layout) };
        }
        assert_eq!(memory.bytes.get(), SHARD_BYTES_MAX);
        memory.give_up();
    }

    #[test]
    fn what_is_large_or_oddly_aligned_is_not_kept() {
        let memory = Memory::new();
        for layout in [layout(KEPT_BYTES_MAX + 1), rounded(Layout::from_size_align(64, 64).unwrap())] {
            let taken = memory.take(layout);
            // SAFETY: it came from `take` with this layout, and is given back once.
            unsafe { memory.put(taken, layout) };
            assert_eq!(memory.bytes.get(), 0);
        }
    }
}
