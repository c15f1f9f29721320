//! The log by itself: what it promises of entries, on every kernel, and what opening makes of damaged directories.

#![cfg(target_os = "linux")]

mod log {
    pub mod rig;

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
