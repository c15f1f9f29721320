//! Actors: state that is only ever touched by one message at a time, reached through an address.
//!
//! An actor is a fiber that sleeps between messages. `spawn` moves its state to a shard and gives an [`Addr`], a plain
//! word; `send` moves a message there, whatever the shard; `ask` waits for the answer.

mod address;
mod ask;
mod error;
mod life;
mod mailbox;
mod spawn;

pub use address::{Addr, Sending};
pub use ask::{Ask, Reply};
pub use error::{AskError, SendError, TrySendError};
pub use life::{Actor, Exit};
pub use spawn::{Options, spawn, spawn_with};
