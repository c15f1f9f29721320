//! The cancel tree, and what runs under which of its nodes.
//!
//! Each scope owns a node; nodes nest as scopes do. Each piece of work under a node has a seat there. Cancelling a node
//! marks it and everything below it, except below a protected node, and wakes whoever sits there; cancelling a seat
//! does the same for that work alone. A mark is never taken back, and the first reason stays. What runs under a node
//! finds the mark at its next checkpoint: every verb looks at one flag, which is set while work under a mark is polled.
//! Work that was told at a checkpoint ends interrupted, whatever it makes of it; work that ends before the next
//! checkpoint ends as it ends.
//!
//! A protected node is not marked from above. When the protected section ends, its work is under the outer node again,
//! and finds the pending mark at the next checkpoint. Only giving up passes protected nodes: it is the answer to a
//! clean-up that does not end, and who sits there is to drop what it runs.
//!
//! The end of the program is a mark around every tree: whatever is polled then finds it, unless it is sheltered.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pin_project_lite::pin_project;
use smallvec::SmallVec;

use crate::scope::cause::Interrupt;

/// What is polled right now is cancelled, by a node or by an actor's order.
const CANCELLED: u8 = 1;
/// The program stops.
const STOPPING: u8 = 2;
/// What is polled right now is sheltered, from the end of the program too.
const SHELTERED: u8 = 4;
/// A checkpoint has told what is polled right now that it is cancelled.
const TOLD: u8 = 8;

/// What belongs to the work that is polled, and is put back when another's turn comes.
const OF_WORK: u8 = CANCELLED | SHELTERED | TOLD;

thread_local! {
    static FLAGS: Cell<u8> = const { Cell::new(0) };
    /// Why what is polled right now is cancelled from around every tree.
    static AROUND: Cell<Option<Interrupt>> = const { Cell::new(None) };
    /// The deadline of what is polled right now, from around every tree.
    static DEADLINE: Cell<Option<Duration>> = const { Cell::new(None) };
    static CURRENT: RefCell<Option<Place>> = const { RefCell::new(None) };
}

/// Whether what runs now was cancelled. Asking is a checkpoint: work that was told so ends interrupted.
#[inline]
pub(crate) fn is_cancelled() -> bool {
    let cancelled = is_marked();
    if cancelled {
        tell();
    }
    cancelled
}

/// Whether what runs now was cancelled, without telling it.
#[inline]
pub(crate) fn is_marked() -> bool {
    let flags = FLAGS.get();
    flags & (CANCELLED | STOPPING) != 0 && (flags & CANCELLED != 0 || flags & SHELTERED == 0)
}

/// Whether what runs now is cancelled for no other reason than that the program stops.
pub(crate) fn is_only_stopping() -> bool {
    FLAGS.get() & (CANCELLED | STOPPING | SHELTERED) == STOPPING
        || current().is_some_and(|place| place.reason() == Some(Interrupt::Shutdown))
}

/// What runs now has been told that it is cancelled.
#[inline]
pub(crate) fn tell() {
    FLAGS.set(FLAGS.get() | TOLD);
}

/// Says whether the program stops whose turn this thread has now, and answers what was said of the one before.
pub(crate) fn replace_stopping(stopping: bool) -> bool {
    let before = FLAGS.get() & STOPPING != 0;
    set_stopping(stopping);
    before
}

/// Says whether the program stops.
pub(crate) fn set_stopping(stopping: bool) {
    let flags = FLAGS.get();
    FLAGS.set(if stopping { flags | STOPPING } else { flags & !STOPPING });
}

/// Cancels what is polled until this is said again, for a reason that no tree knows; none takes it back.
#[inline]
pub(crate) fn set_around(reason: Option<Interrupt>, deadline: Option<Duration>) {
    let flags = FLAGS.get() & !CANCELLED;
    FLAGS.set(if reason.is_some() { flags | CANCELLED } else { flags });
    AROUND.set(reason);
    DEADLINE.set(deadline);
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
        FLAGS.set(FLAGS.get() & !TOLD);
    }
}

/// Why what runs now is cancelled; none while it is not. Asking is no checkpoint: work that only asks is not told.
pub fn interrupt() -> Option<Interrupt> {
    if !is_marked() {
        return None;
    }
    let own = current().and_then(|place| place.reason());
    Some(own.or(AROUND.get()).unwrap_or(Interrupt::Shutdown))
}

/// The same in words, for the errors of verbs.
pub(crate) fn why() -> &'static str {
    interrupt().unwrap_or(Interrupt::Cancelled).words()
}

/// Whether what runs now is not waited for any longer, and is to be dropped.
pub(crate) fn is_given_up() -> bool {
    current().is_some_and(|place| place.node.is_given_up())
}

/// The nearest deadline of what runs now, on the executor's clock; none without one.
pub(crate) fn deadline() -> Option<Duration> {
    CURRENT.with_borrow(|place| match place {
        Some(place) => place.node.0.deadline,
        None => DEADLINE.get(),
    })
}

/// Where this runs; none outside every scope.
fn current() -> Option<Place> {
    CURRENT.with_borrow(Clone::clone)
}

/// A node of the cancel tree. Clones are the same node.
#[derive(Clone)]
pub(crate) struct Node(Rc<Inner>);

struct Inner {
    reason: Cell<Option<Interrupt>>,
    /// What runs here is to be dropped.
    given_up: Cell<bool>,
    protected: bool,
    /// It is protected, or below a protected one.
    sheltered: bool,
    deadline: Option<Duration>,
    seats: RefCell<Seats>,
    below: RefCell<SmallVec<[Below; 1]>>,
}

/// A node below another, and the seat of the work that made it.
struct Below {
    node: Weak<Inner>,
    seat: u32,
}

/// Those who are woken when the node is marked.
struct Seats {
    seats: SmallVec<[Seat; 2]>,
    /// The first free one; as many as there are for none.
    free: u32,
}

enum Seat {
    Taken {
        waker: Option<Waker>,
        reason: Option<Interrupt>,
    },
    /// Free, and the next that is.
    Free(u32),
}

/// What kind of node to make.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// Marked when what is around is.
    Open,
    /// Marks from above pass by.
    Protected,
}

impl Node {
    /// A node below the place where this runs, with a deadline of its own or without; a nearer one around it stays.
    pub(crate) fn here(kind: Kind, deadline: Option<Duration>) -> Node {
        let protected = matches!(kind, Kind::Protected);
        let place = current();
        let around = place.as_ref().map_or(DEADLINE.get(), |place| place.node.0.deadline);
        // Sheltered work has the time it takes; a deadline of its own counts again.
        let around = around.filter(|_| !protected);
        let node = Node(Rc::new(Inner {
            reason: Cell::new(place.as_ref().filter(|_| !protected).and_then(Place::reason)),
            given_up: Cell::new(place.as_ref().is_some_and(|place| place.node.is_given_up())),
            protected,
            sheltered: protected || place.as_ref().is_some_and(|place| place.node.0.sheltered),
            deadline: match (around, deadline) {
                (Some(around), Some(own)) => Some(around.min(own)),
                (around, own) => around.or(own),
            },
            seats: RefCell::new(Seats { seats: SmallVec::new(), free: 0 }),
            below: RefCell::default(),
        }));
        if let Some(place) = place {
            place.node.adopt(Below { node: Rc::downgrade(&node.0), seat: place.seat });
        }
        node
    }

    /// A node below this one, as its work would make it.
    pub(crate) fn protected_child(&self) -> Node {
        let node = Node(Rc::new(Inner {
            reason: Cell::new(None),
            given_up: Cell::new(self.is_given_up()),
            protected: true,
            sheltered: true,
            deadline: None,
            seats: RefCell::new(Seats { seats: SmallVec::new(), free: 0 }),
            below: RefCell::default(),
        }));
        self.adopt(Below { node: Rc::downgrade(&node.0), seat: u32::MAX });
        node
    }

    fn adopt(&self, node: Below) {
        let mut below = self.0.below.borrow_mut();
        // Those that have gone are forgotten once they may be the half.
        if below.len() >= 8 && below.len().is_power_of_two() {
            below.retain(|below| below.node.strong_count() > 0);
        }
        below.push(node);
    }

    /// Why it is marked; none when it is not.
    pub(crate) fn reason(&self) -> Option<Interrupt> {
        self.0.reason.get()
    }

    /// The nearest deadline of what runs here.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.0.deadline
    }

    /// Whether what runs here is to be dropped.
    pub(crate) fn is_given_up(&self) -> bool {
        self.0.given_up.get()
    }

    /// Marks it and what is below, and wakes who sits there. The first reason stays.
    pub(crate) fn cancel(&self, reason: Interrupt) {
        Node::mark(vec![self.clone()], reason, Vec::new());
    }

    /// Marks it when what is polled around it is cancelled from around the tree: by an actor's order, by who has the
    /// fiber's handle, or by the end of the program.
    #[inline]
    pub(crate) fn heed(&self) {
        let inner = &*self.0;
        if FLAGS.get() & (CANCELLED | STOPPING) != 0
            && !inner.sheltered
            && inner.reason.get().is_none()
            && let Some(reason) = interrupt()
        {
            self.cancel(reason);
        }
    }

    fn mark(mut next: Vec<Node>, reason: Interrupt, mut wake: Vec<Waker>) {
        while let Some(node) = next.pop() {
            // Below a marked node all is marked.
            if node.0.reason.get().is_none() {
                node.0.reason.set(Some(reason));
                wake.extend(node.0.seats.borrow().wakers());
                next.extend(node.below(None).into_iter().rev().filter(|node| !node.0.protected));
            }
        }
        wake.into_iter().for_each(Waker::wake);
    }

    /// The nodes below that live, all or those of one seat.
    fn below(&self, seat: Option<u32>) -> Vec<Node> {
        let below = self.0.below.borrow();
        let of_seat = |below: &&Below| seat.is_none_or(|seat| below.seat == seat);
        below.iter().filter(of_seat).filter_map(|below| below.node.upgrade().map(Node)).collect()
    }

    /// Has all that runs here and below dropped, protected or not.
    pub(crate) fn give_up(&self) {
        let mut wake = Vec::new();
        let mut next = vec![self.clone()];
        while let Some(node) = next.pop() {
            node.0.given_up.set(true);
            wake.extend(node.0.seats.borrow().wakers());
            next.extend(node.below(None));
        }
        wake.into_iter().for_each(Waker::wake);
    }

    /// A seat at this node.
    #[inline]
    pub(crate) fn sit(&self) -> Place {
        let seat = self.0.seats.borrow_mut().take();
        Place { node: self.clone(), seat }
    }

    /// Runs `future` under this node.
    #[inline]
    pub(crate) fn run<F: Future>(&self, future: F) -> Within<F> {
        Within { future, sitting: Sitting(self.sit()), told: false }
    }
}

impl Seats {
    #[inline]
    fn take(&mut self) -> u32 {
        let taken = Seat::Taken { waker: None, reason: None };
        let seat = self.free;
        match self.seats.get_mut(seat as usize) {
            Some(free) => {
                let Seat::Free(next) = std::mem::replace(free, taken) else {
                    unreachable!("the list of free seats holds free ones")
                };
                self.free = next;
            }
            None => {
                self.seats.push(taken);
                self.free = seat + 1;
            }
        }
        seat
    }

    #[inline]
    fn leave(&mut self, seat: u32) -> Option<Waker> {
        let free = Seat::Free(self.free);
        self.free = seat;
        match std::mem::replace(&mut self.seats[seat as usize], free) {
            Seat::Taken { waker, .. } => waker,
            Seat::Free(_) => unreachable!("who leaves has sat there"),
        }
    }

    fn wakers(&self) -> impl Iterator<Item = Waker> + '_ {
        self.seats.iter().filter_map(|seat| match seat {
            Seat::Taken { waker, .. } => waker.clone(),
            Seat::Free(_) => None,
        })
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("reason", &self.0.reason).field("protected", &self.0.protected).finish()
    }
}

/// A seat at a node. Copies are the same seat; see [`Sitting`] for who gives it back.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    node: Node,
    seat: u32,
}

impl Place {
    /// Why the work here is cancelled; none when it is not.
    #[inline]
    pub(crate) fn reason(&self) -> Option<Interrupt> {
        let seats = self.node.0.seats.borrow();
        match seats.seats.get(self.seat as usize) {
            Some(Seat::Taken { reason: Some(reason), .. }) => Some(*reason),
            _ => self.node.reason(),
        }
    }

    /// Cancels the work here and below, alone. To be asked only while it sits here.
    pub(crate) fn cancel(&self, reason: Interrupt) {
        if self.reason().is_some() {
            return;
        }
        let mut wake = Vec::new();
        if let Some(Seat::Taken { waker, reason: own }) =
            self.node.0.seats.borrow_mut().seats.get_mut(self.seat as usize)
        {
            *own = Some(reason);
            wake.extend(waker.clone());
        }
        let below = self.node.below(Some(self.seat)).into_iter().rev().filter(|node| !node.0.protected);
        Node::mark(below.collect(), reason, wake);
    }

    /// Wakes who sits here.
    pub(crate) fn wake(&self) {
        let waker = match self.node.0.seats.borrow().seats.get(self.seat as usize) {
            Some(Seat::Taken { waker, .. }) => waker.clone(),
            _ => None,
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// From now on this waker is woken.
    #[inline]
    pub(crate) fn waits(&self, with: &Waker) {
        if let Some(Seat::Taken { waker, .. }) = self.node.0.seats.borrow_mut().seats.get_mut(self.seat as usize) {
            match waker {
                Some(waker) => waker.clone_from(with),
                None => *waker = Some(with.clone()),
            }
        }
    }

    /// Polls work that sits here: what it opens lies below. Answers also whether it was told that it is cancelled.
    #[inline]
    pub(crate) fn poll<T>(&self, poll: impl FnOnce() -> T) -> (T, bool) {
        let here = Here::enter(self);
        let polled = poll();
        let told = FLAGS.get() & TOLD != 0;
        drop(here);
        (polled, told)
    }
}

/// Who gives the seat back.
#[derive(Debug)]
pub(crate) struct Sitting(pub(crate) Place);

impl Drop for Sitting {
    fn drop(&mut self) {
        let waker = self.0.node.0.seats.borrow_mut().leave(self.0.seat);
        drop(waker);
    }
}

pin_project! {
    /// Work under a node; see [`Node::run`].
    #[derive(Debug)]
    #[must_use = "it does nothing until it is awaited"]
    pub(crate) struct Within<F> {
        #[pin]
        future: F,
        sitting: Sitting,
        told: bool,
    }
}

impl<F> Within<F> {
    /// Where it sits.
    pub(crate) fn place(&self) -> &Place {
        &self.sitting.0
    }
}

/// What work under a node came to.
#[derive(Debug)]
pub(crate) struct Ran<T> {
    /// What it returned.
    pub(crate) output: T,
    /// Why it was interrupted, when a checkpoint told it so.
    pub(crate) interrupted: Option<Interrupt>,
}

impl<F: Future> Future for Within<F> {
    type Output = Ran<F::Output>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ran<F::Output>> {
        let this = self.project();
        let place = &this.sitting.0;
        let (polled, told) = place.poll(|| this.future.poll(cx));
        *this.told |= told;
        match polled {
            Poll::Ready(output) => Poll::Ready(Ran {
                output,
                interrupted: this.told.then(|| place.reason().unwrap_or(Interrupt::Shutdown)),
            }),
            Poll::Pending => {
                place.waits(cx.waker());
                Poll::Pending
            }
        }
    }
}

/// While it lives, what runs sits at a place; a panic passes through it.
struct Here {
    flags: u8,
    place: Option<Place>,
}

impl Here {
    #[inline]
    fn enter(place: &Place) -> Here {
        let inner = &*place.node.0;
        place.node.heed();
        let flags = FLAGS.get();
        let mut here = flags & !OF_WORK;
        if place.reason().is_some() {
            here |= CANCELLED;
        }
        if inner.sheltered {
            here |= SHELTERED;
        }
        FLAGS.set(here);
        Here { flags, place: CURRENT.replace(Some(place.clone())) }
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        let now = FLAGS.get();
        // Whoever was cancelled around it, too, hears of that by what the inner work came to.
        let heard = if self.flags & CANCELLED != 0 { now & TOLD } else { 0 };
        // Whether the program stops is no property of the work.
        FLAGS.set(now & !OF_WORK | self.flags & OF_WORK | heard);
        drop(CURRENT.replace(self.place.take()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(place: &Place, kind: Kind) -> Node {
        place.poll(|| Node::here(kind, None)).0
    }

    #[test]
    fn a_mark_goes_down_and_stops_at_protected_nodes() {
        let root = Node::here(Kind::Open, None).sit();
        let child = below(&root, Kind::Open).sit();
        let grandchild = below(&child, Kind::Open);
        let sheltered = below(&child, Kind::Protected).sit();
        let inside = below(&sheltered, Kind::Open);
        child.node.cancel(Interrupt::Deadline);
        root.node.cancel(Interrupt::Shutdown);
        assert_eq!(root.reason(), Some(Interrupt::Shutdown));
        assert_eq!(child.reason(), Some(Interrupt::Deadline));
        assert_eq!(grandchild.reason(), Some(Interrupt::Deadline));
        assert_eq!(sheltered.reason(), None);
        assert_eq!(inside.reason(), None);
        assert_eq!(below(&child, Kind::Open).reason(), Some(Interrupt::Deadline));
        assert_eq!(below(&child, Kind::Protected).reason(), None);
    }

    #[test]
    fn a_seat_is_cancelled_with_what_its_work_made_and_nothing_else() {
        let node = Node::here(Kind::Open, None);
        let (one, other) = (node.sit(), node.sit());
        let (below_one, below_other) = (below(&one, Kind::Open), below(&other, Kind::Open));
        one.cancel(Interrupt::RaceLost);
        assert_eq!((one.reason(), below_one.reason()), (Some(Interrupt::RaceLost), Some(Interrupt::RaceLost)));
        assert_eq!((other.reason(), below_other.reason(), node.reason()), (None, None, None));
        node.cancel(Interrupt::Deadline);
        assert_eq!((one.reason(), other.reason()), (Some(Interrupt::RaceLost), Some(Interrupt::Deadline)));
    }

    #[test]
    fn seats_are_used_again() {
        let node = Node::here(Kind::Open, None);
        let kept = Sitting(node.sit());
        for _ in 0..100 {
            let (one, other) = (Sitting(node.sit()), Sitting(node.sit()));
            one.0.cancel(Interrupt::Deadline);
            assert_eq!((other.0.reason(), kept.0.reason()), (None, None));
        }
        assert_eq!(node.0.seats.borrow().seats.len(), 3);
    }

    #[test]
    fn a_panic_leaves_no_node_behind() {
        let node = Node::here(Kind::Open, None);
        node.cancel(Interrupt::Cancelled);
        let mut doomed = Box::pin(node.run(async { panic!("as planned") }));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _: Poll<Ran<()>> = doomed.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }));
        assert!(caught.is_err());
        assert!(!is_cancelled());
        assert!(current().is_none());
    }
}
