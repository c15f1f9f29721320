//! The kernel's side: ops, tokens, slots, buffers, timers, the loop, and the backends under it.
//!
//! Nothing here knows of fibers or scopes; the loop is usable, and tested, by itself.

pub mod accept;
pub mod addr;
pub mod backend;
pub mod buf;
pub mod current;
pub mod cursor;
mod event_loop;
pub mod fd;
pub mod job;
mod listener;
pub mod op;
pub mod ops;
pub(crate) mod post;
mod slot;
mod thunk;
pub mod time;
mod timer;
pub mod token;
mod written;

pub use accept::AcceptQueue;
pub use addr::SocketAddress;
pub use event_loop::{EventLoop, LoopConfig, RunStatus, Stopper};
pub use fd::Fd;
pub use time::{Deadline, Instant};
pub use token::Token;
pub use written::Written;

/// The loop of a shard: over whichever kernel was selected.
pub type ShardLoop = EventLoop<backend::AnyBackend>;
