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
];
