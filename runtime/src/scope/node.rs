//! The cancel tree.
//!
//! Each scope and each section owns a node; nodes nest as they do. The work that owns a node sits there, and so does
//! each further piece of work under it, on a seat of its own. Cancelling a node marks it and everything below it,
//! except below a protected node, and wakes whoever sits there; cancelling a seat does the same for that work alone. A
//! mark is never taken back, and the first reason stays. What runs under a node finds the mark at its next checkpoint;
//! see [`now`](crate::scope::now). Work that was told at a checkpoint ends interrupted, whatever it makes of it; work
//! that ends before the next checkpoint ends as it ends.
//!
//! A protected node is not marked from above. When the protected section ends, its work is under the outer node again,
//! and finds the pending mark at the next checkpoint. Only giving up passes protected nodes: it is the answer to a
//! clean-up that does not end, and who sits there is to drop what it runs.
//!
//! A node is in the tree until its owner ends it, or has gone. What others hold of it then is out of the tree. One that
//! nobody holds any more is kept for the next who needs one: scopes come and go faster than memory is worth asking for.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pin_project_lite::pin_project;

use crate::scope::cause::Interrupt;
use crate::scope::crew::Crew;
use crate::scope::now;
use crate::scope::slots::Slots;

/// It is protected; then it is sheltered, too, as is whatever is below.
const PROTECTED: u8 = 1 << 6;
/// What runs here is to be dropped.
const GIVEN_UP: u8 = 1 << 7;
/// One of its seats may have been cancelled alone.
const SEAT_CANCELLED: u8 = 1 << 5;

/// The place of the work that owns the node.
const OWNER: u32 = u32::MAX;

/// Nodes below one, from which on those that have gone are looked for.
const SWEPT_MIN: usize = 8;

/// Nodes one thread keeps for later.
const SPARE_MAX: usize = 64;

thread_local! {
    static SPARE: RefCell<Vec<Node>> = const { RefCell::new(Vec::new()) };
}

/// Gives back what this thread keeps for later.
pub(crate) fn give_up_spare() {
    let _gone = SPARE.try_with(|spare| std::mem::take(&mut *spare.borrow_mut()));
}

/// A node of the cancel tree. Clones are the same node.
#[derive(Clone)]
pub(crate) struct Node(Rc<Inner>);

struct Inner {
    reason: Cell<Option<Interrupt>>,
    /// Those of `now` for its owner, and more.
    flags: Cell<u8>,
    deadline: Cell<Option<Duration>>,
    /// That of the fiber in which the work runs that owns the node.
    owner: Cell<Option<Waker>>,
    /// Those of further work under it.
    seats: RefCell<Slots<Seat>>,
    below: RefCell<Slots<Below>>,
    /// Who is in the scope whose node this is.
    crew: Crew,
}

struct Seat {
    waker: Option<Waker>,
    reason: Option<Interrupt>,
}

/// A node below another, and the seat of the work that made it.
struct Below {
    node: Weak<Inner>,
    seat: u32,
}

/// What kind of node to make.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Marked when what is around is.
    Open,
    /// Marks from above pass by.
    Protected,
}

impl Node {
    #[inline]
    fn take() -> Node {
        let spare = SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten();
        spare.unwrap_or_else(Node::make)
    }

    #[cold]
    fn make() -> Node {
        Node(Rc::new(Inner {
            reason: Cell::new(None),
            flags: Cell::new(0),
            deadline: Cell::new(None),
            owner: Cell::new(None),
            seats: RefCell::new(Slots::new()),
            below: RefCell::new(Slots::new()),
            crew: Crew::new(),
        }))
    }

    /// Keeps it for later, if nobody else holds it.
    #[inline]
    fn keep(mut self) {
        let Some(inner) = Rc::get_mut(&mut self.0) else { return };
        if !inner.seats.get_mut().is_as_new() || !inner.below.get_mut().is_as_new() || !inner.crew.is_as_new() {
            return;
        }
        let _gone = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_MAX {
                spare.push(self);
            }
        });
    }

    #[inline]
    fn adopt(&self, node: &Node, seat: u32) -> u32 {
        let mut below = self.0.below.borrow_mut();
        // Those that have gone without a word are looked for whenever the others have doubled.
        if below.is_full() && below.len() >= SWEPT_MIN && below.len().is_power_of_two() {
            below.sweep(|below| below.node.strong_count() == 0);
        }
        below.put(Below { node: Rc::downgrade(&node.0), seat })
    }

    /// Who is in the scope whose node this is.
    #[inline]
    pub(super) fn crew(&self) -> &Crew {
        &self.0.crew
    }

    /// Why it is marked; none when it is not.
    #[inline]
    pub(crate) fn reason(&self) -> Option<Interrupt> {
        self.0.reason.get()
    }

    #[inline]
    fn has(&self, flag: u8) -> bool {
        self.0.flags.get() & flag != 0
    }

    #[inline]
    fn set(&self, flag: u8) {
        self.0.flags.set(self.0.flags.get() | flag);
    }

    /// A new life begins.
    #[inline]
    fn begin(&self, reason: Option<Interrupt>, flags: u8, deadline: Option<Duration>) {
        self.0.reason.set(reason);
        self.0.flags.set(flags | if reason.is_some() { now::CANCELLED } else { 0 });
        self.0.deadline.set(deadline);
    }

    /// The nearest deadline of what runs here.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.0.deadline.get()
    }

    /// Whether what runs here is to be dropped.
    #[inline]
    pub(crate) fn is_given_up(&self) -> bool {
        self.has(GIVEN_UP)
    }

    #[inline]
    pub(super) fn is_sheltered(&self) -> bool {
        self.has(now::SHELTERED)
    }

    /// Marks it and what is below, and wakes who sits there. The first reason stays.
    pub(crate) fn cancel(&self, reason: Interrupt) {
        if self.reason().is_none() {
            Node::mark(vec![self.clone()], reason, Vec::new());
        }
    }

    fn mark(mut next: Vec<Node>, reason: Interrupt, mut wake: Vec<Waker>) {
        while let Some(node) = next.pop() {
            // Below a marked node all is marked.
            if node.reason().is_none() {
                node.0.reason.set(Some(reason));
                node.set(now::CANCELLED);
                node.wakers(&mut wake);
                next.extend(node.below(None).into_iter().rev().filter(|node| !node.has(PROTECTED)));
            }
        }
        wake.into_iter().for_each(Waker::wake);
    }

    fn wakers(&self, wake: &mut Vec<Waker>) {
        wake.extend(self.owner());
        wake.extend(self.0.seats.borrow().iter().filter_map(|seat| seat.waker.clone()));
    }

    fn owner(&self) -> Option<Waker> {
        let owner = self.0.owner.take();
        self.0.owner.set(owner.clone());
        owner
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
            node.set(GIVEN_UP);
            node.wakers(&mut wake);
            next.extend(node.below(None));
        }
        wake.into_iter().for_each(Waker::wake);
    }

    /// Wakes the work that owns it.
    #[inline]
    pub(super) fn wake_owner(&self) {
        if let Some(waker) = self.owner() {
            waker.wake();
        }
    }

    /// From now on this waker is the owner's.
    #[inline]
    pub(super) fn owner_waits(&self, with: &Waker) {
        let owner = match self.0.owner.take() {
            Some(same) if same.will_wake(with) => same,
            _ => with.clone(),
        };
        self.0.owner.set(Some(owner));
    }

    /// The owner's place, for who sits nowhere.
    pub(super) fn owners_place(&self) -> Place {
        Place { node: self.clone(), seat: OWNER }
    }

    /// A seat at this node, for a [`Sitting`] to give back.
    #[inline]
    pub(super) fn seat(&self) -> Place {
        let seat = self.0.seats.borrow_mut().put(Seat { waker: None, reason: None });
        Place { node: self.clone(), seat }
    }

    /// Runs `future` under this node, on a seat of its own.
    #[inline]
    pub(crate) fn run<F: Future>(&self, future: F) -> Within<F> {
        Within { future, sitting: Sitting::at(self.seat()), told: false }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("reason", &self.0.reason).field("protected", &self.has(PROTECTED)).finish()
    }
}

/// A node, as the work that opened it has it, with the owner's seat. Dropped, it leaves the node to whoever holds it.
#[derive(Debug)]
pub(crate) struct Owned {
    /// The owner's, which is with [`now`](crate::scope::now) while it is polled.
    pub(super) sitting: Sitting,
    /// The node above, and the slot there.
    above: Option<(Node, u32)>,
}

impl Owned {
    /// A node below the place where this runs, with a deadline of its own or without; a nearer one around it stays.
    #[inline]
    pub(crate) fn open(kind: Kind, deadline: Option<Duration>) -> Owned {
        let node = Node::take();
        let protected = kind == Kind::Protected;
        let own = if protected { PROTECTED | now::SHELTERED } else { 0 };
        let above = now::look_around(|place, around| match place {
            None => {
                // Sheltered work has the time it takes; a deadline of its own counts again.
                let around = if protected { None } else { around };
                node.begin(None, own, nearest(around, deadline));
                None
            }
            Some(place) => {
                let (reason, around) = if protected { (None, None) } else { (place.reason(), place.node.deadline()) };
                let passed_on = place.node.0.flags.get() & (now::SHELTERED | GIVEN_UP);
                node.begin(reason, own | passed_on, nearest(around, deadline));
                Some((place.node.clone(), place.node.adopt(&node, place.seat)))
            }
        });
        Owned { sitting: Sitting::at(Place { node, seat: OWNER }), above }
    }

    /// A protected node below this one, as its work would open it.
    pub(crate) fn shelter(&self) -> Owned {
        let (above, node) = (self.node(), Node::take());
        node.begin(None, PROTECTED | now::SHELTERED | above.0.flags.get() & GIVEN_UP, None);
        let slot = above.adopt(&node, OWNER);
        Owned { above: Some((above.clone(), slot)), sitting: Sitting::at(Place { node, seat: OWNER }) }
    }

    /// Its node. To be asked only while its owner is not polled.
    #[inline]
    pub(crate) fn node(&self) -> &Node {
        &self.sitting.place().node
    }

    /// Runs `future` under this node, as the work that opened it.
    #[inline]
    pub(crate) fn run_own<F: Future>(&self, future: F) -> Within<F> {
        Within { future, sitting: Sitting::at(self.node().owners_place()), told: false }
    }

    /// Takes it out of the tree.
    #[inline]
    pub(crate) fn end(mut self) {
        self.leave_tree();
    }

    /// The same. From now on it has no node.
    #[inline]
    pub(super) fn leave_tree(&mut self) {
        if let Some((above, slot)) = self.above.take() {
            let below = above.0.below.borrow_mut().take(slot);
            drop(below);
        }
        if let Some(Place { node, .. }) = self.sitting.place.take() {
            drop(node.0.owner.take());
            node.keep();
        }
    }

    /// Whether it is out of the tree. To be asked only while its owner is not polled.
    #[inline]
    pub(super) fn has_left_tree(&self) -> bool {
        self.sitting.place.is_none()
    }
}

#[inline]
fn nearest(around: Option<Duration>, own: Option<Duration>) -> Option<Duration> {
    match own {
        None => around,
        Some(own) => Some(around.map_or(own, |around| around.min(own))),
    }
}

/// A seat at a node. Copies are the same seat; see [`Sitting`] for who gives it back.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    node: Node,
    seat: u32,
}

impl Place {
    #[inline]
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// Why the work here is cancelled; none when it is not.
    #[inline]
    pub(crate) fn reason(&self) -> Option<Interrupt> {
        if self.seat == OWNER || !self.node.has(SEAT_CANCELLED) {
            return self.node.reason();
        }
        let own = self.node.0.seats.borrow().get(self.seat).and_then(|seat| seat.reason);
        own.or(self.node.reason())
    }

    /// What is right for the work here, of the flags in [`now`](crate::scope::now).
    #[inline]
    pub(super) fn flags(&self) -> u8 {
        let all = self.node.0.flags.get();
        let flags = all & (now::CANCELLED | now::SHELTERED);
        if all & SEAT_CANCELLED == 0 { flags } else { flags | self.flag_of_seat() }
    }

    #[cold]
    fn flag_of_seat(&self) -> u8 {
        if self.reason().is_some() { now::CANCELLED } else { 0 }
    }

    /// Whether nobody has been cancelled or given up who sits at the node.
    #[inline]
    pub(super) fn is_undisturbed(&self) -> bool {
        self.node.0.flags.get() & (now::CANCELLED | SEAT_CANCELLED | GIVEN_UP) == 0
    }

    /// Cancels the work here and below, alone. To be asked only while it sits here.
    pub(crate) fn cancel(&self, reason: Interrupt) {
        if self.seat == OWNER {
            return self.node.cancel(reason);
        }
        if self.reason().is_some() {
            return;
        }
        let mut wake = Vec::new();
        if let Some(seat) = self.node.0.seats.borrow_mut().get_mut(self.seat) {
            seat.reason = Some(reason);
            self.node.set(SEAT_CANCELLED);
            wake.extend(seat.waker.clone());
        }
        let below = self.node.below(Some(self.seat)).into_iter().rev().filter(|node| !node.has(PROTECTED));
        Node::mark(below.collect(), reason, wake);
    }

    /// From now on this waker is woken.
    #[inline]
    fn waits(&self, with: &Waker) {
        if self.seat == OWNER {
            return self.node.owner_waits(with);
        }
        if let Some(seat) = self.node.0.seats.borrow_mut().get_mut(self.seat) {
            match &mut seat.waker {
                Some(waker) => waker.clone_from(with),
                None => seat.waker = Some(with.clone()),
            }
        }
    }
}

/// Who gives the seat back. While it is polled, its place is with [`now`](crate::scope::now).
#[derive(Debug)]
pub(crate) struct Sitting {
    place: Option<Place>,
    /// It was cancelled already when it was polled last.
    knew: bool,
}

impl Sitting {
    #[inline]
    pub(super) fn at(place: Place) -> Sitting {
        Sitting { place: Some(place), knew: false }
    }

    /// Where it sits. To be asked only while it is not polled.
    #[inline]
    pub(crate) fn place(&self) -> &Place {
        self.place.as_ref().expect(SAT)
    }

    /// Gives its place away for a poll, and the place's flags.
    #[inline]
    pub(super) fn leave_to_poll(&mut self) -> (Place, u8) {
        let place = self.place.take().expect(SAT);
        let flags = place.flags();
        self.knew = flags & now::CANCELLED != 0;
        (place, flags)
    }

    #[inline]
    pub(super) fn come_back(&mut self, place: Option<Place>) {
        let none = std::mem::replace(&mut self.place, place);
        debug_assert!(none.is_none(), "its place was given away");
        // Not to be looked at again by a drop.
        std::mem::forget(none);
    }

    /// Polls work that sits here: what it opens lies below. Answers also whether it was told that it is cancelled.
    #[inline]
    pub(crate) fn poll<T>(&mut self, poll: impl FnOnce() -> T) -> (T, bool) {
        now::poll_at(self, poll)
    }

    /// The same; a panic of the work is its answer.
    #[inline]
    pub(crate) fn poll_caught<T>(&mut self, poll: impl FnOnce() -> T) -> (std::thread::Result<T>, bool) {
        now::poll_caught_at(self, poll)
    }

    /// From now on this waker is woken; at once, when the work was cancelled while it was polled, as by itself: it may
    /// have parked without knowing.
    #[inline]
    pub(crate) fn waits(&self, with: &Waker) {
        let place = self.place();
        place.waits(with);
        if !self.knew && place.flags() & now::CANCELLED != 0 {
            with.wake_by_ref();
        }
    }
}

const SAT: &str = "work has its place back after each poll";

impl Drop for Sitting {
    #[inline]
    fn drop(&mut self) {
        if let Some(Place { node, seat }) = &self.place {
            if *seat == OWNER {
                drop(node.0.owner.take());
            } else {
                let left = node.0.seats.borrow_mut().take(*seat);
                drop(left);
            }
        }
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
    /// Where it sits. To be asked only while it is not polled.
    pub(crate) fn place(&self) -> &Place {
        self.sitting.place()
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

impl<T> Ran<T> {
    /// Work that sits here has returned.
    #[inline]
    pub(crate) fn at(sitting: &Sitting, output: T, told: bool) -> Ran<T> {
        let interrupted = if told { Some(sitting.place().reason().unwrap_or(Interrupt::Shutdown)) } else { None };
        Ran { output, interrupted }
    }
}

impl<F: Future> Future for Within<F> {
    type Output = Ran<F::Output>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ran<F::Output>> {
        let this = self.project();
        let (polled, told) = this.sitting.poll(|| this.future.poll(cx));
        *this.told |= told;
        match polled {
            Poll::Ready(output) => Poll::Ready(Ran::at(this.sitting, output, *this.told)),
            Poll::Pending => {
                this.sitting.waits(cx.waker());
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(sitting: &mut Sitting, kind: Kind) -> Owned {
        sitting.poll(|| Owned::open(kind, None)).0
    }

    #[test]
    fn a_mark_goes_down_and_stops_at_protected_nodes() {
        let mut root = Owned::open(Kind::Open, None);
        let mut child = below(&mut root.sitting, Kind::Open);
        let grandchild = below(&mut child.sitting, Kind::Open);
        let mut sheltered = below(&mut child.sitting, Kind::Protected);
        let inside = below(&mut sheltered.sitting, Kind::Open);
        child.node().cancel(Interrupt::Deadline);
        root.node().cancel(Interrupt::Shutdown);
        assert_eq!(root.node().reason(), Some(Interrupt::Shutdown));
        assert_eq!(child.node().reason(), Some(Interrupt::Deadline));
        assert_eq!(grandchild.node().reason(), Some(Interrupt::Deadline));
        assert_eq!(sheltered.node().reason(), None);
        assert_eq!(inside.node().reason(), None);
        assert_eq!(below(&mut child.sitting, Kind::Open).node().reason(), Some(Interrupt::Deadline));
        assert_eq!(below(&mut child.sitting, Kind::Protected).node().reason(), None);
        root.node().give_up();
        assert!(sheltered.node().is_given_up() && inside.node().is_given_up());
    }

    #[test]
    fn a_seat_is_cancelled_with_what_its_work_made_and_nothing_else() {
        let node = Owned::open(Kind::Open, None);
        let (mut one, mut other) = (Sitting::at(node.node().seat()), Sitting::at(node.node().seat()));
        let (below_one, below_other) = (below(&mut one, Kind::Open), below(&mut other, Kind::Open));
        one.place().cancel(Interrupt::RaceLost);
        assert_eq!(
            (one.place().reason(), below_one.node().reason()),
            (Some(Interrupt::RaceLost), Some(Interrupt::RaceLost))
        );
        assert_eq!((other.place().reason(), below_other.node().reason(), node.node().reason()), (None, None, None));
        node.node().cancel(Interrupt::Deadline);
        let reasons = (one.place().reason(), other.place().reason());
        assert_eq!(reasons, (Some(Interrupt::RaceLost), Some(Interrupt::Deadline)));
    }

    #[test]
    fn a_node_that_has_ended_is_out_of_the_tree_and_one_nobody_holds_is_used_again() {
        give_up_spare();
        let mut root = Owned::open(Kind::Open, None);
        let child = below(&mut root.sitting, Kind::Protected);
        let held = child.node().clone();
        child.end();
        root.node().cancel(Interrupt::Cancelled);
        root.node().give_up();
        assert!(!held.is_given_up() && root.node().0.below.borrow().len() == 0);
        // Somebody holds it: not to be used again.
        let other = below(&mut root.sitting, Kind::Open);
        assert!(!Rc::ptr_eq(&held.0, &other.node().0));
        assert!(other.node().is_given_up() && other.node().reason() == Some(Interrupt::Cancelled));
        let was = Rc::as_ptr(&other.node().0);
        other.end();
        let again = Owned::open(Kind::Open, None);
        assert_eq!(Rc::as_ptr(&again.node().0), was);
        assert!(!again.node().is_given_up() && again.node().reason().is_none() && !again.node().is_sheltered());
    }

    #[test]
    fn nodes_that_went_without_a_word_are_forgotten() {
        let mut root = Owned::open(Kind::Open, None);
        for _ in 0..1000 {
            drop(below(&mut root.sitting, Kind::Open));
        }
        assert!(root.node().0.below.borrow().len() <= SWEPT_MIN);
    }

    #[test]
    fn a_panic_leaves_no_node_behind() {
        let node = Owned::open(Kind::Open, None);
        node.node().cancel(Interrupt::Cancelled);
        let mut doomed = Box::pin(node.node().run(async { panic!("as planned") }));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _: Poll<Ran<()>> = doomed.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }));
        assert!(caught.is_err());
        assert!(!now::is_cancelled());
        assert!(now::here(|place| place.is_none()));
        assert_eq!(doomed.place().reason(), Some(Interrupt::Cancelled));
    }
}
