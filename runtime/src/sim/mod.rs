//! Simulated worlds for tests: hosts with programs of their own, a network between them, and everything that can go
//! wrong, as a function of one seed.
//!
//! A world runs whole programs unchanged, each with its shards, all on the thread of the test. Time in it is virtual:
//! it passes when nobody has anything to do. Hosts lose their power with what was not synced, processes are killed,
//! wires are cut; the same seed does it all again.
//!
//! # What a world cannot see
//!
//! A program that reads the system's clock or environment, or starts a thread that keeps to itself, does so behind the
//! world's back, and its run is no function of the seed. What can be seen is reported: a descriptor of the system's or
//! of another host is refused; a thread from outside that wakes a fiber is counted by
//! [`strange_wakes`](World::strange_wakes), and a fiber that waits for something real, as in `std::thread::sleep` or
//! `std::net`, by [`real_waits`](World::real_waits); the first of either is said on stderr. Blocking calls and batch
//! pools are the world's: they run to their end while it stands still, each time in the same order.
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//! use wo::sim::World;
//!
//! let mut world = World::new(7);
//! let host = world.host("sleeper");
//! let program = world.start(&host, || async { wo::sleep(Duration::from_secs(30 * 86_400)).await });
//! world.finish(program)??;
//! assert_eq!(world.elapsed().as_secs(), 30 * 86_400);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod program;
mod swarm;
mod world;

pub use program::Program;
pub use swarm::Swarm;
pub use world::World;

pub use crate::plane::backend::sim::{
    Disk, DiskFaults, Invocation, Link, NetworkCounters, Script, SimControl, SimHost as Host, Survival,
};
