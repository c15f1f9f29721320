//! A mailbox: where messages wait for their actor, and what an address points at.
//!
//! Two queues. Messages from the actor's own shard go into the home queue, which only the home thread touches, without
//! an atomic operation. Messages from elsewhere go into the outer queue behind a lock; the actor takes all of them at
//! once when its home queue is empty, and a send at home takes them over first when there are some, so that causes
//! come before effects.
//!
//! Waking: whoever makes the outer queue non-empty rings the home, once, until the actor has taken what is there; the
//! ring is delivered at home after the push, and wakes the actor if it waits. So nothing is announced, and a send at
//! home pays nothing for those from elsewhere.
//!
//! Lives: a cell is never freed, and serves one actor after another. Each life has a number of its own, an address
//! carries it, and a send looks at it where the message is pushed, under the lock or on the home thread. So a message
//! reaches the actor it was meant for, or comes back. A life ends on its home's own thread, which therefore never takes
//! an ended life for the current one, whatever it reads of the cell.

mod answer;
mod cells;
mod head;
pub(crate) mod place;

use std::any::Any;
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

pub(crate) use crate::actor::mailbox::answer::{Answer, Answerer, Asker, answer};
pub(crate) use crate::actor::mailbox::head::Head;

use crate::actor::ask::Asked;
use crate::actor::counters;
use crate::actor::monitor::{Monitor, Monitors};
use crate::actor::waits::Wait;
use crate::fiber;
use crate::fiber::home::{Home, Mail, Ring};

/// What an empty home queue keeps of its memory, in bytes; what a peak took beyond that is given back.
const KEPT_BYTES: usize = 512 * 1024;

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

/// What became of waiting for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// There is some, or the life has ended: try again.
    Look,
    /// There is some, and it is counted in for this one already.
    Given,
    /// There is none; the number in the queue for it.
    Waits(u64),
    /// There is none, and never will be: the actors wait for each other in a circle.
    Never,
}

/// What a life leaves.
pub(crate) struct Left<M> {
    pub(crate) messages: VecDeque<Envelope<M>>,
    pub(crate) monitors: Monitors,
}

/// A mailbox without the type of its messages, for those who only look after its actor.
pub(crate) trait AnyMailbox: Ring {
    /// The untyped part.
    fn head(&'static self) -> &'static Head;

    /// Gives an order to a life; false when it has ended. From `Drain` on it takes no more messages.
    fn order(&'static self, life: u64, order: Order) -> bool;

    /// Has the actor look at what its supervisor wants.
    fn attend(&'static self, life: u64);

    /// With its type.
    fn as_any(&'static self) -> &'static dyn Any;
}

/// One mailbox; see the module's text.
pub(crate) struct Mailbox<M: 'static> {
    head: Head,
    outer: Mutex<Outer<M>>,
    inner: UnsafeCell<Inner<M>>,
}

/// What any thread may touch, under the lock.
struct Outer<M> {
    queue: VecDeque<Envelope<M>>,
    order: Order,
    /// What most actors never have.
    rare: Option<Box<Rare>>,
}

#[derive(Default)]
struct Rare {
    /// Those who wait for room, in the order they came.
    waiting: VecDeque<Waiting>,
    /// The numbers of those who were given room and have not used it yet.
    given: Vec<u64>,
    waits_made: u64,
    monitors: Monitors,
}

struct Waiting {
    number: u64,
    waker: Waker,
    wait: Option<Wait>,
}

/// What only the home thread touches.
struct Inner<M> {
    queue: VecDeque<Envelope<M>>,
    /// The actor's fiber, once it has parked.
    fiber: Option<Waker>,
}

// SAFETY: `inner` is touched on the home thread only, which each function that touches it checks or requires; what it
// holds was sent there, so `M: Send` suffices. Everything else synchronises itself.
unsafe impl<M: Send + 'static> Sync for Mailbox<M> {}

impl<M> Inner<M> {
    /// Wakes the actor if it waits for messages.
    #[inline]
    fn wake(&mut self, head: &Head) {
        if head.parked.load(Ordering::Relaxed) {
            head.parked.store(false, Ordering::Relaxed);
            if let Some(fiber) = &self.fiber {
                fiber::wake_in_turn(fiber);
            }
        }
    }

    fn remember_fiber(&mut self, waker: &Waker) {
        if !self.fiber.as_ref().is_some_and(|fiber| fiber.will_wake(waker)) {
            self.fiber = Some(waker.clone());
        }
    }
}

impl<M: Send + 'static> Mailbox<M> {
    /// A mailbox for a new actor at `home`, in the life of that number.
    pub(crate) fn begin(home: &'static Home, life: u64, bound: Option<usize>) -> &'static Mailbox<M> {
        let mailbox = cells::take().unwrap_or_else(|| {
            Box::leak(Box::new(Mailbox {
                head: Head::new(),
                outer: Mutex::new(Outer { queue: VecDeque::new(), order: Order::Live, rare: None }),
                inner: UnsafeCell::new(Inner { queue: VecDeque::new(), fiber: None }),
            }))
        });
        let mut outer = mailbox.outer();
        outer.order = Order::Live;
        mailbox.head.begin(home, life, bound);
        drop(outer);
        mailbox
    }

    /// The untyped part.
    #[inline]
    pub(crate) fn head(&'static self) -> &'static Head {
        &self.head
    }

    #[inline]
    fn outer(&self) -> MutexGuard<'_, Outer<M>> {
        self.outer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pushes a message for the life of that number. Inlined, so that a message is written where it will lie and not
    /// copied about: a copy of what was written just before, in smaller pieces, waits for the processor.
    #[inline(always)]
    pub(crate) fn push(&'static self, life: u64, envelope: Envelope<M>) -> Result<(), Refused<M>> {
        match self.head.home_here() {
            Some(home) => self.push_at_home(home, life, envelope),
            None => self.push_outside(life, envelope, Head::take_room),
        }
    }

    /// Pushes a message whose room is counted in already.
    pub(crate) fn push_given(&'static self, life: u64, envelope: Envelope<M>) -> Result<(), Refused<M>> {
        self.push_outside(life, envelope, |_| true)
    }

    #[inline(always)]
    fn push_at_home(&self, home: &'static Home, life: u64, envelope: Envelope<M>) -> Result<(), Refused<M>> {
        if self.head.open.load(Ordering::Relaxed) != life {
            return Err(Refused::Closed(envelope));
        }
        if !self.head.take_room() {
            return Err(Refused::Full(envelope));
        }
        // SAFETY: this is the home thread, and no code of the user's runs while the borrow lasts.
        let inner = unsafe { &mut *self.inner.get() };
        if self.head.has_outer.load(Ordering::Relaxed) {
            self.take_outer(inner);
        }
        if inner.queue.capacity() == 0 {
            // Most actors have one message at a time: a growing queue begins with more.
            inner.queue.reserve_exact(1);
        }
        inner.queue.push_back(envelope);
        inner.wake(&self.head);
        home.tally.count(counters::SENT);
        Ok(())
    }

    /// Pushes a message whatever the bound: it tells of an end, and must not be lost to a full mailbox.
    pub(crate) fn push_anyway(&'static self, life: u64, envelope: Envelope<M>) -> Result<(), Refused<M>> {
        self.push_outside(life, envelope, Head::take_room_anyway)
    }

    #[inline(never)]
    fn push_outside(
        &'static self,
        life: u64,
        envelope: Envelope<M>,
        take_room: impl FnOnce(&Head) -> bool,
    ) -> Result<(), Refused<M>> {
        let mut outer = self.outer();
        if self.head.open.load(Ordering::Relaxed) != life {
            return Err(Refused::Closed(envelope));
        }
        if !take_room(&self.head) {
            return Err(Refused::Full(envelope));
        }
        outer.queue.push_back(envelope);
        // It changes under the lock only.
        let was_empty = !self.head.has_outer.load(Ordering::Relaxed);
        if was_empty {
            self.head.has_outer.store(true, Ordering::Relaxed);
        }
        let home = self.head.home();
        drop(outer);
        counters::count(home, counters::SENT);
        if was_empty {
            self.ring(home, life);
        }
        Ok(())
    }

    /// Has the actor look around. The home was read while its life lasted.
    fn ring(&'static self, home: Option<&'static Home>, life: u64) {
        match home {
            Some(home) if fiber::home_here().is_some_and(|here| std::ptr::eq(here, home)) => self.rung(life),
            Some(home) => home.push(Mail::Ring(self, life)),
            None => {}
        }
    }

    /// Moves what came from elsewhere behind what is at home.
    #[inline(never)]
    fn take_outer(&self, inner: &mut Inner<M>) {
        let mut outer = self.outer();
        self.head.has_outer.store(false, Ordering::Relaxed);
        if inner.queue.is_empty() {
            std::mem::swap(&mut inner.queue, &mut outer.queue);
        } else {
            inner.queue.append(&mut outer.queue);
        }
    }

    /// Whether the actor at home has a message; without one, the waker will be called when there is something to look
    /// at.
    #[inline]
    pub(crate) fn has_message(&self, waker: &Waker) -> bool {
        debug_assert!(self.head.home_here().is_some(), "an actor runs at home");
        // SAFETY: this is the home thread, and no code of the user's runs while the borrow lasts.
        let inner = unsafe { &mut *self.inner.get() };
        if !inner.queue.is_empty() {
            return true;
        }
        if self.head.has_outer.load(Ordering::Relaxed) {
            self.take_outer(inner);
            return !inner.queue.is_empty();
        }
        let kept = (KEPT_BYTES / size_of::<Envelope<M>>().max(1)).max(64);
        if inner.queue.capacity() > 2 * kept {
            inner.queue.shrink_to(kept);
        }
        inner.remember_fiber(waker);
        self.head.parked.store(true, Ordering::Relaxed);
        false
    }

    /// The next message, for the actor at home. Inlined as [`push`](Mailbox::push) is, for the same reason.
    #[inline(always)]
    pub(crate) fn pop(&self) -> Option<Envelope<M>> {
        debug_assert!(self.head.home_here().is_some(), "an actor runs at home");
        // SAFETY: as in `has_message`.
        let inner = unsafe { &mut *self.inner.get() };
        let envelope = inner.queue.pop_front()?;
        if self.head.give_room() {
            self.pass_room_on();
        }
        Some(envelope)
    }

    /// A function of the actor waits: an order will wake it.
    #[inline]
    pub(crate) fn function_waits(&self, waker: &Waker) {
        debug_assert!(self.head.home_here().is_some(), "an actor runs at home");
        // SAFETY: this is the home thread, and no code of the user's runs while the borrow lasts.
        let inner = unsafe { &mut *self.inner.get() };
        inner.remember_fiber(waker);
    }

    /// Gives room there is to the sender that has waited longest.
    #[inline(never)]
    fn pass_room_on(&self) {
        let mut outer = self.outer();
        let Some(rare) = &mut outer.rare else { return };
        if rare.waiting.is_empty() || !self.head.take_room() {
            return;
        }
        let Some(Waiting { number, waker, wait }) = rare.waiting.pop_front() else { return };
        rare.given.push(number);
        self.head.has_waiting.store(!rare.waiting.is_empty(), Ordering::Relaxed);
        wait.into_iter().for_each(Wait::end);
        drop(outer);
        waker.wake();
    }

    /// Queues for room, or renews the waker of one who does. `waiter` is the actor whose function waits.
    pub(crate) fn wait_for_room(
        &'static self,
        life: u64,
        number: Option<u64>,
        waker: &Waker,
        waiter: Option<&'static Head>,
    ) -> Room {
        let mut outer = self.outer();
        if self.head.open.load(Ordering::Relaxed) != life {
            return Room::Look;
        }
        let rare = outer.rare.get_or_insert_default();
        if let Some(number) = number {
            if let Some(place) = rare.given.iter().position(|given| *given == number) {
                rare.given.swap_remove(place);
                return Room::Given;
            }
            if let Some(waiting) = rare.waiting.iter_mut().find(|waiting| waiting.number == number) {
                waiting.waker.clone_from(waker);
                return Room::Waits(number);
            }
        }
        // Whoever makes room from now on looks for those who wait.
        self.head.has_waiting.store(true, Ordering::Relaxed);
        if rare.waiting.is_empty() && self.head.has_room() {
            self.head.has_waiting.store(false, Ordering::Relaxed);
            return Room::Look;
        }
        rare.waits_made += 1;
        let number = rare.waits_made;
        let wait = waiter.and_then(|waiter| Wait::draw(waiter, &self.head));
        rare.waiting.push_back(Waiting { number, waker: waker.clone(), wait });
        drop(outer);
        match waiter {
            Some(waiter) if Wait::closes_circle(waiter, &self.head) => {
                self.leave_line(life, number);
                Room::Never
            }
            _ => Room::Waits(number),
        }
    }

    /// Leaves the line for room; what was given goes to the next.
    pub(crate) fn leave_line(&self, life: u64, number: u64) {
        let mut outer = self.outer();
        if self.head.open.load(Ordering::Relaxed) != life {
            return;
        }
        let Some(rare) = &mut outer.rare else { return };
        if let Some(place) = rare.given.iter().position(|given| *given == number) {
            rare.given.swap_remove(place);
            drop(outer);
            if self.head.give_room() {
                self.pass_room_on();
            }
        } else if let Some(place) = rare.waiting.iter().position(|waiting| waiting.number == number) {
            let left = rare.waiting.remove(place);
            self.head.has_waiting.store(!rare.waiting.is_empty(), Ordering::Relaxed);
            left.and_then(|left| left.wait).into_iter().for_each(Wait::end);
        }
    }

    /// The order in force.
    pub(crate) fn current_order(&self) -> Order {
        self.outer().order
    }

    /// The actor has looked; from now on it looks again only when somebody says so. An order stays in force.
    pub(crate) fn calm(&self) {
        let outer = self.outer();
        self.head.attention.store(outer.order != Order::Live, Ordering::Release);
    }

    /// Has `monitor` told when the life ends; it comes back when that has happened.
    pub(crate) fn monitor(&self, life: u64, monitor: Box<dyn Monitor>) -> Result<(), Box<dyn Monitor>> {
        let mut outer = self.outer();
        if self.head.life.load(Ordering::Relaxed) != life {
            return Err(monitor);
        }
        let void = outer.rare.get_or_insert_default().monitors.add(monitor);
        drop(outer);
        drop(void);
        Ok(())
    }

    /// The actor's `started` has returned: tells those who wait for it.
    pub(crate) fn tell_begun(&self) {
        if let Some(rare) = &mut self.outer().rare {
            rare.monitors.begun();
        }
    }

    /// Ends the life, at home, or anywhere when it never began and nobody knows it. Nothing is taken any more; what was
    /// queued comes out, and those who monitor.
    pub(crate) fn end(&'static self, life: u64) -> Left<M> {
        let mut outer = self.outer();
        debug_assert_eq!(self.head.life.load(Ordering::Relaxed), life, "a life ends once");
        self.head.open.store(0, Ordering::Release);
        self.head.life.store(0, Ordering::Relaxed);
        // SAFETY: this is the home thread, or no other knows this life; no code of the user's runs while the borrow
        // lasts.
        let inner = unsafe { &mut *self.inner.get() };
        let mut messages = std::mem::take(&mut inner.queue);
        messages.append(&mut outer.queue);
        outer.queue = VecDeque::new();
        self.head.parked.store(false, Ordering::Relaxed);
        let fiber = inner.fiber.take();
        let rare = outer.rare.take();
        end_waits(rare.as_deref());
        drop(outer);
        drop(fiber);
        let Rare { waiting, monitors, .. } = rare.map_or_else(Rare::default, |rare| *rare);
        waiting.into_iter().for_each(|waiting| waiting.waker.wake());
        cells::give_back(self);
        Left { messages, monitors }
    }
}

/// Those who wait for room will look again.
fn end_waits(rare: Option<&Rare>) {
    rare.iter().flat_map(|rare| &rare.waiting).filter_map(|waiting| waiting.wait).for_each(Wait::end);
}

impl<M: Send + 'static> AnyMailbox for Mailbox<M> {
    fn head(&'static self) -> &'static Head {
        &self.head
    }

    fn order(&'static self, life: u64, order: Order) -> bool {
        let mut outer = self.outer();
        if self.head.life.load(Ordering::Relaxed) != life {
            return false;
        }
        outer.order = outer.order.max(order);
        self.head.open.store(0, Ordering::Release);
        self.head.attention.store(true, Ordering::Release);
        end_waits(outer.rare.as_deref());
        let waiting = outer.rare.as_mut().map(|rare| std::mem::take(&mut rare.waiting));
        outer.rare.iter_mut().for_each(|rare| rare.given.clear());
        self.head.has_waiting.store(false, Ordering::Relaxed);
        let home = self.head.home();
        drop(outer);
        waiting.into_iter().flatten().for_each(|waiting| waiting.waker.wake());
        self.ring(home, life);
        true
    }

    fn attend(&'static self, life: u64) {
        let outer = self.outer();
        if self.head.life.load(Ordering::Relaxed) != life {
            return;
        }
        self.head.attention.store(true, Ordering::Release);
        let home = self.head.home();
        drop(outer);
        self.ring(home, life);
    }

    fn as_any(&'static self) -> &'static dyn Any {
        self
    }
}

impl<M: Send + 'static> Ring for Mailbox<M> {
    fn rung(&self, life: u64) {
        // A ring for an earlier life comes too late; see the module's text.
        if self.head.life.load(Ordering::Relaxed) != life {
            return;
        }
        // SAFETY: the life's home is this thread, and no code of the user's runs while the borrow lasts.
        let inner = unsafe { &mut *self.inner.get() };
        if self.head.has_attention() {
            self.head.parked.store(true, Ordering::Relaxed);
            inner.wake(&self.head);
        } else if self.head.has_outer.load(Ordering::Relaxed) {
            inner.wake(&self.head);
        }
    }
}

impl<M> fmt::Debug for Mailbox<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("head", &self.head).finish_non_exhaustive()
    }
}
