//! The runtime under `wo`: the plane, fibers, shards, and what the operating system adds.
//!
//! Most programs use the crate `wo`, which re-exports what is here.

pub mod actor;
pub mod error;
pub mod fiber;
pub mod os;
pub mod plane;
pub mod scope;
pub mod shard;
pub mod sim;
