//! Who is in a scope, and what has become of them.
//!
//! The body counts as a member. Members keep the scope alive, daemons do not: once only daemons are left they are
//! interrupted. Whoever leaves last wakes the scope's owner. The first cause that comes up is kept, and cancels the
//! others if the policy says so; later ones are counted. Interruptions are somebody's will already, and cancel nobody.
//!
//! A crew is part of its scope's node, so that a scope is one piece of memory; the cause is kept without its type,
//! which the scope knows.

use std::any::Any;
use std::cell::{Cell, RefCell};

use crate::scope::cause::{Cause, Interrupt};
use crate::scope::executor::Boxed;
use crate::scope::node::Node;
use crate::scope::options::OnFailure;

pub(super) struct Crew {
    /// Members that keep the scope alive: the body and its plain children.
    members: Cell<usize>,
    daemons: Cell<usize>,
    abandoned: Cell<u32>,
    on_failure: Cell<OnFailure>,
    /// The body has not left.
    body: Cell<bool>,
    /// A member was interrupted because time ran out.
    late: Cell<bool>,
    ended: Cell<bool>,
    /// Nothing has come up but members that came and went: no cause, no hook, nobody given up.
    plain: Cell<bool>,
    /// A `Cause<E>`.
    cause: Cell<Option<Box<dyn Any>>>,
    hooks: RefCell<Vec<Boxed<()>>>,
}

impl Crew {
    pub(super) const fn new() -> Crew {
        Crew {
            members: Cell::new(0),
            daemons: Cell::new(0),
            abandoned: Cell::new(0),
            on_failure: Cell::new(OnFailure::CancelSiblings),
            body: Cell::new(false),
            late: Cell::new(false),
            ended: Cell::new(false),
            plain: Cell::new(true),
            cause: Cell::new(None),
            hooks: RefCell::new(Vec::new()),
        }
    }

    /// Whether it holds nothing, so that another scope may begin with it.
    #[inline]
    pub(super) fn is_as_new(&mut self) -> bool {
        self.is_empty() && self.hooks.get_mut().is_empty() && self.cause.get_mut().is_none()
    }

    /// A scope begins: its body is the only member.
    #[inline]
    pub(super) fn begin(&self, on_failure: OnFailure) {
        self.members.set(1);
        self.abandoned.set(0);
        self.on_failure.set(on_failure);
        self.body.set(true);
        self.late.set(false);
        self.ended.set(false);
        self.plain.set(true);
    }

    /// Whether the body is the last that is left, and nothing has come up. Then the scope has ended.
    #[inline]
    pub(super) fn ends_plainly(&self) -> bool {
        if !self.plain.get() || self.len() != 1 || !self.body.get() {
            return false;
        }
        self.body.set(false);
        self.members.set(0);
        self.ended.set(true);
        true
    }

    /// The scope ends: nothing starts any more. Whether it had ended already.
    #[inline]
    pub(super) fn end(&self) -> bool {
        self.ended.replace(true)
    }

    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        self.ended.get()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.members.get() == 0 && self.daemons.get() == 0
    }

    /// Members and daemons.
    pub(super) fn len(&self) -> usize {
        self.members.get() + self.daemons.get()
    }

    /// Those of them that are not the body.
    pub(super) fn children(&self) -> usize {
        self.len() - usize::from(self.body.get())
    }

    /// Keeps a hook for the end.
    pub(super) fn hook(&self, hook: Boxed<()>) {
        self.plain.set(false);
        self.hooks.borrow_mut().push(hook);
    }

    pub(super) fn has_hooks(&self) -> bool {
        !self.hooks.borrow().is_empty()
    }

    /// The hook that was registered last.
    pub(super) fn next_hook(&self) -> Option<Boxed<()>> {
        self.hooks.borrow_mut().pop()
    }

    /// A member was dropped because it did not clean up in time.
    pub(super) fn abandon(&self) {
        self.plain.set(false);
        self.abandoned.set(self.abandoned.get().saturating_add(1));
    }

    pub(super) fn abandoned(&self) -> u32 {
        self.abandoned.get()
    }

    /// A member came.
    #[inline]
    pub(super) fn joined(&self, daemon: bool) {
        let count = if daemon { &self.daemons } else { &self.members };
        count.set(count.get() + 1);
    }

    /// The cause that is kept, given up.
    #[inline]
    pub(super) fn take_cause<E: 'static>(&self) -> Option<Cause<E>> {
        self.cause.take().and_then(|cause| cause.downcast().ok()).map(|cause| *cause)
    }
}

impl Node {
    /// A cause comes up in the scope whose node this is.
    pub(super) fn note<E: 'static>(&self, cause: Cause<E>) {
        let crew = self.crew();
        crew.plain.set(false);
        if let Some(reason) = cause.interrupt() {
            crew.late.set(crew.late.get() || reason == Interrupt::Deadline);
            return;
        }
        let kept = match crew.take_cause::<E>() {
            None => cause,
            Some(first) => first.with_suppressed(1),
        };
        crew.cause.set(Some(Box::new(kept)));
        if crew.on_failure.get() == OnFailure::CancelSiblings {
            self.cancel(Interrupt::SiblingFailed);
        }
    }

    /// A member left the scope whose node this is.
    #[inline]
    pub(super) fn left(&self, daemon: bool) {
        let crew = self.crew();
        let count = if daemon { &crew.daemons } else { &crew.members };
        count.set(count.get() - 1);
        if crew.members.get() == 0 {
            if crew.daemons.get() == 0 {
                self.wake_owner();
            } else if !daemon {
                self.cancel(Interrupt::Daemon);
            }
        }
    }

    /// The body left, if it had not. Who would be woken by the last to leave is the one that says this.
    #[inline]
    pub(super) fn body_left(&self) {
        let crew = self.crew();
        if crew.body.replace(false) {
            crew.members.set(crew.members.get() - 1);
            if crew.members.get() == 0 && crew.daemons.get() > 0 {
                self.cancel(Interrupt::Daemon);
            }
        }
    }

    /// Whether somebody in the scope whose node this is had no time left.
    pub(super) fn is_late(&self) -> bool {
        let crew = self.crew();
        crew.late.get() || crew.abandoned.get() > 0 && self.reason() == Some(Interrupt::Deadline)
    }
}
