//! Fibers as their shard knows them: made and queued; polled; parked and woken, any number of times; ended by
//! returning, by panicking, or by being dropped at the end of the program.
//!
//! A fiber is polled and dropped on its home shard only: a wake from anywhere sends word home, and so does the last
//! handle's drop. `cell` has the fiber's memory and its protocol, `handle` who waits for its result and `joiner` how
//! that one is told, `queue` and `list` what is threaded through cells, `memory` what is kept of those that ended.
//!
//! A panic ends the fiber alone, a panic in a destructor included, also in that of what a panic carried: each is
//! reported with the fiber's name and number, and the body's own is kept for whoever joins.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::error::say;
use crate::fiber::local::{Local, Wait, local};
use crate::plane::backend::discard;

mod cell;
mod either;
mod handle;
mod joiner;
mod list;
mod memory;
mod queue;

pub(crate) use cell::{Header, Ready, TaskRef};
pub(crate) use either::Either;
pub(crate) use handle::{Handle, Leave, Watch};
pub(crate) use list::List;
pub(crate) use memory::Memory;
pub(crate) use queue::Queue;

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

/// What a fiber is called in a report.
fn describe(fiber: &Header) -> String {
    let id = fiber.id();
    match name_of(id) {
        Some(name) => format!("fiber {id} ({name})"),
        None if id.0 == 0 => "fiber 0 (main)".to_owned(),
        None => format!("fiber {id}"),
    }
}

/// A fiber panicked. The words were said by the panic hook just before; whose they were is not.
fn say_panicked(fiber: &Header) {
    say(format_args!("{} panicked", describe(fiber)));
}

/// A fiber's future panicked as it was dropped.
fn dropped_badly(fiber: &Header, payload: Payload) {
    report(&format!("{}, in a destructor,", describe(fiber)), &payload);
    discard(payload);
}

/// Runs fibers as long as there is a `next`.
pub(crate) fn run_all(local: &Local, mut next: impl FnMut() -> Option<Ready>) {
    // One catch for many polls: it costs as much as a short poll.
    while let Err(payload) = catch_unwind(AssertUnwindSafe(|| {
        while let Some(fiber) = next() {
            fiber.run(local);
        }
    })) {
        cell::panicked(local, payload);
    }
}

/// Wakes every fiber that has parked before, the youngest first.
pub(crate) fn wake_all() {
    local(cell::wake_parked);
}

/// Drops every fiber, those that are queued first, then those that are parked, the youngest first.
pub(crate) fn drop_all() {
    local(|local| {
        loop {
            while let Some(fiber) = local.pop() {
                fiber.cancel();
            }
            // A destructor may have woken some.
            if !cell::cancel_first_parked(local) {
                break;
            }
        }
    });
}

/// A fiber that has parked.
pub(crate) struct Parked {
    pub(crate) id: FiberId,
    /// Its number and its name.
    pub(crate) who: String,
    pub(crate) wait: Wait,
}

/// Every fiber that has parked, the oldest first.
pub(crate) fn parked() -> Vec<Parked> {
    local(|local| {
        let mut parked: Vec<(FiberId, String)> = cell::parked(local)
            .into_iter()
            .map(|fiber| {
                // SAFETY: what is in that list is alive, and this is its home.
                let fiber = unsafe { fiber.as_ref() };
                (fiber.id(), describe(fiber))
            })
            .collect();
        parked.sort();
        parked.into_iter().map(|(id, who)| Parked { id, who, wait: local.wait_of(id) }).collect()
    })
}

/// Exchanges the names of this thread's fibers with others, as [`Local::swap`] does with the fibers.
pub(crate) fn swap_names(others: &mut Names) {
    let _ = NAMES.try_with(|names| std::mem::swap(&mut *names.borrow_mut(), others));
}

/// The shard has dropped all its fibers, and ends: what is still referred to is its own from now on.
pub(crate) fn let_out() {
    local(cell::let_out);
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

/// Makes a fiber and queues it; none, and the future is dropped, where no shard runs or this one has ended.
#[inline(always)]
pub(crate) fn start<F>(name: Option<&str>, future: F) -> Option<Handle<F::Output>>
where
    F: Future + 'static,
    F::Output: 'static,
{
    // In pieces until it is where it stays: what others are told the place of is memory, and would be moved twice.
    let future = ManuallyDrop::new(future);
    match cell::Blank::new::<F>(name) {
        Some(blank) => Some(blank.fill(ManuallyDrop::into_inner(future))),
        None => {
            drop(Box::new(ManuallyDrop::into_inner(future)));
            None
        }
    }
}

/// The names of fibers that have one.
pub(crate) type Names = BTreeMap<FiberId, Arc<str>>;

thread_local! {
    static NAMES: std::cell::RefCell<Names> = const { std::cell::RefCell::new(BTreeMap::new()) };
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
