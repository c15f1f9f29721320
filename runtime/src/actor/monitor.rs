//! Those who want to know of an actor's end.
//!
//! Each is told once, when the life it was made for ends, and not by a message that a full mailbox could refuse. Those
//! that have lost interest are dropped when the list has doubled, so an actor that lives long and is watched by many
//! that come and go does not gather them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::actor::address::Addr;
use crate::actor::counters;
use crate::actor::life::{self, Exit};
use crate::actor::mailbox::{Envelope, Parcel};
use crate::fiber::oneshot;

/// The shortest list that is looked through for those who lost interest.
const LOOKED_THROUGH_MIN: usize = 8;

/// One who wants to know.
pub(crate) trait Monitor: Send {
    /// Whether it has lost interest.
    fn is_void(&self) -> bool;

    /// It is told before others.
    fn is_first(&self) -> bool {
        false
    }

    /// The actor's `started` has returned.
    fn begun(&mut self) {}

    /// The actor has ended. Nothing that others wrote panics out of this.
    fn tell(self: Box<Self>, exit: &Exit);
}

/// All who want to know of one actor.
#[derive(Default)]
pub(crate) struct Monitors {
    list: Vec<Box<dyn Monitor>>,
    looked_through_at: usize,
}

impl Monitors {
    /// Adds one; answers those that have lost interest, to be dropped where no lock is held.
    #[must_use]
    pub(crate) fn add(&mut self, monitor: Box<dyn Monitor>) -> Vec<Box<dyn Monitor>> {
        let mut void = Vec::new();
        if self.list.len() >= self.looked_through_at.max(LOOKED_THROUGH_MIN) {
            let (lost, kept) = std::mem::take(&mut self.list).into_iter().partition(|monitor| monitor.is_void());
            (void, self.list) = (lost, kept);
            self.looked_through_at = self.list.len() * 2;
        }
        if monitor.is_first() {
            self.list.insert(0, monitor);
        } else {
            self.list.push(monitor);
        }
        void
    }

    pub(crate) fn begun(&mut self) {
        self.list.iter_mut().for_each(|monitor| monitor.begun());
    }

    /// Tells all.
    pub(crate) fn tell(self, exit: &Exit) {
        self.list.into_iter().for_each(|monitor| monitor.tell(exit));
    }
}

/// A fiber that waits for the end.
pub(crate) struct Waiting(pub(crate) oneshot::Sender<Exit>);

impl Monitor for Waiting {
    fn is_void(&self) -> bool {
        self.0.is_closed()
    }

    fn tell(self: Box<Self>, exit: &Exit) {
        let _ = self.0.send(exit.clone());
    }
}

/// An actor that is sent a message about the end.
pub(crate) struct Notified<N: Send + 'static, F> {
    pub(crate) to: Addr<N>,
    pub(crate) make: F,
}

impl<N: Send + 'static, F: FnOnce(Exit) -> N + Send> Notified<N, F> {
    /// Sends it, past any bound.
    pub(crate) fn notify(self, exit: Exit) {
        let Notified { to, make } = self;
        let message = match catch_unwind(AssertUnwindSafe(|| make(exit))) {
            Ok(message) => message,
            Err(payload) => return life::report("a function that makes a message about an actor's end", payload),
        };
        let (mailbox, life) = to.parts();
        let mut message = Some(Parcel::new(message));
        if mailbox.push_anyway(life, &mut message, || None).is_err()
            && let Some(message) = message
        {
            let home = mailbox.head().home();
            counters::count(home, counters::SENT);
            life::dead_letter(home, Envelope { message, asked: None });
        }
    }
}

impl<N: Send + 'static, F: FnOnce(Exit) -> N + Send> Monitor for Notified<N, F> {
    fn is_void(&self) -> bool {
        !self.to.is_open()
    }

    fn tell(self: Box<Self>, exit: &Exit) {
        self.notify(exit.clone());
    }
}
