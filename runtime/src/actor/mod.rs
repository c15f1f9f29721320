//! Actors: state that is only ever touched by one message at a time, reached through an address.
//!
//! An actor is a fiber that sleeps between messages. `spawn` moves its state to a shard and gives an [`Addr`], a plain
//! word; `send` moves a message there, whatever the shard; `ask` waits for the answer. A [`Supervisor`] restarts those
//! that fail. Every message ends exactly once, and is counted: handled, returned to its sender, or dead-lettered.

mod address;
mod ask;
pub mod back_off;
mod calls;
mod control;
mod counters;
mod crossing;
mod ending;
mod error;
mod family;
mod guard;
mod life;
mod mailbox;
mod monitor;
mod names;
mod running;
mod sending;
mod spawn;
mod start;
mod subscription;
mod supervisor;
mod timer;
mod topic;
mod waits;

pub use address::Addr;
pub use ask::{Ask, Reply};
pub use calls::Calls;
#[doc(hidden)]
pub use calls::{call, handled};
pub use counters::{Counters, counters};
#[doc(hidden)]
pub use crossing::crosses;
pub use error::{AskError, SendError, TrySendError};
pub use life::{Actor, Exit};
pub use names::{NameError, lookup, register, unregister};
#[doc(hidden)]
pub use running::Returned;
pub use running::{fail, this};
pub use sending::Sending;
pub use spawn::{Options, spawn_with};
pub use start::{AsActor, AsFiber, Spawn, is_actor, spawn};
pub use subscription::{Delivery, Overflow, Subscription};
pub use supervisor::{Supervision, Supervisor};
pub use timer::Timer;
pub use topic::{Publishing, Subscribed, Topic};
