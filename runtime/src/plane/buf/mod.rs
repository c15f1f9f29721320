//! Buffers that may be lent to the kernel.
//!
//! From submission to the terminal completion the kernel holds a pointer into the buffer, so its bytes must neither
//! move nor be freed, whatever happens to the fiber that waits. A buffer type promises that by these two traits;
//! the op owns the buffer in the meantime, and every transfer gives it back, on success and on failure.

mod bounce;
mod buffer;
mod owned;
mod pool;
mod slab;
mod slice;
#[cfg(test)]
mod tests;

pub use bounce::Bounce;
pub use buffer::{Buf, Origin};
pub use pool::{BufPool, Registration};
pub use slice::Slice;

/// A buffer that can be written from.
///
/// # Safety
///
/// The bytes lie at a fixed address while the value is not dropped or used mutably, even when the value itself is
/// moved; and the first [`len`](IoBuf::len) of them are initialised.
pub unsafe trait IoBuf: 'static {
    /// The first byte.
    fn as_ptr(&self) -> *const u8;

    /// The number of initialised bytes.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The registered buffer it lies in, where it lies in one.
    fn registered(&self) -> Option<u16> {
        None
    }

    /// The initialised bytes.
    fn as_bytes(&self) -> &[u8] {
        // SAFETY: the trait promises this many initialised bytes at this address while `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len()) }
    }
}

/// A buffer that can be read into, from its first byte up to its capacity.
///
/// # Safety
///
/// As [`IoBuf`], and [`capacity`](IoBufMut::capacity) bytes at the address are writable.
pub unsafe trait IoBufMut: IoBuf {
    /// The first byte, for writing.
    fn as_mut_ptr(&mut self) -> *mut u8;

    /// The number of bytes that may be written.
    fn capacity(&self) -> usize;

    /// Declares the first `len` bytes initialised, and where the type knows a length of its own, sets it to `len`.
    ///
    /// # Safety
    ///
    /// The first `len` bytes are initialised, and `len` is at most the capacity.
    unsafe fn set_len(&mut self, len: usize);
}

/// What an owned transfer answers: the result, and the buffer, on success and on failure.
pub type BufResult<T, B> = (crate::error::IoResult<T>, B);
