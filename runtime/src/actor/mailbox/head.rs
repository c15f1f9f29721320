//! What a mailbox is without the type of its messages: whose home it is, which life it is in, and what the actor waits
//! for.
//!
//! A head is never freed, so that a stale address and a walk along the waits may look at it at any time. What is in it
//! changes seldom: senders elsewhere read it for every message, and must not wait for what the home writes just then.
//!
//! Messages are counted only where there is a bound, and the count says of which life it is: a sender that comes too
//! late counts nothing into the next one.
//!
//! A wait is drawn by the waiting actor's own thread while none is drawn, and taken back by whoever ends it. Its number
//! is odd while it is drawn; the target is written before the number turns odd, and anybody who reads the target of a
//! later wait also sees that the number has moved on.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

use crate::actor::mailbox::{Order, Refused};
use crate::fiber;
use crate::fiber::home::Home;

/// The part of `queued` that counts.
const COUNT: u64 = u32::MAX as u64;

/// A count of nothing in this life. Lives come back to the same mark after four billion others.
const fn of_life(life: u64) -> u64 {
    life << 32
}

/// The untyped part of a mailbox.
#[derive(Debug)]
pub(crate) struct Head {
    home: AtomicPtr<Home>,
    /// The life the cell is in, from its beginning to its end; 0 between lives.
    pub(super) life: AtomicU64,
    /// The life that takes messages; 0 for none.
    pub(super) open: AtomicU64,
    /// Messages on their way and in the queue, counted only with a bound; above them, the lower half of the life.
    queued: AtomicU64,
    /// The most messages; 0 for no bound.
    bound: AtomicU32,
    /// Somebody waits for room.
    pub(super) has_waiting: AtomicBool,
    /// The actor is to look at more than its messages: an order was given, or its supervisor wants something.
    pub(super) attention: AtomicBool,
    /// The order in force, by its number; changed and read under the mailbox's lock.
    order: AtomicU8,
    wait: AtomicU32,
    waits_for: AtomicPtr<Head>,
}

impl Head {
    pub(crate) const fn new() -> Head {
        Head {
            home: AtomicPtr::new(ptr::null_mut()),
            life: AtomicU64::new(0),
            open: AtomicU64::new(0),
            queued: AtomicU64::new(0),
            bound: AtomicU32::new(0),
            has_waiting: AtomicBool::new(false),
            attention: AtomicBool::new(false),
            order: AtomicU8::new(Order::Live as u8),
            wait: AtomicU32::new(0),
            waits_for: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// A life begins; the one who calls has the cell to itself.
    pub(super) fn begin(&self, home: &'static Home, life: u64, bound: Option<usize>) {
        let bound = bound.map_or(0, |bound| u32::try_from(bound).unwrap_or(u32::MAX).max(1));
        // Who sends to this home for the sake of an earlier life has it see that life's end.
        self.home.store(ptr::from_ref(home).cast_mut(), Ordering::Release);
        self.bound.store(bound, Ordering::Relaxed);
        self.queued.store(of_life(life), Ordering::Relaxed);
        self.has_waiting.store(false, Ordering::Relaxed);
        self.attention.store(false, Ordering::Relaxed);
        self.set_order(Order::Live);
        self.life.store(life, Ordering::Relaxed);
        self.open.store(life, Ordering::Release);
    }

    /// The home: of the current life, or a former one's.
    #[inline]
    pub(crate) fn home(&self) -> Option<&'static Home> {
        // SAFETY: the pointer is null or a home, and homes are never freed.
        unsafe { self.home.load(Ordering::Acquire).as_ref() }
    }

    /// This thread's home, if it is the actor's.
    #[inline]
    pub(crate) fn home_here(&self) -> Option<&'static Home> {
        fiber::home_here().filter(|here| ptr::eq(*here, self.home.load(Ordering::Relaxed)))
    }

    /// The number of the life the cell is in, on that life's own thread or for whoever is to end it.
    pub(crate) fn life_at_home(&self) -> u64 {
        self.life.load(Ordering::Relaxed)
    }

    /// Whether the life takes messages.
    #[inline]
    pub(crate) fn is_open(&self, life: u64) -> bool {
        self.open.load(Ordering::Acquire) == life
    }

    /// The order in force, under the mailbox's lock.
    pub(super) fn order(&self) -> Order {
        match self.order.load(Ordering::Relaxed) {
            live if live == Order::Live as u8 => Order::Live,
            drain if drain == Order::Drain as u8 => Order::Drain,
            _ => Order::Kill,
        }
    }

    /// Gives an order, under the mailbox's lock.
    pub(super) fn set_order(&self, order: Order) {
        self.order.store(order as u8, Ordering::Relaxed);
    }

    /// Whether the actor is to look at more than its messages.
    #[inline]
    pub(crate) fn has_attention(&self) -> bool {
        self.attention.load(Ordering::Acquire)
    }

    /// Counts a message in, unless the bound is reached, or the life has ended.
    #[inline]
    pub(super) fn take_room(&self, life: u64) -> Result<(), Refused> {
        let bound = self.bound.load(Ordering::Relaxed);
        if bound == 0 { Ok(()) } else { self.count_in(life, bound) }
    }

    /// Counts a message in, beyond the bound if need be.
    pub(super) fn take_room_anyway(&self, life: u64) -> Result<(), Refused> {
        if self.bound.load(Ordering::Relaxed) == 0 { Ok(()) } else { self.count_in(life, u32::MAX) }
    }

    fn count_in(&self, life: u64, bound: u32) -> Result<(), Refused> {
        let counted =
            |queued: u64| (queued & !COUNT == of_life(life) && queued & COUNT < u64::from(bound)).then_some(queued + 1);
        match self.queued.fetch_update(Ordering::AcqRel, Ordering::Relaxed, counted) {
            Ok(_) => Ok(()),
            Err(queued) if queued & !COUNT == of_life(life) => Err(Refused::Full),
            Err(_) => Err(Refused::Closed),
        }
    }

    /// Whether there is room. Whoever waits announces it before, whoever makes room looks for those after. Both change
    /// the count in between, so the later of the two sees what the earlier one did before.
    pub(crate) fn has_room(&self) -> bool {
        let bound = self.bound.load(Ordering::Relaxed);
        let queued = self.queued.fetch_add(0, Ordering::AcqRel);
        bound == 0 || queued & COUNT < u64::from(bound)
    }

    /// A message has left, or room was not used; whether somebody waits for it. To be called where the life cannot end
    /// meanwhile.
    #[inline]
    pub(super) fn give_room(&self) -> bool {
        if self.bound.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.queued.fetch_sub(1, Ordering::AcqRel);
        self.has_waiting.load(Ordering::Relaxed)
    }

    /// This actor waits for `target`; on its own thread. Answers the wait's number; none while another is drawn.
    pub(crate) fn draw_wait(&self, target: &'static Head) -> Option<u32> {
        let number = self.wait.load(Ordering::Relaxed);
        if !number.is_multiple_of(2) {
            return None;
        }
        self.waits_for.store(ptr::from_ref(target).cast_mut(), Ordering::Release);
        let number = number.wrapping_add(1);
        self.wait.store(number, Ordering::Release);
        // Of several actors that close a circle at once, the last to pass here sees the waits of all the others.
        fence(Ordering::SeqCst);
        Some(number)
    }

    /// The wait of that number has ended. Anybody may say so, any number of times.
    pub(crate) fn end_wait(&self, number: u32) {
        let _ = self.wait.compare_exchange(number, number.wrapping_add(1), Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Whom this actor waits for, and the wait's number.
    pub(crate) fn waits_for(&self) -> Option<(&'static Head, u32)> {
        let number = self.wait.load(Ordering::Acquire);
        if number.is_multiple_of(2) {
            return None;
        }
        // SAFETY: a drawn wait has a target, and heads are never freed.
        let target = unsafe { self.waits_for.load(Ordering::Acquire).as_ref() }?;
        (self.wait.load(Ordering::Acquire) == number).then_some((target, number))
    }
}
