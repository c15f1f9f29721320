//! The cancel tree, and what runs under which of its nodes.
//!
//! Each scope owns a node; nodes nest as scopes do. Cancelling a node marks it and everything below it, except below a
//! protected node, and wakes whatever waits there, once. A mark is never taken back, and the first reason stays. What
//! runs under a node finds the mark at its next checkpoint: every verb looks at one flag, which is set while work under
//! a marked node is polled. Work that was told at a checkpoint ends interrupted, whatever it makes of it; work that
//! ends before the next checkpoint ends as it ends.
//!
//! A protected node is not marked from above. When the protected section ends, its work is under the outer node again,
//! and finds the pending mark at the next checkpoint.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use pin_project_lite::pin_project;

use crate::scope::cause::Interrupt;

thread_local! {
    /// What is polled right now is cancelled, by a node or by an actor's order.
    static CANCELLED: Cell<bool> = const { Cell::new(false) };
    /// A checkpoint has told what is polled right now that it is cancelled.
    static TOLD: Cell<bool> = const { Cell::new(false) };
    /// What is polled right now is sheltered, from the end of the program too.
    static SHELTERED: Cell<bool> = const { Cell::new(false) };
    static CURRENT: RefCell<Option<Node>> = const { RefCell::new(None) };
}

/// Whether what runs now was cancelled. Asking is a checkpoint: work that was told so ends interrupted.
#[inline]
pub(crate) fn is_cancelled() -> bool {
    let cancelled = CANCELLED.get();
    if cancelled {
        TOLD.set(true);
    }
    cancelled
}

/// Whether what runs now is sheltered from cancels from above.
#[inline]
pub(crate) fn is_sheltered() -> bool {
    SHELTERED.get()
}

/// What runs now was told that it is cancelled, from elsewhere than a node.
#[inline]
pub(crate) fn tell() {
    TOLD.set(true);
}

/// Sets whether what runs now counts as cancelled; answers what it was.
#[inline]
pub(crate) fn set_cancelled(cancelled: bool) -> bool {
    CANCELLED.replace(cancelled)
}

/// The node under which this runs; none outside every scope.
pub fn current() -> Option<Node> {
    CURRENT.with_borrow(Clone::clone)
}

/// A node of the cancel tree. Clones are the same node.
#[derive(Clone)]
pub struct Node(Rc<Inner>);

struct Inner {
    reason: Cell<Option<Interrupt>>,
    protected: bool,
    /// It is protected, or below a protected one.
    sheltered: bool,
    below: RefCell<Vec<Weak<Inner>>>,
    waiting: RefCell<BTreeMap<u64, Waker>>,
    made: Cell<u64>,
}

impl Node {
    /// A node below none.
    pub fn root() -> Node {
        Node::new(None, false, false)
    }

    fn new(reason: Option<Interrupt>, protected: bool, sheltered: bool) -> Node {
        Node(Rc::new(Inner {
            reason: Cell::new(reason),
            protected,
            sheltered,
            below: RefCell::default(),
            waiting: RefCell::default(),
            made: Cell::new(0),
        }))
    }

    /// A node below this one, which is marked already when this one is.
    pub fn child(&self) -> Node {
        self.below(Node::new(self.reason(), false, self.0.sheltered))
    }

    /// A protected node below none.
    pub fn shelter() -> Node {
        Node::new(None, true, true)
    }

    /// A node below this one that marks from above pass by.
    pub fn protected_child(&self) -> Node {
        self.below(Node::new(None, true, true))
    }

    fn below(&self, node: Node) -> Node {
        let mut below = self.0.below.borrow_mut();
        // Those that have gone are forgotten once they are the half.
        if below.len() >= 8 && below.len().is_power_of_two() {
            below.retain(|node| node.strong_count() > 0);
        }
        below.push(Rc::downgrade(&node.0));
        drop(below);
        node
    }

    /// Why it is marked; none when it is not.
    pub fn reason(&self) -> Option<Interrupt> {
        self.0.reason.get()
    }

    /// Marks it and what is below, and wakes what waits there. The first reason stays.
    pub fn cancel(&self, reason: Interrupt) {
        let mut wake = Vec::new();
        let mut next = vec![Rc::clone(&self.0)];
        while let Some(node) = next.pop() {
            if node.reason.get().is_none() {
                node.reason.set(Some(reason));
                wake.extend(std::mem::take(&mut *node.waiting.borrow_mut()).into_values());
            }
            let below = node.below.borrow();
            next.extend(below.iter().rev().filter_map(Weak::upgrade).filter(|node| !node.protected));
        }
        wake.into_iter().for_each(Waker::wake);
    }

    /// Runs `future` under this node.
    pub fn run<F: Future>(&self, future: F) -> Within<F> {
        let number = self.0.made.get();
        self.0.made.set(number + 1);
        Within { future, seat: Seat { node: self.clone(), number }, told: false }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("reason", &self.0.reason).field("protected", &self.0.protected).finish()
    }
}

pin_project! {
    /// Work under a node; see [`Node::run`].
    #[derive(Debug)]
    #[must_use = "it does nothing until it is awaited"]
    pub struct Within<F> {
        #[pin]
        future: F,
        seat: Seat,
        told: bool,
    }
}

/// What work under a node came to.
#[derive(Debug)]
pub struct Ran<T> {
    /// What it returned.
    pub output: T,
    /// Why it was interrupted, when a checkpoint told it so.
    pub interrupted: Option<Interrupt>,
}

/// A place among those who are woken when the node is marked.
#[derive(Debug)]
struct Seat {
    node: Node,
    number: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.node.0.waiting.borrow_mut().remove(&self.number);
    }
}

impl<F: Future> Future for Within<F> {
    type Output = Ran<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ran<F::Output>> {
        let this = self.project();
        let node = &this.seat.node;
        let here = Here::enter(node);
        let polled = this.future.poll(cx);
        *this.told |= TOLD.get();
        drop(here);
        match polled {
            Poll::Ready(output) => Poll::Ready(Ran {
                output,
                interrupted: this.told.then(|| node.reason().unwrap_or(Interrupt::Shutdown)),
            }),
            Poll::Pending => {
                if node.reason().is_none() {
                    let mut waiting = node.0.waiting.borrow_mut();
                    match waiting.get_mut(&this.seat.number) {
                        Some(waker) => waker.clone_from(cx.waker()),
                        None => drop(waiting.insert(this.seat.number, cx.waker().clone())),
                    }
                }
                Poll::Pending
            }
        }
    }
}

/// While it lives, what runs runs under a node; a panic passes through it.
struct Here {
    cancelled: bool,
    told: bool,
    sheltered: bool,
    node: Option<Node>,
}

impl Here {
    fn enter(node: &Node) -> Here {
        if CANCELLED.get() && !node.0.sheltered {
            // Cancelled from around the tree: by an actor's order, say.
            node.cancel(Interrupt::Cancelled);
        }
        Here {
            cancelled: set_cancelled(node.reason().is_some()),
            told: TOLD.replace(false),
            sheltered: SHELTERED.replace(node.0.sheltered),
            node: CURRENT.replace(Some(node.clone())),
        }
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        set_cancelled(self.cancelled);
        TOLD.set(self.told);
        SHELTERED.set(self.sheltered);
        CURRENT.set(self.node.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_goes_down_and_stops_at_protected_nodes() {
        let root = Node::root();
        let child = root.child();
        let grandchild = child.child();
        let sheltered = child.protected_child();
        let inside = sheltered.child();
        child.cancel(Interrupt::Deadline);
        root.cancel(Interrupt::Shutdown);
        assert_eq!(root.reason(), Some(Interrupt::Shutdown));
        assert_eq!(child.reason(), Some(Interrupt::Deadline));
        assert_eq!(grandchild.reason(), Some(Interrupt::Deadline));
        assert_eq!(sheltered.reason(), None);
        assert_eq!(inside.reason(), None);
        assert_eq!(child.child().reason(), Some(Interrupt::Deadline));
        assert_eq!(child.protected_child().reason(), None);
    }

    #[test]
    fn a_panic_leaves_no_node_behind() {
        let node = Node::root();
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
