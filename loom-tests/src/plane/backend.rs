//! The waker as it is; the rest of the kernel's side stands in.

use crate::plane::time::Instant;

pub use waker::Waker;

pub mod os;

/// A model's threads run on no core.
pub mod affinity {
    pub fn spread() {}
}

/// A model's loop has an event descriptor, and no simulated world.
pub mod thread {
    pub fn mark() -> usize {
        0
    }

    pub fn serves() -> bool {
        false
    }
}

mod waker {
    include!(concat!(env!("OUT_DIR"), "/plane/backend/waker.rs"));
}

/// What a loop may be asked about its kernel.
pub trait Backend {
    fn now(&self) -> Instant;
}

pub struct Kernel {
    pub waker: Waker,
    pub caps: Caps,
}

impl Kernel {
    /// `AnyBackend::rest`. Only a simulated kernel counts how often it is looked at.
    pub fn rest(&mut self) {}
}

impl Backend for Kernel {
    /// Time stands still.
    fn now(&self) -> Instant {
        Instant::ORIGIN
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendKind {
    Uring,
    Epoll,
}

/// No model's panic carries anything that panics again.
pub fn discard(remains: Box<dyn std::any::Any + Send>) {
    drop(remains);
}

/// The kernel is not looked at for a while before a sleep: that takes a clock, and changes nothing about the sleep.
#[derive(Clone, Debug)]
pub struct Caps {
    pub backend: BackendKind,
}

impl Default for Caps {
    fn default() -> Caps {
        Caps { backend: BackendKind::Epoll }
    }
}
