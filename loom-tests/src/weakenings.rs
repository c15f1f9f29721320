//! Every ordering the models guard, and what it is weakened to. The build script puts a switch at each place; the
//! model that guards it turns the switch on and must be rejected.

/// A place in the source and what stands there instead when the weakening is on.
#[derive(Debug)]
pub struct Weakening {
    /// What a model calls it by.
    pub name: &'static str,
    /// The file, from the runtime's `src`, or below `async-task/`.
    pub file: &'static str,
    /// Where the search begins: what stands before it in the file, one after the other.
    pub within: &'static [&'static str],
    /// The statement or expression.
    pub from: &'static str,
    /// What takes its place.
    pub to: &'static str,
}

/// The table.
pub const WEAKENINGS: &[Weakening] = &[
    Weakening {
        name: "a sender does not fence",
        file: "fiber/home.rs",
        within: &["fn wake_if_asleep"],
        from: "fence(Ordering::SeqCst);",
        to: "",
    },
    Weakening {
        name: "a shard announces its sleep without a fence",
        file: "fiber/home.rs",
        within: &["fn announce_sleep"],
        from: "fence(Ordering::SeqCst);",
        to: "",
    },
    Weakening {
        name: "a shard does not look again",
        file: "fiber/home.rs",
        within: &["fn announce_sleep"],
        from: "self.inbox.is_empty()",
        to: "true",
    },
    Weakening {
        name: "the flag is cleared without being read",
        file: "plane/backend/waker.rs",
        within: &["fn acknowledge"],
        from: "self.0.rung.swap(false, Ordering::SeqCst);",
        to: "self.0.rung.store(false, Ordering::SeqCst);",
    },
    Weakening {
        name: "an acknowledgement is relaxed",
        file: "plane/backend/waker.rs",
        within: &["fn acknowledge"],
        from: "self.0.rung.swap(false, Ordering::SeqCst);",
        to: "self.0.rung.swap(false, Ordering::Relaxed);",
    },
    Weakening {
        name: "a ring is relaxed",
        file: "plane/backend/waker.rs",
        within: &["fn wake"],
        from: "self.0.rung.swap(true, Ordering::SeqCst)",
        to: "self.0.rung.swap(true, Ordering::Relaxed)",
    },
    Weakening {
        name: "a receiver looks, then registers",
        file: "fiber/oneshot.rs",
        within: &["fn poll"],
        from: "local::is_cancelled()",
        to: "{ drop(cell); cell = lock(&self.receiver.cell); local::is_cancelled() }",
    },
    Weakening {
        name: "a sender takes the waker, then closes",
        file: "fiber/oneshot.rs",
        within: &["for Sender<T>", "fn drop"],
        from: "cell.waker.take()",
        to: "{ cell.closed = false; let waker = cell.waker.take(); drop(cell);\
             cell = lock(&self.cell); cell.closed = true; waker }",
    },
    Weakening {
        name: "a sender does not look for the receiver",
        file: "fiber/oneshot.rs",
        within: &["pub fn send"],
        from: "cell.closed",
        to: "false",
    },
    Weakening {
        name: "a buffer is put on the free list from anywhere",
        file: "plane/buf/slab.rs",
        within: &["fn give_back"],
        from: "self.is_home()",
        to: "true",
    },
    Weakening {
        name: "home does not look into the ring",
        file: "plane/buf/slab.rs",
        within: &["fn take"],
        from: "free.extend(self.returning.try_iter());",
        to: "",
    },
    Weakening {
        name: "a shard does not look for the end before it sleeps",
        file: "fiber/tick.rs",
        within: &["fn wait_for_kernel", "home.announce_sleep()"],
        from: "done()",
        to: "false",
    },
    Weakening {
        name: "a shard does not look for a stop before it sleeps",
        file: "fiber/tick.rs",
        within: &["fn wait_for_kernel", "home.announce_sleep()"],
        from: "self.stop.times() != self.stops_seen",
        to: "false",
    },
    Weakening {
        name: "a shard does not look for unstarted fibers before it sleeps",
        file: "fiber/tick.rs",
        within: &["fn wait_for_kernel", "home.announce_sleep()"],
        from: "steal::is_waiting(home)",
        to: "false",
    },
    Weakening {
        name: "a spawner looks for sleepers before it leaves the fiber",
        file: "fiber/steal.rs",
        within: &["fn offer("],
        from: "home.offer(start);\n    \
               let _woken = local(|local| local.peers.find(|peer| peer.wake_if_asleep().then_some(())));",
        to: "let _woken = local(|local| local.peers.find(|peer| peer.wake_if_asleep().then_some(())));\
             home.offer(start);",
    },
    Weakening {
        name: "the end is said after the ring",
        file: "shard/program.rs",
        within: &["fn end"],
        from: "self.ending.store(true, Ordering::SeqCst);\n        \
               self.doors.iter().for_each(|door| door.waker.wake());",
        to: "self.doors.iter().for_each(|door| door.waker.wake()); self.ending.store(true, Ordering::SeqCst);",
    },
    Weakening {
        name: "a stop is asked for after the ring",
        file: "shard/program.rs",
        within: &["fn ask_to_stop"],
        from: "self.stop.ask(0);\n        self.doors.iter().for_each(|door| door.waker.wake());",
        to: "self.doors.iter().for_each(|door| door.waker.wake()); self.stop.ask(0);",
    },
    Weakening {
        name: "a fiber is queued where it was woken",
        file: "fiber/task.rs",
        within: &["fn schedule"],
        from: "local.is_home(home)",
        to: "true",
    },
    Weakening {
        name: "a shard ends without the fibers on their way home",
        file: "fiber/tick.rs",
        within: &["fn unwind"],
        from: "!task::wake_all()",
        to: "{ task::wake_all(); local(Local::ready) == 0 && self.home.is_empty() }",
    },
    Weakening {
        name: "a fiber's end is relaxed",
        file: "async-task/raw.rs",
        within: &["// Mark the task as not running and completed."],
        from: "Ordering::AcqRel",
        to: "Ordering::Relaxed",
    },
    Weakening {
        name: "the joiner is taken while it registers",
        file: "async-task/header.rs",
        within: &["fn take"],
        from: "state & (NOTIFYING | REGISTERING) == 0",
        to: "state & NOTIFYING == 0",
    },
    Weakening {
        name: "a push does not look at the life",
        file: "actor/mailbox/mod.rs",
        within: &["fn push_outside"],
        from: "self.head.open.load(Ordering::Relaxed) != life",
        to: "false",
    },
    Weakening {
        name: "an order does not look at the life",
        file: "actor/mailbox/mod.rs",
        within: &["fn order(&'static self, life: u64, order: Order) -> bool {"],
        from: "self.head.life.load(Ordering::Relaxed) != life",
        to: "false",
    },
    Weakening {
        name: "the outer queue is emptied, then said to be empty",
        file: "actor/mailbox/mod.rs",
        within: &["fn take_outer"],
        from: "self.head.has_outer.store(false, Ordering::Relaxed);",
        to: "inner.queue.append(&mut outer.queue); drop(outer);\
             self.head.has_outer.store(false, Ordering::Relaxed); return;",
    },
    Weakening {
        name: "a send at home passes what came before it",
        file: "actor/mailbox/mod.rs",
        within: &["fn push_at_home"],
        from: "self.head.has_outer.load(Ordering::Relaxed)",
        to: "false",
    },
    Weakening {
        name: "an order rings nobody",
        file: "actor/mailbox/mod.rs",
        within: &["fn order(&'static self, life: u64, order: Order) -> bool {"],
        from: "self.ring(home, life);",
        to: "",
    },
    Weakening {
        name: "an order calls for attention without saying so first",
        file: "actor/mailbox/mod.rs",
        within: &["fn order(&'static self, life: u64, order: Order) -> bool {"],
        from: "self.head.attention.store(true, Ordering::Release);",
        to: "",
    },
    Weakening {
        name: "a sender does not look for room again",
        file: "actor/mailbox/mod.rs",
        within: &["fn wait_for_room"],
        from: "self.head.has_room()",
        to: "false",
    },
    Weakening {
        name: "a sender waits for room without saying so",
        file: "actor/mailbox/mod.rs",
        within: &["fn wait_for_room"],
        from: "self.head.has_waiting.store(true, Ordering::Relaxed);",
        to: "",
    },
    Weakening {
        name: "a sender does not look for the end",
        file: "actor/mailbox/mod.rs",
        within: &["fn wait_for_room"],
        from: "self.head.open.load(Ordering::Relaxed) != life",
        to: "false",
    },
    Weakening {
        name: "a wait is drawn without a fence",
        file: "actor/mailbox/head.rs",
        within: &["fn draw_wait"],
        from: "fence(Ordering::SeqCst);",
        to: "",
    },
    Weakening {
        name: "a wait is not looked at again",
        file: "actor/mailbox/head.rs",
        within: &["fn waits_for"],
        from: "self.wait.load(Ordering::Acquire) == number",
        to: "true",
    },
    Weakening {
        name: "a wait's target is read relaxed",
        file: "actor/mailbox/head.rs",
        within: &["fn waits_for"],
        from: "self.waits_for.load(Ordering::Acquire)",
        to: "self.waits_for.load(Ordering::Relaxed)",
    },
    Weakening {
        name: "a wait's target is written relaxed",
        file: "actor/mailbox/head.rs",
        within: &["fn draw_wait"],
        from: "self.waits_for.store(ptr::from_ref(target).cast_mut(), Ordering::Release);",
        to: "self.waits_for.store(ptr::from_ref(target).cast_mut(), Ordering::Relaxed);",
    },
    Weakening {
        name: "a task is spawned without a fence",
        file: "shard/pool.rs",
        within: &["fn wake_one"],
        from: "fence(Ordering::SeqCst);",
        to: "",
    },
    Weakening {
        name: "a worker parks without a fence",
        file: "shard/pool.rs",
        within: &["fn park(&self"],
        from: "fence(Ordering::SeqCst);",
        to: "",
    },
    Weakening {
        name: "a worker parks without looking again",
        file: "shard/pool.rs",
        within: &["fn park(&self"],
        from: "!self.sees_work()",
        to: "true",
    },
    Weakening {
        name: "the last to run dry tells nobody",
        file: "shard/pool.rs",
        within: &["fn park(&self"],
        from: "shared.bell.notify_all();",
        to: "",
    },
    Weakening {
        name: "a sender only reads the count of messages",
        file: "actor/mailbox/head.rs",
        within: &["fn has_room"],
        from: "self.queued.fetch_add(0, Ordering::AcqRel)",
        to: "self.queued.load(Ordering::Acquire)",
    },
    Weakening {
        name: "room is given relaxed",
        file: "actor/mailbox/head.rs",
        within: &["fn give_room"],
        from: "self.queued.fetch_sub(1, Ordering::AcqRel);",
        to: "self.queued.fetch_sub(1, Ordering::Relaxed);",
    },
    Weakening {
        name: "a ring does not look at the life",
        file: "actor/mailbox/mod.rs",
        within: &["fn rung"],
        from: "self.head.life.load(Ordering::Relaxed) != life",
        to: "false",
    },
];
