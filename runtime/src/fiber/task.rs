//! A fiber: one future in one allocation, its place among the fibers of its shard, and its end.
//!
//! Life: made and queued; polled; parked, when it enters the shard's list of parked fibers the first time, and woken,
//! any number of times; ended by returning, by panicking, or by being dropped at the end of the program. It leaves
//! the list when its future is dropped, which happens on its home shard only: a wake from anywhere sends the
//! runnable home, and so does the last handle's drop.
//!
//! A panic ends the fiber alone, a panic in a destructor included, also in that of what a panic carried: each is
//! reported with the fiber's name and number, and the body's own is kept for whoever joins.

use std::any::Any;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::marker::PhantomPinned;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, RawWakerVTable, Waker};

use async_task::{Runnable, ScheduleInfo, Task, WithInfo};

use crate::error::say;
use crate::fiber::home::{Home, Mail};
use crate::fiber::local::{Local, local};
use crate::plane::backend::discard;

/// What a panic carried.
pub type Payload = Box<dyn Any + Send + 'static>;

/// A fiber's number: fiber 0 is `main`, the others count up in the order they were made on their shard.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FiberId(u64);

impl FiberId {
    /// The number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FiberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for FiberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fiber {}", self.0)
    }
}

/// What the task's own allocation knows without its future.
#[derive(Debug)]
pub(crate) struct Meta {
    home: &'static Home,
}

/// A fiber's place in the list of fibers that have parked.
pub(crate) struct Node {
    /// The number, and in the lowest bit whether the fiber has a name.
    id_and_named: u64,
    previous: Cell<*const Node>,
    next: Cell<*const Node>,
    /// The parts of a waker of the task, with a count of its own; none before it has parked. What a future waits for
    /// may keep no waker, and async-task frees a task that nobody can wake without dropping its future.
    waker: Cell<Option<(*const (), &'static RawWakerVTable)>>,
}

/// A value whose destructor may panic without taking the process down.
pub(crate) struct Quiet<T>(ManuallyDrop<T>);

impl<T> Quiet<T> {
    pub(crate) fn new(value: T) -> Quiet<T> {
        Quiet(ManuallyDrop::new(value))
    }

    /// Drops the value; its panic is the answer.
    pub(crate) fn end(self) -> Result<(), Payload> {
        catch_unwind(AssertUnwindSafe(|| drop(self.into_inner())))
    }

    pub(crate) fn into_inner(self) -> T {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the wrapper is not dropped, so the value is taken exactly once.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }
}

impl<T> Deref for Quiet<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Quiet<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> Drop for Quiet<T> {
    fn drop(&mut self) {
        // SAFETY: dropped once, here: `into_inner` never runs this.
        let dropped = catch_unwind(AssertUnwindSafe(|| unsafe { ManuallyDrop::drop(&mut self.0) }));
        if let Err(payload) = dropped {
            report(&format!("the destructor of {}", std::any::type_name::<T>()), &payload);
            discard(payload);
        }
    }
}

/// The future async-task holds: a fiber's body and its place in the list.
struct Shell<F> {
    node: Node,
    future: ManuallyDrop<F>,
    _pinned: PhantomPinned,
}

impl<F: Future> Future for Shell<F> {
    type Output = Ended<F::Output>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended<F::Output>> {
        // SAFETY: nothing is moved out of the shell; the body stays pinned with it until its drop.
        let this = unsafe { self.get_unchecked_mut() };
        local(|local| local.current.set(&raw const this.node));
        // SAFETY: the body is pinned because the shell is.
        let body = unsafe { Pin::new_unchecked(&mut *this.future) };
        let ended = match catch_unwind(AssertUnwindSafe(|| body.poll(cx))) {
            Ok(Poll::Pending) => {
                if !this.node.is_listed() {
                    this.node.enter_list(cx.waker());
                }
                return Poll::Pending;
            }
            Ok(Poll::Ready(value)) => Ok(value),
            Err(payload) => {
                // The words were said by the panic hook just before; whose they were is not.
                say(format_args!("{} panicked", this.node.describe()));
                Err(payload)
            }
        };
        // Whoever joins is woken in turn, not handed over to: it would run once after each of its children.
        local(Local::leave_fiber);
        Poll::Ready(Quiet::new(ended))
    }
}

impl<F> Drop for Shell<F> {
    fn drop(&mut self) {
        if self.node.is_listed() {
            self.node.leave_list();
        }
        // A fiber that is dropped by another one's hand is current meanwhile.
        let before = local(|local| local.current.replace(&raw const self.node));
        let body = &mut self.future;
        // SAFETY: the body is dropped once, here, where it was pinned.
        let dropped = catch_unwind(AssertUnwindSafe(|| unsafe { ManuallyDrop::drop(body) }));
        local(|local| local.current.set(before));
        if let Err(payload) = dropped {
            report(&format!("{}, in a destructor,", self.node.describe()), &payload);
            discard(payload);
        }
        if self.node.is_named() {
            forget_name(self.node.id());
        }
    }
}

impl Node {
    fn id(&self) -> FiberId {
        FiberId(self.id_and_named >> 1)
    }

    fn is_named(&self) -> bool {
        self.id_and_named & 1 == 1
    }

    fn describe(&self) -> String {
        let id = self.id();
        match name_of(id) {
            Some(name) => format!("fiber {id} ({name})"),
            None if id.0 == 0 => "fiber 0 (main)".to_owned(),
            None => format!("fiber {id}"),
        }
    }

    fn is_listed(&self) -> bool {
        self.waker.get().is_some()
    }

    fn enter_list(&self, waker: &Waker) {
        let counted = ManuallyDrop::new(waker.clone());
        self.waker.set(Some((counted.data(), counted.vtable())));
        local(|local| {
            let first = local.listed.replace(self);
            self.next.set(first);
            if !first.is_null() {
                // SAFETY: nodes in the list are pinned and alive: each leaves it before it is dropped, and all of
                // this happens on one thread.
                unsafe { (*first).previous.set(self) };
            }
        });
    }

    fn leave_list(&self) {
        let (previous, next) = (self.previous.get(), self.next.get());
        if !next.is_null() {
            // SAFETY: as in `enter_list`.
            unsafe { (*next).previous.set(previous) };
        }
        if previous.is_null() {
            local(|local| {
                if ptr::eq(local.listed.get(), self) {
                    local.listed.set(next);
                }
            });
        } else {
            // SAFETY: as in `enter_list`.
            unsafe { (*previous).next.set(next) };
        }
        if let Some((data, vtable)) = self.waker.take() {
            // SAFETY: the parts `enter_list` kept the count of, given back once. It is not the last one: async-task
            // drops a future only while it holds the task for that.
            drop(unsafe { Waker::new(data, vtable) });
        }
    }

    fn wake(&self) {
        if let Some((data, vtable)) = self.waker.get() {
            // SAFETY: the parts of the waker that `enter_list` counted. The one made here owns no count and is not
            // dropped.
            let waker = ManuallyDrop::new(unsafe { Waker::new(data, vtable) });
            waker.wake_by_ref();
        }
    }
}

/// Wakes every fiber that has parked before, the youngest first; answers whether there was one.
pub(crate) fn wake_all() -> bool {
    local(|local| {
        let mut node = local.listed.get();
        let some = !node.is_null();
        while !node.is_null() {
            // SAFETY: waking only queues runnables, so no node leaves the list meanwhile.
            let alive = unsafe { &*node };
            alive.wake();
            node = alive.next.get();
        }
        some
    })
}

/// The number of the fiber that runs now.
pub(crate) fn current_id() -> Option<FiberId> {
    local(|local| {
        let node = local.current.get();
        // SAFETY: set while the fiber is polled or dropped, and its node lives as long.
        (!node.is_null()).then(|| unsafe { (*node).id() })
    })
}

/// What a fiber returned, or what its panic carried.
pub(crate) type Ended<T> = Quiet<Result<T, Payload>>;

/// A fiber that was made: its number, and the task to wait for.
pub(crate) type Started<T> = (FiberId, Task<Ended<T>, Meta>);

/// Makes a fiber and queues it; none, and the future is dropped, where no shard runs or this one has ended.
pub(crate) fn start<F>(name: Option<&str>, future: F) -> Option<Started<F::Output>>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let (home, id) = local(Local::next_fiber)?;
    let id = FiberId(id);
    if let Some(name) = name {
        remember_name(id, name);
    }
    let shell = Shell {
        node: Node {
            id_and_named: id.0 << 1 | u64::from(name.is_some()),
            previous: Cell::new(ptr::null()),
            next: Cell::new(ptr::null()),
            waker: Cell::new(None),
        },
        future: ManuallyDrop::new(future),
        _pinned: PhantomPinned,
    };
    // SAFETY: the future is not `Send`, and is polled and dropped on this thread only: `schedule` sends every
    // runnable to its home, and the shard drops all its fibers before it ends. The future and its output are
    // 'static. The schedule function is `Send`, `Sync` and 'static, as is the metadata.
    let (runnable, task) =
        unsafe { async_task::Builder::new().metadata(Meta { home }).spawn_unchecked(|_| shell, WithInfo(schedule)) };
    local(|local| local.push(runnable));
    Some((id, task))
}

/// Queues a woken fiber at home, whoever wakes it.
#[inline]
fn schedule(runnable: Runnable<Meta>, info: ScheduleInfo) {
    let home = runnable.metadata().home;
    local(|local| {
        if local.is_home(home) {
            local.push_woken(runnable, info.woken_while_running);
        } else {
            home.push(Mail::Fiber(runnable));
        }
    });
}

thread_local! {
    static NAMES: std::cell::RefCell<BTreeMap<FiberId, Arc<str>>> = const { std::cell::RefCell::new(BTreeMap::new()) };
}

fn remember_name(id: FiberId, name: &str) {
    let _ = NAMES.try_with(|names| names.borrow_mut().insert(id, Arc::from(name)));
}

fn forget_name(id: FiberId) {
    let _ = NAMES.try_with(|names| names.borrow_mut().remove(&id));
}

/// The name a fiber was started with.
pub(crate) fn name_of(id: FiberId) -> Option<Arc<str>> {
    NAMES.try_with(|names| names.borrow().get(&id).cloned()).ok().flatten()
}

/// Says on stderr who panicked and with what words.
pub(crate) fn report(who: &str, payload: &Payload) {
    say(format_args!("{who} panicked: {}", message(payload)));
}

/// The words of a panic, where it carried any.
pub(crate) fn message(payload: &Payload) -> &str {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(a payload that is no text)")
}
