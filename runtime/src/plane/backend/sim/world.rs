//! The world: one lock around everything the simulated kernel knows.
//!
//! A world has one clock, one line of events and one stream of chance, and in it a host with its descriptors, ports,
//! names and files. The loops that run on it have a place each for their completions. A descriptor stands for an
//! object (a socket, a pipe's end, an opened file); ops wait on objects. Whatever changes an object touches it, and
//! before anything else happens every touched object's waiting ops are tried again, in order: see [`ops`].
//!
//! Objects, files and ops have numbers that are never used twice, and every collection is ordered by them, so that
//! no address and no hash decides anything.
//!
//! [`ops`]: super::ops

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::plane::backend::RawCompletion;
use crate::plane::backend::sim::control::Controls;
use crate::plane::backend::sim::disk::Disk;
use crate::plane::backend::sim::durable::Syncing;
use crate::plane::backend::sim::events::{Chance, Event, Posted, Timeline};
use crate::plane::backend::sim::faults::DiskFaults;
use crate::plane::backend::sim::file::OpenFile;
use crate::plane::backend::sim::fs::{FileSystem, Inode};
use crate::plane::backend::sim::net::Socket;
use crate::plane::backend::sim::net::address::Ports;
use crate::plane::backend::sim::net::unix::UnixNames;
use crate::plane::backend::sim::ops::{InFlight, OpId};
use crate::plane::backend::sim::pipe::{PipeReader, PipeWriter};
use crate::plane::backend::sim::power::Power;
use crate::plane::fd::{DescriptorTable, RawDescriptor};
use crate::plane::time::Instant;

/// A positive error number, as in Linux.
pub(super) type Errno = i32;

/// The number of the first descriptor; those below are the standard streams', which a world does not have.
const FIRST_DESCRIPTOR: RawDescriptor = 3;
/// Open descriptors at most, until a test says otherwise.
const DESCRIPTORS_MAX: usize = 1 << 20;

/// Something a descriptor can stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ObjectId(pub(super) u64);

/// One of the loops that run on a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LoopId(usize);

impl LoopId {
    pub(super) const FIRST: LoopId = LoopId(0);
}

/// What an object is.
#[derive(Debug)]
pub(super) enum Body {
    File(OpenFile),
    PipeReader(PipeReader),
    PipeWriter(PipeWriter),
    Socket(Box<Socket>),
}

/// The two directions in which ops wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    In,
    Out,
}

impl Side {
    pub(super) const BOTH: [Side; 2] = [Side::In, Side::Out];
}

/// An object and the ops that wait on it.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) body: Body,
    /// Per side, ops in the order they came; the first is tried first.
    pub(super) waiting: [VecDeque<OpId>; 2],
    /// Ops that wait for readiness and take nothing from each other.
    pub(super) polls: Vec<OpId>,
    /// Per side, when the latest completion reaches its loop: later ones come no earlier.
    pub(super) latest: [Instant; 2],
}

/// A loop's place in the world.
#[derive(Debug, Default)]
struct Place {
    ready: Vec<Posted>,
    left: bool,
}

/// Which number stands for which object.
#[derive(Debug)]
struct Descriptors {
    open: BTreeMap<RawDescriptor, ObjectId>,
    free: BTreeSet<RawDescriptor>,
    next: RawDescriptor,
    limit: usize,
}

/// The world behind its lock.
#[derive(Debug)]
pub(super) struct World(Mutex<State>);

/// Everything there is.
#[derive(Debug)]
pub(super) struct State {
    pub(super) time: Timeline,
    pub(super) chance: Chance,
    pub(super) controls: Controls,
    pub(super) objects: BTreeMap<ObjectId, Object>,
    objects_made: u64,
    /// Objects that changed and whose waiting ops are to be tried again.
    pub(super) touched: VecDeque<ObjectId>,
    pub(super) ops: BTreeMap<OpId, InFlight>,
    pub(super) ops_made: u64,
    /// Waiting ops by loop and token.
    pub(super) tokens: BTreeMap<(LoopId, u64), OpId>,
    places: Vec<Place>,
    descriptors: Descriptors,
    pub(super) ports: Ports,
    pub(super) unix_names: UnixNames,
    pub(super) fs: FileSystem,
    /// Which opening of a file has its lock.
    pub(super) locks: BTreeMap<Inode, ObjectId>,
    pub(super) disk_faults: DiskFaults,
    /// The sync of the op that is being performed.
    pub(super) syncing: Option<Syncing>,
    pub(super) power: Power,
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        let mut chance = Chance::new(seed);
        let first_port = chance.within(Ports::EPHEMERAL.start.into()..Ports::EPHEMERAL.end.into());
        World(Mutex::new(State {
            time: Timeline::default(),
            chance,
            controls: Controls::default(),
            objects: BTreeMap::new(),
            objects_made: 0,
            touched: VecDeque::new(),
            ops: BTreeMap::new(),
            ops_made: 0,
            tokens: BTreeMap::new(),
            places: Vec::new(),
            descriptors: Descriptors {
                open: BTreeMap::new(),
                free: BTreeSet::new(),
                next: FIRST_DESCRIPTOR,
                limit: DESCRIPTORS_MAX,
            },
            ports: Ports::new(first_port as u16),
            unix_names: UnixNames::default(),
            fs: FileSystem::new(),
            locks: BTreeMap::new(),
            disk_faults: DiskFaults::default(),
            syncing: None,
            power: Power::default(),
        }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DescriptorTable for World {
    fn close(&self, raw: RawDescriptor) {
        // A number that is closed already was closed by an op; there is nobody to tell.
        let _ = self.lock().close(raw);
    }

    fn stop_listening(&self, raw: RawDescriptor) {
        let mut state = self.lock();
        // A number that stands for nothing any more listens to nothing.
        if let Ok(object) = state.lookup(raw) {
            state.give_up_listening(object);
            state.settle();
        }
    }
}

impl State {
    /// A new loop's place.
    pub(super) fn enter(&mut self) -> LoopId {
        self.places.push(Place::default());
        LoopId(self.places.len() - 1)
    }

    /// A loop has ended: its ops are forgotten, and their memory is not used any more. Descriptors it was to be
    /// brought are closed.
    pub(super) fn leave(&mut self, home: LoopId) {
        let mut posted = self.time.recall(home);
        posted.extend(self.controls.recall(home));
        if let Some(place) = self.places.get_mut(home.0) {
            posted.append(&mut place.ready);
            place.left = true;
        }
        for raw in posted.iter().filter_map(Posted::descriptor) {
            // One that a rule made up was never open.
            let _ = self.close(raw);
        }
        let ops: Vec<OpId> = self.ops.iter().filter(|(_, op)| op.home == home).map(|(id, _)| *id).collect();
        for id in ops {
            self.unpark(id);
        }
        self.settle();
    }

    /// Moves what has reached a loop to the end of `out`.
    pub(super) fn reap(&mut self, home: LoopId, out: &mut Vec<RawCompletion>) {
        if let Some(place) = self.places.get_mut(home.0) {
            out.extend(place.ready.drain(..).map(|posted| posted.completion));
        }
    }

    pub(super) fn has_ready(&self, home: LoopId) -> bool {
        self.places.get(home.0).is_some_and(|place| !place.ready.is_empty())
    }

    /// Lets the next event happen, unless it is due after `last`.
    pub(super) fn step(&mut self, last: Instant) -> bool {
        if self.power.is_cut() || self.time.next().is_none_or(|next| next > last) || self.power.counts_down() {
            return false;
        }
        let Some(event) = self.time.take(last) else { return false };
        match event {
            Event::Complete(posted) => self.deliver(posted),
            Event::Arrive(packet) => self.arrive(packet),
            Event::Redial(object) => self.redial(object),
            Event::Synced(sync, fate) => {
                if self.power.is_watched() {
                    self.show_disk();
                }
                self.fs.end_sync(&sync, fate);
            }
        }
        self.settle();
        true
    }

    /// Lets everything happen that is due by `until`, and moves the clock there.
    pub(super) fn run_until(&mut self, until: Instant) {
        while self.step(until) {}
        if !self.power.is_cut() {
            self.time.advance(until);
        }
    }

    /// Shows the disk as it is before it changes, to whom it may concern.
    pub(super) fn show_disk(&mut self) {
        self.power.show(Disk(self.fs.clone()));
    }

    pub(super) fn is_file(&self, raw: RawDescriptor) -> bool {
        self.lookup(raw).and_then(|object| self.body(object)).is_ok_and(|body| matches!(body, Body::File(_)))
    }

    /// The number of loops that run here.
    pub(super) fn loops(&self) -> usize {
        self.places.iter().filter(|place| !place.left).count()
    }

    /// The host begins anew, with this disk: no descriptor, no name and no event is left of what was before.
    pub(super) fn begin_anew(&mut self, disk: Disk) {
        let open: Vec<RawDescriptor> = self.descriptors.open.keys().copied().collect();
        for raw in open {
            // It was open a moment ago.
            let _ = self.close(raw);
        }
        // Handles of the host's former life may still be about: their numbers are not given out again.
        self.descriptors.free.clear();
        self.time.clear();
        self.ports.clear();
        self.unix_names = UnixNames::default();
        self.locks.clear();
        self.power.restore();
        self.fs = disk.0;
        self.fs.rest();
    }

    /// A completion has reached its loop, unless the fault controls hold it back.
    fn deliver(&mut self, posted: Posted) {
        if let Some(posted) = self.controls.hold_back(posted) {
            self.hand_over(posted);
        }
    }

    pub(super) fn hand_over(&mut self, posted: Posted) {
        if let Some(place) = self.places.get_mut(posted.to.0).filter(|place| !place.left) {
            place.ready.push(posted);
        }
    }

    pub(super) fn add(&mut self, body: Body) -> ObjectId {
        self.objects_made += 1;
        let id = ObjectId(self.objects_made);
        let object = Object { body, waiting: Default::default(), polls: Vec::new(), latest: [Instant::ORIGIN; 2] };
        self.objects.insert(id, object);
        id
    }

    pub(super) fn body(&self, object: ObjectId) -> Result<&Body, Errno> {
        self.objects.get(&object).map(|object| &object.body).ok_or(libc::EBADF)
    }

    pub(super) fn body_mut(&mut self, object: ObjectId) -> Result<&mut Body, Errno> {
        self.objects.get_mut(&object).map(|object| &mut object.body).ok_or(libc::EBADF)
    }

    /// Notes that an object changed. Whoever lets things happen calls [`settle`](State::settle) before it returns.
    pub(super) fn touch(&mut self, object: ObjectId) {
        self.touched.push_back(object);
    }

    pub(super) fn has_room_for_descriptor(&self) -> bool {
        self.descriptors.open.len() < self.descriptors.limit
    }

    pub(super) fn limit_descriptors(&mut self, limit: usize) {
        self.descriptors.limit = limit;
    }

    pub(super) fn open_descriptors(&self) -> usize {
        self.descriptors.open.len()
    }

    /// Gives an object the lowest free number. An object that cannot have one is ended.
    pub(super) fn install(&mut self, object: ObjectId) -> Result<RawDescriptor, Errno> {
        if !self.has_room_for_descriptor() {
            self.end(object);
            return Err(libc::EMFILE);
        }
        let table = &mut self.descriptors;
        let raw = table.free.pop_first().unwrap_or_else(|| {
            table.next += 1;
            table.next - 1
        });
        table.open.insert(raw, object);
        Ok(raw)
    }

    pub(super) fn lookup(&self, raw: RawDescriptor) -> Result<ObjectId, Errno> {
        self.descriptors.open.get(&raw).copied().ok_or(libc::EBADF)
    }

    /// Closes a descriptor, and with it its object.
    pub(super) fn close(&mut self, raw: RawDescriptor) -> Result<(), Errno> {
        let object = self.descriptors.open.remove(&raw).ok_or(libc::EBADF)?;
        self.descriptors.free.insert(raw);
        self.end(object);
        self.settle();
        Ok(())
    }

    /// Ends an object. Ops hold the descriptors they use, so none waits on it; if one does after all, it is told.
    pub(super) fn end(&mut self, object: ObjectId) {
        self.refuse_waiting(object, libc::EBADF);
        let Some(ended) = self.objects.remove(&object) else { return };
        match ended.body {
            Body::File(file) => self.end_file(object, &file),
            Body::PipeReader(end) => self.end_pipe_reader(&end),
            Body::PipeWriter(end) => self.end_pipe_writer(&end),
            Body::Socket(socket) => self.end_socket(object, *socket),
        }
    }
}
