//! Who is woken at a fiber's end: as a rule another fiber, of which one word says all, or else any waker, in a box.
//! The word is in the fiber's cell, and touched at home only.

use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::task::Waker;

use crate::fiber::task::cell::{Header, OTHER_JOINER, TaskRef, WAKER};
use crate::fiber::task::report;
use crate::plane::backend::discard;

/// Who joins a fiber.
pub(super) enum Joiner {
    /// As a rule.
    Fiber(TaskRef),
    /// Whatever a program awaits the handle with.
    Other(Box<Waker>),
}

impl Joiner {
    #[inline(always)]
    pub(super) fn wake(self) {
        match self {
            Joiner::Fiber(fiber) => fiber.wake(),
            Joiner::Other(waker) => wake_other(*waker),
        }
    }
}

/// Wakes what is no fiber, and may panic.
#[cold]
fn wake_other(joiner: Waker) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| joiner.wake())) {
        report("a waker", &payload);
        discard(payload);
    }
}

impl Header {
    /// Takes the joiner away. At home.
    #[inline(always)]
    pub(super) fn take_joiner(&self) -> Option<Joiner> {
        let joiner = NonNull::new(self.joiner.get())?;
        self.joiner.set(ptr::null_mut());
        let flags = self.flags.get();
        // SAFETY: the flag tells what was put there, which is given up.
        Some(unsafe {
            if flags & OTHER_JOINER == 0 {
                Joiner::Fiber(TaskRef(joiner.cast()))
            } else {
                self.flags.set(flags & !OTHER_JOINER);
                Joiner::Other(Box::from_raw(joiner.cast().as_ptr()))
            }
        })
    }

    /// Wakes `waker` at the end, and nobody else. At home, before the end.
    pub(super) fn joined_by(&self, waker: &Waker) {
        let before = self.take_joiner();
        let flags = self.flags.get();
        if waker.vtable() == &WAKER {
            // SAFETY: a waker with this table is a reference, which it keeps.
            let fiber = ManuallyDrop::new(unsafe { TaskRef::from_raw(waker.data()) });
            let fiber = match before {
                Some(Joiner::Fiber(same)) if same.0 == fiber.0 => same,
                _ => TaskRef::clone(&fiber),
            };
            self.joiner.set(ManuallyDrop::new(fiber).0.as_ptr().cast());
        } else {
            let waker = match before {
                Some(Joiner::Other(same)) if same.will_wake(waker) => same,
                _ => Box::new(waker.clone()),
            };
            self.joiner.set(Box::into_raw(waker).cast());
            self.flags.set(flags | OTHER_JOINER);
        }
    }
}
