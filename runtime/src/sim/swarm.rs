//! Which faults a run meets: another selection for each seed.
//!
//! A run in which everything fails a little seldom gets anywhere. A swarm draws for every fault whether it happens in
//! this run at all, and then how often; so some runs meet one fault alone and get deep, and all pairs meet somewhere.
//! Everything is drawn when it is planned, so what happens in the meantime changes none of it.

use std::time::Duration;

use crate::plane::backend::sim::{DiskFaults, Link, SimHost, SimWorld};
use crate::sim::world::World;

/// How long a partition lasts at most.
const PARTITION_MAX: Duration = Duration::from_secs(3);
/// How far a wall clock jumps at most.
const JUMP_MAX: Duration = Duration::from_secs(2 * 365 * 86_400);

/// The faults of one run, as its seed selected them.
///
/// # Examples
///
/// ```
/// use wo::sim::World;
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
    /// How many times a host's wall clock is set, back or ahead.
    pub wall_jumps: u32,
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
        Swarm { link, disk, partitions: count(3), resets: count(3), crashes: count(2), wall_jumps: count(3) }
    }

    /// Lets it loose on these hosts: their wires and disks behave so from now on, and its partitions, resets and jumps
    /// of wall clocks happen within `span`. Crashes are left to whoever knows what to start again.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wo::sim::World;
    ///
    /// let mut world = World::new(7);
    /// let hosts = [world.host("server"), world.host("client")];
    /// let swarm = world.swarm();
    /// swarm.unleash(&mut world, &hosts, Duration::from_secs(5));
    /// ```
    pub fn unleash(&self, world: &mut World, hosts: &[SimHost], span: Duration) {
        world.set_links(self.link.clone());
        for host in hosts {
            host.control().disk_faults(self.disk);
        }
        let Some(last) = hosts.len().checked_sub(1) else { return };
        let now = world.elapsed();
        let within = |world: &World, span: Duration| Duration::from_nanos(world.draw(nanos(span)));
        let any = |world: &World| hosts[world.draw(hosts.len() as u64) as usize].clone();
        for _ in 0..if last > 0 { self.partitions } else { 0 } {
            let one = world.draw(hosts.len() as u64) as usize;
            let other = (one + 1 + world.draw(last as u64) as usize) % hosts.len();
            let begin = now + within(world, span);
            let end = begin + within(world, PARTITION_MAX);
            let (a, b) = (hosts[one].clone(), hosts[other].clone());
            world.at(begin, move |world| world.partition(&a, &b));
            let (a, b) = (hosts[one].clone(), hosts[other].clone());
            world.at(end, move |world| world.heal(&a, &b));
        }
        for _ in 0..self.resets {
            let (host, at) = (any(world), now + within(world, span));
            world.at(at, move |_| _ = host.reset_connections());
        }
        for _ in 0..self.wall_jumps {
            let (host, at, far) = (any(world), now + within(world, span), within(world, JUMP_MAX));
            let ahead = world.draw(2) == 1;
            world.at(at, move |_| {
                let time = host.wall_clock();
                host.set_wall_clock(if ahead { time + far } else { time - far });
            });
        }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
