//! What the operating system adds for fibers: files, signals, foreign descriptors.

pub(crate) mod signals;
