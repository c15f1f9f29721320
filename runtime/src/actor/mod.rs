//! Actors: state that is only ever touched by one message at a time, reached through an address.
//!
//! An actor is a fiber that sleeps between messages. `spawn` moves its state to a shard and gives an [`Addr`], a plain
//! word; `send` moves a message there, whatever the shard; `ask` waits for the answer.

mod address;
mod ask;
mod calls;
mod crossing;
mod error;
mod life;
mod mailbox;
mod spawn;
mod start;

pub use address::{Addr, Sending};
pub use ask::{Ask, Reply};
pub use calls::Calls;
#[doc(hidden)]
pub use calls::{call, handled};
#[doc(hidden)]
pub use crossing::crosses;
pub use error::{AskError, SendError, TrySendError};
pub use life::{Actor, Exit};
pub use spawn::{Options, spawn_with};
pub use start::{AsActor, AsFiber, Spawn, is_actor, spawn};
