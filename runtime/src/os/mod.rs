//! What the operating system adds for fibers: files, standard streams, pipes, foreign descriptors, other programs,
//! signals; and what it says of the processor.
//!
//! All but the last three go through the plane's ops, so they run on every backend, the simulated kernel included.

pub mod cpus;
pub mod fs;
pub mod io;
pub mod process;
pub(crate) mod signals;
