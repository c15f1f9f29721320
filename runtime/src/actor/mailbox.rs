//! A mailbox: where messages wait for their actor, and what an address points at.
//!
//! Two queues. Messages from the actor's own shard go into the home queue, which only the home thread touches, without
//! an atomic operation. Messages from elsewhere go into the outer queue behind a lock; the actor takes all of them at
//! once when its home queue is empty, and a send at home takes them over first when there are some, so that causes
//! come before effects.
//!
//! Sleeping: the actor announces that it sleeps, fences, and looks at the outer queue again; a sender from elsewhere
//! pushes, fences, looks whether the actor sleeps, and the one that turns it awake rings its home. The two fences order
//! each side's write before its read, so at least one sees the other.
//!
//! Lives: a cell is never freed, and serves one actor after another. Each life has a number of its own, an address
//! carries it, and a send looks at it where the message is pushed, under the lock or on the home thread. So a message
//! reaches the actor it was meant for, or comes back.

use std::any::{Any, TypeId};
use std::cell::{RefCell, UnsafeCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::actor::ask::Asked;
use crate::actor::life::Exit;
use crate::fiber::home::{Home, Mail, Ring};
use crate::fiber::oneshot;

/// A message on its way, and who waits for its answer.
pub(crate) struct Envelope<M> {
    pub(crate) message: M,
    pub(crate) asked: Option<Arc<dyn Asked>>,
}

/// What the actor is to do apart from its messages. The higher number wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    /// Go on.
    Live,
    /// Handle what is queued, then end.
    Drain,
    /// End now.
    Kill,
}

/// A push that was not taken.
pub(crate) enum Refused<M> {
    Full(Envelope<M>),
    Closed(Envelope<M>),
}

/// One mailbox; see the module's text.
pub(crate) struct Mailbox<M: 'static> {
    /// The life that takes messages; 0 for none.
    open: AtomicU32,
    home: AtomicPtr<Home>,
    /// The actor sleeps, and an outer sender must ring.
    sleeps: AtomicBool,
    /// The outer queue is not empty.
    has_outer: AtomicBool,
    /// The most messages; 0 for no bound.
    bound: AtomicUsize,
    /// Messages in both queues, counted only with a bound.
    queued: AtomicUsize,
    outer: Mutex<Outer<M>>,
    inner: UnsafeCell<Inner<M>>,
}

/// What any thread may touch, under the lock.
struct Outer<M> {
    /// The life the cell is in; 0 between lives.
    generation: u32,
    queue: VecDeque<Envelope<M>>,
    order: Order,
    waiting_for_room: VecDeque<(u64, Waker)>,
    waits_made: u64,
    monitors: Vec<oneshot::Sender<Exit>>,
}

/// What only the home thread touches.
struct Inner<M> {
    queue: VecDeque<Envelope<M>>,
    /// The actor waits for messages.
    parked: Option<Waker>,
    /// One of its functions waits for something else.
    handler: Option<Waker>,
}

// SAFETY: `inner` is touched on the home thread only, which each function that touches it checks or requires; what it
// holds was sent there, so `M: Send` suffices. Everything else synchronises itself.
unsafe impl<M: Send + 'static> Sync for Mailbox<M> {}

/// A number no two lives share, in any cell, until 2^32 lives have passed.
fn next_generation() -> u32 {
    static MADE: AtomicU32 = AtomicU32::new(0);
    loop {
        let generation = MADE.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if generation != 0 {
            return generation;
        }
    }
}

impl<M: Send + 'static> Mailbox<M> {
    /// A mailbox for a new actor at `home`, and the number of its life.
    pub(crate) fn begin(home: &'static Home, bound: Option<usize>) -> (&'static Mailbox<M>, u32) {
        let mailbox = take_unused().unwrap_or_else(|| {
            Box::leak(Box::new(Mailbox {
                open: AtomicU32::new(0),
                home: AtomicPtr::new(ptr::null_mut()),
                sleeps: AtomicBool::new(false),
                has_outer: AtomicBool::new(false),
                bound: AtomicUsize::new(0),
                queued: AtomicUsize::new(0),
                outer: Mutex::new(Outer {
                    generation: 0,
                    queue: VecDeque::new(),
                    order: Order::Live,
                    waiting_for_room: VecDeque::new(),
                    waits_made: 0,
                    monitors: Vec::new(),
                }),
                inner: UnsafeCell::new(Inner { queue: VecDeque::new(), parked: None, handler: None }),
            }))
        });
        let generation = next_generation();
        let mut outer = mailbox.outer();
        debug_assert_eq!(outer.generation, 0, "a cell serves one actor at a time");
        outer.generation = generation;
        outer.order = Order::Live;
        mailbox.home.store(ptr::from_ref(home).cast_mut(), Ordering::Relaxed);
        mailbox.bound.store(bound.map_or(0, |bound| bound.max(1)), Ordering::Relaxed);
        mailbox.queued.store(0, Ordering::Relaxed);
        mailbox.sleeps.store(false, Ordering::Relaxed);
        mailbox.open.store(generation, Ordering::Release);
        drop(outer);
        (mailbox, generation)
    }

    fn outer(&self) -> MutexGuard<'_, Outer<M>> {
        self.outer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this thread is the actor's home.
    #[inline]
    fn is_home(&self) -> bool {
        crate::fiber::is_home(self.home.load(Ordering::Relaxed))
    }

    /// Pushes a message for the life `generation`.
    #[inline]
    pub(crate) fn push(&'static self, generation: u32, envelope: Envelope<M>) -> Result<(), Refused<M>> {
        if self.is_home() { self.push_at_home(generation, envelope) } else { self.push_outside(generation, envelope) }
    }

    #[inline]
    fn push_at_home(&self, generation: u32, envelope: Envelope<M>) -> Result<(), Refused<M>> {
        if self.open.load(Ordering::Relaxed) != generation {
            return Err(Refused::Closed(envelope));
        }
        if !self.take_room() {
            return Err(Refused::Full(envelope));
        }
        // SAFETY: this is the home thread, and no code of the user's runs while the borrow lasts.
        let inner = unsafe { &mut *self.inner.get() };
        if self.has_outer.load(Ordering::Relaxed) {
            self.take_outer(inner);
        }
        inner.queue.push_back(envelope);
        if let Some(waker) = inner.parked.take() {
            self.sleeps.store(false, Ordering::Relaxed);
            waker.wake();
        }
        Ok(())
    }

    fn push_outside(&'static self, generation: u32, envelope: Envelope<M>) -> Result<(), Refused<M>> {
        let mut outer = self.outer();
        if outer.generation != generation || self.open.load(Ordering::Relaxed) != generation {
            return Err(Refused::Closed(envelope));
        }
        if !self.take_room() {
            return Err(Refused::Full(envelope));
        }
        outer.queue.push_back(envelope);
        self.has_outer.store(true, Ordering::Relaxed);
        drop(outer);
        self.ring_if_asleep(generation);
        Ok(())
    }

    /// Counts a message in, unless the bound is reached.
    #[inline]
    fn take_room(&self) -> bool {
        let bound = self.bound.load(Ordering::Relaxed);
        if bound == 0 {
            return true;
        }
        self.queued
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |queued| (queued < bound).then_some(queued + 1))
            .is_ok()
    }

    fn ring_if_asleep(&'static self, generation: u32) {
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed)
            && self.sleeps.compare_exchange(true, false, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        {
            self.ring(generation);
        }
    }

    /// Has the actor look around, wherever this is called.
    fn ring(&'static self, generation: u32) {
        if self.is_home() {
            self.rung(generation);
        } else {
            // SAFETY: the pointer is null or a home, and homes are never freed.
            if let Some(home) = unsafe { self.home.load(Ordering::Relaxed).as_ref() } {
                home.push(Mail::Ring(self, generation));
            }
        }
    }

    /// Moves what came from elsewhere behind what is at home.
    fn take_outer(&self, inner: &mut Inner<M>) {
        let mut outer = self.outer();
        self.has_outer.store(false, Ordering::Relaxed);
        if inner.queue.is_empty() {
            std::mem::swap(&mut inner.queue, &mut outer.queue);
        } else {
            inner.queue.append(&mut outer.queue);
        }
    }

    /// The next message, for the actor at home; without one, the waker will be called when there is something to look
    /// at.
    pub(crate) fn pop(&self, waker: &Waker) -> Option<Envelope<M>> {
        debug_assert!(self.is_home(), "an actor runs at home");
        // SAFETY: this is the home thread, and no code of the user's runs while the borrow lasts.
        let inner = unsafe { &mut *self.inner.get() };
        if inner.queue.is_empty() {
            if !self.has_outer.load(Ordering::Relaxed) {
                self.sleeps.store(true, Ordering::Relaxed);
                fence(Ordering::SeqCst);
                if !self.has_outer.load(Ordering::Relaxed) {
                    inner.parked = Some(waker.clone());
                    return None;
                }
                self.sleeps.store(false, Ordering::Relaxed);
            }
            self.take_outer(inner);
        }
        let envelope = inner.queue.pop_front();
        if envelope.is_some() {
            self.give_room();
        }
        envelope
    }

    /// A function of the actor waits: an order wakes it, as a message would.
    pub(crate) fn handler_waits(&self, waker: &Waker) {
        debug_assert!(self.is_home(), "an actor runs at home");
        // SAFETY: this is the home thread, and no code of the user's runs while the borrow lasts.
        let inner = unsafe { &mut *self.inner.get() };
        if !inner.handler.as_ref().is_some_and(|handler| handler.will_wake(waker)) {
            inner.handler = Some(waker.clone());
        }
    }

    #[inline]
    fn give_room(&self) {
        if self.bound.load(Ordering::Relaxed) != 0 {
            self.queued.fetch_sub(1, Ordering::AcqRel);
            self.pass_room_on();
        }
    }

    /// Wakes the sender that has waited longest for room.
    pub(crate) fn pass_room_on(&self) {
        let next = self.outer().waiting_for_room.pop_front();
        if let Some((_, waker)) = next {
            waker.wake();
        }
    }

    /// Queues for room, or renews the waker of one who does; the answer is its number in the queue. None when there is
    /// room, or the life has ended, by now.
    pub(crate) fn wait_for_room(&self, generation: u32, number: Option<u64>, waker: &Waker) -> Option<u64> {
        let mut outer = self.outer();
        if self.open.load(Ordering::Relaxed) != generation
            || self.queued.load(Ordering::Acquire) < self.bound.load(Ordering::Relaxed)
        {
            return None;
        }
        if let Some(place) = number.and_then(|number| outer.waiting_for_room.iter().position(|(n, _)| *n == number)) {
            outer.waiting_for_room[place].1.clone_from(waker);
            return number;
        }
        outer.waits_made += 1;
        let number = outer.waits_made;
        outer.waiting_for_room.push_back((number, waker.clone()));
        Some(number)
    }

    /// Leaves the queue for room; false when it had been called already.
    pub(crate) fn leave_room_queue(&self, number: u64) -> bool {
        let mut outer = self.outer();
        let before = outer.waiting_for_room.len();
        outer.waiting_for_room.retain(|(waiting, _)| *waiting != number);
        outer.waiting_for_room.len() < before
    }

    /// Gives an order to the life `generation`; false when it has ended. From `Drain` on it takes no more messages.
    pub(crate) fn order(&'static self, generation: u32, order: Order) -> bool {
        let mut outer = self.outer();
        if outer.generation != generation {
            return false;
        }
        outer.order = outer.order.max(order);
        self.open.store(0, Ordering::Release);
        let waiting = std::mem::take(&mut outer.waiting_for_room);
        drop(outer);
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
        self.sleeps.store(false, Ordering::Relaxed);
        self.ring(generation);
        true
    }

    /// The order in force.
    pub(crate) fn current_order(&self) -> Order {
        self.outer().order
    }

    /// Whether the life `generation` takes messages.
    pub(crate) fn is_open(&self, generation: u32) -> bool {
        self.open.load(Ordering::Acquire) == generation
    }

    /// Whether an order was given since the life began: the one load the actor pays per message.
    #[inline]
    pub(crate) fn has_order(&self, generation: u32) -> bool {
        self.open.load(Ordering::Acquire) != generation
    }

    /// Has `monitor` told when the life ends; it comes back when that has happened.
    pub(crate) fn monitor(&self, generation: u32, monitor: oneshot::Sender<Exit>) -> Result<(), oneshot::Sender<Exit>> {
        let mut outer = self.outer();
        if outer.generation != generation {
            return Err(monitor);
        }
        outer.monitors.push(monitor);
        Ok(())
    }

    /// Ends a life that never began, from any thread.
    pub(crate) fn abandon(&'static self, generation: u32) -> (VecDeque<Envelope<M>>, Vec<oneshot::Sender<Exit>>) {
        let mut outer = self.outer();
        debug_assert_eq!(outer.generation, generation, "a life ends once");
        outer.generation = 0;
        self.open.store(0, Ordering::Release);
        self.has_outer.store(false, Ordering::Relaxed);
        self.sleeps.store(false, Ordering::Relaxed);
        let left = std::mem::take(&mut outer.queue);
        let waiting = std::mem::take(&mut outer.waiting_for_room);
        let monitors = std::mem::take(&mut outer.monitors);
        drop(outer);
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
        // Messages from its own shard may lie in the inner queue: the cell is not used again.
        (left, monitors)
    }

    /// Ends the life, at home: nothing is taken any more. What was queued comes out, and those who monitor.
    pub(crate) fn end(&'static self, generation: u32) -> (VecDeque<Envelope<M>>, Vec<oneshot::Sender<Exit>>) {
        debug_assert!(self.is_home(), "an actor ends at home");
        let mut outer = self.outer();
        debug_assert_eq!(outer.generation, generation, "a life ends once");
        outer.generation = 0;
        self.open.store(0, Ordering::Release);
        self.has_outer.store(false, Ordering::Relaxed);
        self.sleeps.store(false, Ordering::Relaxed);
        // SAFETY: this is the home thread, and no code of the user's runs while the borrow lasts.
        let inner = unsafe { &mut *self.inner.get() };
        let mut left = std::mem::take(&mut inner.queue);
        left.append(&mut outer.queue);
        let parked = (inner.parked.take(), inner.handler.take());
        let waiting = std::mem::take(&mut outer.waiting_for_room);
        let monitors = std::mem::take(&mut outer.monitors);
        drop(outer);
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
        drop(parked);
        give_back(self);
        (left, monitors)
    }
}

impl<M: Send + 'static> Ring for Mailbox<M> {
    fn rung(&self, generation: u32) {
        if !self.is_home() || self.outer().generation != generation {
            return;
        }
        // SAFETY: this is the home thread, and no code of the user's runs while the borrow lasts.
        let inner = unsafe { &mut *self.inner.get() };
        for waker in [inner.parked.take(), inner.handler.take()].into_iter().flatten() {
            waker.wake();
        }
    }
}

impl<M> fmt::Debug for Mailbox<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("open", &self.open).finish_non_exhaustive()
    }
}

/// Unused cells of one thread, by the type of their messages. They go to everybody when the thread ends.
struct Unused(BTreeMap<TypeId, Vec<&'static (dyn Any + Sync)>>);

thread_local! {
    static UNUSED: RefCell<Unused> = const { RefCell::new(Unused(BTreeMap::new())) };
}

static LEFT_BEHIND: Mutex<Unused> = Mutex::new(Unused(BTreeMap::new()));

fn take_unused<M: Send + 'static>() -> Option<&'static Mailbox<M>> {
    let id = TypeId::of::<M>();
    let own = UNUSED.try_with(|unused| unused.borrow_mut().0.get_mut(&id).and_then(Vec::pop)).ok().flatten();
    let any = own.or_else(|| {
        let mut left_behind = LEFT_BEHIND.lock().unwrap_or_else(PoisonError::into_inner);
        left_behind.0.get_mut(&id).and_then(Vec::pop)
    })?;
    (any as &dyn Any).downcast_ref()
}

fn give_back<M: Send + 'static>(mailbox: &'static Mailbox<M>) {
    let _ = UNUSED.try_with(|unused| unused.borrow_mut().0.entry(TypeId::of::<M>()).or_default().push(mailbox));
}

impl Drop for Unused {
    fn drop(&mut self) {
        let mut left_behind = LEFT_BEHIND.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, mut cells) in std::mem::take(&mut self.0) {
            left_behind.0.entry(id).or_default().append(&mut cells);
        }
    }
}
