//! What becomes of messages, counted: every message ends exactly once.
//!
//! Each shard counts what happens on it, with a plain load and store. Summed over the shards of a program that is
//! quiet, what was sent is what was handled, returned, dead-lettered, expired, and what still waits in mailboxes.

use crate::fiber;
use crate::fiber::home::Home;
use crate::shard::program::here;

pub(crate) const SENT: usize = 0;
pub(crate) const HANDLED: usize = 1;
pub(crate) const RETURNED: usize = 2;
pub(crate) const DEAD_LETTERED: usize = 3;
pub(crate) const EXPIRED: usize = 4;
/// Actors that were spawned here.
pub(crate) const LIVES: usize = 5;

/// How many messages ended in which way, over all actors of a program.
///
/// # Examples
///
/// ```
/// use wo::actor::{self, Addr};
///
/// struct Sink;
/// #[wo::actor]
/// impl Sink {
///     fn receive(&mut self, _: u32) {}
/// }
///
/// #[wo::main]
/// fn main() {
///     let sink: Addr<u32> = wo::spawn(Sink);
///     for n in 0..10 {
///         sink.send(n).unwrap();
///     }
///     sink.stop();
///     sink.ended().unwrap();
///     sink.send(11).unwrap(); // nobody is there: dropped, and counted
///     let counters = actor::counters();
///     assert_eq!((counters.sent, counters.handled, counters.dead_lettered), (11, 10, 1));
///     assert_eq!(counters.queued(), 0);
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Messages given to an address, whatever became of them.
    pub sent: u64,
    /// Messages an actor's `receive` was called with.
    pub handled: u64,
    /// Messages that came back to their sender, from a full mailbox or an actor that takes no more.
    pub returned: u64,
    /// Messages that were dropped: sent to nobody, left when their actor ended, or given up by their sender.
    pub dead_lettered: u64,
    /// Requests whose asker's time ran out before their turn, and ticks whose timer was taken back.
    pub expired: u64,
}

impl Counters {
    /// Messages that wait in mailboxes.
    pub const fn queued(&self) -> u64 {
        self.sent.saturating_sub(self.handled + self.returned + self.dead_lettered + self.expired)
    }
}

/// The counts of this program so far, summed over its shards. While other shards run they are a snapshot that is a
/// moment old; outside a program all are zero.
///
/// # Examples
///
/// ```
/// struct Sink;
///
/// #[wo::actor]
/// impl Sink {
///     fn receive(&mut self, _: u32) {}
/// }
///
/// #[wo::main]
/// fn main() {
///     let sink = wo::spawn(Sink);
///     sink.send(1).unwrap();
///     sink.stop();
///     sink.ended().unwrap();
///     assert_eq!(wo::actor::counters().handled, 1);
/// }
/// ```
pub fn counters() -> Counters {
    here(|here| {
        let sum = |which| here.program.homes().map(|home| home.tally.sum(which)).sum();
        // Ends before beginnings, so that a message that moves meanwhile counts as queued.
        let (handled, returned) = (sum(HANDLED), sum(RETURNED));
        let (dead_lettered, expired) = (sum(DEAD_LETTERED), sum(EXPIRED));
        Counters { sent: sum(SENT), handled, returned, dead_lettered, expired }
    })
    .unwrap_or_default()
}

/// Counts one more on this thread; on one that is no shard, for the actor's home.
#[inline]
pub(crate) fn count(home: Option<&'static Home>, which: usize) {
    match (fiber::home_here(), home) {
        (Some(here), _) => drop(here.tally.count(which)),
        (None, Some(home)) => home.tally.count_from_outside(which),
        (None, None) => {}
    }
}

/// A message that was never queued came back to its sender, or was dropped.
pub(crate) fn count_unsent(home: Option<&'static Home>, fate: usize) {
    count(home, SENT);
    count(home, fate);
}
