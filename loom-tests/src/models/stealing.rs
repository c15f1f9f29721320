//! Fibers that have not started: one that a busy shard leaves is started by a shard that is idle, however that one
//! falls asleep meanwhile; and where it started it stays.

use std::sync::Arc;
use std::time::Duration;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread::{self, JoinHandle, ThreadId};

use crate::fiber::home::Home;
use crate::fiber::local::{Local, local};
use crate::fiber::oneshot::oneshot;
use crate::fiber::tick::Driver;
use crate::fiber::{StopRequest, join};
use crate::models::block_on;
use crate::plane::{Doorbell, ShardLoop};
use crate::weakened::{accepted, rejected};

/// An idle shard on this thread, and the home of a busy one, which share what neither has started.
fn shards() -> (Driver, &'static Home) {
    let busy = Home::take(ShardLoop::new(Doorbell::Completion).waker());
    let event_loop = ShardLoop::new(Doorbell::Completion);
    let mut idle = Driver::open(event_loop, 100, Duration::ZERO, Arc::new(StopRequest::default()));
    idle.share_with(vec![busy]);
    (idle, busy)
}

/// Ends the idle shard, then the busy one, then takes what that sent after the idle one's end.
fn close(mut idle: Driver, busy: JoinHandle<()>) {
    let home = idle.home();
    idle.unwind();
    idle.drain().expect("no op is in flight");
    busy.join().expect("it ends well");
    home.give_back();
}

/// Makes this thread a shard that is too busy to start anything, for as long as `work` takes.
fn busy(home: &'static Home, peer: &'static Home, work: impl FnOnce()) {
    local(|local| {
        local.open(home, 100);
        local.peers.set(vec![peer]);
    });
    work();
    local(Local::close);
}

/// The busy shard leaves a fiber and waits for its end.
fn stolen() {
    let (mut idle, busys) = shards();
    let (peer, ended) = (idle.home(), Arc::new(AtomicBool::new(false)));
    let ends = Arc::clone(&ended);
    let leaves = thread::spawn(move || {
        busy(busys, peer, || {
            let fiber = join::spawn_stealable(move || async move {
                ends.store(true, Ordering::SeqCst);
                thread::current().id()
            });
            let home = block_on(fiber.join()).expect("the fiber returned");
            assert!(home != thread::current().id(), "this thread starts nothing");
        });
    });
    idle.run(|| ended.load(Ordering::SeqCst)).expect("nobody asked to stop");
    close(idle, leaves);
}

/// Notices a drop away from where it was made.
struct Owned(ThreadId);

impl Drop for Owned {
    fn drop(&mut self) {
        assert!(thread::current().id() == self.0, "a fiber was dropped away from home");
    }
}

/// The busy shard wakes a fiber it left, which has parked where it started.
fn settled() {
    let (mut idle, busys) = shards();
    let (peer, ended) = (idle.home(), Arc::new(AtomicBool::new(false)));
    let ends = Arc::clone(&ended);
    let leaves = thread::spawn(move || {
        busy(busys, peer, || {
            let (sender, receiver) = oneshot();
            drop(join::spawn_stealable(move || async move {
                let owned = Owned(thread::current().id());
                assert_eq!(receiver.recv().await.expect("it is sent"), 7);
                drop(owned);
                ends.store(true, Ordering::SeqCst);
            }));
            assert!(sender.send(7).is_ok());
        });
    });
    idle.run(|| ended.load(Ordering::SeqCst)).expect("nobody asked to stop");
    close(idle, leaves);
}

accepted!(what_is_left_is_started, stolen);

accepted!(what_has_started_stays, settled);

rejected!(
    an_idle_shard_must_look_for_it_before_it_sleeps,
    "a shard does not look for unstarted fibers before it sleeps",
    stolen
);

rejected!(
    it_must_be_left_before_the_look_for_sleepers,
    "a spawner looks for sleepers before it leaves the fiber",
    stolen
);

rejected!(whoever_leaves_it_must_fence, "a sender does not fence", stolen);

rejected!(whoever_looks_for_it_must_fence, "a shard announces its sleep without a fence", stolen);
