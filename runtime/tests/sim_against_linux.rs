//! The simulated kernel answers as Linux does: one scenario, run on both, must give the same account.
//!
//! A scenario writes down what each call and op answered. The simulated account comes first, and tells the real arm
//! which ops will wait for ever, so that it does not: those it cancels after a moment, all others it gives all the
//! time they take. What differs by nature (ports, paths) is written down by order of appearance.

#![cfg(target_os = "linux")]

#[path = "contract/rig.rs"]
#[allow(dead_code, reason = "the contract's tests use more of it")]
mod rig;

mod against_linux {
    pub mod arm;
    mod datagrams;
    mod files;
    mod options;
    mod pipes;
    mod ports;
    mod streams;
    mod unix;
}
