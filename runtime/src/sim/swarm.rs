//! Which faults a run meets: another selection for each seed.
//!
//! A run in which everything fails a little seldom gets anywhere. A swarm draws for every fault whether it happens in
//! this run at all, and then how often; so some runs meet one fault alone and get deep, and all pairs meet somewhere.

use std::time::Duration;

use crate::plane::backend::sim::{DiskFaults, Link, SimWorld};

/// The faults of one run, as its seed selected them.
///
/// # Examples
///
/// ```
/// use wo_runtime::sim::World;
///
/// let world = World::new(7);
/// let swarm = world.swarm();
/// world.set_links(swarm.link);
/// ```
#[derive(Clone, Debug)]
pub struct Swarm {
    /// How the wires behave.
    pub link: Link,
    /// How the disks behave: short transfers only, which every program must outlive.
    pub disk: DiskFaults,
    /// How many partitions there are, of two hosts each and for a while.
    pub partitions: u32,
    /// How many times all connections of a host are reset.
    pub resets: u32,
    /// How many times a host loses its power.
    pub crashes: u32,
}

impl Swarm {
    pub(super) fn draw(world: &SimWorld) -> Swarm {
        let chosen = || world.draw(2) == 1;
        let some = |most: f64| if chosen() { most * (1 + world.draw(100)) as f64 / 100.0 } else { 0.0 };
        let count = |most: u64| if chosen() { 1 + world.draw(most) as u32 } else { 0 };
        let far = Duration::from_millis(if chosen() { 50 } else { 1 });
        let link = Link {
            latency: Duration::from_micros(50)..far,
            slow: some(0.1),
            tail: 10,
            loss: some(0.2),
            duplicate: some(0.2),
            reorder: some(0.3),
        };
        let disk = DiskFaults { short_read: some(0.3), short_write: some(0.3), ..DiskFaults::default() };
        Swarm { link, disk, partitions: count(3), resets: count(3), crashes: count(2) }
    }
}
