//! Buffers between a caller's borrowed memory and the kernel.
//!
//! The kernel may write into a buffer until the op's last word, which can come after the caller has gone. So the
//! borrowed forms of the verbs never show it the caller's memory: they go through a [`Bounce`], which the op owns like
//! any other buffer and takes along when it is dropped in flight.
//!
//! Bounces come in a few sizes and go back to a free list of the thread that drops them, so a steady load allocates
//! none. Each size keeps a bounded number of bytes; what comes back on top is freed.

use std::cell::RefCell;
use std::fmt;

use crate::plane::buf::{IoBuf, IoBufMut};

/// The smallest size, in bytes.
const CLASS_BYTES_MIN: usize = 512;
/// The number of sizes, each twice the one before.
const CLASSES: usize = 8;
/// What one thread keeps of one size, in bytes.
const KEPT_BYTES_MAX: usize = 1 << 20;

const _: () = assert!(CLASS_BYTES_MIN << (CLASSES - 1) == Bounce::BYTES_MAX);

thread_local! {
    static FREE: RefCell<[Vec<Vec<u8>>; CLASSES]> = const { RefCell::new([const { Vec::new() }; CLASSES]) };
}

/// A buffer that stands in for borrowed memory.
///
/// # Examples
///
/// ```
/// use wo::plane::buf::{Bounce, IoBuf, IoBufMut};
///
/// let room = Bounce::with_room(10);
/// assert_eq!((room.len(), room.capacity()), (0, 10));
///
/// let copy = Bounce::holding(b"some bytes");
/// assert_eq!(copy.as_bytes(), b"some bytes");
/// ```
pub struct Bounce {
    memory: Vec<u8>,
    room: usize,
}

impl Bounce {
    /// The largest size that is reused. Transfers of streams are cut to it; a longer datagram gets memory of its own.
    pub const BYTES_MAX: usize = 1 << 16;

    /// Room for at most `room` bytes.
    pub fn with_room(room: usize) -> Bounce {
        let memory = match class_of(room) {
            Some(class) => FREE
                .try_with(|free| free.borrow_mut()[class].pop())
                .ok()
                .flatten()
                .unwrap_or_else(|| Vec::with_capacity(CLASS_BYTES_MIN << class)),
            None => Vec::with_capacity(room),
        };
        Bounce { memory, room }
    }

    /// A copy of `bytes`.
    pub fn holding(bytes: &[u8]) -> Bounce {
        let mut bounce = Bounce::with_room(bytes.len());
        bounce.memory.extend_from_slice(bytes);
        bounce
    }
}

/// The size that fits `room` bytes; none past the largest.
fn class_of(room: usize) -> Option<usize> {
    (0..CLASSES).find(|class| room <= CLASS_BYTES_MIN << class)
}

impl Drop for Bounce {
    fn drop(&mut self) {
        let Some(class) = class_of(self.room) else { return };
        let mut memory = std::mem::take(&mut self.memory);
        memory.clear();
        // At the thread's end the list is gone, and the memory goes with it.
        let _ = FREE.try_with(|free| {
            let free = &mut free.borrow_mut()[class];
            if free.len() < KEPT_BYTES_MAX / (CLASS_BYTES_MIN << class) {
                free.push(memory);
            }
        });
    }
}

// SAFETY: a vector's bytes lie on the heap and stay there while it is not used mutably; its first `len` are
// initialised.
unsafe impl IoBuf for Bounce {
    fn as_ptr(&self) -> *const u8 {
        self.memory.as_ptr()
    }

    fn len(&self) -> usize {
        self.memory.len()
    }
}

// SAFETY: the vector was made with at least `room` bytes, all writable.
unsafe impl IoBufMut for Bounce {
    fn as_mut_ptr(&mut self) -> *mut u8 {
        self.memory.as_mut_ptr()
    }

    fn capacity(&self) -> usize {
        self.room
    }

    unsafe fn set_len(&mut self, len: usize) {
        // SAFETY: the caller's promise is the method's own, and `room` is within the vector's capacity.
        unsafe { self.memory.set_len(len) };
    }
}

impl fmt::Debug for Bounce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bounce").field("len", &self.memory.len()).field("room", &self.room).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_and_is_used_again() {
        let first = Bounce::holding(&[7; 700]);
        let address = first.as_ptr();
        drop(first);
        let second = Bounce::with_room(1000);
        assert_eq!(second.as_ptr(), address, "700 and 1000 bytes are of one size");
        assert_eq!((second.len(), second.capacity()), (0, 1000));
    }

    #[test]
    fn a_thread_keeps_a_bounded_number() {
        let many: Vec<Bounce> = (0..40).map(|_| Bounce::with_room(Bounce::BYTES_MAX)).collect();
        drop(many);
        let kept = FREE.with(|free| free.borrow()[CLASSES - 1].len());
        assert_eq!(kept, KEPT_BYTES_MAX / Bounce::BYTES_MAX);
    }

    #[test]
    fn more_than_the_largest_size_is_not_kept() {
        let large = Bounce::holding(&[1; Bounce::BYTES_MAX + 1]);
        assert_eq!(large.len(), Bounce::BYTES_MAX + 1);
        drop(large);
        assert!(FREE.with(|free| free.borrow().iter().all(Vec::is_empty)));
    }
}
