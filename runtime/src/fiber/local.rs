//! What the shard of this thread keeps for its fibers: the run queue, the budget, and who runs now.
//!
//! The queue is first in, first out, without priorities. One slot beside it holds the fiber woken last by another
//! fiber: it runs next, while what it was handed is still in the cache, but only so often in a row that the queue
//! never starves. Completions and new fibers always go to the queue's end, and so does an actor that a message woke:
//! until its turn comes, more messages may, and it takes them in one go.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::ptr;
use std::task::Waker;

use crate::error::OpKind;
use crate::fiber::home::Home;
use crate::fiber::steal::Peers;
use crate::fiber::task::{self, FiberId, Header, List, Memory, Queue, Ready};
use crate::scope;

/// Hand-overs in a row through the slot before the queue has its turn.
const HANDOVERS_MAX: u32 = 16;

/// Waits noted at most.
const WAITS_MAX: usize = 1 << 16;

/// One per thread. It has no destructor, so that looking at it is one address and no check; a shard that ends leaves
/// nothing in it.
pub(crate) struct Local {
    home: Cell<Option<&'static Home>>,
    queue: Queue,
    handed_over: ManuallyDrop<Cell<Option<Ready>>>,
    handovers_left: Cell<u32>,
    in_fiber: Cell<bool>,
    /// Reductions left in this turn.
    budget: Cell<u32>,
    /// Reductions of a fresh turn.
    reductions: Cell<u32>,
    /// The shard has ended: new fibers are dropped at once.
    closed: Cell<bool>,
    /// The fiber that is polled or dropped now, or was last.
    pub(crate) current: Cell<*const Header>,
    /// The fibers that have parked and not ended.
    pub(crate) parked: List,
    /// The fibers that have ended and are still referred to.
    pub(crate) lingering: List,
    pub(crate) memory: Memory,
    made: Cell<u64>,
    /// What each fiber parked for last, in a simulated world, where somebody may ask.
    notes_waits: Cell<bool>,
    waits: ManuallyDrop<RefCell<BTreeMap<FiberId, Wait>>>,
    /// The shards with which this one shares what has not started.
    pub(crate) peers: Peers,
}

thread_local! {
    static LOCAL: Local = const { Local::new() };
}

/// Notes what the fiber that is polled now may park for, in a simulated world.
#[inline]
pub(crate) fn waits_for(kind: OpKind) {
    local(|local| {
        if local.notes_waits.get() {
            local.note(Wait { kind, fiber: None });
        }
    });
}

/// The same of the end of another fiber.
#[inline]
pub(crate) fn waits_for_end(of: impl FnOnce() -> Option<FiberId>) {
    local(|local| {
        if local.notes_waits.get() {
            local.note(Wait { kind: OpKind::Join, fiber: of() });
        }
    });
}

/// Whether anybody may ever read what is noted of this shard's fibers.
#[inline]
pub(crate) fn notes_waits() -> bool {
    local(|local| local.notes_waits.get())
}

/// What a fiber parked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wait {
    pub(crate) kind: OpKind,
    /// The fiber whose end it waits for.
    pub(crate) fiber: Option<FiberId>,
}

/// Looks at this thread's shard.
#[inline(always)]
pub(crate) fn local<R>(look: impl FnOnce(&Local) -> R) -> R {
    LOCAL.with(look)
}

/// Counts one reduction. True when the turn is over and the fiber should yield.
///
/// The macros put it at the head of every loop body; every verb calls it. Outside a shard it never ends a turn.
#[doc(hidden)]
#[inline]
pub fn spend() -> bool {
    local(|local| {
        let left = local.budget.get();
        if left <= 1 {
            return true;
        }
        local.budget.set(left - 1);
        false
    })
}

impl Local {
    /// What a thread keeps where no shard runs.
    pub(crate) const fn new() -> Local {
        Local {
            home: Cell::new(None),
            queue: Queue::new(),
            handed_over: ManuallyDrop::new(Cell::new(None)),
            handovers_left: Cell::new(HANDOVERS_MAX),
            in_fiber: Cell::new(false),
            budget: Cell::new(u32::MAX),
            reductions: Cell::new(u32::MAX),
            closed: Cell::new(false),
            current: Cell::new(ptr::null()),
            parked: List::new(),
            lingering: List::new(),
            memory: Memory::new(),
            made: Cell::new(0),
            notes_waits: Cell::new(false),
            waits: ManuallyDrop::new(RefCell::new(BTreeMap::new())),
            peers: Peers::none(),
        }
    }

    /// Exchanges everything with another: a simulated world runs several shards on one thread, between their ticks.
    pub(crate) fn swap(&self, other: &Local) {
        self.home.swap(&other.home);
        self.queue.swap(&other.queue);
        self.handed_over.swap(&other.handed_over);
        self.handovers_left.swap(&other.handovers_left);
        self.in_fiber.swap(&other.in_fiber);
        self.budget.swap(&other.budget);
        self.reductions.swap(&other.reductions);
        self.closed.swap(&other.closed);
        self.current.swap(&other.current);
        self.parked.swap(&other.parked);
        self.lingering.swap(&other.lingering);
        self.made.swap(&other.made);
        self.notes_waits.swap(&other.notes_waits);
        self.waits.swap(&other.waits);
        self.peers.swap(&other.peers);
    }

    /// From now on what fibers park for is noted.
    pub(crate) fn note_waits(&self) {
        self.notes_waits.set(true);
    }

    #[cold]
    fn note(&self, wait: Wait) {
        if let Some(fiber) = task::current_id() {
            let mut waits = self.waits.borrow_mut();
            // Those that ended are in it still.
            if waits.len() > WAITS_MAX {
                waits.clear();
            }
            waits.insert(fiber, wait);
        }
    }

    /// What a fiber parked for last; `None` for what is no verb.
    pub(crate) fn wait_of(&self, fiber: FiberId) -> Wait {
        self.waits.borrow().get(&fiber).copied().unwrap_or_default()
    }

    /// Opens this thread for a shard.
    pub(crate) fn open(&self, home: &'static Home, reductions: u32) {
        self.parked.open();
        self.lingering.open();
        self.home.set(Some(home));
        self.reductions.set(reductions.max(1));
        scope::set_stopping(false);
        self.closed.set(false);
        self.made.set(0);
    }

    /// Closes it: no fiber is left.
    pub(crate) fn close(&self) {
        debug_assert!(self.parked.is_empty(), "a shard ends after its fibers");
        debug_assert!(self.lingering.is_empty(), "what outlives a shard was let out");
        debug_assert_eq!(self.ready(), 0, "a shard ends with an empty queue");
        self.waits.borrow_mut().clear();
        self.peers.set(Vec::new());
        self.memory.give_up();
        scope::give_up_spare();
        self.home.set(None);
        self.budget.set(u32::MAX);
        self.reductions.set(u32::MAX);
        scope::set_stopping(false);
    }

    /// No fiber of this shard has the number of `main`, which runs on another.
    pub(crate) fn leave_out_main(&self) {
        self.made.set(1);
    }

    /// From now on new fibers are dropped instead of started.
    pub(crate) fn refuse_fibers(&self) {
        self.closed.set(true);
    }

    /// The home of this shard; none where no shard runs, or this one has ended.
    pub(crate) fn open_home(&self) -> Option<&'static Home> {
        self.home.get().filter(|_| !self.closed.get())
    }

    /// The home and the number of a new fiber; none where no shard runs, or this one has ended.
    #[inline]
    pub(crate) fn next_fiber(&self) -> Option<(&'static Home, u64)> {
        if self.closed.get() {
            return None;
        }
        let home = self.home.get()?;
        let id = self.made.get();
        self.made.set(id + 1);
        Some((home, id))
    }

    #[inline]
    pub(crate) fn home(&self) -> Option<&'static Home> {
        self.home.get()
    }

    #[inline]
    pub(crate) fn is_home(&self, home: *const Home) -> bool {
        self.home.get().map_or(ptr::null(), ptr::from_ref) == home
    }

    /// Puts a fiber at the queue's end.
    #[inline]
    pub(crate) fn push(&self, fiber: Ready) {
        self.queue.push(fiber);
    }

    /// Queues a fiber that another woke, or a completion: next, if it was a fiber and the queue has had its turn; else
    /// at the end.
    #[inline]
    pub(crate) fn push_woken(&self, fiber: Ready) {
        if !self.in_fiber.get() || self.handovers_left.get() == 0 {
            return self.push(fiber);
        }
        if let Some(earlier) = self.handed_over.replace(Some(fiber)) {
            self.push(earlier);
        }
    }

    /// The fiber that runs next.
    #[inline]
    pub(crate) fn pop(&self) -> Option<Ready> {
        if let Some(fiber) = self.handed_over.take() {
            self.handovers_left.set(self.handovers_left.get() - 1);
            return Some(fiber);
        }
        self.handovers_left.set(HANDOVERS_MAX);
        self.queue.pop()
    }

    /// The number of fibers ready to run.
    pub(crate) fn ready(&self) -> usize {
        let handed_over = self.handed_over.take();
        let one = usize::from(handed_over.is_some());
        self.handed_over.set(handed_over);
        one + self.queue.len()
    }

    /// Begins a fiber's turn, a fresh one.
    #[inline]
    pub(crate) fn enter_fiber(&self, fiber: *const Header) {
        self.budget.set(self.reductions.get());
        self.in_fiber.set(true);
        self.current.set(fiber);
    }

    /// What is woken from now on in this turn goes to the queue's end.
    #[inline]
    pub(crate) fn leave_fiber(&self) {
        self.in_fiber.set(false);
    }

    /// Whether the fiber that ran last spent its whole budget.
    #[inline]
    pub(crate) fn used_up_its_turn(&self) -> bool {
        self.budget.get() <= 1
    }

    pub(crate) fn set_stopping(&self) {
        scope::set_stopping(true);
    }
}

/// Wakes what is to run in its turn, behind all that is ready, rather than next: by then there may be more for it.
#[inline]
pub(crate) fn wake_in_turn(waker: &Waker) {
    local(|local| {
        let in_fiber = local.in_fiber.replace(false);
        waker.wake_by_ref();
        local.in_fiber.set(in_fiber);
    });
}

/// Whether the fiber that asks, or what it is about right now, has been cancelled. Who asks is told.
#[inline]
pub(crate) fn is_cancelled() -> bool {
    scope::is_cancelled()
}

/// Whether no other fiber is ready to run, so that trying an op at once costs nobody a batch.
#[inline]
pub(crate) fn is_quiet() -> bool {
    local(|local| local.ready() == 0)
}
