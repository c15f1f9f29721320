//! Commits: from a transaction's steps to the answers that wait for them.
//!
//! In memory a transaction is certain at once. With a log its steps are appended, and it is certain when the log says
//! so; one fiber here listens to the log, and tells those who wait, in the order of sequences. When the log could not
//! write, everything behind what is certain is undone, the newest first, before anything else happens: whoever comes to
//! know of it first does that, this fiber or the next call. Then those who wait are told, changes the failure, and
//! readings to look again.

use std::collections::VecDeque;
use std::rc::Rc;

use wo_runtime::fiber;

use crate::error::{Error, Result};
use crate::log::error::CommitError;
use crate::log::{Entry, Log};
use crate::owner::{Owner, contained};
use crate::transaction::Tx;

/// Who waits for which sequence, in their order.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    sequence: u64,
    tell: Tell,
}

type Tell = Box<dyn FnOnce(&Rc<Owner>, Option<&Error>)>;

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
        let waiting = &mut self.queue.borrow_mut().waiting;
        // Mostly the newest is waited for, so the place is at the end or near.
        let at = waiting.iter().rposition(|other| other.sequence <= sequence).map_or(0, |before| before + 1);
        waiting.insert(at, Waiting { sequence, tell: Box::new(tell) });
    }

    /// Everything up to this sequence is certain: tells those who wait for it.
    fn is_certain(self: &Rc<Owner>, sequence: u64) {
        self.store.borrow_mut().settle(sequence);
        loop {
            let mut queue = self.queue.borrow_mut();
            if queue.waiting.front().is_none_or(|first| first.sequence > sequence) {
                break;
            }
            let first = queue.waiting.pop_front();
            drop(queue);
            let Some(first) = first else { break };
            contained(|| (first.tell)(self, None));
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
            contained(|| (waiting.tell)(self, Some(&error)));
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
