//! Capabilities: what a function may do to the world, as values it is given.
//!
//! A function that tells the time takes a [`Clock`], one that connects a [`Net`], one that runs programs a [`Proc`],
//! one that keeps files an [`Fs`]; one that needs several takes an [`Env`], or whatever has them ([`HasClock`] and its
//! like). The program passes the live ones, a test passes doubles. Nothing enforces it: a verb may be called without.
//! What it buys is that a test chooses the world.
//!
//! Every call is resolved by its types: there is no table and no box between a function and its clock.

mod clock;
mod env;
mod fs;
mod net;
mod proc;
mod sim_net;
mod sim_proc;
mod test_clock;

pub use clock::Clock;
pub use env::{Env, HasClock, HasFs, HasNet, HasProc, NotThere};
pub use fs::{Fs, MemFs};
pub use net::{ByteStream, Listener, Net};
pub use proc::{Captured, Command, ExitStatus, Proc, Process};
pub use sim_net::{SimListener, SimNet, SimStream};
pub use sim_proc::{Script, SimProc, SimProcess};
pub use test_clock::TestClock;
