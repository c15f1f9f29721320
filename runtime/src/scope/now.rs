//! What runs now: where in the cancel tree it sits, and what its next checkpoint finds.
//!
//! Every verb looks at one word of flags, which is right for whatever is polled at the moment: entering work sets it,
//! leaving puts back what was. The end of the program is a flag of the thread, an actor's order one of its turn: marks
//! around every tree, which whatever is polled then finds, unless it is sheltered.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::time::Duration;

use crate::scope::cause::Interrupt;
use crate::scope::node::{Node, Place, Sitting};
use crate::scope::panics::catch;

/// What is polled right now is cancelled, by a node or by an actor's order.
pub(super) const CANCELLED: u8 = 1;
/// The program stops.
const STOPPING: u8 = 2;
/// What is polled right now is sheltered, from the end of the program too.
pub(super) const SHELTERED: u8 = 4;
/// A checkpoint has told what is polled right now that it is cancelled.
const TOLD: u8 = 8;

/// What belongs to the work that is polled, and is put back when another's turn comes.
const OF_WORK: u8 = CANCELLED | SHELTERED | TOLD;

/// Without a destructor, so that looking at it is one address and no check; nothing is in it between two polls.
struct Now {
    flags: Cell<u8>,
    /// Why what is polled right now is cancelled from around every tree.
    around: Cell<Option<Interrupt>>,
    /// The deadline of what is polled right now, from around every tree.
    deadline: Cell<Option<Duration>>,
    place: ManuallyDrop<Cell<Option<Place>>>,
}

thread_local! {
    static NOW: Now = const {
        Now {
            flags: Cell::new(0),
            around: Cell::new(None),
            deadline: Cell::new(None),
            place: ManuallyDrop::new(Cell::new(None)),
        }
    };
}

#[inline(always)]
fn flags() -> u8 {
    NOW.with(|now| now.flags.get())
}

#[inline(always)]
fn set_flags(flags: u8) {
    NOW.with(|now| now.flags.set(flags));
}

/// Whether what runs now was cancelled. Asking is a checkpoint: work that was told so ends interrupted.
#[inline]
pub(crate) fn is_cancelled() -> bool {
    let cancelled = is_marked();
    if cancelled {
        set_flags(flags() | TOLD);
    }
    cancelled
}

/// Whether what runs now was cancelled, without telling it.
#[inline]
pub(crate) fn is_marked() -> bool {
    let flags = flags();
    flags & (CANCELLED | STOPPING) != 0 && (flags & CANCELLED != 0 || flags & SHELTERED == 0)
}

/// Whether what runs now is cancelled for no other reason than that the program stops.
pub(crate) fn is_only_stopping() -> bool {
    let flags = flags();
    flags & (CANCELLED | STOPPING | SHELTERED) == STOPPING
        || flags & CANCELLED != 0 && here(|place| place.and_then(Place::reason) == Some(Interrupt::Shutdown))
}

/// Says whether the program stops whose turn this thread has now, and answers what was said of the one before.
pub(crate) fn replace_stopping(stopping: bool) -> bool {
    let before = flags() & STOPPING != 0;
    set_stopping(stopping);
    before
}

/// Says whether the program stops.
pub(crate) fn set_stopping(stopping: bool) {
    let flags = flags();
    set_flags(if stopping { flags | STOPPING } else { flags & !STOPPING });
}

/// Cancels what is polled until this is said again, for a reason that no tree knows; none takes it back.
#[inline]
pub(crate) fn set_around(reason: Option<Interrupt>, deadline: Option<Duration>) {
    NOW.with(|now| {
        let flags = now.flags.get() & !CANCELLED;
        now.flags.set(if reason.is_some() { flags | CANCELLED } else { flags });
        now.around.set(reason);
        now.deadline.set(deadline);
    });
}

/// While it lives, what is polled is cancelled, for a reason that no tree knows; nothing is around it.
pub(crate) struct Around(());

impl Around {
    /// Somebody has asked it to stop.
    pub(crate) fn cancelled() -> Around {
        set_around(Some(Interrupt::Cancelled), None);
        Around(())
    }
}

impl Drop for Around {
    fn drop(&mut self) {
        set_around(None, None);
        set_flags(flags() & !TOLD);
    }
}

/// Why what runs now is cancelled; none while it is not.
///
/// Asking is no checkpoint: work that only asks is not told, and may end as if nothing had happened. A clean-up under
/// [`protect`](crate::fiber::protect) is not cancelled, whatever is around it. Outside of a program it answers none.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// #[wo::main]
/// fn main() {
///     let outcome: wo::Outcome<()> = wo::timeout(Duration::from_millis(1), || {
///         while wo::yield_now().is_ok() {}
///         assert_eq!(wo::interrupt(), Some(wo::Interrupt::Deadline));
///     });
///     assert!(outcome.unwrap_err().is_timeout());
/// }
/// ```
pub fn interrupt() -> Option<Interrupt> {
    if !is_marked() {
        return None;
    }
    let own = here(|place| place.and_then(Place::reason));
    Some(own.or_else(|| NOW.with(|now| now.around.get())).unwrap_or(Interrupt::Shutdown))
}

/// The same in words, for the errors of verbs.
pub(crate) fn why() -> &'static str {
    interrupt().unwrap_or(Interrupt::Cancelled).words()
}

/// Whether what runs now is not waited for any longer, and is to be dropped.
pub(crate) fn is_given_up() -> bool {
    here(|place| place.is_some_and(|place| place.node().is_given_up()))
}

/// The nearest deadline of what runs now, on the executor's clock; none without one.
pub(crate) fn deadline() -> Option<Duration> {
    look_around(|place, around| match place {
        Some(place) => place.node().deadline(),
        None => around,
    })
}

/// Looks where this runs, none outside every scope, and at the deadline from around every tree.
#[inline]
pub(super) fn look_around<T>(look: impl FnOnce(Option<&Place>, Option<Duration>) -> T) -> T {
    let place = exchange(None);
    let around = if place.is_none() { NOW.with(|now| now.deadline.get()) } else { None };
    let looked = look(place.as_ref(), around);
    exchange(place);
    looked
}

// One word or one place at a time: the compiler calls what looks at more instead of placing it inline.

/// Says where it runs from now on, and answers where it did.
#[inline(always)]
fn exchange(place: Option<Place>) -> Option<Place> {
    NOW.with(|now| now.place.replace(place))
}

/// Looks where this runs; none outside every scope.
pub(super) fn here<T>(look: impl FnOnce(Option<&Place>) -> T) -> T {
    look_around(|place, _| look(place))
}

/// Polls work that sits here: what it opens lies below. Answers also whether it was told that it is cancelled. A panic
/// passes through.
#[inline]
pub(super) fn poll_at<T>(sitting: &mut Sitting, poll: impl FnOnce() -> T) -> (T, bool) {
    let mut here = Here { before: enter(sitting), sitting };
    let polled = poll();
    let told = here.leave();
    std::mem::forget(here);
    (polled, told)
}

/// The same; a panic of the work is its answer.
#[inline]
pub(super) fn poll_caught_at<T>(sitting: &mut Sitting, poll: impl FnOnce() -> T) -> (std::thread::Result<T>, bool) {
    let before = enter(sitting);
    let polled = catch(poll);
    let told = leave(sitting, before);
    (polled, told)
}

/// What was right for whatever was polled before.
struct Before {
    place: Option<Place>,
    flags: u8,
}

#[inline(always)]
fn enter(sitting: &mut Sitting) -> Before {
    let flags = flags();
    let (place, mut own) = sitting.leave_to_poll();
    if flags & (CANCELLED | STOPPING) != 0 {
        heed(place.node());
        own = place.flags();
    }
    set_flags(flags & !OF_WORK | own);
    Before { place: exchange(Some(place)), flags }
}

/// Answers whether the work was told that it is cancelled.
#[inline(always)]
fn leave(sitting: &mut Sitting, before: Before) -> bool {
    let after = flags();
    // Whoever was cancelled around it, too, hears of that by what the inner work came to.
    let heard = if before.flags & CANCELLED != 0 { after & TOLD } else { 0 };
    // Whether the program stops is no property of the work.
    set_flags(after & !OF_WORK | before.flags & OF_WORK | heard);
    sitting.come_back(exchange(before.place));
    after & TOLD != 0
}

/// Marks a node when what is polled around it is cancelled from around the tree: by an actor's order, by who has the
/// fiber's handle, or by the end of the program.
#[inline]
pub(super) fn heed(node: &Node) {
    if flags() & (CANCELLED | STOPPING) != 0
        && !node.is_sheltered()
        && node.reason().is_none()
        && let Some(reason) = interrupt()
    {
        node.cancel(reason);
    }
}

/// While it lives, what runs sits at a place.
struct Here<'a> {
    before: Before,
    sitting: &'a mut Sitting,
}

impl Here<'_> {
    #[inline(always)]
    fn leave(&mut self) -> bool {
        let before = Before { place: self.before.place.take(), flags: self.before.flags };
        leave(self.sitting, before)
    }
}

impl Drop for Here<'_> {
    #[cold]
    fn drop(&mut self) {
        self.leave();
    }
}
