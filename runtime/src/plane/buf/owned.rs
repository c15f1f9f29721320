//! std's own heap buffers.

use crate::plane::buf::{IoBuf, IoBufMut};

// SAFETY: a vector's bytes lie on the heap and stay there while it is not used mutably; its first `len` are
// initialised.
unsafe impl IoBuf for Vec<u8> {
    fn as_ptr(&self) -> *const u8 {
        Vec::as_ptr(self)
    }

    fn len(&self) -> usize {
        Vec::len(self)
    }
}

// SAFETY: the whole capacity is allocated and writable.
unsafe impl IoBufMut for Vec<u8> {
    fn as_mut_ptr(&mut self) -> *mut u8 {
        Vec::as_mut_ptr(self)
    }

    fn capacity(&self) -> usize {
        Vec::capacity(self)
    }

    unsafe fn set_len(&mut self, len: usize) {
        // SAFETY: the caller's promise is the method's own.
        unsafe { Vec::set_len(self, len) };
    }
}

// SAFETY: the bytes lie on the heap, all initialised, at an address that does not change with the box.
unsafe impl IoBuf for Box<[u8]> {
    fn as_ptr(&self) -> *const u8 {
        <[u8]>::as_ptr(self)
    }

    fn len(&self) -> usize {
        <[u8]>::len(self)
    }
}

// SAFETY: every byte of the box is writable.
unsafe impl IoBufMut for Box<[u8]> {
    fn as_mut_ptr(&mut self) -> *mut u8 {
        <[u8]>::as_mut_ptr(self)
    }

    fn capacity(&self) -> usize {
        <[u8]>::len(self)
    }

    unsafe fn set_len(&mut self, _len: usize) {}
}

// SAFETY: static bytes never move and are initialised.
unsafe impl IoBuf for &'static [u8] {
    fn as_ptr(&self) -> *const u8 {
        <[u8]>::as_ptr(self)
    }

    fn len(&self) -> usize {
        <[u8]>::len(self)
    }
}

// SAFETY: a static string's bytes never move and are initialised.
unsafe impl IoBuf for &'static str {
    fn as_ptr(&self) -> *const u8 {
        str::as_ptr(self)
    }

    fn len(&self) -> usize {
        str::len(self)
    }
}

// SAFETY: a string's bytes lie on the heap and stay there while it is not used mutably.
unsafe impl IoBuf for String {
    fn as_ptr(&self) -> *const u8 {
        str::as_ptr(self)
    }

    fn len(&self) -> usize {
        String::len(self)
    }
}
