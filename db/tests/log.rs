//! The log by itself: what it promises of entries, on every kernel, and what opening makes of damaged directories.

#![cfg(target_os = "linux")]

#[path = "../../tests/support/backends.rs"]
mod backends;
#[path = "support/files.rs"]
mod files;
#[path = "support/segment.rs"]
mod segment;

mod log {
    pub mod rig;

    mod blocks;
    mod copies;
    mod crash;
    mod damage;
    mod faults;
    mod fuzz;
    mod life;
    mod locks;
    mod room;
    mod snapshots;
}
