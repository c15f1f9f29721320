//! The run queue, threaded through the cells of its fibers: it has no memory of its own to grow, and queueing writes
//! to what was queued last and nowhere else.
//!
//! A fiber is in the queue once at most; see [`Ready`].

use std::cell::Cell;
use std::ptr;

use crate::fiber::task::{Header, Ready};

/// The fibers of one shard that are to run, first in, first out.
pub(crate) struct Queue {
    /// Of no meaning while it is empty, as is `last`.
    first: Cell<*const Header>,
    last: Cell<*const Header>,
    len: Cell<usize>,
}

impl Queue {
    pub(crate) const fn new() -> Queue {
        Queue { first: Cell::new(ptr::null()), last: Cell::new(ptr::null()), len: Cell::new(0) }
    }

    /// Exchanges what is in both, which are on the same thread.
    pub(crate) fn swap(&self, other: &Queue) {
        self.first.swap(&other.first);
        self.last.swap(&other.last);
        self.len.swap(&other.len);
    }

    pub(crate) fn len(&self) -> usize {
        self.len.get()
    }

    #[inline(always)]
    pub(crate) fn push(&self, fiber: Ready) {
        let fiber = fiber.into_header();
        let len = self.len.get();
        if len == 0 {
            self.first.set(fiber);
        } else {
            // SAFETY: what is queued has not ended, so its cell is alive; this is its home, where the queue is.
            unsafe { (*self.last.get()).set_behind(fiber) };
        }
        self.last.set(fiber);
        self.len.set(len + 1);
    }

    #[inline(always)]
    pub(crate) fn pop(&self) -> Option<Ready> {
        let len = self.len.get();
        if len == 0 {
            return None;
        }
        let first = self.first.get();
        // SAFETY: as above; it was put here as a `Ready`, and is taken out once.
        unsafe {
            self.first.set((*first).behind());
            self.len.set(len - 1);
            Some(Ready::from_header(first))
        }
    }
}
