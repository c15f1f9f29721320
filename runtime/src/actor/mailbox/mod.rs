//! A mailbox: where messages wait for their actor, and what an address points at.
//!
//! The queue belongs to the home thread alone, which pushes and pops without an atomic operation. A message from
//! elsewhere travels to the home as an errand, through the home's post, which keeps the order in which messages were
//! sent; there it is put into the queue, and wakes the actor if it waits. A send at home has the errands done first
//! that have come before, so that causes come before effects.
//!
//! Lives: a cell is never freed, and serves one actor after another. Each life has a number of its own, an address
//! carries it, and so does a message; the home looks at it when it puts the message into the queue. So a message
//! reaches the actor it was meant for, comes back when its sender sees that this one has ended, or is dead-lettered
//! when the home does. A life ends on its home's own thread, which therefore never takes an ended life for the
//! current one, whatever it reads of the cell.
//!
//! The lock is for what is rare: orders, monitors, and those who wait for room.

mod answer;
mod cells;
mod head;
mod letter;
mod parcel;
pub(crate) mod place;

use std::any::Any;
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

pub(crate) use crate::actor::mailbox::answer::{Answer, Answerer, Asker, answer};
pub(crate) use crate::actor::mailbox::head::Head;
pub(crate) use crate::actor::mailbox::parcel::Parcel;

use crate::actor::ask::Asked;
use crate::actor::counters;
use crate::actor::mailbox::letter::Letter;
use crate::actor::monitor::{Monitor, Monitors};
use crate::actor::waits::Wait;
use crate::fiber;
use crate::fiber::home::{Home, Mail, Ring};

/// What an empty home queue keeps of its memory, in bytes; what a peak took beyond that is given back.
const KEPT_BYTES: usize = 512 * 1024;

/// After so many messages an actor has its home take in what has come from elsewhere.
const TAKEN_IN_A_ROW: u8 = 64;

/// A message on its way, and who waits for its answer. In this order the message keeps to itself when it is moved: what
/// is unset of an absent asker would be moved along with its beginning.
#[repr(C)]
pub(crate) struct Envelope<M> {
    pub(crate) message: Parcel<M>,
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

/// Why a push was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Full,
    Closed,
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

/// One mailbox; see the module's text. Two cache lines: what others read comes first, and what the home writes for
/// every message lies in the second.
#[repr(C, align(64))]
pub(crate) struct Mailbox<M: 'static> {
    head: Head,
    /// What most actors never have.
    rare: Mutex<Option<Box<Rare>>>,
    inner: UnsafeCell<Inner<M>>,
    /// The actor waits for messages; changed on the home thread only.
    parked: AtomicBool,
    /// How many messages it took, counted around, on the home thread only.
    taken: AtomicU8,
}

/// What any thread may touch, under the lock.
#[derive(Default)]
struct Rare {
    /// Those who wait for room, in the order they came: their numbers count up, so one is found by halves.
    waiting: VecDeque<Waiting>,
    /// The numbers of those who were given room and have not used it yet.
    given: Vec<u64>,
    waits_made: u64,
    monitors: Monitors,
}

impl Rare {
    fn place_of(&self, number: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&number, |waiting| waiting.number).ok()
    }
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
    #[inline(always)]
    fn push(&mut self, envelope: Envelope<M>, parked: &AtomicBool) {
        if self.queue.capacity() == 0 {
            // Most actors have one message at a time: a growing queue begins with more.
            self.queue.reserve_exact(1);
        }
        self.queue.push_back(envelope);
        self.wake(parked);
    }

    /// Wakes the actor if it waits for messages.
    #[inline]
    fn wake(&mut self, parked: &AtomicBool) {
        if parked.load(Ordering::Relaxed) {
            parked.store(false, Ordering::Relaxed);
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
                rare: Mutex::new(None),
                inner: UnsafeCell::new(Inner { queue: VecDeque::new(), fiber: None }),
                parked: AtomicBool::new(false),
                taken: AtomicU8::new(0),
            }))
        });
        let locked = mailbox.lock();
        mailbox.head.begin(home, life, bound);
        drop(locked);
        mailbox
    }

    /// The untyped part.
    #[inline]
    pub(crate) fn head(&'static self) -> &'static Head {
        &self.head
    }

    #[inline]
    fn lock(&self) -> MutexGuard<'_, Option<Box<Rare>>> {
        self.rare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pushes a message for the life of that number, and takes it out of where it is; it stays there when it is
    /// refused. `asked` is who waits for its answer. Inlined, so that a message is moved once: a copy of what was
    /// written just before, in smaller pieces, waits for the processor.
    #[inline(always)]
    pub(crate) fn push(
        &'static self,
        life: u64,
        message: &mut Option<Parcel<M>>,
        asked: impl FnOnce() -> Option<Arc<dyn Asked>>,
    ) -> Result<(), Refused> {
        match self.head.home_here() {
            Some(home) => self.push_at_home(home, life, message, asked, |head| head.take_room(life)),
            None => self.push_elsewhere(life, message, asked, |head| head.take_room(life)),
        }
    }

    /// Pushes a message whose room is counted in already.
    pub(crate) fn push_given(
        &'static self,
        life: u64,
        message: &mut Option<Parcel<M>>,
        asked: impl FnOnce() -> Option<Arc<dyn Asked>>,
    ) -> Result<(), Refused> {
        match self.head.home_here() {
            Some(home) => self.push_at_home(home, life, message, asked, |_| Ok(())),
            None => self.push_elsewhere(life, message, asked, |_| Ok(())),
        }
    }

    /// Pushes a message whatever the bound: it tells of an end, and must not be lost to a full mailbox.
    pub(crate) fn push_anyway(
        &'static self,
        life: u64,
        message: &mut Option<Parcel<M>>,
        asked: impl FnOnce() -> Option<Arc<dyn Asked>>,
    ) -> Result<(), Refused> {
        match self.head.home_here() {
            Some(home) => self.push_at_home(home, life, message, asked, |head| head.take_room_anyway(life)),
            None => self.push_elsewhere(life, message, asked, |head| head.take_room_anyway(life)),
        }
    }

    #[inline(always)]
    fn push_at_home(
        &'static self,
        home: &'static Home,
        life: u64,
        message: &mut Option<Parcel<M>>,
        asked: impl FnOnce() -> Option<Arc<dyn Asked>>,
        take_room: impl FnOnce(&Head) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        if self.head.open.load(Ordering::Relaxed) != life {
            return Err(Refused::Closed);
        }
        take_room(&self.head)?;
        // What was sent elsewhere before comes first.
        home.run_errands();
        let Some(message) = message.take() else { return Ok(()) };
        // SAFETY: this is the home thread, and no code of the user's runs while the borrow lasts.
        let inner = unsafe { &mut *self.inner.get() };
        inner.push(Envelope { message, asked: asked() }, &self.parked);
        home.tally.count(counters::SENT);
        Ok(())
    }

    #[inline(never)]
    fn push_elsewhere(
        &'static self,
        life: u64,
        message: &mut Option<Parcel<M>>,
        asked: impl FnOnce() -> Option<Arc<dyn Asked>>,
        take_room: impl FnOnce(&Head) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        if self.head.open.load(Ordering::Acquire) != life {
            return Err(Refused::Closed);
        }
        // From here on the life may end: its home finds out.
        let Some(home) = self.head.home() else { return Err(Refused::Closed) };
        take_room(&self.head)?;
        if message.is_none() {
            return Ok(());
        }
        counters::count(Some(home), counters::SENT);
        home.send(|| match message.take() {
            Some(message) => Letter { mailbox: self, life, envelope: Envelope { message, asked: asked() } },
            None => unreachable!("it was there just now"),
        });
        Ok(())
    }

    /// A message from elsewhere has come home. It comes back when the life it was meant for has ended.
    #[inline]
    fn deliver(&'static self, life: u64, envelope: Envelope<M>) -> Result<(), Envelope<M>> {
        if self.head.life.load(Ordering::Relaxed) != life {
            return Err(envelope);
        }
        // SAFETY: the life's home is this thread, and no code of the user's runs while the borrow lasts.
        let inner = unsafe { &mut *self.inner.get() };
        inner.push(envelope, &self.parked);
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
        let kept = (KEPT_BYTES / size_of::<Envelope<M>>().max(1)).max(64);
        if inner.queue.capacity() > 2 * kept {
            inner.queue.shrink_to(kept);
        }
        inner.remember_fiber(waker);
        self.parked.store(true, Ordering::Relaxed);
        false
    }

    /// Whether the actor waits for messages; of use where nothing runs meanwhile.
    pub(crate) fn is_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed)
    }

    /// The same for the actor that ends when it has no more messages: those that are on their way come first.
    pub(crate) fn has_last_message(&self, waker: &Waker) -> bool {
        if let Some(home) = self.head.home_here() {
            home.run_errands();
        }
        self.has_message(waker)
    }

    /// The next message, for the actor at home. Inlined as [`push`](Mailbox::push) is, for the same reason.
    #[inline(always)]
    pub(crate) fn pop(&self) -> Option<Envelope<M>> {
        debug_assert!(self.head.home_here().is_some(), "an actor runs at home");
        // SAFETY: as in `has_message`.
        let inner = unsafe { &mut *self.inner.get() };
        let envelope = inner.queue.pop_front()?;
        let taken = self.taken.load(Ordering::Relaxed).wrapping_add(1);
        self.taken.store(taken, Ordering::Relaxed);
        if taken.is_multiple_of(TAKEN_IN_A_ROW)
            && let Some(home) = self.head.home()
        {
            // A shard that has much to do makes room for what comes meanwhile.
            home.run_errands();
        }
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
        let mut locked = self.lock();
        let Some(rare) = &mut *locked else { return };
        if rare.waiting.is_empty() || self.head.take_room(self.head.life.load(Ordering::Relaxed)).is_err() {
            return;
        }
        let Some(Waiting { number, waker, wait }) = rare.waiting.pop_front() else { return };
        rare.given.push(number);
        self.head.has_waiting.store(!rare.waiting.is_empty(), Ordering::Relaxed);
        wait.into_iter().for_each(Wait::end);
        drop(locked);
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
        let mut locked = self.lock();
        if self.head.open.load(Ordering::Relaxed) != life {
            return Room::Look;
        }
        let rare = locked.get_or_insert_default();
        if let Some(number) = number {
            if let Some(place) = rare.given.iter().position(|given| *given == number) {
                rare.given.swap_remove(place);
                return Room::Given;
            }
            if let Some(place) = rare.place_of(number) {
                rare.waiting[place].waker.clone_from(waker);
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
        drop(locked);
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
        let mut locked = self.lock();
        if self.head.open.load(Ordering::Relaxed) != life {
            return;
        }
        let Some(rare) = &mut *locked else { return };
        if let Some(place) = rare.given.iter().position(|given| *given == number) {
            rare.given.swap_remove(place);
            let is_awaited = self.head.give_room();
            drop(locked);
            if is_awaited {
                self.pass_room_on();
            }
        } else if let Some(place) = rare.place_of(number) {
            let left = rare.waiting.remove(place);
            self.head.has_waiting.store(!rare.waiting.is_empty(), Ordering::Relaxed);
            left.and_then(|left| left.wait).into_iter().for_each(Wait::end);
        }
    }

    /// The order in force.
    pub(crate) fn current_order(&self) -> Order {
        let _locked = self.lock();
        self.head.order()
    }

    /// The actor has looked; from now on it looks again only when somebody says so. An order stays in force.
    pub(crate) fn calm(&self) {
        let _locked = self.lock();
        self.head.attention.store(self.head.order() != Order::Live, Ordering::Release);
    }

    /// Has `monitor` told when the life ends; it comes back when that has happened.
    pub(crate) fn monitor(&self, life: u64, monitor: Box<dyn Monitor>) -> Result<(), Box<dyn Monitor>> {
        let mut locked = self.lock();
        if self.head.life.load(Ordering::Relaxed) != life {
            return Err(monitor);
        }
        let void = locked.get_or_insert_default().monitors.add(monitor);
        drop(locked);
        drop(void);
        Ok(())
    }

    /// The actor's `started` has returned: tells those who wait for it.
    pub(crate) fn tell_begun(&self) {
        if let Some(rare) = &mut *self.lock() {
            rare.monitors.begun();
        }
    }

    /// Ends the life, at home, or anywhere when it never began and nobody knows it. Nothing is taken any more; what was
    /// queued comes out, and those who monitor.
    pub(crate) fn end(&'static self, life: u64) -> Left<M> {
        self.head.open.store(0, Ordering::Release);
        if let Some(home) = self.head.home_here() {
            // What came before the end ends with it.
            home.run_errands();
        }
        let mut locked = self.lock();
        debug_assert_eq!(self.head.life.load(Ordering::Relaxed), life, "a life ends once");
        self.head.life.store(0, Ordering::Relaxed);
        // SAFETY: this is the home thread, or no other knows this life; no code of the user's runs while the borrow
        // lasts.
        let inner = unsafe { &mut *self.inner.get() };
        let messages = std::mem::take(&mut inner.queue);
        self.parked.store(false, Ordering::Relaxed);
        let fiber = inner.fiber.take();
        let rare = locked.take();
        end_waits(rare.as_deref());
        drop(locked);
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
        let mut locked = self.lock();
        if self.head.life.load(Ordering::Relaxed) != life {
            return false;
        }
        self.head.set_order(self.head.order().max(order));
        self.head.open.store(0, Ordering::Release);
        self.head.attention.store(true, Ordering::Release);
        end_waits(locked.as_deref());
        let waiting = locked.as_mut().map(|rare| std::mem::take(&mut rare.waiting));
        locked.iter_mut().for_each(|rare| rare.given.clear());
        self.head.has_waiting.store(false, Ordering::Relaxed);
        let home = self.head.home();
        drop(locked);
        waiting.into_iter().flatten().for_each(|waiting| waiting.waker.wake());
        self.ring(home, life);
        true
    }

    fn attend(&'static self, life: u64) {
        let locked = self.lock();
        if self.head.life.load(Ordering::Relaxed) != life {
            return;
        }
        self.head.attention.store(true, Ordering::Release);
        let home = self.head.home();
        drop(locked);
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
            self.parked.store(true, Ordering::Relaxed);
            inner.wake(&self.parked);
        }
    }
}

impl<M> fmt::Debug for Mailbox<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("head", &self.head).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mailbox_is_two_cache_lines() {
        assert_eq!(size_of::<Mailbox<u64>>(), 128);
        assert!(std::mem::offset_of!(Mailbox<u64>, inner) >= 64);
    }
}
