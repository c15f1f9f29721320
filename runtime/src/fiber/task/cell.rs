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
//!
//! *The end.* The future is dropped, the result stays for the handle, then `ended` is said and the joiner woken. A
//! handle that is elsewhere asks by mail to be woken, then looks at `ended` again: mail that nobody reads any more
//! wakes it as well.
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
use crate::fiber::task::list::{Links, leave};
use crate::fiber::task::memory;
use crate::fiber::task::{Ended, FiberId, Payload, Quiet, dropped_badly, forget_name, report, say_panicked};
use crate::plane::backend::discard;

/// In the run queue; or, while it runs, woken again.
const QUEUED: u8 = 1;
/// Being polled.
const RUNNING: u8 = 2;
/// Its future is gone, or going.
const ENDING: u8 = 4;
/// Somebody may ask for its result.
const HANDLE: u8 = 8;
/// It has a name.
const NAMED: u8 = 16;

/// In `elsewhere`: the shard has ended, and all references are counted here.
const OUT: u32 = 1 << 31;
/// In `elsewhere`: a wake is on its way home.
const MAILED: u32 = 1 << 30;
/// The bits of `elsewhere` that count.
const COUNT: u32 = MAILED - 1;

/// The values of `ended`.
const NOT_ENDED: u8 = 0;
const WITH_RESULT: u8 = 1;
const WITHOUT_RESULT: u8 = 2;

/// All of a cell but its slot. Touched at home only, where it is not atomic.
#[repr(C)]
pub(crate) struct Header {
    /// First, so that a place in a list is a place of a cell.
    links: Links,
    vtable: &'static VTable,
    /// Where it belongs; [`nowhere`] once it was let out.
    home: AtomicPtr<Home>,
    /// Who is woken at the end.
    joiner: Cell<Option<Waker>>,
    here: Cell<u32>,
    elsewhere: AtomicU32,
    /// The fiber's number, but for its highest 16 bits.
    number_low: u32,
    number_high: u16,
    flags: Cell<u8>,
    ended: AtomicU8,
}

/// What knows the future's type.
struct VTable {
    /// Polls the future; true when the fiber has ended, and the cell may be gone.
    poll: unsafe fn(NonNull<Header>, &mut Context<'_>) -> bool,
    /// Ends the fiber whose poll panicked; the cell may be gone.
    panicked: unsafe fn(NonNull<Header>, Payload),
    /// Ends the fiber without a result; the cell may be gone.
    cancel: unsafe fn(NonNull<Header>),
    /// Drops the result.
    drop_result: unsafe fn(NonNull<Header>),
    layout: Layout,
    /// Where the slot is.
    slot: usize,
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
pub(crate) struct TaskRef(NonNull<Header>);

// SAFETY: elsewhere a reference does only what the module's text allows there, which is atomic.
unsafe impl Send for TaskRef {}
// SAFETY: as above.
unsafe impl Sync for TaskRef {}

/// The right to a fiber's result, of which there is one at most.
pub(crate) struct Handle<T> {
    task: ManuallyDrop<TaskRef>,
    /// The result is taken, and dropped, wherever the handle is.
    _result: PhantomData<T>,
}

// Nothing of the result is in the handle.
impl<T> Unpin for Handle<T> {}

/// Makes a fiber, which is to run.
#[inline]
pub(super) fn make<F>(
    local: &Local,
    home: &'static Home,
    id: FiberId,
    named: bool,
    future: F,
) -> (Ready, Handle<F::Output>)
where
    F: Future + 'static,
    F::Output: 'static,
{
    let memory = local.memory.take(Typed::<F>::VTABLE.layout).cast::<Cells<F>>();
    let number = id.as_u64();
    let header = Header {
        links: Links::new(),
        vtable: &Typed::<F>::VTABLE,
        home: AtomicPtr::new(ptr::from_ref(home).cast_mut()),
        joiner: Cell::new(None),
        // The shard's own, and the handle's.
        here: Cell::new(2),
        elsewhere: AtomicU32::new(0),
        number_low: number as u32,
        number_high: (number >> 32) as u16,
        flags: Cell::new(QUEUED | HANDLE | if named { NAMED } else { 0 }),
        ended: AtomicU8::new(NOT_ENDED),
    };
    // SAFETY: the memory is of this layout, and nobody else's.
    unsafe {
        (&raw mut (*memory.as_ptr()).header).write(header);
        (&raw mut (*memory.as_ptr()).slot.future).write(ManuallyDrop::new(future));
    }
    let header = memory.cast();
    (Ready(header), Handle { task: ManuallyDrop::new(TaskRef(header)), _result: PhantomData })
}

impl Ready {
    /// Runs the fiber once. It is queued again when it was woken meanwhile.
    #[inline]
    pub(super) fn run(self, local: &Local) {
        let cell = self.0;
        // SAFETY: a queued fiber has not ended, so the shard holds a reference to it until `poll` says otherwise. This
        // is its home, where its header's plain memory is touched.
        unsafe {
            let header = cell.as_ref();
            header.flags.set(header.flags.get() & !QUEUED | RUNNING);
            local.enter_fiber(cell.as_ptr());
            // The fiber lives while it is polled, so what is lent to it needs no count.
            let waker = ManuallyDrop::new(Waker::new(cell.as_ptr().cast(), &WAKER));
            if (header.vtable.poll)(cell, &mut Context::from_waker(&waker)) {
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
    pub(super) fn id(&self) -> FiberId {
        FiberId(u64::from(self.number_high) << 32 | u64::from(self.number_low))
    }

    /// Whether this is its home.
    #[inline(always)]
    fn is_here(&self, local: &Local) -> bool {
        local.is_home(self.home.load(Ordering::Relaxed))
    }

    /// Where mail goes; none once it was let out.
    fn home(&self) -> Option<&'static Home> {
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
        if let Some(joiner) = header.joiner.take() {
            wake_joiner(joiner);
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

/// Wakes whoever joins: as a rule a fiber, else whatever a program awaits the handle with, whose waker may panic.
#[inline]
fn wake_joiner(joiner: Waker) {
    if joiner.vtable() == &WAKER {
        return joiner.wake();
    }
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| joiner.wake())) {
        report("a waker", &payload);
        discard(payload);
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
    fn header(&self) -> &Header {
        // SAFETY: the cell lives as long as this reference.
        unsafe { self.0.as_ref() }
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
    unsafe fn from_raw(data: *const ()) -> TaskRef {
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

static WAKER: RawWakerVTable = RawWakerVTable::new(
    |data| {
        // SAFETY: the waker's own reference, which it keeps.
        let task = ManuallyDrop::new(unsafe { TaskRef::from_raw(data) });
        TaskRef::clone(&task).into_raw()
    },
    |data| {
        // SAFETY: the waker's reference is given up.
        let task = unsafe { TaskRef::from_raw(data) };
        local(|local| {
            if task.header().is_here(local) {
                // SAFETY: this reference; and this is its home.
                unsafe {
                    wake_here(task.0, local);
                    release_here(ManuallyDrop::new(task).0, local);
                }
            } else {
                wake_elsewhere(task);
            }
        });
    },
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

impl<T> Handle<T> {
    /// The fiber's number.
    pub(crate) fn id(&self) -> FiberId {
        self.task.header().id()
    }

    /// Whether the fiber has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.task.header().ended.load(Ordering::Acquire) != NOT_ENDED
    }

    /// The result once the fiber has ended: none when it was dropped before its end, or its result was taken already.
    /// Until then the waker will be called.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Ended<T>>> {
        if !self.is_finished() {
            let here = local(|local| self.task.header().is_here(local));
            if here {
                self.task.register(cx.waker());
                return Poll::Pending;
            }
            self.watch_elsewhere(cx.waker());
            if !self.is_finished() {
                return Poll::Pending;
            }
        }
        Poll::Ready(self.take())
    }

    /// Takes the result of a fiber that has ended.
    fn take(&mut self) -> Option<Ended<T>> {
        let header = self.task.header();
        if header.ended.load(Ordering::Relaxed) != WITH_RESULT {
            return None;
        }
        header.ended.store(WITHOUT_RESULT, Ordering::Relaxed);
        // SAFETY: the fiber has ended with a result, which is the handle's alone, and is taken once.
        Some(unsafe { self.task.0.byte_add(header.vtable.slot).cast::<Ended<T>>().read() })
    }

    /// Has the waker called by home.
    #[cold]
    fn watch_elsewhere(&self, waker: &Waker) {
        if let Some(home) = self.task.header().home() {
            home.push(Mail::Watch(Watch { task: TaskRef::clone(&self.task), waker: Some(waker.clone()) }));
        }
        // The mail, a fence, which `push` has, then the look at the end; home says the end, then a fence, then looks
        // for mail.
    }
}

impl TaskRef {
    /// Wakes `waker` at the end, and nobody else. At home, before the end.
    fn register(&self, waker: &Waker) {
        let joiner = &self.header().joiner;
        match joiner.take() {
            Some(same) if same.will_wake(waker) => joiner.set(Some(same)),
            _ => joiner.set(Some(waker.clone())),
        }
    }

    /// The handle has gone: nobody will ask for the result, if there is one already.
    fn forget_result(&self) {
        let header = self.header();
        let ended = &header.ended;
        if ended.load(Ordering::Relaxed) == WITH_RESULT
            && ended.compare_exchange(WITH_RESULT, WITHOUT_RESULT, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            // SAFETY: the result was the handle's, and is given up, by whoever changed the word.
            unsafe { (header.vtable.drop_result)(self.0) };
        }
    }

    /// The handle has gone, and the fiber has not ended: there will be no result. At home.
    fn want_no_result(&self) {
        let header = self.header();
        header.flags.set(header.flags.get() & !HANDLE);
        drop(header.joiner.take());
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: taken once, here.
        let task = unsafe { ManuallyDrop::take(&mut self.task) };
        let header = task.header();
        // Of those that were let out all have ended.
        if header.ended.load(Ordering::Relaxed) != NOT_ENDED {
            task.forget_result();
        } else if local(|local| header.is_here(local)) {
            task.want_no_result();
        } else if let Some(home) = header.home() {
            home.push(Mail::Leave(Leave(TaskRef::clone(&task))));
            // As for those who watch: mail that came after the end may lie there until another shard begins.
            task.forget_result();
        } else {
            task.forget_result();
        }
    }
}

/// A wish by mail to be woken at a fiber's end.
pub(crate) struct Watch {
    task: TaskRef,
    /// None once it is waited for.
    waker: Option<Waker>,
}

impl Watch {
    pub(crate) fn arrive(mut self) {
        let here = local(|local| self.task.header().is_here(local));
        if here
            && self.task.header().ended.load(Ordering::Relaxed) == NOT_ENDED
            && let Some(waker) = self.waker.take()
        {
            self.task.register(&waker);
        }
    }
}

/// Whoever wished is to ask again.
impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// A handle that was dropped elsewhere.
pub(crate) struct Leave(TaskRef);

impl Drop for Leave {
    fn drop(&mut self) {
        let header = self.0.header();
        if header.ended.load(Ordering::Relaxed) == NOT_ENDED && local(|local| header.is_here(local)) {
            self.0.want_no_result();
        } else {
            self.0.forget_result();
        }
    }
}
