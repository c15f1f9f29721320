//! What each host of a world has to itself: descriptors, ports, names, files, power, and the orders of its tests.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use crate::plane::backend::sim::control::Controls;
use crate::plane::backend::sim::events::Posted;
use crate::plane::backend::sim::faults::DiskFaults;
use crate::plane::backend::sim::fs::{FileSystem, Inode};
use crate::plane::backend::sim::net::address::Ports;
use crate::plane::backend::sim::net::unix::UnixNames;
use crate::plane::backend::sim::power::Power;
use crate::plane::backend::sim::process::Processes;
use crate::plane::backend::sim::world::{ObjectId, World};
use crate::plane::fd::{DescriptorTable, RawDescriptor};

/// The number of the first descriptor; those below are the standard streams', which a world does not have.
const FIRST_DESCRIPTOR: RawDescriptor = 3;
/// Open descriptors at most, until a test says otherwise.
const DESCRIPTORS_MAX: usize = 1 << 20;
/// Hosts of a world at most: each has numbers of its own for its descriptors.
pub(super) const HOSTS_MAX: usize = 1 << 10;

/// A host of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HostId(pub(super) u16);

impl HostId {
    const BITS: u32 = u16::BITS;

    /// The address it is reached at.
    pub(super) fn ip(self) -> Ipv4Addr {
        let [high, low] = (self.0 + 1).to_be_bytes();
        Ipv4Addr::new(10, 0, high, low)
    }
}

/// Which number stands for which object.
#[derive(Debug)]
pub(super) struct Descriptors {
    pub(super) open: BTreeMap<RawDescriptor, ObjectId>,
    pub(super) free: BTreeSet<RawDescriptor>,
    pub(super) next: RawDescriptor,
    pub(super) limit: usize,
}

/// A host's own.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) name: String,
    pub(super) descriptors: Descriptors,
    pub(super) ports: Ports,
    pub(super) unix_names: UnixNames,
    pub(super) fs: FileSystem,
    /// Which opening of a file has its lock.
    pub(super) locks: BTreeMap<Inode, ObjectId>,
    pub(super) disk_faults: DiskFaults,
    pub(super) controls: Controls,
    pub(super) power: Power,
    pub(super) processes: Processes,
    /// Completions that were on their way when the power went.
    pub(super) limbo: Vec<Posted>,
}

impl Site {
    pub(super) fn new(host: HostId, name: &str, first_port: u16) -> Site {
        Site {
            name: name.to_owned(),
            descriptors: Descriptors {
                open: BTreeMap::new(),
                free: BTreeSet::new(),
                // No two hosts have a number in common, so a handle that strays to another is found out.
                next: RawDescriptor::from(host.0 as i16) * (1 << 21) + FIRST_DESCRIPTOR,
                limit: DESCRIPTORS_MAX,
            },
            ports: Ports::new(first_port),
            unix_names: UnixNames::default(),
            fs: FileSystem::new(),
            locks: BTreeMap::new(),
            disk_faults: DiskFaults::default(),
            controls: Controls::default(),
            power: Power::default(),
            processes: Processes::default(),
            limbo: Vec::new(),
        }
    }
}

/// A host's descriptors, as their handles know them.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) world: Arc<World>,
    pub(super) host: HostId,
}

impl DescriptorTable for Table {
    fn close(&self, raw: RawDescriptor) {
        let mut state = self.world.at(self.host);
        // A number that is closed already was closed by an op; there is nobody to tell. A host without power has
        // nobody left to close anything.
        if !state.here.power.is_cut() {
            let _ = state.close(raw);
        }
    }

    fn identity(&self) -> u64 {
        self.world.number() << HostId::BITS | u64::from(self.host.0)
    }

    fn describe(&self) -> String {
        let state = self.world.lock();
        format!("the simulated host {:?}, of the world with seed {},", state.name_of(self.host), state.seed)
    }

    fn stop_listening(&self, raw: RawDescriptor) {
        let mut state = self.world.at(self.host);
        // A number that stands for nothing any more listens to nothing.
        if let Ok(object) = state.lookup(raw) {
            state.give_up_listening(object);
            state.settle();
        }
    }
}
