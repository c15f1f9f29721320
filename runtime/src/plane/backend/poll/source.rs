//! What the backend knows of one descriptor: what it is, how the poller watches it, and who waits on it.
//!
//! Ops on one descriptor wait in two queues, one that reads and one that writes, and end in the order they came.
//! A queue is *ready* while a system call may succeed: from the start, until a call answers that it would wait,
//! and again from the next event on. Events come by edges, so a queue that is ready is never waited for. A TCP
//! socket that gave fewer bytes than were asked for is empty, too, and need not be asked to know; but its end may
//! have come together with those bytes, in the same edge, so that holds only while the poller tells ends apart and
//! has told none ([`Drained`]).
//!
//! Books are kept by number, and a number may name another file once its owner let go. A descriptor made or adopted
//! here is *owned*: its `Fd` tells [`Departures`] before it closes, from any thread, and the books are put right
//! before the number is used again. Any other descriptor is watched and remembered only while ops wait on it, for
//! the ops keep it open.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::plane::fd::{DescriptorWatch, RawDescriptor};
use crate::plane::op::{RawOp, Readiness};
use crate::plane::token::Token;

/// What a descriptor is, as far as reading and writing it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Not asked yet.
    Unknown,
    /// A socket: every call can be told not to wait.
    Socket,
    /// A pipe or FIFO.
    Pipe,
    /// A character device, terminals among them.
    Device,
    /// A queue of the kernel's: events, timers, watches.
    Other,
    /// What no poller watches: files, directories, disks. It is left to the worker pool.
    File,
}

/// How to call the system on a descriptor without waiting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nature {
    pub(super) kind: Kind,
    /// Its open file description is known to be non-blocking, and nobody else's.
    pub(super) nonblocking: bool,
    /// It refused RWF_NOWAIT: a call may be made only after the poller was asked.
    pub(super) no_nowait: bool,
    /// The poller watches it.
    pub(super) watched: bool,
}

/// One of the two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Read,
    Write,
}

/// An op that has not ended.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) token: Token,
    pub(super) op: RawOp,
    /// Bytes of a send that have gone out.
    pub(super) sent: u32,
    /// A connect was begun.
    pub(super) begun: bool,
    /// Its end was asked for while the pool had it.
    pub(super) cancelled: bool,
}

impl Pending {
    pub(super) fn new(token: Token, op: RawOp) -> Pending {
        Pending { token, op, sent: 0, begun: false, cancelled: false }
    }
}

/// The ops of one side, in order; only the first is ever tried.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) ops: VecDeque<Pending>,
    pub(super) ready: bool,
    /// The first op is with the worker pool.
    pub(super) in_pool: bool,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue { ops: VecDeque::new(), ready: true, in_pool: false }
    }
}

/// What a receive that fell short says of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drained {
    /// Nothing yet; so many fell short. A connection of one request is not worth finding out.
    Unknown { short: u8 },
    /// That it is empty: it is a TCP socket, whose end the poller tells, and it has not ended.
    Yes,
    /// Nothing: its end has come, or it is no such socket.
    No,
}

/// One descriptor.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) owned: bool,
    pub(super) kind: Kind,
    pub(super) nonblocking: bool,
    pub(super) no_nowait: bool,
    /// The poller's key for it, while it is registered.
    pub(super) key: Option<usize>,
    pub(super) drained: Drained,
    /// It stands in the list of sources to try.
    pub(super) listed: bool,
    pub(super) reads: Queue,
    pub(super) writes: Queue,
    pub(super) polls: Vec<(Token, Readiness)>,
}

impl Source {
    pub(super) fn new(owned: bool, kind: Kind, nonblocking: bool, no_nowait: bool) -> Source {
        Source {
            owned,
            kind,
            nonblocking,
            no_nowait,
            key: None,
            drained: Drained::Unknown { short: 0 },
            listed: false,
            reads: Queue::default(),
            writes: Queue::default(),
            polls: Vec::new(),
        }
    }

    pub(super) fn nature(&self) -> Nature {
        Nature {
            kind: self.kind,
            nonblocking: self.nonblocking,
            no_nowait: self.no_nowait,
            watched: self.key.is_some(),
        }
    }

    pub(super) fn queue(&mut self, side: Side) -> &mut Queue {
        match side {
            Side::Read => &mut self.reads,
            Side::Write => &mut self.writes,
        }
    }

    /// Whether nobody waits on it.
    pub(super) fn is_idle(&self) -> bool {
        self.reads.ops.is_empty() && self.writes.ops.is_empty() && self.polls.is_empty()
    }

    /// Forgets what was learnt of a descriptor that may be another one next time.
    pub(super) fn unlearn(&mut self, no_nowait: bool) {
        self.kind = Kind::Unknown;
        self.nonblocking = false;
        self.no_nowait = no_nowait;
        self.drained = Drained::Unknown { short: 0 };
        self.reads.ready = true;
        self.writes.ready = true;
    }
}

/// The poller's key: which registration of which descriptor. Events of an older one resolve to nothing.
pub(super) fn key(registration: u32, fd: RawDescriptor) -> usize {
    (registration as usize) << 32 | fd as u32 as usize
}

/// The descriptor a key was made for.
pub(super) fn descriptor(key: usize) -> RawDescriptor {
    key as u32 as RawDescriptor
}

/// How a number left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Departure {
    /// It is closed, or about to be.
    Closed(RawDescriptor),
    /// It went to another owner.
    Released(RawDescriptor),
}

/// Numbers whose owners let go, until the loop has put its books right.
///
/// A number is noted before it is closed, so whoever gets it from the system afterwards finds the note.
#[derive(Debug, Default)]
pub(super) struct Departures {
    some: AtomicBool,
    noted: Mutex<Vec<Departure>>,
    loop_gone: AtomicBool,
}

impl Departures {
    /// The departures since the last look.
    pub(super) fn take(&self) -> Vec<Departure> {
        if !self.some.load(Ordering::SeqCst) {
            return Vec::new();
        }
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        self.some.store(false, Ordering::SeqCst);
        std::mem::take(&mut noted)
    }

    /// Nobody will look again.
    pub(super) fn end(&self) {
        self.loop_gone.store(true, Ordering::SeqCst);
    }

    fn note(&self, departure: Departure) {
        if self.loop_gone.load(Ordering::SeqCst) {
            return;
        }
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).push(departure);
        self.some.store(true, Ordering::SeqCst);
    }
}

impl DescriptorWatch for Departures {
    fn closing(&self, raw: RawDescriptor) {
        self.note(Departure::Closed(raw));
    }

    fn released(&self, raw: RawDescriptor) {
        self.note(Departure::Released(raw));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_its_descriptor_and_its_registration() {
        for fd in [0, 7, i32::MAX] {
            for registration in [0, 1, u32::MAX] {
                assert_eq!(descriptor(key(registration, fd)), fd);
                assert_ne!(key(registration, fd), key(registration.wrapping_add(1), fd));
                assert_ne!(key(registration, fd), usize::MAX, "the poller's own key");
            }
        }
    }

    #[test]
    fn departures_are_told_once_and_not_after_the_end() {
        let departures = Departures::default();
        departures.closing(3);
        departures.released(4);
        assert_eq!(departures.take(), [Departure::Closed(3), Departure::Released(4)]);
        assert_eq!(departures.take(), []);
        departures.end();
        departures.closing(5);
        assert_eq!(departures.take(), []);
    }
}
