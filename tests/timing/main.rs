//! The conformance cases that state a bound in time.
//!
//! They run one after the other, so that none of them measures another. The bounds are the cases' own; they catch
//! hangs and lost wake-ups, which cost far more.

#[path = "../support/backends.rs"]
mod backends;
#[path = "../support/child.rs"]
mod child;
#[path = "../support/example.rs"]
mod example;
#[path = "../support/jitter.rs"]
mod jitter;
#[path = "../support/process.rs"]
mod process;

mod fairness;
mod idle;
mod limits;
mod pacing;
mod shutdown;
mod signals;
mod wakes;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits for its turn: the machine belongs to one of these tests at a time.
fn alone() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}
