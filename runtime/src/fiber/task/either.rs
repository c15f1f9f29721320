//! Either a fiber's handle or a box, in one word: handles lie in lists by the thousand, and the box is seldom there.

use std::marker::PhantomData;
use std::ptr;

use crate::fiber::task::Handle;

/// In the word's lowest bit, which is no part of an address: it is a box.
const BOX: usize = 1;

/// A handle, a box, or nothing.
pub(crate) struct Either<T, B> {
    /// Null for nothing. Else a `Handle`, or with the bit set what `Box::into_raw` gave.
    word: *mut (),
    _holds: PhantomData<(Handle<T>, Box<B>)>,
}

// SAFETY: it is one of the two, which may be sent.
unsafe impl<T, B> Send for Either<T, B>
where
    Handle<T>: Send,
    Box<B>: Send,
{
}
// SAFETY: as above; what a reference to it gives out are references to these.
unsafe impl<T, B> Sync for Either<T, B>
where
    Handle<T>: Sync,
    Box<B>: Sync,
{
}

// Nothing of either is in it.
impl<T, B> Unpin for Either<T, B> {}

impl<T, B> Either<T, B> {
    const FITS: () = assert!(size_of::<Handle<T>>() == size_of::<*mut ()>() && align_of::<B>() > BOX);

    pub(crate) const fn nothing() -> Either<T, B> {
        Either { word: ptr::null_mut(), _holds: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn handle(handle: Handle<T>) -> Either<T, B> {
        const { Self::FITS }
        Either { word: handle.into_word(), _holds: PhantomData }
    }

    pub(crate) fn boxed(boxed: Box<B>) -> Either<T, B> {
        const { Self::FITS }
        Either { word: Box::into_raw(boxed).cast::<()>().map_addr(|address| address | BOX), _holds: PhantomData }
    }

    #[inline(always)]
    fn is_box(&self) -> bool {
        self.word.addr() & BOX != 0
    }

    fn address_of_box(&self) -> *mut B {
        self.word.map_addr(|address| address & !BOX).cast()
    }

    /// The handle, if it is one.
    #[inline(always)]
    pub(crate) fn as_handle(&self) -> Option<&Handle<T>> {
        if self.word.is_null() || self.is_box() {
            return None;
        }
        // SAFETY: the word is a handle's, which is transparently that.
        Some(unsafe { &*(&raw const self.word).cast::<Handle<T>>() })
    }

    /// The box, if it is one.
    #[inline(always)]
    pub(crate) fn as_box(&self) -> Option<&B> {
        // SAFETY: the bit says so, and it lives until this lets go of it.
        if self.is_box() { Some(unsafe { &*self.address_of_box() }) } else { None }
    }

    /// Takes the handle out, if it is one.
    #[inline(always)]
    pub(crate) fn take_handle(&mut self) -> Option<Handle<T>> {
        if self.word.is_null() || self.is_box() {
            return None;
        }
        let word = std::mem::replace(&mut self.word, ptr::null_mut());
        // SAFETY: the word is a handle's, which is given up here.
        Some(unsafe { Handle::from_word(word) })
    }
}

impl<T, B> Drop for Either<T, B> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_box() {
            // SAFETY: the bit says so, and it is let go of once.
            drop(unsafe { Box::from_raw(self.address_of_box()) });
        } else {
            drop(self.take_handle());
        }
    }
}
