//! One owned buffer with pinned memory, wherever the memory comes from.
//!
//! A [`Buf`] has exactly one owner: the program, or the op it was moved into, and then the kernel. Its bytes never
//! move. Dropping it gives the memory back to where it came from: the heap, its pool, or the owner of foreign memory.

use std::any::Any;
use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::plane::buf::slab::Slab;
use crate::plane::buf::{IoBuf, IoBufMut};

/// Where a buffer's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// There is none: the empty buffer.
    None,
    /// The heap.
    Heap,
    /// A pool.
    Pool,
    /// A pool whose memory is registered with the loop of this thread; ops on it take the kernel's short way.
    Registered,
    /// An owner of its own, given to [`Buf::from_owner`].
    Foreign,
}

/// A move-only buffer: some initialised bytes, as which it can be used, and room for more up to its capacity.
///
/// It never grows. It may be sent to other threads, and is given back to its origin where it is dropped.
///
/// # Examples
///
/// ```
/// use wo::plane::buf::{Buf, Origin};
///
/// let mut buf = Buf::with_capacity(8);
/// buf.extend_from_slice(b"plane");
/// buf[0] = b'P';
/// assert_eq!(&buf[..], b"Plane");
/// assert_eq!((buf.len(), buf.spare()), (5, 3));
///
/// let array = Buf::from_owner([7u8; 16]);
/// assert_eq!((array[3], array.origin()), (7, Origin::Foreign));
/// ```
pub struct Buf {
    ptr: NonNull<u8>,
    len: usize,
    capacity: usize,
    home: Home,
}

enum Home {
    Nowhere,
    /// The parts of a `Vec`.
    Heap,
    Slab {
        slab: Arc<Slab>,
        place: u32,
    },
    /// A box, kept as a pointer: it may hold the bytes itself, and moving a `Box` would claim them for itself.
    Owner(NonNull<dyn Any + Send>),
}

// SAFETY: the bytes are the buffer's alone; a slab may be shared, a foreign owner is `Send`.
unsafe impl Send for Buf {}
// SAFETY: a shared buffer only lets its bytes be read; its origin is not touched before it is dropped.
unsafe impl Sync for Buf {}

impl Buf {
    /// The empty buffer, without memory.
    pub const fn new() -> Buf {
        Buf { ptr: NonNull::dangling(), len: 0, capacity: 0, home: Home::Nowhere }
    }

    /// An empty buffer with room for `capacity` bytes, from the heap.
    ///
    /// # Panics
    ///
    /// When the capacity is beyond the address space.
    pub fn with_capacity(capacity: usize) -> Buf {
        Buf::from_vec(Vec::with_capacity(capacity))
    }

    /// The bytes of `vec`, and its whole capacity. Nothing is copied.
    pub fn from_vec(vec: Vec<u8>) -> Buf {
        if vec.capacity() == 0 {
            return Buf::new();
        }
        let mut vec = ManuallyDrop::new(vec);
        let (len, capacity) = (vec.len(), vec.capacity());
        // SAFETY: a vector's pointer is never null.
        let ptr = unsafe { NonNull::new_unchecked(vec.as_mut_ptr()) };
        Buf { ptr, len, capacity, home: Home::Heap }
    }

    /// Foreign memory: a mapped file, a block from another allocator, an array. The owner is kept unmoved and
    /// untouched, and dropped exactly once, with the buffer, wherever that is; its `Drop` is what frees the memory.
    ///
    /// All bytes of `owner.as_mut()` count as initialised, and are the buffer's capacity.
    ///
    /// # Panics
    ///
    /// When `owner.as_mut()` does; the owner is dropped then.
    pub fn from_owner<O: AsMut<[u8]> + Send + 'static>(owner: O) -> Buf {
        let owner = Box::into_raw(Box::new(owner));
        // SAFETY: a box's pointer is never null. The buffer owns the box from here on, also when `as_mut` panics.
        let home = Home::Owner(unsafe { NonNull::new_unchecked(owner as *mut (dyn Any + Send)) });
        let mut buf = Buf { ptr: NonNull::dangling(), len: 0, capacity: 0, home };
        // SAFETY: the box is alive and nobody else knows it. The borrow lasts as long as the buffer: the owner is
        // not touched again before it is dropped, so the bytes it lent stay where they are.
        let bytes = unsafe { (*owner).as_mut() };
        buf.len = bytes.len();
        buf.capacity = bytes.len();
        buf.ptr = NonNull::from(bytes).cast();
        buf
    }

    pub(super) fn of_slab(slab: Arc<Slab>, place: u32) -> Buf {
        Buf { ptr: slab.buffer(place), len: 0, capacity: slab.size(), home: Home::Slab { slab, place } }
    }

    /// Where its memory comes from. A pool's buffer is [`Origin::Registered`] only on the thread of the loop that
    /// knows its memory; elsewhere it is an ordinary one.
    pub fn origin(&self) -> Origin {
        match &self.home {
            Home::Nowhere => Origin::None,
            Home::Heap => Origin::Heap,
            Home::Slab { slab, .. } if slab.registered().is_some() => Origin::Registered,
            Home::Slab { .. } => Origin::Pool,
            Home::Owner(_) => Origin::Foreign,
        }
    }

    /// The number of bytes it can hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The number of bytes there is still room for.
    pub fn spare(&self) -> usize {
        self.capacity - self.len
    }

    /// Forgets the bytes.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Forgets the bytes after the first `len`; does nothing when there are no more than that.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Puts `bytes` after the ones it has.
    ///
    /// # Panics
    ///
    /// When there is not room for all of them; [`spare`](Buf::spare) tells. To take what fits, use it as a
    /// [`std::io::Write`].
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.spare(), "{} more bytes in a buffer with room for {}", bytes.len(), self.spare());
        // SAFETY: there is room behind the initialised bytes, and a borrowed slice cannot lie in memory that is
        // borrowed mutably here.
        unsafe { self.ptr.add(self.len).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        self.len += bytes.len();
    }

    /// Makes it `len` bytes long, filling with `byte` where it was shorter.
    ///
    /// # Panics
    ///
    /// When `len` is beyond the capacity.
    pub fn resize(&mut self, len: usize, byte: u8) {
        assert!(len <= self.capacity, "{len} bytes in a buffer of {}", self.capacity);
        if len > self.len {
            // SAFETY: the bytes between the initialised ones and `len` lie within the capacity.
            unsafe { self.ptr.add(self.len).write_bytes(byte, len - self.len) };
        }
        self.len = len;
    }

    /// The bytes as a vector; without copying where the memory came from the heap.
    pub fn into_vec(self) -> Vec<u8> {
        if !matches!(self.home, Home::Heap) {
            return self.to_vec();
        }
        let buf = ManuallyDrop::new(self);
        // SAFETY: `from_vec` took the parts from a vector, and only the length has changed, which covers initialised
        // bytes; the buffer is not dropped. `Home::Heap` holds nothing of its own.
        unsafe { Vec::from_raw_parts(buf.ptr.as_ptr(), buf.len, buf.capacity) }
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        match &self.home {
            Home::Nowhere => {}
            Home::Heap => {
                // SAFETY: the parts came from a vector; a length of zero is always right for bytes.
                drop(unsafe { Vec::from_raw_parts(self.ptr.as_ptr(), 0, self.capacity) });
            }
            Home::Slab { slab, place } => slab.give_back(*place),
            Home::Owner(owner) => {
                // SAFETY: the pointer came from a box and is given up here, once; nobody uses its bytes any more.
                drop(unsafe { Box::from_raw(owner.as_ptr()) });
            }
        }
    }
}

// SAFETY: the bytes lie outside the value, at an address that never changes; the first `len` are initialised.
unsafe impl IoBuf for Buf {
    fn as_ptr(&self) -> *const u8 {
        self.ptr.as_ptr()
    }

    fn len(&self) -> usize {
        self.len
    }

    fn registered(&self) -> Option<u16> {
        match &self.home {
            Home::Slab { slab, .. } => slab.registered(),
            _ => None,
        }
    }
}

// SAFETY: the whole capacity is the buffer's own and writable.
unsafe impl IoBufMut for Buf {
    fn as_mut_ptr(&mut self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    unsafe fn set_len(&mut self, len: usize) {
        debug_assert!(len <= self.capacity, "{len} bytes in a buffer of {}", self.capacity);
        self.len = len;
    }
}

impl Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the first `len` bytes are initialised, and the buffer's own.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and the buffer is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for Buf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for Buf {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl Default for Buf {
    fn default() -> Buf {
        Buf::new()
    }
}

impl From<Vec<u8>> for Buf {
    fn from(vec: Vec<u8>) -> Buf {
        Buf::from_vec(vec)
    }
}

impl From<Box<[u8]>> for Buf {
    fn from(bytes: Box<[u8]>) -> Buf {
        Buf::from_vec(bytes.into_vec())
    }
}

/// Takes what fits; a full buffer takes 0 bytes.
impl io::Write for Buf {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.spare());
        self.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buf")
            .field("len", &self.len)
            .field("capacity", &self.capacity)
            .field("origin", &self.origin())
            .finish()
    }
}
