//! Shards: one thread, one loop, and the fibers on it; how they are set up, run and shut down.

pub(crate) mod asks;
mod away;
mod blocking;
mod builder;
mod by_itself;
mod env;
mod link;
pub(crate) mod main;
pub mod pool;
pub(crate) mod program;
pub(crate) mod simulated;
mod spread;
mod threads;
mod topology;

pub use blocking::{BlockingError, blocking};
pub use builder::{Builder, RunError, backend, stop};
pub use env::{Environment, EnvironmentError};
pub use main::{MainOptions, run_main};
pub use program::{post_to, shard_index, shards};
pub use spread::spawn_anywhere;
pub use topology::Topology;

pub use crate::fiber::StopRequest;
