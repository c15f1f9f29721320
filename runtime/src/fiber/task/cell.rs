//! A fiber's cell: one allocation with its future, then its result, and all that is known of it.
//!
//! Everything about a fiber happens at home, on the thread of its shard, and is plain memory there: it is queued,
//! polled and ended, and its references are counted, without any atomic operation. Elsewhere little can be done:
//! count one reference more, look whether the fiber has ended, and send mail home.
//!
//! *References.* Their number is the sum of two counts, `here` and `elsewhere`; nobody knows which of the two counted
//! a given one. Whoever makes or drops a reference at home counts it `here`, anybody else `elsewhere`. Elsewhere, when
//! that count is zero, the reference goes home by mail and is dropped there. At home, when `here` is spent, one is
//! taken over from `elsewhere`; when there is none, no reference is left, and the cell is freed. The shard itself
//! holds one until the fiber has ended, so a fiber is never forgotten.
//!
//! *Wakes.* At home a wake queues the fiber, once. Elsewhere it sends a reference home, once until that is delivered.
//! A wish that the fiber stop travels alike; from then on it is polled as one that is cancelled.
//!
//! *The end.* The future is dropped, the result stays for the handle, then `ended` is said and the joiner woken.
//!
//! *The end of the shard.* It has ended all its fibers. Cells that are still referred to are let out: they belong to
//! no home any more, and `elsewhere` counts all their references, as an `Arc` does.
//!
//! *Why not `async-task`.* It was here before, and it is a fine crate for tasks that any thread may run; fibers know
//! their home, and pay for that freedom all the same. `wo-bench` measures a bare executor on it (`bare`: a queue and
//! a look at the home, nothing of the runtime's own). In one run, ns: starting and joining 1,000 tasks, here 31 to 35,
//! bare 37 to 47, with the runtime's own on top 55 to 67; in sequence here 48, bare 60, on top 77 to 94; a switch
//! between two here 14, bare 14, on top 19 to 22. Of the cost of a start 45 % were the allocator's, which `memory`
//! spares; of a switch, the compare-and-swap per poll, the catch per poll and the waker's count.

use std::alloc::Layout;
use std::cell::Cell;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, offset_of};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use crate::fiber::home::{Home, Mail};
use crate::fiber::local::{Local, local};
use crate::fiber::task::handle::Handle;
use crate::fiber::task::list::{Links, leave};
use crate::fiber::task::memory;
use crate::fiber::task::{Ended, FiberId, Payload, Quiet, dropped_badly, forget_name, remember_name, say_panicked};
use crate::scope::Around;

/// In the run queue; or, while it runs, woken again.
const QUEUED: u8 = 1;
/// Being polled.
const RUNNING: u8 = 2;
/// Its future is gone, or going.
const ENDING: u8 = 4;
/// Somebody may ask for its result.
pub(super) const HANDLE: u8 = 8;
/// It has a name.
const NAMED: u8 = 16;
/// Its joiner is no fiber.
pub(super) const OTHER_JOINER: u8 = 32;
/// It was asked to stop: from now on it is polled as one that is cancelled.
const INTERRUPTED: u8 = 64;
/// It has not been polled.
const NEW: u8 = 128;

/// In `elsewhere`: the shard has ended, and all references are counted here.
const OUT: u32 = 1 << 31;
/// In `elsewhere`: a wake is on its way home.
const MAILED: u32 = 1 << 30;
/// The bits of `elsewhere` that count.
const COUNT: u32 = MAILED - 1;

/// The values of `ended`.
pub(super) const NOT_ENDED: u8 = 0;
pub(super) const WITH_RESULT: u8 = 1;
pub(super) const WITHOUT_RESULT: u8 = 2;

/// All of a cell but its slot. Touched at home only, where it is not atomic.
#[repr(C)]
pub(crate) struct Header {
    /// First, so that a place in a list is a place of a cell.
    links: Links,
    /// Behind it in the run queue, while something is.
    behind: Cell<*const Header>,
    pub(super) vtable: &'static VTable,
    /// Where it belongs; [`nowhere`] once it was let out.
    home: AtomicPtr<Home>,
    /// Who is woken at the end: a fiber's cell, or a `Waker` in a box; nobody, null.
    pub(super) joiner: Cell<*mut ()>,
    here: Cell<u32>,
    elsewhere: AtomicU32,
    /// The fiber's number, but for its highest 16 bits.
    number_low: u32,
    number_high: u16,
    pub(super) flags: Cell<u8>,
    pub(super) ended: AtomicU8,
}

/// What knows the future's type.
pub(super) struct VTable {
    /// Polls the future; true when the fiber has ended, and the cell may be gone.
    poll: unsafe fn(NonNull<Header>, &mut Context<'_>) -> bool,
    /// Ends the fiber whose poll panicked; the cell may be gone.
    panicked: unsafe fn(NonNull<Header>, Payload),
    /// Ends the fiber without a result; the cell may be gone.
    cancel: unsafe fn(NonNull<Header>),
    /// Drops the result.
    pub(super) drop_result: unsafe fn(NonNull<Header>),
    layout: Layout,
    /// Where the slot is.
    pub(super) slot: usize,
}

/// A cell whose future is an `F`.
#[repr(C)]
struct Cells<F: Future> {
    header: Header,
    slot: Slot<F>,
}

/// The future until the end; from then on the result, while there is one.
union Slot<F: Future> {
    future: ManuallyDrop<F>,
    result: ManuallyDrop<Ended<F::Output>>,
}

/// The home of cells that were let out: no shard's.
fn nowhere() -> *mut Home {
    ptr::dangling_mut()
}

/// A fiber that is to run. There is one at most of each, in its shard's queue or on its way there.
pub(crate) struct Ready(NonNull<Header>);

/// A counted reference to a fiber's cell.
#[repr(transparent)]
pub(crate) struct TaskRef(pub(super) NonNull<Header>);

// SAFETY: elsewhere a reference does only what the module's text allows there, which is atomic.
unsafe impl Send for TaskRef {}
// SAFETY: as above.
unsafe impl Sync for TaskRef {}

/// A fiber that is queued already, and that lacks its future. It has to get it before anything runs.
pub(super) struct Blank(NonNull<Header>);

impl Blank {
    /// None where no shard runs, or this one has ended.
    #[inline(always)]
    pub(super) fn new<F>(name: Option<&str>) -> Option<Blank>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        local(|local| Blank::queue(local, &Typed::<F>::VTABLE, name))
    }

    /// All that does not depend on the future's type, and a function of its own for that: the future is then written
    /// to where it stays by whoever made it.
    #[inline(never)]
    fn queue(local: &Local, vtable: &'static VTable, name: Option<&str>) -> Option<Blank> {
        let (home, number) = local.next_fiber()?;
        let mut flags = QUEUED | HANDLE | NEW;
        if let Some(name) = name {
            remember_name(FiberId(number), name);
            flags |= NAMED;
        }
        let cell = local.memory.take(vtable.layout).cast::<Header>();
        let header = Header {
            links: Links::new(),
            behind: Cell::new(ptr::null()),
            vtable,
            home: AtomicPtr::new(ptr::from_ref(home).cast_mut()),
            joiner: Cell::new(ptr::null_mut()),
            // The shard's own, and the handle's.
            here: Cell::new(2),
            elsewhere: AtomicU32::new(0),
            number_low: number as u32,
            number_high: (number >> 32) as u16,
            flags: Cell::new(flags),
            ended: AtomicU8::new(NOT_ENDED),
        };
        // SAFETY: the memory is of a layout that begins with a header, and nobody else's.
        unsafe { cell.write(header) };
        local.push(Ready(cell));
        Some(Blank(cell))
    }

    /// The fiber is whole.
    #[inline(always)]
    pub(super) fn fill<F: Future>(self, future: F) -> Handle<F::Output> {
        // SAFETY: the cell was made for this type, and its slot is empty.
        unsafe { (&raw mut (*slot::<F>(self.0)).future).write(ManuallyDrop::new(future)) };
        Handle::of(TaskRef(self.0))
    }
}

impl Ready {
    #[inline(always)]
    pub(super) fn into_header(self) -> *const Header {
        self.0.as_ptr()
    }

    /// # Safety
    ///
    /// The header came from `into_header`, and is made a `Ready` again once.
    #[inline(always)]
    pub(super) unsafe fn from_header(header: *const Header) -> Ready {
        // SAFETY: it was not null, as the caller says.
        Ready(unsafe { NonNull::new_unchecked(header.cast_mut()) })
    }

    /// Runs the fiber once. It is queued again when it was woken meanwhile.
    #[inline]
    pub(super) fn run(self, local: &Local) {
        let cell = self.0;
        // SAFETY: a queued fiber has not ended, so the shard holds a reference to it until `poll` says otherwise. This
        // is its home, where its header's plain memory is touched.
        unsafe {
            let header = cell.as_ref();
            let flags = header.flags.get();
            header.flags.set(flags & !(QUEUED | NEW) | RUNNING);
            local.enter_fiber(cell.as_ptr());
            // The fiber lives while it is polled, so what is lent to it needs no count.
            let waker = ManuallyDrop::new(Waker::new(cell.as_ptr().cast(), &WAKER));
            let cx = &mut Context::from_waker(&waker);
            let ended = if flags & INTERRUPTED == 0 {
                (header.vtable.poll)(cell, cx)
            } else {
                run_interrupted(cell, flags, cx)
            };
            if ended {
                return;
            }
            local.leave_fiber();
            local.current.set(ptr::null());
            let header = cell.as_ref();
            if !header.links.are_in_a_list() {
                local.parked.enter(cell.cast());
            }
            header.flags.set(header.flags.get() & !RUNNING);
            if header.flags.get() & QUEUED != 0 {
                local.push(self);
            }
        }
    }

    /// Ends the fiber without its having ended by itself.
    pub(super) fn cancel(self) {
        // SAFETY: it has not ended, and this is its home.
        unsafe { (self.0.as_ref().vtable.cancel)(self.0) }
    }
}

/// Runs a fiber that was asked to stop; one that has not begun never does. Answers as `poll` does.
///
/// # Safety
///
/// It has not ended, and this is its home.
#[cold]
unsafe fn run_interrupted(cell: NonNull<Header>, flags: u8, cx: &mut Context<'_>) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        if flags & NEW == 0 {
            let _around = Around::cancelled();
            (cell.as_ref().vtable.poll)(cell, cx)
        } else {
            local(|local| {
                local.leave_fiber();
                local.current.set(ptr::null());
            });
            (cell.as_ref().vtable.cancel)(cell);
            true
        }
    }
}

/// A panic came out of what this thread ran: ends the fiber that was being polled. Any other panic passes on.
#[cold]
pub(super) fn panicked(local: &Local, payload: Payload) {
    let cell = NonNull::new(local.current.get().cast_mut());
    // SAFETY: what is current is alive.
    match cell.filter(|cell| unsafe { cell.as_ref() }.flags.get() & (RUNNING | ENDING) == RUNNING) {
        // SAFETY: it was polled, so it has not ended, and this is its home.
        Some(cell) => unsafe { (cell.as_ref().vtable.panicked)(cell, payload) },
        None => resume_unwind(payload),
    }
}

/// Drops the first fiber that has parked; false when there is none.
///
/// Nothing may be queued.
pub(super) fn cancel_first_parked(local: &Local) -> bool {
    let Some(cell) = local.parked.first().map(NonNull::cast::<Header>) else { return false };
    // SAFETY: what is in that list has not ended, and this is its home.
    unsafe { (cell.as_ref().vtable.cancel)(cell) };
    true
}

/// Wakes every fiber that has parked before, the youngest first.
pub(super) fn wake_parked(local: &Local) {
    let mut next = local.parked.first();
    while let Some(links) = next {
        // SAFETY: what is in that list has not ended; waking only queues, so nothing leaves it meanwhile.
        unsafe {
            wake_here(links.cast(), local);
            next = local.parked.after(links);
        }
    }
}

/// Every fiber that has parked.
pub(super) fn parked(local: &Local) -> Vec<NonNull<Header>> {
    let mut found = Vec::new();
    let mut next = local.parked.first();
    while let Some(links) = next {
        found.push(links.cast());
        // SAFETY: it is in that list.
        next = unsafe { local.parked.after(links) };
    }
    found
}

/// The shard has ended all its fibers: lets out the cells that are still referred to.
pub(super) fn let_out(local: &Local) {
    while let Some(cell) = local.lingering.first().map(NonNull::cast::<Header>) {
        // SAFETY: what is in that list is referred to, and this is its home. After the count was added the references
        // are others', and the cell may be gone.
        unsafe {
            let header = cell.as_ref();
            leave(cell.cast());
            // Before the count: the cell may be gone after it. Whoever finds this home finds the mark in a moment.
            header.home.store(nowhere(), Ordering::Release);
            header.elsewhere.fetch_add(header.here.replace(0) | OUT, Ordering::AcqRel);
        }
    }
}

impl Header {
    /// What is behind it in the run queue; of no meaning when nothing is.
    #[inline(always)]
    pub(super) fn behind(&self) -> *const Header {
        self.behind.get()
    }

    #[inline(always)]
    pub(super) fn set_behind(&self, header: *const Header) {
        self.behind.set(header);
    }

    pub(super) fn id(&self) -> FiberId {
        FiberId(u64::from(self.number_high) << 32 | u64::from(self.number_low))
    }

    /// Whether this is its home.
    #[inline(always)]
    pub(super) fn is_here(&self, local: &Local) -> bool {
        local.is_home(self.home.load(Ordering::Relaxed))
    }

    /// Where mail goes; none once it was let out.
    pub(super) fn home(&self) -> Option<&'static Home> {
        let home = self.home.load(Ordering::Acquire);
        // SAFETY: a home is never freed.
        if home == nowhere() { None } else { Some(unsafe { &*home }) }
    }
}

struct Typed<F>(PhantomData<F>);

impl<F> Typed<F>
where
    F: Future + 'static,
    F::Output: 'static,
{
    const VTABLE: VTable = VTable {
        poll: Self::poll,
        panicked: Self::panicked,
        cancel: Self::cancel,
        drop_result: Self::drop_result,
        layout: memory::rounded(Layout::new::<Cells<F>>()),
        slot: offset_of!(Cells<F>, slot),
    };

    /// # Safety
    ///
    /// The cell is of this type, has not ended, and this is its home.
    unsafe fn poll(cell: NonNull<Header>, cx: &mut Context<'_>) -> bool {
        // SAFETY: it has not ended, so it is alive.
        debug_assert!(local(|local| unsafe { cell.as_ref() }.is_here(local)), "a future is polled at home");
        // SAFETY: before the end the slot holds the future, which stays where it is.
        let future = unsafe { Pin::new_unchecked(&mut *(*slot::<F>(cell)).future) };
        let Poll::Ready(value) = future.poll(cx) else { return false };
        // SAFETY: the caller's promise.
        unsafe { Self::finish(cell, Ok(value)) };
        true
    }

    /// # Safety
    ///
    /// As for `poll`.
    unsafe fn panicked(cell: NonNull<Header>, payload: Payload) {
        // SAFETY: the caller's promise.
        unsafe {
            say_panicked(cell.as_ref());
            Self::finish(cell, Err(payload));
        }
    }

    /// # Safety
    ///
    /// As for `poll`.
    #[inline(always)]
    unsafe fn finish(cell: NonNull<Header>, ended: Result<F::Output, Payload>) {
        // Whoever is woken now is woken in turn, not handed over to: a joiner would run after each of its children.
        local(Local::leave_fiber);
        let result = Quiet::new(ended);
        // SAFETY: the future is dropped once, here; then the slot is free for the result.
        unsafe {
            drop_future::<F>(cell);
            if cell.as_ref().flags.get() & HANDLE != 0 {
                (&raw mut (*slot::<F>(cell)).result).write(ManuallyDrop::new(result));
                end(cell, WITH_RESULT);
            } else {
                drop(result);
                end(cell, WITHOUT_RESULT);
            }
        }
    }

    /// # Safety
    ///
    /// As for `poll`.
    unsafe fn cancel(cell: NonNull<Header>) {
        let before = local(|local| local.current.replace(cell.as_ptr()));
        // SAFETY: the future is dropped once, here.
        unsafe {
            drop_future::<F>(cell);
            end(cell, WITHOUT_RESULT);
        }
        local(|local| local.current.set(before));
    }

    /// # Safety
    ///
    /// The cell is of this type and holds a result, which the caller gives up.
    unsafe fn drop_result(cell: NonNull<Header>) {
        // SAFETY: the caller's promise.
        unsafe { ManuallyDrop::drop(&mut (*slot::<F>(cell)).result) };
    }
}

fn slot<F: Future>(cell: NonNull<Header>) -> *mut Slot<F> {
    // SAFETY: the caller has a cell of this type, whose slot is in the same allocation.
    unsafe { &raw mut (*cell.cast::<Cells<F>>().as_ptr()).slot }
}

/// Drops the future. From here on wakes are ignored.
///
/// # Safety
///
/// The cell is of this type, its slot holds the future, and this is its home.
unsafe fn drop_future<F: Future>(cell: NonNull<Header>) {
    // SAFETY: the cell is alive: the shard holds a reference to it until `end`.
    let header = unsafe { cell.as_ref() };
    debug_assert!(local(|local| header.is_here(local)), "a future is dropped at home");
    header.flags.set(header.flags.get() | ENDING);
    let future = slot::<F>(cell);
    // SAFETY: the caller gives the future up; it is dropped where it was pinned.
    let dropped = catch_unwind(AssertUnwindSafe(|| unsafe { ManuallyDrop::drop(&mut (*future).future) }));
    if let Err(payload) = dropped {
        dropped_badly(header, payload);
    }
}

/// The fiber has ended: says so, wakes the joiner, and gives the shard's reference up.
///
/// # Safety
///
/// Its future is gone, and its result in its slot if there is one. This is its home.
unsafe fn end(cell: NonNull<Header>, how: u8) {
    // SAFETY: the cell is alive until the shard's reference is given up, below.
    unsafe {
        let header = cell.as_ref();
        if header.links.are_in_a_list() {
            leave(cell.cast());
        }
        if header.flags.get() & NAMED != 0 {
            forget_name(header.id());
        }
        header.ended.store(how, Ordering::Release);
        if let Some(joiner) = header.take_joiner() {
            joiner.wake();
        }
        local(|local| {
            local.current.set(ptr::null());
            let here = header.here.get() - 1;
            header.here.set(here);
            if here > 0 || !spent(cell, local) {
                local.lingering.enter(cell.cast());
            }
        });
    }
}

/// Queues the fiber, unless it is queued or has ended.
///
/// # Safety
///
/// The caller holds a reference, and this is its home.
#[inline(always)]
unsafe fn wake_here(cell: NonNull<Header>, local: &Local) {
    // SAFETY: the caller's reference.
    let flags = unsafe { &cell.as_ref().flags };
    let before = flags.get();
    if before & (QUEUED | ENDING) != 0 {
        return;
    }
    flags.set(before | QUEUED);
    if before & RUNNING == 0 {
        local.push_woken(Ready(cell));
    }
}

/// Sends a wake home; the reference travels with it.
#[cold]
fn wake_elsewhere(task: TaskRef) {
    // Whoever finds the mark need not send: home takes it away, and sees what was written before it, before it queues
    // the fiber.
    if task.header().elsewhere.fetch_or(MAILED, Ordering::AcqRel) & (MAILED | OUT) == 0
        && let Some(home) = task.header().home()
    {
        home.push(Mail::Wake(task));
    }
}

/// Drops a reference at home; the last one frees the cell.
///
/// # Safety
///
/// The caller gives a reference up, and this is its home.
#[inline(always)]
unsafe fn release_here(cell: NonNull<Header>, local: &Local) {
    // SAFETY: the caller's reference.
    let here = unsafe { &cell.as_ref().here };
    here.set(here.get() - 1);
    if here.get() == 0 {
        // SAFETY: as above; none is counted here any more.
        unsafe { spent(cell, local) };
    }
}

/// No reference is counted here any more: takes one over, or frees the cell. Answers whether it is gone.
///
/// # Safety
///
/// As said; this is its home.
unsafe fn spent(cell: NonNull<Header>, local: &Local) -> bool {
    // SAFETY: nobody but home frees the cell before it was let out. When no reference is counted elsewhere either, none
    // is left; those who dropped them there said so with a release, which this load acquires.
    unsafe {
        let header = cell.as_ref();
        let mut count = header.elsewhere.load(Ordering::Acquire);
        while count & COUNT > 0 {
            match header.elsewhere.compare_exchange(count, count - 1, Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => {
                    header.here.set(1);
                    return false;
                }
                Err(now) => count = now,
            }
        }
        let layout = header.vtable.layout;
        if header.links.are_in_a_list() {
            leave(cell.cast());
        }
        local.memory.put(cell.cast(), layout);
        true
    }
}

/// Drops a reference elsewhere.
#[cold]
fn release_elsewhere(cell: NonNull<Header>) {
    loop {
        // SAFETY: the reference that is given up.
        let header = unsafe { cell.as_ref() };
        let count = header.elsewhere.load(Ordering::Relaxed);
        if count & OUT != 0 {
            // Acquires as well, in one step: the thread sanitizer does not know of fences.
            if header.elsewhere.fetch_sub(1, Ordering::AcqRel) & COUNT == 1 {
                let layout = header.vtable.layout;
                // SAFETY: it was the last reference, and all are counted here.
                unsafe { memory::free(cell.cast(), layout) };
            }
            return;
        }
        if count & COUNT > 0 {
            let less = header.elsewhere.compare_exchange(count, count - 1, Ordering::Release, Ordering::Relaxed);
            if less.is_ok() {
                return;
            }
        } else if let Some(home) = header.home() {
            return home.push_quietly(Mail::Drop(TaskRef(cell)));
        } else {
            // It is being let out this very moment.
            std::hint::spin_loop();
        }
    }
}

impl TaskRef {
    pub(super) fn header(&self) -> &Header {
        // SAFETY: the cell lives as long as this reference.
        unsafe { self.0.as_ref() }
    }

    /// Wakes the fiber, and gives the reference up.
    #[inline(always)]
    pub(super) fn wake(self) {
        local(|local| {
            if self.header().is_here(local) {
                // SAFETY: this reference; and this is its home.
                unsafe {
                    wake_here(self.0, local);
                    release_here(ManuallyDrop::new(self).0, local);
                }
            } else {
                wake_elsewhere(self);
            }
        });
    }

    /// Asks the fiber to stop, from anywhere. It hears of that in its turn.
    pub(crate) fn interrupt(&self) {
        local(|local| {
            let header = self.header();
            if header.is_here(local) {
                let before = header.flags.get();
                if before & ENDING == 0 {
                    header.flags.set(before | INTERRUPTED | QUEUED);
                    if before & (QUEUED | RUNNING) == 0 {
                        local.push(Ready(self.0));
                    }
                }
            } else if header.ended.load(Ordering::Relaxed) == NOT_ENDED
                && let Some(home) = header.home()
            {
                home.push(Mail::Interrupt(TaskRef::clone(self)));
            }
        });
    }

    /// A wake that came by mail: queues the fiber. Where it does not belong, the mail came after its shard's end.
    pub(crate) fn arrive(self) {
        local(|local| {
            if self.header().is_here(local) {
                self.header().elsewhere.fetch_and(!MAILED, Ordering::AcqRel);
                // SAFETY: this reference; and this is its home.
                unsafe { wake_here(self.0, local) };
            }
        });
    }

    fn into_raw(self) -> RawWaker {
        RawWaker::new(ManuallyDrop::new(self).0.as_ptr().cast(), &WAKER)
    }

    /// The reference a waker is.
    ///
    /// # Safety
    ///
    /// The pointer is a waker's; what is made of it is one reference, which the caller has or forgets.
    pub(super) unsafe fn from_raw(data: *const ()) -> TaskRef {
        // SAFETY: a waker's pointer is never null.
        TaskRef(unsafe { NonNull::new_unchecked(data.cast::<Header>().cast_mut()) })
    }
}

impl Clone for TaskRef {
    #[inline(always)]
    fn clone(&self) -> TaskRef {
        local(|local| {
            let header = self.header();
            if header.is_here(local) {
                let before = header.here.get();
                assert!(before < COUNT / 2, "fewer than 2^29 wakers of a fiber");
                header.here.set(before + 1);
            } else {
                let before = header.elsewhere.fetch_add(1, Ordering::Relaxed);
                assert!(before & COUNT < COUNT / 2, "fewer than 2^29 wakers of a fiber");
            }
        });
        TaskRef(self.0)
    }
}

impl Drop for TaskRef {
    #[inline(always)]
    fn drop(&mut self) {
        local(|local| {
            if self.header().is_here(local) {
                // SAFETY: the reference is given up, once, and this is its home.
                unsafe { release_here(self.0, local) };
            } else {
                release_elsewhere(self.0);
            }
        });
    }
}

pub(super) static WAKER: RawWakerVTable = RawWakerVTable::new(
    |data| {
        // SAFETY: the waker's own reference, which it keeps.
        let task = ManuallyDrop::new(unsafe { TaskRef::from_raw(data) });
        TaskRef::clone(&task).into_raw()
    },
    // SAFETY: the waker's reference is given up.
    |data| unsafe { TaskRef::from_raw(data) }.wake(),
    |data| {
        // SAFETY: the waker's own reference, which it keeps.
        let task = ManuallyDrop::new(unsafe { TaskRef::from_raw(data) });
        local(|local| {
            if task.header().is_here(local) {
                // SAFETY: this reference; and this is its home.
                unsafe { wake_here(task.0, local) };
            } else {
                wake_elsewhere(TaskRef::clone(&task));
            }
        });
    },
    // SAFETY: the waker's reference is given up.
    |data| drop(unsafe { TaskRef::from_raw(data) }),
);
