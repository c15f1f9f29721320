//! One subscriber's queue: what was published and not yet taken.
//!
//! Publishers push under the queue's lock and never wait in it. What happens to a message that finds the queue full is
//! the subscriber's choice. Publishers that park for room stay in line until they have pushed, and nobody passes them,
//! so messages come in the order in which they were published.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::actor::life;
use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::fiber::{self, Call};

/// What happens to a message that finds a subscriber's queue full.
///
/// # Examples
///
/// ```
/// use wo::actor::{Delivery, Overflow, Topic};
///
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let news = Topic::new();
/// let mut first = news.subscribe(1, Overflow::DropNewest);
/// let mut last = news.subscribe(1, Overflow::DropOldest);
/// for n in 1..=3 {
///     news.publish(n)?;
/// }
/// assert_eq!(first.recv()?.message, 1);
/// assert_eq!(last.recv()?, Delivery { message: 3, missed: 2 });
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Overflow {
    /// The oldest in the queue is dropped, and counted as missed.
    DropOldest,
    /// It is dropped itself, and counted as missed.
    DropNewest,
    /// Its publisher parks until there is room; the other subscribers have the message already.
    Park,
}

/// A message as a subscriber gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<M> {
    /// What was published.
    pub message: M,
    /// How many messages were dropped from a full queue since the delivery before.
    pub missed: u64,
}

/// The queue of one subscriber.
pub(crate) struct Queue<M> {
    bound: usize,
    overflow: Overflow,
    state: Mutex<State<M>>,
}

struct State<M> {
    messages: VecDeque<M>,
    missed: u64,
    subscriber: Option<Waker>,
    /// Publishers that wait for room, in line.
    line: VecDeque<(u64, Waker)>,
    tickets: u64,
    /// The subscriber has gone, or all publishers have.
    closed: bool,
}

/// What became of a message that was offered.
pub(crate) enum Offer<M> {
    Taken,
    /// It, or an older one in its place, was dropped; this is it, to be dropped where no lock is held.
    Dropped(M),
    /// There is no room; the place in line.
    Wait(M, u64),
    Closed(M),
}

impl<M> Queue<M> {
    pub(crate) fn new(bound: usize, overflow: Overflow) -> Queue<M> {
        let state = State {
            messages: VecDeque::new(),
            missed: 0,
            subscriber: None,
            line: VecDeque::new(),
            tickets: 0,
            closed: false,
        };
        Queue { bound: bound.max(1), overflow, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Offers a message; `ticket` is the place in line of a publisher that waits already.
    pub(crate) fn offer(&self, message: M, ticket: Option<u64>, waker: &Waker) -> Offer<M> {
        let mut state = self.state();
        if state.closed {
            return Offer::Closed(message);
        }
        let is_next = state.line.front().is_none_or(|(first, _)| Some(*first) == ticket);
        if state.messages.len() < self.bound && is_next {
            state.messages.push_back(message);
            if ticket.is_some() {
                state.line.pop_front();
                state.call_the_next(self.bound);
            }
            let subscriber = state.subscriber.take();
            drop(state);
            if let Some(subscriber) = subscriber {
                subscriber.wake();
            }
            return Offer::Taken;
        }
        match (self.overflow, ticket) {
            (Overflow::DropOldest, _) => {
                state.missed += 1;
                state.messages.push_back(message);
                match state.messages.pop_front() {
                    Some(oldest) => Offer::Dropped(oldest),
                    None => Offer::Taken,
                }
            }
            (Overflow::DropNewest, _) => {
                state.missed += 1;
                Offer::Dropped(message)
            }
            (Overflow::Park, Some(ticket)) => {
                if let Some(place) = place_in(&state.line, ticket) {
                    state.line[place].1.clone_from(waker);
                }
                Offer::Wait(message, ticket)
            }
            (Overflow::Park, None) => {
                state.tickets += 1;
                let ticket = state.tickets;
                state.line.push_back((ticket, waker.clone()));
                Offer::Wait(message, ticket)
            }
        }
    }

    /// A publisher leaves the line without having pushed.
    pub(crate) fn leave_line(&self, ticket: u64) {
        let mut state = self.state();
        if let Some(place) = place_in(&state.line, ticket) {
            state.line.remove(place);
        }
        state.call_the_next(self.bound);
    }

    /// Nothing is taken any more; what is queued can still be received.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        let line = std::mem::take(&mut state.line);
        let subscriber = state.subscriber.take();
        drop(state);
        line.into_iter().map(|(_, waker)| waker).chain(subscriber).for_each(Waker::wake);
    }

    /// The subscriber has gone: what is queued is dropped.
    fn abandon(&self) {
        self.close();
        let messages = std::mem::take(&mut self.state().messages);
        // One by one: two destructors that panic in one go would abort the process.
        messages.into_iter().for_each(life::drop_quietly);
    }

    /// The next delivery; an error when there will be none.
    pub(crate) fn poll_next(&self, cx: &Context<'_>) -> Poll<IoResult<Delivery<M>>> {
        let mut state = self.state();
        if let Some(message) = state.messages.pop_front() {
            let missed = std::mem::take(&mut state.missed);
            state.call_the_next(self.bound);
            return Poll::Ready(Ok(Delivery { message, missed }));
        }
        if state.closed {
            return Poll::Ready(Err(IoError::new(errno::EPIPE, OpKind::Receive, Stage::Completion)
                .with_context("from a topic that has no publisher any more")));
        }
        match &mut state.subscriber {
            Some(subscriber) => subscriber.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl<M> State<M> {
    /// Wakes the first in line if there is room for it. Waking takes no lock of ours.
    fn call_the_next(&self, bound: usize) {
        if self.messages.len() < bound
            && let Some((_, waker)) = self.line.front()
        {
            waker.wake_by_ref();
        }
    }
}

/// A place at a [`Topic`](crate::actor::Topic), with a queue of its own. It may be moved to another shard. Dropping it
/// ends it; publishers pass it by from then on.
///
/// # Examples
///
/// ```
/// use wo::actor::{Overflow, Topic};
///
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let news = Topic::new();
/// let mut reader = news.subscribe(10, Overflow::DropOldest);
/// news.publish("extra")?;
/// assert_eq!(reader.recv()?.message, "extra");
/// drop(news);
/// assert_eq!(reader.recv().unwrap_err().errno(), wo::error::errno::EPIPE, "the end");
/// # Ok(())
/// # }
/// ```
pub struct Subscription<M> {
    pub(crate) queue: Arc<Queue<M>>,
}

/// The place of a ticket in a line. Tickets count up, so it is found by halves.
fn place_in(line: &VecDeque<(u64, Waker)>, ticket: u64) -> Option<usize> {
    line.binary_search_by_key(&ticket, |(waits, _)| *waits).ok()
}

impl<M: 'static> Subscription<M> {
    /// Parks until the next message. Dropped half-way, nothing is lost.
    ///
    /// # Errors
    ///
    /// EPIPE when everything was received and the topic is gone; ECANCELED when the fiber was cancelled.
    pub fn recv(&mut self) -> Call<impl Future<Output = IoResult<Delivery<M>>>> {
        let queue = &self.queue;
        Call::new(fiber::park(OpKind::Receive, move |cx| queue.poll_next(cx)))
    }
}

impl<M> Drop for Subscription<M> {
    fn drop(&mut self) {
        self.queue.abandon();
    }
}

impl<M> fmt::Debug for Subscription<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.queue.state();
        f.debug_struct("Subscription").field("queued", &state.messages.len()).field("missed", &state.missed).finish()
    }
}
