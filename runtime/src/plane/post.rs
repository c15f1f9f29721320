//! What other threads hand to a shard: errands, taken in the order in which they were handed over.
//!
//! A ring of slots, and one word, `tail`, that says how many slots were given out. A producer takes the next slot by
//! moving that word on, writes its errand there and then says so in the slot; the shard takes slot after slot as far as
//! they are written, and says now and then in `head` how far it has come, so that the slots are used again. Producers
//! do not look at `head` as long as what they know of it, `limit`, leaves them room, and the shard does not look at
//! `tail` but before it sleeps; so neither side waits for a cache line that the other one has just written, except for
//! the errand itself.
//!
//! *Hidden errands.* One that was handed over has to be seen from then on, though one before it may be half written. A
//! producer that finds the slot before its own not written says, before it writes, that there is more than can be seen;
//! the shard then looks at `tail`, and waits for what was given out.
//!
//! *Overflow.* A producer that finds no room puts its errand in a list behind a lock, and marks that in the word. While
//! the mark is there no slot is given out and all producers come to the list; the shard empties the ring, then the
//! list, and takes the mark away as it takes the list. So the order stays, and nothing is ever refused. What is in the
//! list is hidden, too.
//!
//! *Sleep.* The shard marks in the same word that it falls asleep, and learns from it whether a slot was given out
//! before; whoever takes a slot after that finds the mark, and is the one to wake the shard. One word decides, so
//! no fence is needed.
//!
//! Errands of any type lie side by side, so their type is erased: a few words of inline storage, a box for larger ones,
//! and the functions that know the type.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit, align_of, size_of};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Slots of the ring: what is sent while the shard is busy with one turn should find room.
const SLOTS: usize = 512;

/// Words of inline storage. With these a slot is two cache lines, and of a small errand only the first is touched.
const INLINE_WORDS: usize = 14;

/// How often, in errands, the shard says how far it has come.
const SAID_EVERY: usize = SLOTS / 8;

/// How many slots ahead of its own a producer calls the next ones to its processor.
const AHEAD: usize = 8;

/// Looks at a slot that is being written before the processor is given up: its writer may have lost it half-way.
const LOOKS: u32 = 100;

/// What the list keeps of its memory when it was taken, in errands: half a megabyte.
const KEPT_IN_LIST: usize = 8 * SLOTS;

/// In `tail`: the shard sleeps, or is about to.
const ASLEEP: usize = 1;
/// In `tail`: errands are in the list, and go there.
const OVERFLOWS: usize = 2;
/// In `tail`: one slot.
const ONE: usize = 4;

/// Something to do on a shard. Neither function may panic.
pub(crate) trait Errand: Send + 'static {
    /// Does it; runs on the shard.
    fn run(self);

    /// The shard has ended, and it is never done.
    fn give_up(self);
}

type Storage = MaybeUninit<[usize; INLINE_WORDS]>;

/// What knows an errand's type.
struct Kind {
    run: unsafe fn(*mut Storage),
    give_up: unsafe fn(*mut Storage),
}

/// An erased errand.
#[repr(C)]
struct Packet {
    kind: &'static Kind,
    storage: Storage,
}

#[repr(C, align(128))]
struct Slot {
    /// One more than the number of the errand that was written here last.
    written: AtomicUsize,
    packet: UnsafeCell<MaybeUninit<Packet>>,
}

/// The producers' side.
#[repr(align(128))]
struct Producers {
    /// How many slots were given out, and the marks.
    tail: AtomicUsize,
    /// The number of the first slot that is not known to be free.
    limit: AtomicUsize,
}

/// The shard's side.
#[repr(align(128))]
struct Consumer {
    /// How many errands have left their slots.
    head: AtomicUsize,
    /// Somebody takes errands right now.
    taking: AtomicBool,
    /// There may be more than is written in slot after slot.
    hides: AtomicBool,
}

/// An errand that found no room in the ring. It lies as in a slot, so that of a small one one cache line is touched.
#[repr(align(128))]
struct Listed(Packet);

/// What found no room in the ring.
struct List {
    errands: Vec<Listed>,
    /// Empty: the memory of the errands that were taken last.
    kept: Vec<Listed>,
}

impl List {
    #[inline(always)]
    fn push<E: Errand>(&mut self, make: impl FnOnce() -> E) {
        if self.errands.len() == self.errands.capacity() {
            self.errands.reserve(SLOTS);
        }
        let number = self.errands.len();
        fetch_for_writing(self.errands.as_ptr().wrapping_add(number + AHEAD));
        let place = self.errands.spare_capacity_mut()[0].as_mut_ptr();
        // SAFETY: the place is there, and has an errand then.
        unsafe {
            Packet::write(&raw mut (*place).0, make);
            self.errands.set_len(number + 1);
        }
    }
}

/// The errands of one shard; see the module's text.
pub(crate) struct Post {
    producers: Producers,
    consumer: Consumer,
    /// Made for the first errand.
    slots: OnceLock<Box<[Slot]>>,
    list: Mutex<List>,
}

// SAFETY: a slot's packet is touched by the producer that took the slot, until it says that it is written, then by the
// one that takes errands, until that says that it is free; see the module's text. What it holds is `Send`.
unsafe impl Sync for Post {}
// SAFETY: as above.
unsafe impl Send for Post {}

impl Post {
    pub(crate) fn new() -> Post {
        Post {
            producers: Producers { tail: AtomicUsize::new(0), limit: AtomicUsize::new(SLOTS) },
            consumer: Consumer {
                head: AtomicUsize::new(0),
                taking: AtomicBool::new(false),
                hides: AtomicBool::new(false),
            },
            slots: OnceLock::new(),
            list: Mutex::new(List { errands: Vec::new(), kept: Vec::new() }),
        }
    }

    /// Hands over the errand that `make` makes, from any thread. True when the shard sleeps and is to be woken.
    ///
    /// It is made where it will lie: copied from where it was put together just before, it would have to wait for that.
    /// `make` may not panic, as the shard waits for it.
    #[inline(always)]
    pub(crate) fn push<E: Errand>(&self, make: impl FnOnce() -> E) -> bool {
        if fits::<E>() {
            self.put(make)
        } else {
            let errand = Boxed(Box::new(make()));
            self.put(move || errand)
        }
    }

    #[inline(always)]
    fn put<E: Errand>(&self, make: impl FnOnce() -> E) -> bool {
        assert!(fits::<E>(), "an errand that does not fit is boxed first");
        let mut tail = self.producers.tail.load(Ordering::Relaxed);
        loop {
            let number = tail / ONE;
            if tail & OVERFLOWS != 0 || !self.has_room(number) {
                return self.put_in_list(make);
            }
            // Whoever finds the mark of sleep also sees what the shard wrote before it made it.
            match self.producers.tail.compare_exchange_weak(tail, tail + ONE, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    if number > 0 && !self.is_written(number - 1) {
                        self.hide();
                    }
                    let slot = self.slot(number);
                    fetch_for_writing(self.slot(number + AHEAD));
                    // SAFETY: the slot was given to this producer, and the shard has left it.
                    unsafe { Packet::write((*slot.packet.get()).as_mut_ptr(), make) };
                    slot.written.store(number + 1, Ordering::Release);
                    return tail & ASLEEP != 0;
                }
                Err(now) => tail = now,
            }
        }
    }

    /// Whether the slot of that number is free, when it is its turn.
    #[inline(always)]
    fn has_room(&self, number: usize) -> bool {
        number < self.producers.limit.load(Ordering::Acquire) || self.look_for_room(number)
    }

    #[cold]
    fn look_for_room(&self, number: usize) -> bool {
        let limit = self.consumer.head.load(Ordering::Acquire) + SLOTS;
        // Others may have seen more already: then they look once more.
        self.producers.limit.store(limit, Ordering::Release);
        number < limit
    }

    #[cold]
    #[inline(never)]
    fn put_in_list<E: Errand>(&self, make: impl FnOnce() -> E) -> bool {
        let mut list = self.list();
        list.push(make);
        // The mark is taken away under this lock, and together with the list. While it is there, whoever made it says
        // the rest.
        let mut tail = self.producers.tail.load(Ordering::Relaxed);
        if tail & OVERFLOWS == 0 {
            tail = self.producers.tail.fetch_or(OVERFLOWS, Ordering::Acquire);
            self.hide();
        }
        tail & ASLEEP != 0
    }

    /// There is more than can be seen. To be said after `tail` was changed.
    #[cold]
    fn hide(&self) {
        self.consumer.hides.store(true, Ordering::Release);
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn slot(&self, number: usize) -> &Slot {
        let slots = self.slots.get_or_init(slots);
        &slots[number % SLOTS]
    }

    /// Whether the slot of that number was written for this turn of it.
    #[inline]
    fn is_written(&self, number: usize) -> bool {
        number + 1 == self.slot(number).written.load(Ordering::Acquire)
    }

    /// Whether nothing was handed over that is not taken, as the shard sees it; what is being handed over just now may
    /// not be seen.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.get().is_none()
            || !self.is_written(self.consumer.head.load(Ordering::Relaxed))
                && !self.consumer.hides.load(Ordering::Relaxed)
    }

    /// Does all errands that were handed over before, on the shard's own thread. Inside an errand, and while another
    /// thread takes them, does nothing.
    pub(crate) fn run_all(&self) {
        // SAFETY: the packet holds an errand, which leaves it here.
        self.take_all(false, |packet| unsafe { Packet::run(packet) });
    }

    /// Gives up all errands that were handed over before.
    pub(crate) fn give_up_all(&self) {
        // SAFETY: as in `run_all`.
        self.take_all(true, |packet| unsafe { Packet::give_up(packet) });
    }

    /// Has `each` take every errand out of its packet; those that are hidden as well, if there is word of them, or they
    /// are to be looked for.
    fn take_all(&self, hidden: bool, each: impl Fn(*mut Packet)) {
        if self.consumer.taking.swap(true, Ordering::Acquire) {
            return;
        }
        let hides = self.consumer.hides.load(Ordering::Relaxed) && self.consumer.hides.swap(false, Ordering::AcqRel);
        let mut taking = Taking { post: self, taken: self.consumer.head.load(Ordering::Relaxed) };
        for _ in 0..SLOTS {
            if !self.is_written(taking.taken) {
                break;
            }
            taking.take(&each);
        }
        if !hides && !hidden {
            return;
        }
        let tail = self.producers.tail.load(Ordering::Acquire);
        while taking.taken < tail / ONE {
            let mut looks = 0;
            while !self.is_written(taking.taken) {
                looks += 1;
                if looks < LOOKS { std::hint::spin_loop() } else { std::thread::yield_now() }
            }
            taking.take(&each);
        }
        taking.say();
        if tail & OVERFLOWS != 0 {
            // The mark was there when the ring was looked at, so no slot was given out since.
            let mut list = self.list();
            let kept = std::mem::take(&mut list.kept);
            let mut errands = std::mem::replace(&mut list.errands, kept);
            self.producers.tail.fetch_and(!OVERFLOWS, Ordering::AcqRel);
            drop(list);
            for errand in errands.drain(..) {
                each(&raw mut ManuallyDrop::new(errand).0);
            }
            if errands.capacity() <= KEPT_IN_LIST {
                self.list().kept = errands;
            }
        }
    }

    /// The shard falls asleep. False when there is an errand, and it must not.
    pub(crate) fn announce_sleep(&self) -> bool {
        let tail = self.producers.tail.fetch_or(ASLEEP, Ordering::AcqRel);
        if tail & OVERFLOWS == 0 && tail / ONE == self.consumer.head.load(Ordering::Relaxed) {
            return true;
        }
        if self.is_empty() {
            // The one who writes it may have lost this very processor.
            std::thread::yield_now();
        }
        false
    }

    /// The shard is awake.
    pub(crate) fn awake(&self) {
        if self.producers.tail.load(Ordering::Relaxed) & ASLEEP != 0 {
            self.producers.tail.fetch_and(!ASLEEP, Ordering::AcqRel);
        }
    }
}

/// Calls a cache line to this processor, to write there soon. It lies with the shard, which read it last; fetched only
/// by the write, it would hold up the next atomic operation for as long as it takes to come.
#[inline(always)]
fn fetch_for_writing<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint, which changes nothing that a program can see, and no fault comes of any address.
    unsafe {
        use std::arch::asm;
        asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

fn slots() -> Box<[Slot]> {
    let slot = |_| Slot { written: AtomicUsize::new(0), packet: UnsafeCell::new(MaybeUninit::uninit()) };
    (0..SLOTS).map(slot).collect()
}

/// Takes errands, and says at its end how far it has come.
struct Taking<'a> {
    post: &'a Post,
    taken: usize,
}

impl Taking<'_> {
    /// Takes the next one, which is written.
    #[inline(always)]
    fn take(&mut self, each: &impl Fn(*mut Packet)) {
        let slot = self.post.slot(self.taken);
        self.taken += 1;
        // SAFETY: its producer has written it, and leaves it alone until `head` says more than its number.
        each(unsafe { (*slot.packet.get()).as_mut_ptr() });
        if self.taken.is_multiple_of(SAID_EVERY) {
            self.say();
        }
    }

    fn say(&self) {
        self.post.consumer.head.store(self.taken, Ordering::Release);
    }
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        self.say();
        self.post.consumer.taking.store(false, Ordering::Release);
    }
}

impl Packet {
    /// Erases the errand that `make` makes into `place`, whose former content is forgotten.
    ///
    /// # Safety
    ///
    /// `place` is valid for writing, and `E` fits.
    #[inline(always)]
    unsafe fn write<E: Errand>(place: *mut Packet, make: impl FnOnce() -> E) {
        // SAFETY: the caller's promise.
        unsafe {
            (&raw mut (*place).kind).write(&Erased::<E>::KIND);
            (&raw mut (*place).storage).cast::<E>().write(make());
        }
    }

    /// Does the errand in `place`.
    ///
    /// # Safety
    ///
    /// There is one, which is not used afterwards.
    #[inline]
    unsafe fn run(place: *mut Packet) {
        // SAFETY: the caller's promise.
        unsafe { ((*place).kind.run)(&raw mut (*place).storage) }
    }

    /// Gives the errand in `place` up.
    ///
    /// # Safety
    ///
    /// As for `run`.
    unsafe fn give_up(place: *mut Packet) {
        // SAFETY: the caller's promise.
        unsafe { ((*place).kind.give_up)(&raw mut (*place).storage) }
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        // SAFETY: it is dropped once, and whoever takes the errand out does not drop it.
        unsafe { Packet::give_up(self) };
    }
}

/// An errand too large for the storage.
struct Boxed<E>(Box<E>);

impl<E: Errand> Errand for Boxed<E> {
    fn run(self) {
        (*self.0).run();
    }

    fn give_up(self) {
        (*self.0).give_up();
    }
}

const fn fits<E>() -> bool {
    size_of::<E>() <= size_of::<Storage>() && align_of::<E>() <= align_of::<Storage>()
}

struct Erased<E>(PhantomData<E>);

impl<E: Errand> Erased<E> {
    const KIND: Kind = Kind { run: Self::run, give_up: Self::give_up };

    /// # Safety
    ///
    /// The storage holds an `E` that is not used afterwards.
    unsafe fn run(storage: *mut Storage) {
        // SAFETY: the caller's promise.
        unsafe { storage.cast::<E>().read() }.run();
    }

    /// # Safety
    ///
    /// As for `run`.
    unsafe fn give_up(storage: *mut Storage) {
        // SAFETY: the caller's promise.
        unsafe { storage.cast::<E>().read() }.give_up();
    }
}

impl fmt::Debug for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Post").field("empty", &self.is_empty()).finish_non_exhaustive()
    }
}

/// What was handed over last and not taken.
impl Drop for Post {
    fn drop(&mut self) {
        self.give_up_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Notes its number, with `WORDS` of ballast.
    struct Note<const WORDS: usize> {
        number: usize,
        ballast: [usize; WORDS],
        notes: Arc<Mutex<Vec<(usize, bool)>>>,
    }

    impl<const WORDS: usize> Note<WORDS> {
        fn note(&self, done: bool) {
            assert!(self.ballast.iter().all(|word| *word == self.number));
            self.notes.lock().unwrap().push((self.number, done));
        }
    }

    impl<const WORDS: usize> Errand for Note<WORDS> {
        fn run(self) {
            self.note(true);
        }

        fn give_up(self) {
            self.note(false);
        }
    }

    fn errands_of<const WORDS: usize>() {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let post = Post::new();
        let mut pushed = 0;
        let mut push = |count: usize| {
            for number in pushed..pushed + count {
                post.push(|| Note::<WORDS> { number, ballast: [number; WORDS], notes: Arc::clone(&notes) });
            }
            pushed += count;
        };
        // Over the ring's end, and over its brim.
        for count in [SLOTS - 1, 3, SLOTS, SLOTS + 1, 3 * SLOTS, 1] {
            assert!(post.is_empty());
            push(count);
            assert!(!post.is_empty());
            post.run_all();
        }
        push(SLOTS + 2);
        let done = pushed - SLOTS - 2;
        drop(post);
        let notes = notes.lock().unwrap();
        assert!(notes.iter().copied().eq((0..pushed).map(|number| (number, number < done))));
    }

    #[test]
    fn errands_are_done_in_order_or_given_up() {
        errands_of::<0>();
        errands_of::<{ INLINE_WORDS - 2 }>();
        errands_of::<{ INLINE_WORDS - 1 }>();
        errands_of::<100>();
    }

    #[test]
    fn errands_of_many_threads_keep_the_order_of_each() {
        const EACH: usize = if cfg!(miri) { 2 * SLOTS } else { 40_000 };
        let notes = Arc::new(Mutex::new(Vec::new()));
        let post = Post::new();
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (post, notes) = (&post, Arc::clone(&notes));
                scope.spawn(move || {
                    for number in 0..EACH {
                        let number = thread * EACH + number;
                        post.push(|| Note::<1> { number, ballast: [number], notes: Arc::clone(&notes) });
                    }
                });
            }
            while notes.lock().unwrap().len() < 3 * EACH {
                post.run_all();
            }
        });
        let notes = notes.lock().unwrap();
        for thread in 0..3 {
            let of_one = notes.iter().map(|(number, _)| *number).filter(|number| number / EACH == thread);
            assert!(of_one.eq(thread * EACH..(thread + 1) * EACH));
        }
    }

    #[test]
    fn who_hands_something_to_a_sleeper_is_told() {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let post = Post::new();
        let push = || post.push(|| Note::<0> { number: 0, ballast: [], notes: Arc::clone(&notes) });
        assert!(post.announce_sleep());
        assert!(push() && push());
        post.awake();
        assert!(!push());
        assert!(!post.announce_sleep(), "there are errands");
        post.awake();
        post.run_all();
        assert!(post.announce_sleep());
    }
}
