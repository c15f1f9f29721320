//! Fibers: futures that run as straight-line code, parked and woken on one shard.
//!
//! This joins the two sides: a verb lowers an op onto the plane's loop, and the loop's completion wakes the fiber.
//! Of other shards it knows only the way home.

mod channel;
mod effect;
pub(crate) mod home;
mod join;
mod live_clock;
pub(crate) mod local;
pub mod notify;
pub mod oneshot;
mod park;
mod scoped;
mod settle;
mod sleep;
mod spin;
mod steal;
mod tally;
pub(crate) mod task;
pub(crate) mod tick;
mod together;
mod turn;
mod verb;

pub use crate::scope::{Call, Never, Returns, SettleOrdinary, output};
pub use channel::{Channel, Door, Local as LocalDoor, Put, PutError, Shared as SharedDoor, SharedChannel, Take};
pub use effect::Run;
pub(crate) use join::handed_over;
pub use join::{IntoFiber, Join, JoinError, JoinHandle, id, spawn, spawn_named, spawn_pinned, spawn_stealable};
pub use live_clock::LiveClock;
pub use local::spend;
pub use notify::{Notified, Notify};
pub use park::{Park, park};
pub use scoped::{
    Child, Fibers, Scope, Task, checkpoint, collecting_scope, protect, repeat, retry, scope, scope_with, timeout,
    with_deadline, with_deadline_at,
};
pub use settle::{advance_and_settle, settle};
pub(crate) use sleep::alarm;
pub use sleep::{MissedTicks, Sleep, Tick, Ticker, now, sleep, sleep_until, wall_clock};
pub use spin::Unhurried;
pub use task::{FiberId, Payload};
pub use tick::StopRequest;
pub use together::{join, join_all, race, race_all};
pub use turn::{YieldNow, YieldTurn, wait, wait_unless_cancelled, yield_now, yield_turn};
pub use verb::{Verb, VerbBy, verb};

pub(crate) use task::{Quiet, message as panic_message};

/// The home of the shard this thread is; none outside a program.
#[inline]
pub(crate) fn home_here() -> Option<&'static home::Home> {
    local::local(local::Local::home)
}

/// Starts a fiber nobody joins; false, and it is dropped, when none can be started.
pub(crate) fn start_detached(future: impl Future<Output = ()> + 'static) -> bool {
    task::start(None, future).is_some()
}

pub(crate) use local::{is_cancelled, notes_waits, waits_for, wake_in_turn};
pub(crate) use turn::{Charge, cancelled};
pub(crate) use verb::cancel as cancel_timer;
