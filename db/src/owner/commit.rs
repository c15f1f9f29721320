//! Commits: from a transaction's steps to the answers that wait for them.
//!
//! In memory a transaction is certain at once. With a log its steps are appended, and it is certain when the log says
//! so; one fiber here listens to the log, and tells those who wait, in the order of sequences. When the log could not
//! write, everything behind what is certain is undone, the newest first, before anything else happens: whoever comes to
//! know of it first does that, this fiber or the next call. Then those who wait are told, changes the failure, and
//! readings to look again.

use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use wo_runtime::error::{IoResult, OpKind};
use wo_runtime::fiber;

use crate::error::{Error, Result};
use crate::log::error::CommitError;
use crate::log::{Entry, Log};
use crate::owner::{Owner, Place, contained};
use crate::transaction::Tx;

/// Who waits for which sequence, in their order.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: VecDeque<Waiting>,
    waits_made: u64,
    /// Waits of this shard's that failed, until they are looked at.
    failed: Vec<(u64, Error)>,
}

struct Waiting {
    sequence: u64,
    tell: Tell,
}

/// Called with the failure, or without.
type Outcome = Box<dyn FnOnce(&Rc<Owner>, Option<&Error>)>;

enum Tell {
    Call(Outcome),
    /// A fiber of this shard, which looks for itself; the number tells its wait from others.
    Wake(u64, Waker),
}

impl Queue {
    fn add(&mut self, sequence: u64, tell: Tell) {
        // Mostly the newest is waited for, so the place is at the end or near.
        let at = self.waiting.iter().rposition(|other| other.sequence <= sequence).map_or(0, |before| before + 1);
        self.waiting.insert(at, Waiting { sequence, tell });
    }

    /// The next of those who wait for this sequence or an earlier one.
    fn take_certain(&mut self, sequence: u64) -> Option<Tell> {
        let first = self.waiting.front()?;
        if first.sequence > sequence {
            return None;
        }
        self.waiting.pop_front().map(|first| first.tell)
    }

    fn waker_of(&mut self, wait: u64) -> Option<&mut Waker> {
        self.waiting.iter_mut().find_map(|waiting| match &mut waiting.tell {
            Tell::Wake(number, waker) if *number == wait => Some(waker),
            _ => None,
        })
    }
}

/// A fiber's wait, on the owner's shard, for a sequence to be certain. It costs an entry of the queue and nothing else.
/// Dropped half-way, nobody waits any more.
struct Wait {
    place: Place,
    sequence: u64,
    number: Option<u64>,
}

impl Wait {
    fn poll(&mut self, cx: &Context<'_>) -> Poll<Result<()>> {
        let Some(owner) = Owner::here(self.place) else {
            self.number = None;
            return Poll::Ready(Err(Error::closed()));
        };
        let mut queue = owner.queue.borrow_mut();
        let queue = &mut *queue;
        if let Some(number) = self.number
            && let Some(at) = queue.failed.iter().position(|(failed, _)| *failed == number)
        {
            self.number = None;
            return Poll::Ready(Err(queue.failed.swap_remove(at).1));
        }
        if owner.durable() >= self.sequence {
            self.number = None;
            return Poll::Ready(Ok(()));
        }
        match self.number {
            Some(number) => {
                if let Some(waker) = queue.waker_of(number) {
                    waker.clone_from(cx.waker());
                }
            }
            None => {
                queue.waits_made += 1;
                self.number = Some(queue.waits_made);
                queue.add(self.sequence, Tell::Wake(queue.waits_made, cx.waker().clone()));
            }
        }
        Poll::Pending
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let Some(owner) = Owner::here(self.place) else { return };
        let mut queue = owner.queue.borrow_mut();
        queue.failed.retain(|(failed, _)| *failed != number);
        queue.waiting.retain(|waiting| !matches!(waiting.tell, Tell::Wake(other, _) if other == number));
    }
}

/// Parks, on the owner's shard, until that sequence is certain, or never will be, and answers which.
///
/// # Errors
///
/// The fiber was cancelled first.
pub(crate) async fn certain(place: Place, sequence: u64) -> Result<Result<()>> {
    let mut wait = Wait { place, sequence, number: None };
    let mut cancelled = pin!(fiber::park(OpKind::Receive, |_| Poll::<IoResult<()>>::Pending));
    std::future::poll_fn(|cx| match wait.poll(cx) {
        // An outcome counts more than a cancel that comes with it.
        Poll::Ready(outcome) => Poll::Ready(Ok(outcome)),
        Poll::Pending => cancelled.as_mut().poll(cx).map(|parked| parked.map(Ok).map_err(Error::from_wait)),
    })
    .await
}

impl Owner {
    /// Commits what a transaction did; none when it did nothing.
    pub(crate) fn commit(self: &Rc<Owner>, tx: &Tx) -> Result<Option<u64>> {
        if !tx.has_steps() {
            return Ok(None);
        }
        match (self.log(), tx.steps()) {
            (Some(log), Some(steps)) => {
                let sequence = log.append(Entry::Transaction, &steps.borrow())?;
                debug_assert_eq!(sequence, tx.sequence, "nobody else appends");
                self.store.borrow_mut().last = sequence;
                self.attention.notify_one();
            }
            _ => {
                self.store.borrow_mut().last = tx.sequence;
                self.is_certain(tx.sequence);
            }
        }
        Ok(Some(tx.sequence))
    }

    /// Has `tell` called when that sequence is certain, without an error, or once it never will be.
    pub(crate) fn wait_for(&self, sequence: u64, tell: impl FnOnce(&Rc<Owner>, Option<&Error>) + 'static) {
        self.queue.borrow_mut().add(sequence, Tell::Call(Box::new(tell)));
    }

    /// Everything up to this sequence is certain: tells those who wait for it.
    fn is_certain(self: &Rc<Owner>, sequence: u64) {
        self.store.borrow_mut().settle(sequence);
        loop {
            let next = self.queue.borrow_mut().take_certain(sequence);
            match next {
                Some(Tell::Call(tell)) => contained(|| tell(self, None)),
                Some(Tell::Wake(_, waker)) => contained(|| waker.wake()),
                None => break,
            }
        }
        self.serve_watchers();
    }

    /// The log could not write: undoes what is not certain, and tells those who wait for it.
    pub(crate) fn heed_failure(self: &Rc<Owner>, log: &Log) {
        let Some(failure) = log.failure() else { return };
        self.fail(log, failure);
    }

    fn fail(self: &Rc<Owner>, log: &Log, failure: CommitError) {
        // The log may have got further than this side has heard.
        let certain = log.durable_sequence();
        if certain > self.durable() {
            self.is_certain(certain);
        }
        self.undo(certain + 1);
        log.rolled_back();
        let error = Error::from(failure);
        let waiting = std::mem::take(&mut self.queue.borrow_mut().waiting);
        for waiting in waiting {
            match waiting.tell {
                Tell::Call(tell) => contained(|| tell(self, Some(&error))),
                Tell::Wake(number, waker) => {
                    self.queue.borrow_mut().failed.push((number, error.clone()));
                    contained(|| waker.wake());
                }
            }
        }
    }

    /// The owner has ended: whoever still waits hears that.
    pub(crate) fn abandon(&self) {
        let waiting = std::mem::take(&mut self.queue.borrow_mut().waiting);
        for waiting in waiting {
            if let Tell::Wake(_, waker) = waiting.tell {
                contained(|| waker.wake());
            }
        }
    }

    /// Takes no more calls, and ends when those that were made are answered.
    pub(crate) fn close(self: &Rc<Owner>, closed: impl FnOnce(Result<()>) + 'static) {
        self.is_closing.set(true);
        self.closed.borrow_mut().push(Box::new(closed));
        self.attention.notify_one();
    }

    async fn end(self: Rc<Owner>) {
        let mut ended = Ok(());
        let mut left = self.take_log();
        while let Some(log) = left.take() {
            match Rc::try_unwrap(log) {
                Ok(log) => ended = log.close().await.map_err(Error::from),
                // A copy is being made of it, and says when it is done.
                Err(shared) => {
                    left = Some(shared);
                    if self.attention.notified().await.is_err() {
                        return;
                    }
                }
            }
        }
        for closed in self.closed.take() {
            contained(|| closed(ended.clone()));
        }
    }
}

/// The life of a database: it ends when it is closed, or with its program.
pub(crate) async fn serve(owner: Rc<Owner>) {
    fiber::protect(|| async move {
        loop {
            let (last, durable) = {
                let store = owner.store.borrow();
                (store.last, store.durable)
            };
            let log = owner.log().filter(|_| last > durable);
            let Some(log) = log else {
                if owner.is_closing.get() {
                    return owner.end().await;
                }
                if owner.attention.notified().await.is_err() {
                    return;
                }
                continue;
            };
            match log.progress(durable).await {
                Ok(durable) => owner.is_certain(durable),
                Err(CommitError::Cancelled) => return,
                Err(failure) => owner.fail(&log, failure),
            }
            owner.think_of_snapshot(&log);
        }
    })
    .await;
}
