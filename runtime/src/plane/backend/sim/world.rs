//! The world: one lock around everything the simulated kernel knows.
//!
//! A world has one clock, one line of events and one stream of chance, and in it hosts, each with its descriptors,
//! ports, names and files; see [`site`]. The loops that run there have a place each for their completions. Whatever
//! happens, happens on one host: whoever has the lock has gone there before. A descriptor stands for an
//! object (a socket, a pipe's end, an opened file); ops wait on objects. Whatever changes an object touches it, and
//! before anything else happens every touched object's waiting ops are tried again, in order: see [`ops`].
//!
//! Objects, files and ops have numbers that are never used twice, and every collection is ordered by them, so that
//! no address and no hash decides anything.
//!
//! [`ops`]: super::ops
//! [`site`]: super::site

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::plane::backend::RawCompletion;
use crate::plane::backend::sim::disk::Disk;
use crate::plane::backend::sim::durable::Syncing;
use crate::plane::backend::sim::events::{Chance, Event, Posted, Timeline};
use crate::plane::backend::sim::file::OpenFile;
use crate::plane::backend::sim::net::Socket;
use crate::plane::backend::sim::net::address::Ports;
use crate::plane::backend::sim::net::unix::UnixNames;
use crate::plane::backend::sim::network::Network;
use crate::plane::backend::sim::ops::{InFlight, OpId};
use crate::plane::backend::sim::pipe::{PipeReader, PipeWriter};
use crate::plane::backend::sim::site::{HOSTS_MAX, HostId, Site};
use crate::plane::backend::sim::trace::Trace;
use crate::plane::fd::RawDescriptor;
use crate::plane::time::Instant;

/// Circles of actors that a world keeps; the trace has them all.
const DEADLOCKS_MAX: usize = 1000;

thread_local! {
    /// This thread has a world's lock, and has called what a test gave it.
    static CALLS_OUT: Cell<bool> = const { Cell::new(false) };
}

/// Calls what a test gave the world, under its lock.
pub(super) fn call_out<T>(call: impl FnOnce() -> T) -> T {
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            CALLS_OUT.set(self.0);
        }
    }
    let _back = Back(CALLS_OUT.replace(true));
    call()
}

/// A positive error number, as in Linux.
pub(super) type Errno = i32;

/// Something a descriptor can stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ObjectId(pub(super) u64);

impl ObjectId {
    const HOST_SHIFT: u32 = 48;

    /// The host it is on, or was.
    pub(super) fn host(self) -> HostId {
        HostId((self.0 >> ObjectId::HOST_SHIFT) as u16)
    }
}

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
    /// What stands for a process in the hands of who started it.
    Process(u32),
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
    /// How many have it besides its descriptor: the processes that were given it.
    shares: u32,
    /// Per side, ops in the order they came; the first is tried first.
    pub(super) waiting: [VecDeque<OpId>; 2],
    /// Ops that wait for readiness and take nothing from each other.
    pub(super) polls: Vec<OpId>,
    /// Per side, when the latest completion reaches its loop: later ones come no earlier.
    pub(super) latest: [Instant; 2],
}

/// A loop's place in the world.
#[derive(Debug)]
struct Place {
    host: HostId,
    ready: Vec<Posted>,
    left: bool,
}

/// The world behind its lock.
#[derive(Debug)]
pub(super) struct World {
    state: Mutex<State>,
    number: u64,
}

/// Everything there is.
#[derive(Debug)]
pub(super) struct State {
    pub(super) seed: u64,
    pub(super) time: Timeline,
    pub(super) chance: Chance,
    pub(super) trace: Trace,
    pub(super) objects: BTreeMap<ObjectId, Object>,
    objects_made: u64,
    /// Objects that changed and whose waiting ops are to be tried again.
    pub(super) touched: VecDeque<ObjectId>,
    pub(super) ops: BTreeMap<OpId, InFlight>,
    pub(super) ops_made: u64,
    /// Waiting ops by loop and token.
    pub(super) tokens: BTreeMap<(LoopId, u64), OpId>,
    places: Vec<Place>,
    /// The sync of the op that is being performed.
    pub(super) syncing: Option<Syncing>,
    /// Circles of actors of which one was told, the first ones.
    pub(super) deadlocks: Vec<String>,
    pub(super) network: Network,
    /// The host things happen on right now, and what it has to itself. Its own place among `sites` is empty meanwhile.
    pub(super) current: HostId,
    pub(super) here: Box<Site>,
    sites: Vec<Option<Box<Site>>>,
}

impl World {
    /// A world of one host.
    pub(super) fn new(seed: u64) -> World {
        let mut chance = Chance::new(seed);
        let first = HostId(0);
        let here = Box::new(Site::new(first, "host", first_port(&mut chance)));
        // Only to tell handles apart: what happens in a world does not depend on it.
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let state = Mutex::new(State {
            seed,
            time: Timeline::default(),
            chance,
            trace: Trace::new(),
            objects: BTreeMap::new(),
            objects_made: 0,
            touched: VecDeque::new(),
            ops: BTreeMap::new(),
            ops_made: 0,
            tokens: BTreeMap::new(),
            places: Vec::new(),
            syncing: None,
            deadlocks: Vec::new(),
            network: Network::default(),
            current: first,
            here,
            sites: vec![None],
        });
        World { state, number }
    }

    /// A number no other world of this process has.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => {
                // It would wait for itself.
                assert!(
                    !CALLS_OUT.get(),
                    "what watches a simulated disk, or says what a simulated program does, is asked while the world \
                     stands still: it must not use a host of its world"
                );
                self.state.lock().unwrap_or_else(PoisonError::into_inner)
            }
        }
    }

    /// The world, at one of its hosts.
    pub(super) fn at(&self, host: HostId) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.go_to(host);
        state
    }
}

fn first_port(chance: &mut Chance) -> u16 {
    chance.within(Ports::EPHEMERAL.start.into()..Ports::EPHEMERAL.end.into()) as u16
}

impl State {
    /// From now on things happen on this host.
    pub(super) fn go_to(&mut self, host: HostId) {
        if host == self.current {
            return;
        }
        debug_assert!(self.touched.is_empty(), "a host is left when all that changed there was seen to");
        let Some(there) = self.sites.get_mut(host.0 as usize).and_then(Option::take) else { return };
        let left = std::mem::replace(&mut self.here, there);
        self.sites[self.current.0 as usize] = Some(left);
        self.current = host;
    }

    /// A host's name.
    pub(super) fn name_of(&self, host: HostId) -> &str {
        let site = if host == self.current { Some(&self.here) } else { self.sites[host.0 as usize].as_ref() };
        site.map_or("", |site| &site.name)
    }

    /// The addresses of the hosts of this name, in the order they were made.
    pub(super) fn addresses_of(&self, name: &str) -> Vec<Ipv4Addr> {
        let hosts = (0..self.sites.len() as u16).map(HostId);
        hosts.filter(|host| self.name_of(*host) == name).map(HostId::ip).collect()
    }

    /// Actors on a host would have waited for each other for ever.
    pub(super) fn note_deadlock(&mut self, host: HostId, circle: String) {
        self.trace.note_words(self.time.now(), host, &circle);
        if self.deadlocks.len() < DEADLOCKS_MAX {
            self.deadlocks.push(circle);
        }
    }

    /// A new host; none when the world has as many as it may.
    pub(super) fn add_host(&mut self, name: &str) -> Option<HostId> {
        let host = HostId(u16::try_from(self.sites.len()).ok().filter(|count| usize::from(*count) < HOSTS_MAX)?);
        let first_port = first_port(&mut self.chance);
        self.sites.push(Some(Box::new(Site::new(host, name, first_port))));
        Some(host)
    }

    /// The host a packet from here to this address reaches.
    pub(super) fn host_at(&self, ip: IpAddr) -> Option<HostId> {
        if ip.is_loopback() {
            return Some(self.current);
        }
        (0..self.sites.len() as u16).map(HostId).find(|host| IpAddr::V4(host.ip()) == ip)
    }

    /// Whether the host has no power.
    pub(super) fn is_dark(&self, host: HostId) -> bool {
        let site = if host == self.current { Some(&self.here) } else { self.sites[host.0 as usize].as_ref() };
        site.is_none_or(|site| site.power.is_cut())
    }

    /// A new loop's place, on this host.
    pub(super) fn enter(&mut self) -> LoopId {
        self.places.push(Place { host: self.current, ready: Vec::new(), left: false });
        LoopId(self.places.len() - 1)
    }

    /// A loop has ended: its ops are forgotten, and their memory is not used any more. Descriptors it was to be
    /// brought are closed.
    pub(super) fn leave(&mut self, home: LoopId) {
        let mut posted = self.time.recall(home);
        posted.extend(self.here.controls.recall(home));
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
        let Some((host, event)) = self.time.take(last) else { return false };
        self.go_to(host);
        if self.here.power.counts_down() {
            self.miss(event);
            return true;
        }
        self.trace.note(self.time.now(), host, &event);
        match event {
            Event::Complete(posted) => self.deliver(posted),
            Event::Arrive(packet) => self.arrive(packet),
            Event::Redial(object) => self.redial(object),
            Event::Resend(end) => self.resend(end),
            Event::Probe(end) => self.probe(end),
            Event::Process { pid, sleep } => self.wake_process(pid, sleep),
            Event::Synced(sync, fate) => {
                if self.here.power.is_watched() {
                    self.show_disk();
                }
                self.here.fs.end_sync(&sync, fate);
            }
        }
        self.settle();
        true
    }

    /// Something would have happened on a host that has no power.
    fn miss(&mut self, event: Event) {
        match event {
            Event::Complete(posted) => self.here.limbo.push(posted),
            Event::Arrive(packet) => self.lose(packet),
            Event::Redial(_) | Event::Resend(_) | Event::Probe(_) | Event::Process { .. } | Event::Synced(..) => {}
        }
    }

    /// Lets everything happen that is due by `until`, and moves the clock there.
    pub(super) fn run_until(&mut self, until: Instant) {
        while self.step(until) {}
        self.time.advance(until);
    }

    /// Shows the disk as it is before it changes, to whom it may concern.
    pub(super) fn show_disk(&mut self) {
        self.here.power.show(Disk(self.here.fs.clone()));
    }

    pub(super) fn is_file(&self, raw: RawDescriptor) -> bool {
        self.lookup(raw).and_then(|object| self.body(object)).is_ok_and(|body| matches!(body, Body::File(_)))
    }

    /// The number of loops that run here.
    pub(super) fn loops(&self) -> usize {
        self.places.iter().filter(|place| !place.left && place.host == self.current).count()
    }

    /// The host begins anew, with this disk: no descriptor, no name and no event is left of what was before, and
    /// nobody is told.
    pub(super) fn begin_anew(&mut self, disk: Disk) {
        let host = self.current;
        self.objects.retain(|object, _| object.host() != host);
        self.time.forget(host);
        self.network.forget(host);
        let here = &mut *self.here;
        here.descriptors.open.clear();
        // Handles of the host's former life may still be about: their numbers are not given out again.
        here.descriptors.free.clear();
        here.ports.clear();
        here.unix_names = UnixNames::default();
        here.locks.clear();
        here.limbo.clear();
        here.processes.end_all();
        here.power.restore();
        // The clock is the host's, not its disk's.
        let wall = here.fs.wall;
        here.fs = disk.0;
        here.fs.wall = wall;
        here.fs.rest();
    }

    /// A completion has reached its loop, unless the fault controls hold it back.
    fn deliver(&mut self, posted: Posted) {
        if let Some(posted) = self.here.controls.hold_back(posted) {
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
        let id = ObjectId(u64::from(self.current.0) << ObjectId::HOST_SHIFT | self.objects_made);
        let object =
            Object { body, shares: 0, waiting: Default::default(), polls: Vec::new(), latest: [Instant::ORIGIN; 2] };
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
        self.here.descriptors.open.len() < self.here.descriptors.limit
    }

    pub(super) fn limit_descriptors(&mut self, limit: usize) {
        self.here.descriptors.limit = limit;
    }

    pub(super) fn open_descriptors(&self) -> usize {
        self.here.descriptors.open.len()
    }

    /// Gives an object the lowest free number. An object that cannot have one is ended.
    pub(super) fn install(&mut self, object: ObjectId) -> Result<RawDescriptor, Errno> {
        if !self.has_room_for_descriptor() {
            self.end(object);
            return Err(libc::EMFILE);
        }
        let table = &mut self.here.descriptors;
        let raw = table.free.pop_first().unwrap_or_else(|| {
            table.next += 1;
            table.next - 1
        });
        table.open.insert(raw, object);
        Ok(raw)
    }

    pub(super) fn lookup(&self, raw: RawDescriptor) -> Result<ObjectId, Errno> {
        self.here.descriptors.open.get(&raw).copied().ok_or(libc::EBADF)
    }

    /// Closes a descriptor, and with it its object.
    pub(super) fn close(&mut self, raw: RawDescriptor) -> Result<(), Errno> {
        let object = self.here.descriptors.open.remove(&raw).ok_or(libc::EBADF)?;
        self.here.descriptors.free.insert(raw);
        self.end(object);
        self.settle();
        Ok(())
    }

    /// Another has the object besides its descriptor: it takes one more [`end`](State::end) to end it.
    pub(super) fn share(&mut self, object: ObjectId) {
        if let Some(object) = self.objects.get_mut(&object) {
            object.shares += 1;
        }
    }

    /// Ends an object, unless others share it. Ops hold the descriptors they use, so none waits on it; if one does
    /// after all, it is told.
    pub(super) fn end(&mut self, object: ObjectId) {
        if let Some(shared) = self.objects.get_mut(&object).filter(|object| object.shares > 0) {
            shared.shares -= 1;
            return;
        }
        self.refuse_waiting(object, libc::EBADF);
        let Some(ended) = self.objects.remove(&object) else { return };
        match ended.body {
            Body::File(file) => self.end_file(object, &file),
            Body::PipeReader(end) => self.end_pipe_reader(&end),
            Body::PipeWriter(end) => self.end_pipe_writer(&end),
            Body::Socket(socket) => self.end_socket(object, *socket),
            Body::Process(pid) => self.end_process_handle(pid),
        }
    }
}
