//! The runtime's waker, instants and slab, over a kernel of which only the doorbell is left.

use std::time::Duration;

use loom::sync::{Condvar, Mutex};

use crate::error::{IoResult, OpKind};
use backend::{Caps, Kernel, Waker};
use time::Instant;

pub mod backend;
pub mod current;

pub mod buf {
    pub mod slab {
        include!(concat!(env!("OUT_DIR"), "/plane/buf/slab.rs"));
    }
}

pub mod fd {
    /// An event descriptor is the event itself.
    pub type RawDescriptor = &'static crate::plane::Event;
}

pub mod op {
    pub struct RawSlice;

    impl RawSlice {
        pub const NOT_FIXED: u16 = u16::MAX;
    }
}

pub mod post {
    include!(concat!(env!("OUT_DIR"), "/plane/post.rs"));
}

pub mod time {
    include!(concat!(env!("OUT_DIR"), "/plane/time.rs"));
}

/// An eventfd, and what the kernel knows of it.
pub struct Event {
    rings: Mutex<usize>,
    bell: Condvar,
}

impl Event {
    pub fn new() -> Event {
        Event { rings: Mutex::new(0), bell: Condvar::new() }
    }

    pub fn ring(&self) {
        *self.rings.lock().unwrap() += 1;
        self.bell.notify_all();
    }

    /// The rings so far.
    pub fn rings(&self) -> usize {
        *self.rings.lock().unwrap()
    }

    /// Sleeps until it was rung more often than `seen` times.
    pub fn wait(&self, seen: usize) -> usize {
        let mut rings = self.rings.lock().unwrap();
        while *rings == seen {
            rings = self.bell.wait(rings).unwrap();
        }
        *rings
    }
}

/// Which of the backends' waits is taken after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doorbell {
    /// Each ring of the event is a completion; taking it out acknowledges it, with or without a wait. As `uring` does.
    Completion,
    /// The wait looks at the flag, and acknowledges what it finds. As `poll` does.
    Flag,
}

/// A shard's loop of which only the doorbell is left.
pub struct ShardLoop {
    kernel: Kernel,
    doorbell: Doorbell,
    seen: usize,
}

impl ShardLoop {
    pub fn new(doorbell: Doorbell) -> ShardLoop {
        let waker = Waker::with_event().expect("an event is at hand");
        ShardLoop { kernel: Kernel { waker, caps: Caps::default() }, doorbell, seen: 0 }
    }

    fn event(&self) -> &'static Event {
        self.kernel.waker.event().expect("made with an event")
    }

    pub fn waker(&self) -> Waker {
        self.kernel.waker.clone()
    }

    pub fn caps(&self) -> &Caps {
        &self.kernel.caps
    }

    pub fn backend(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    /// `EventLoop::flush`. Every so often it asks an epoll kernel, so here it always does.
    pub fn flush(&mut self) -> IoResult<()> {
        if self.doorbell == Doorbell::Flag {
            self.seen = self.event().rings();
            self.heed_flag();
        }
        Ok(())
    }

    pub fn look(&mut self) -> IoResult<()> {
        self.flush()
    }

    pub fn wants_kernel(&mut self) -> bool {
        self.has_completions()
    }

    pub fn next_timer(&self) -> Option<Instant> {
        None
    }

    pub fn has_completions(&mut self) -> bool {
        self.doorbell == Doorbell::Completion && self.event().rings() != self.seen
    }

    /// `EventLoop::dispatch`. Nobody is told: the doorbell is the backend's own.
    pub fn dispatch(&mut self) -> usize {
        if self.doorbell == Doorbell::Completion {
            let rings = self.event().rings();
            if rings != self.seen {
                self.seen = rings;
                self.kernel.waker.acknowledge();
            }
        }
        0
    }

    /// `EventLoop::enter`, without an end in time.
    pub fn enter(&mut self, _until: Option<Instant>) -> IoResult<()> {
        match self.doorbell {
            Doorbell::Completion => {
                self.event().wait(self.seen);
            }
            Doorbell::Flag => loop {
                let at_once = self.kernel.waker.is_rung();
                self.seen = if at_once { self.event().rings() } else { self.event().wait(self.seen) };
                if self.heed_flag() || at_once {
                    break;
                }
            },
        }
        Ok(())
    }

    fn heed_flag(&self) -> bool {
        let rung = self.kernel.waker.is_rung();
        if rung {
            self.kernel.waker.acknowledge();
        }
        rung
    }

    pub fn drain(&mut self, _grace: Duration) {}

    pub fn close(self) -> Result<(), Box<ShardLoop>> {
        Ok(())
    }

    pub fn pending(&self) -> Vec<OpKind> {
        Vec::new()
    }
}
