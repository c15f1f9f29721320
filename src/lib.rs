//! `wo`: servers in plain straight-line Rust.
//!
//! A function under [`macro@main`] or [`macro@fiber`] is written without `async`, without `.await`, without locks and
//! threads. Underneath, one io_uring loop runs its fibers: a call that would block parks its fiber, and the others
//! go on.

pub use wo_db as db;
pub use wo_macros::{Field, Message, Record, actor, fiber, main};
pub use wo_net as net;
pub use wo_runtime::actor::{spawn, spawn_with};
pub use wo_runtime::error::{self, IoError, IoResult, OpKind, Stage};
pub use wo_runtime::fiber::notify::Notify;
pub use wo_runtime::fiber::oneshot::{self, oneshot};
pub use wo_runtime::fiber::{
    Call, FiberId, IntoFiber, JoinError, JoinHandle, MissedTicks, Ticker, id, now, protect, sleep, sleep_until,
    spawn_named, spawn_pinned, spawn_stealable, wait, yield_now,
};
pub use wo_runtime::os::cpus::cores;
pub use wo_runtime::os::{fs, io, process};
pub use wo_runtime::plane;
pub use wo_runtime::plane::backend::{BackendKind, Caps, Selection};
pub use wo_runtime::plane::{Deadline, Instant};
pub use wo_runtime::shard::{
    BlockingError, Builder, Environment, EnvironmentError, RunError, Topology, backend, blocking, pool, post_to,
    shard_index, shards, spawn_anywhere, stop,
};

/// Actors: state that only ever handles one message at a time, reached through an address.
pub mod actor {
    pub use wo_runtime::actor::{
        Actor, Addr, Ask, AskError, Calls, Counters, Delivery, Exit, NameError, Options, Overflow, Publishing, Reply,
        SendError, Sending, Spawn, Subscribed, Subscription, Supervision, Supervisor, Timer, Topic, TrySendError,
        back_off, counters, fail, lookup, register, spawn_with, this, unregister,
    };
}

/// What the macros expand to. Not for direct use.
#[doc(hidden)]
pub mod __rt {
    pub use wo_db::__rt as db;
    pub use wo_runtime::actor::{Calls, call, crosses, handled, is_actor};
    pub use wo_runtime::fiber::{Call, Never, SettleOrdinary, output, spend, yield_turn};
    pub use wo_runtime::plane::backend::Selection;
    pub use wo_runtime::shard::{MainOptions, Topology, run_main};
}

/// The README's program, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
