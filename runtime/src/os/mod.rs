//! What the operating system adds for fibers: files, standard streams, pipes, foreign descriptors, signals; and what it
//! says of the processor.
//!
//! All but the last two go through the plane's ops, so they run on every backend, the simulated kernel included.

pub mod cpus;
pub mod fs;
pub mod io;
pub(crate) mod signals;
