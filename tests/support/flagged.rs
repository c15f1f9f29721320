//! A buffer that tells when it is freed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wo_runtime::plane::buf::{IoBuf, IoBufMut};

/// Counts the buffers that were freed.
#[derive(Clone, Debug, Default)]
pub struct Freed(Arc<AtomicUsize>);

impl Freed {
    /// How many were.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// A buffer that counts itself when it is freed, and then calls back.
pub struct Flagged {
    bytes: Box<[u8]>,
    len: usize,
    freed: Freed,
    then: Option<Box<dyn FnOnce()>>,
}

impl Flagged {
    /// An empty buffer of that capacity.
    pub fn new(capacity: usize, freed: &Freed) -> Flagged {
        Flagged { bytes: vec![0; capacity].into_boxed_slice(), len: 0, freed: freed.clone(), then: None }
    }

    /// The same, and `then` runs when it has been freed.
    pub fn then(mut self, then: impl FnOnce() + 'static) -> Flagged {
        self.then = Some(Box::new(then));
        self
    }
}

impl Drop for Flagged {
    fn drop(&mut self) {
        self.freed.0.fetch_add(1, Ordering::SeqCst);
        if let Some(then) = self.then.take() {
            then();
        }
    }
}

// SAFETY: the box's bytes lie on the heap, all initialised, wherever the value is moved.
unsafe impl IoBuf for Flagged {
    fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    fn len(&self) -> usize {
        self.len
    }
}

// SAFETY: every byte of the box is writable.
unsafe impl IoBufMut for Flagged {
    fn as_mut_ptr(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }

    fn capacity(&self) -> usize {
        self.bytes.len()
    }

    unsafe fn set_len(&mut self, len: usize) {
        self.len = len;
    }
}
