//! What a channel is apart from its fibers: a queue with a bound, and two lines of those who wait.
//!
//! Items never go from hand to hand: they lie in the queue, and who waits is called when there is one for it, or room.
//! Who was called has a claim to it, so that nobody who comes later is served before; who was called and goes away
//! passes the call on. So nothing is lost when a wait is cancelled, and nobody waits beside something it could have.
//!
//! At every moment there are at least as many items as takers that were called, and as much room as putters that were.
//! Whoever changes the one calls as many of the others as can be served by that.

use std::collections::VecDeque;
use std::task::Waker;

use smallvec::SmallVec;

/// Wakers to call once nothing is locked any more.
pub(crate) type Calls = SmallVec<[Waker; 1]>;

/// A channel's state.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    items: VecDeque<T>,
    capacity: usize,
    closed: bool,
    takers: Line,
    putters: Line,
}

/// A place in a line; none for who has not waited yet.
pub(crate) type Ticket = Option<u64>;

/// Those who wait, in order, and those who were called and have not come yet.
#[derive(Debug, Default)]
struct Line {
    /// Their numbers count up, so one is found by halves however many there are.
    waiting: VecDeque<(u64, Waker)>,
    called: SmallVec<[u64; 2]>,
    made: u64,
}

/// What became of an attempt.
#[derive(Debug)]
pub(crate) enum Attempt<T> {
    /// It went well.
    Done(T),
    /// Not yet: `waker` will be called.
    Waits,
    /// The channel is closed, and will not serve any more.
    Closed,
}

impl<T> Queue<T> {
    pub(crate) fn new(capacity: usize) -> Queue<T> {
        Queue {
            items: VecDeque::new(),
            capacity: capacity.max(1),
            closed: false,
            takers: Line::default(),
            putters: Line::default(),
        }
    }

    /// Takes the oldest item. With a waker, who cannot be served waits in line.
    pub(crate) fn take(&mut self, ticket: &mut Ticket, waker: Option<&Waker>, calls: &mut Calls) -> Attempt<T> {
        let served = match *ticket {
            Some(number) => self.takers.was_called(number),
            None => self.items.len() > self.takers.called.len(),
        };
        if served && let Some(item) = self.items.pop_front() {
            self.takers.leave(ticket);
            self.call(calls);
            return Attempt::Done(item);
        }
        // Items that others have a claim to may still come back.
        if self.closed && self.items.is_empty() {
            self.takers.leave(ticket);
            return Attempt::Closed;
        }
        self.takers.wait(ticket, waker);
        Attempt::Waits
    }

    /// Puts `item` behind the others and leaves none; keeps it there when it cannot. With a waker, who cannot be served
    /// waits in line.
    pub(crate) fn put(
        &mut self,
        item: &mut Option<T>,
        ticket: &mut Ticket,
        waker: Option<&Waker>,
        calls: &mut Calls,
    ) -> Attempt<()> {
        if self.closed {
            self.putters.leave(ticket);
            return Attempt::Closed;
        }
        let served = match *ticket {
            Some(number) => self.putters.was_called(number),
            None => self.items.len() + self.putters.called.len() < self.capacity,
        };
        if !served {
            self.putters.wait(ticket, waker);
            return Attempt::Waits;
        }
        self.items.extend(item.take());
        self.putters.leave(ticket);
        self.call(calls);
        Attempt::Done(())
    }

    /// Who waited to take goes away.
    pub(crate) fn taker_leaves(&mut self, ticket: &mut Ticket, calls: &mut Calls) {
        self.takers.leave(ticket);
        self.call(calls);
    }

    /// Who waited to put goes away.
    pub(crate) fn putter_leaves(&mut self, ticket: &mut Ticket, calls: &mut Calls) {
        self.putters.leave(ticket);
        self.call(calls);
    }

    /// Takes nothing more in. What lies there can still be taken.
    pub(crate) fn close(&mut self, calls: &mut Calls) {
        self.closed = true;
        calls.extend(self.putters.waiting.drain(..).map(|(_, waker)| waker));
        self.call(calls);
    }

    /// Calls whoever can be served.
    fn call(&mut self, calls: &mut Calls) {
        while self.items.len() > self.takers.called.len()
            && let Some(waker) = self.takers.call()
        {
            calls.push(waker);
        }
        while !self.closed
            && self.items.len() + self.putters.called.len() < self.capacity
            && let Some(waker) = self.putters.call()
        {
            calls.push(waker);
        }
        if self.closed && self.items.is_empty() {
            calls.extend(self.takers.waiting.drain(..).map(|(_, waker)| waker));
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }
}

impl Line {
    fn was_called(&self, number: u64) -> bool {
        self.called.contains(&number)
    }

    /// Calls the first.
    fn call(&mut self) -> Option<Waker> {
        let (number, waker) = self.waiting.pop_front()?;
        self.called.push(number);
        Some(waker)
    }

    fn wait(&mut self, ticket: &mut Ticket, waker: Option<&Waker>) {
        let Some(waker) = waker else { return };
        if let Some(at) = ticket.and_then(|number| self.place_of(number)) {
            return self.waiting[at].1.clone_from(waker);
        }
        debug_assert!(ticket.is_none(), "who was called is served");
        self.made += 1;
        *ticket = Some(self.made);
        self.waiting.push_back((self.made, waker.clone()));
    }

    fn leave(&mut self, ticket: &mut Ticket) {
        let Some(number) = ticket.take() else { return };
        if let Some(at) = self.called.iter().position(|called| *called == number) {
            self.called.swap_remove(at);
        } else if let Some(at) = self.place_of(number) {
            self.waiting.remove(at);
        }
    }

    fn place_of(&self, number: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&number, |(waits, _)| *waits).ok()
    }
}
