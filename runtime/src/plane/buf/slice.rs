//! A part of an owned buffer, owning the whole.

use crate::plane::buf::{IoBuf, IoBufMut};

/// The bytes `begin..end` of a buffer, as a buffer of their own. The whole comes back from
/// [`into_inner`](Slice::into_inner).
///
/// For writing, the part is cut to the initialised bytes; for reading into, to the capacity.
///
/// # Examples
///
/// ```
/// use wo::plane::buf::{IoBuf, Slice};
///
/// let tail = Slice::new(b"hello world".to_vec(), 6..11);
/// assert_eq!(tail.as_bytes(), b"world");
/// assert_eq!(tail.into_inner(), b"hello world");
/// ```
#[derive(Debug)]
pub struct Slice<B> {
    buf: B,
    begin: usize,
    end: usize,
}

impl<B: IoBuf> Slice<B> {
    /// The part `range` of `buf`.
    ///
    /// # Panics
    ///
    /// When the range is reversed, or begins after the initialised bytes.
    pub fn new(buf: B, range: std::ops::Range<usize>) -> Slice<B> {
        assert!(range.start <= range.end, "a slice of a buffer ends before it begins: {range:?}");
        assert!(
            range.start <= buf.len(),
            "a slice of a buffer begins at {} of {} initialised bytes",
            range.start,
            buf.len()
        );
        Slice { buf, begin: range.start, end: range.end }
    }

    /// The whole buffer.
    pub fn into_inner(self) -> B {
        self.buf
    }

    /// The whole buffer, for looking at.
    pub fn get_ref(&self) -> &B {
        &self.buf
    }
}

// SAFETY: the part lies inside the whole, which keeps its bytes in place; `begin` is within the initialised bytes,
// and the length is cut to them.
unsafe impl<B: IoBuf> IoBuf for Slice<B> {
    fn as_ptr(&self) -> *const u8 {
        // SAFETY: `begin` is at most the initialised length, so the address is inside the buffer or at its end.
        unsafe { self.buf.as_ptr().add(self.begin) }
    }

    fn len(&self) -> usize {
        self.end.min(self.buf.len()).saturating_sub(self.begin)
    }

    fn registered(&self) -> Option<u16> {
        self.buf.registered()
    }
}

// SAFETY: the part is cut to the capacity of the whole.
unsafe impl<B: IoBufMut> IoBufMut for Slice<B> {
    fn as_mut_ptr(&mut self) -> *mut u8 {
        // SAFETY: as in `as_ptr`.
        unsafe { self.buf.as_mut_ptr().add(self.begin) }
    }

    fn capacity(&self) -> usize {
        self.end.min(self.buf.capacity()).saturating_sub(self.begin)
    }

    unsafe fn set_len(&mut self, len: usize) {
        // Bytes after the part that were initialised before stay so: the whole never gets shorter than it was.
        let reached = (self.begin + len).max(self.buf.len());
        // SAFETY: everything before the part was initialised, the caller initialised the part, and what the whole
        // had initialised before still is.
        unsafe { self.buf.set_len(reached) };
    }
}
