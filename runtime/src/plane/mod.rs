//! The kernel's side: ops, tokens, slots, buffers, timers, the loop, and the backends under it.
//!
//! Nothing here knows of fibers or scopes; the loop is usable, and tested, by itself.

pub mod addr;
pub mod backend;
pub mod buf;
pub mod cursor;
pub mod fd;
pub mod job;
pub mod op;
pub mod ops;
pub mod time;
pub mod token;

pub use addr::SocketAddress;
pub use fd::Fd;
pub use time::{Deadline, Instant};
pub use token::Token;
