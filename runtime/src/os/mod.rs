//! What the operating system adds for fibers: files, standard streams, pipes, foreign descriptors, signals.
//!
//! All but the signals go through the plane's ops, so they run on every backend, the simulated kernel included.

pub mod fs;
pub mod io;
pub(crate) mod signals;
