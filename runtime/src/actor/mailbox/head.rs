//! What a mailbox is without the type of its messages: whose home it is, which life it is in, and what the actor waits
//! for.
//!
//! A head is never freed, so that a stale address and a walk along the waits may look at it at any time.
//!
//! A wait is drawn by the waiting actor's own thread while none is drawn, and taken back by whoever ends it. Its number
//! is odd while it is drawn; the target is written before the number turns odd, and anybody who reads the target of a
//! later wait also sees that the number has moved on.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

use crate::fiber;
use crate::fiber::home::Home;

/// The untyped part of a mailbox.
#[derive(Debug)]
pub(crate) struct Head {
    home: AtomicPtr<Home>,
    /// The life the cell is in, from its beginning to its end; 0 between lives.
    pub(super) life: AtomicU64,
    /// The life that takes messages; 0 for none.
    pub(super) open: AtomicU64,
    /// The most messages; 0 for no bound.
    bound: AtomicU32,
    /// Messages in both queues, counted only with a bound.
    queued: AtomicU32,
    /// The outer queue is not empty.
    pub(super) has_outer: AtomicBool,
    /// Somebody waits for room.
    pub(super) has_waiting: AtomicBool,
    /// The actor is to look at more than its messages: an order was given, or its supervisor wants something.
    pub(super) attention: AtomicBool,
    /// The actor waits for messages; touched on the home thread only.
    pub(super) parked: AtomicBool,
    wait: AtomicU32,
    waits_for: AtomicPtr<Head>,
}

impl Head {
    pub(crate) const fn new() -> Head {
        Head {
            home: AtomicPtr::new(ptr::null_mut()),
            life: AtomicU64::new(0),
            open: AtomicU64::new(0),
            bound: AtomicU32::new(0),
            queued: AtomicU32::new(0),
            has_outer: AtomicBool::new(false),
            has_waiting: AtomicBool::new(false),
            attention: AtomicBool::new(false),
            parked: AtomicBool::new(false),
            wait: AtomicU32::new(0),
            waits_for: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// A life begins; the one who calls has the cell to itself.
    pub(super) fn begin(&self, home: &'static Home, life: u64, bound: Option<usize>) {
        let bound = bound.map_or(0, |bound| u32::try_from(bound).unwrap_or(u32::MAX).max(1));
        self.home.store(ptr::from_ref(home).cast_mut(), Ordering::Relaxed);
        self.bound.store(bound, Ordering::Relaxed);
        self.queued.store(0, Ordering::Relaxed);
        self.has_outer.store(false, Ordering::Relaxed);
        self.has_waiting.store(false, Ordering::Relaxed);
        self.attention.store(false, Ordering::Relaxed);
        self.life.store(life, Ordering::Relaxed);
        self.open.store(life, Ordering::Release);
    }

    /// The home, on the thread that is the home of the current life, or when the life that is looked at is known not to
    /// have ended.
    #[inline]
    pub(crate) fn home(&self) -> Option<&'static Home> {
        // SAFETY: the pointer is null or a home, and homes are never freed.
        unsafe { self.home.load(Ordering::Relaxed).as_ref() }
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

    /// Whether the actor waits for messages, on its home thread.
    pub(crate) fn is_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed)
    }

    /// Whether the actor is to look at more than its messages.
    #[inline]
    pub(crate) fn has_attention(&self) -> bool {
        self.attention.load(Ordering::Acquire)
    }

    /// Counts a message in, unless the bound is reached.
    #[inline]
    pub(super) fn take_room(&self) -> bool {
        let bound = self.bound.load(Ordering::Relaxed);
        bound == 0
            || self
                .queued
                .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |queued| (queued < bound).then_some(queued + 1))
                .is_ok()
    }

    /// Counts a message in, beyond the bound if need be.
    pub(super) fn take_room_anyway(&self) -> bool {
        if self.bound.load(Ordering::Relaxed) != 0 {
            self.queued.fetch_add(1, Ordering::AcqRel);
        }
        true
    }

    /// Whether there is room. Whoever waits announces it before, whoever makes room looks for those after. Both change
    /// the count in between, so the later of the two sees what the earlier one did before.
    pub(crate) fn has_room(&self) -> bool {
        let bound = self.bound.load(Ordering::Relaxed);
        bound == 0 || self.queued.fetch_add(0, Ordering::AcqRel) < bound
    }

    /// A message has left, or room was not used; whether somebody waits for it.
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
