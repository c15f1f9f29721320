//! Descriptors that are not files by name: foreign ones, pipes, the standard streams.

mod pipe;
mod readiness;
mod stdio;

pub use crate::plane::op::Readiness;

pub use pipe::pipe;
pub use readiness::{readable, writable};
pub use stdio::{stderr, stdin, stdout};
