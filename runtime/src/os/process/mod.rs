//! Other programs: started without a fork, with pipes that fibers read and write, waited for without a thread.
//!
//! A [`Command`] says what to start. It is started on the worker pool, by std, which asks the system for a new process
//! without copying this one; so no fiber is ever forked. The [`Child`] holds a descriptor of the process (a pidfd),
//! which becomes readable when the process has ended: waiting is one more wait of the shard's loop, and sending a
//! signal never meets another process that was given the same number. Only children that were started here are ever
//! waited for.
//!
//! A simulated world has no processes of the system's: a program there is a script that its host was given; see
//! [`Host::program`](crate::plane::backend::sim::SimHost::program). One that it was not given is not found: `ENOENT`.

mod capture;
mod child;
mod command;
mod live;
mod orphans;
mod simulated;
mod start;

pub use child::Child;
pub use command::{Command, Stdio};
pub use live::{LiveProc, LiveProcess};
pub use std::process::{ExitStatus, Output};
