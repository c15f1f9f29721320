//! The runtime under `wo`: the plane, fibers, and what the operating system adds.

pub mod error;
pub mod plane;
