//! The one door into a loop from another thread, or from a signal handler.
//!
//! Ringing sets a flag and, when the flag was clear, writes to the loop's event descriptor; the loop clears the flag
//! when it has woken, before it looks at whatever the ring announced. So wakes coalesce, and none is lost: a ring
//! that finds the flag set was preceded by a write the loop has not yet answered. The channel belongs to all its
//! wakers together; one that outlives its loop writes to a descriptor nobody reads and nothing else can own.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::IoResult;
use crate::plane::backend::{os, thread};
use crate::plane::fd::RawDescriptor;

/// Wakes a loop from anywhere. Cheap to clone; ringing is async-signal-safe, and rings before the loop runs add up
/// to one wake.
#[derive(Clone)]
pub struct Waker(Arc<Channel>);

struct Channel {
    rung: AtomicBool,
    /// The event descriptor, or none where the loop never sleeps in the system.
    event: Option<RawDescriptor>,
    /// The mark of the thread that made it, where there is no event descriptor, and rings from others so far.
    home: usize,
    strange: AtomicU64,
}

impl Waker {
    /// A channel with an event descriptor for the loop to wait on.
    pub(crate) fn with_event() -> IoResult<Waker> {
        let event = Some(os::event()?);
        Ok(Waker(Arc::new(Channel { rung: AtomicBool::new(false), event, home: 0, strange: AtomicU64::new(0) })))
    }

    /// A channel that is a flag alone, for a kernel that looks at it before it sleeps.
    pub(crate) fn flag() -> Waker {
        let (rung, strange) = (AtomicBool::new(false), AtomicU64::new(0));
        Waker(Arc::new(Channel { rung, event: None, home: thread::mark(), strange }))
    }

    /// Ends the loop's wait, or the next one.
    pub fn wake(&self) {
        let first = !self.0.rung.swap(true, Ordering::SeqCst);
        match self.0.event {
            Some(event) if first => os::ring(event),
            Some(_) => {}
            None if self.0.home != thread::mark() => {
                self.0.strange.fetch_add(1, Ordering::Relaxed);
            }
            None => {}
        }
    }

    /// Rings so far from threads that neither made the channel nor work for the one that did.
    pub(crate) fn strange_rings(&self) -> u64 {
        self.0.strange.load(Ordering::Relaxed)
    }

    /// Whether it was rung since the loop last woke by it.
    pub(crate) fn is_rung(&self) -> bool {
        self.0.rung.load(Ordering::SeqCst)
    }

    /// The loop has woken: the next ring writes again. Whatever the rings before announced is visible afterwards,
    /// which takes reading their flag, not only clearing it.
    pub(crate) fn acknowledge(&self) {
        self.0.rung.swap(false, Ordering::SeqCst);
    }

    /// Takes the rings so far out of the event descriptor, for a loop that polls it anew for each.
    pub(crate) fn drain(&self) {
        if let Some(event) = self.0.event {
            os::silence(event);
        }
    }

    /// The descriptor that becomes readable when rung. It is never read: each ring is one more edge.
    pub(crate) fn event(&self) -> Option<RawDescriptor> {
        self.0.event
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        if let Some(event) = self.event {
            os::close(event);
        }
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waker").field("rung", &self.is_rung()).finish_non_exhaustive()
    }
}
