//! The durable, typed store of wo.

// For the tables, the tools, and the tests of this crate.
#[doc(hidden)]
pub mod log;

pub use log::{LogStats, Recovery, Snapshot, TornTail};
