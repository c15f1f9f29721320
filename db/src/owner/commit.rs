//! Commits: from a transaction's steps to the answers that wait for them.
//!
//! A transaction is certain when its sequence is: at once in memory. Whoever waits for a sequence is told as soon as it
//! is certain, in the order of sequences, or that it never will be.

use std::collections::VecDeque;
use std::rc::Rc;

use wo_runtime::fiber;

use crate::error::{Error, Result};
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
        self.store.borrow_mut().last = tx.sequence;
        self.is_certain(tx.sequence);
        Ok(Some(tx.sequence))
    }

    /// Has `tell` called when that sequence is certain, without an error, or once it never will be.
    pub(crate) fn wait_for(&self, sequence: u64, tell: impl FnOnce(&Rc<Owner>, Option<&Error>) + 'static) {
        let waiting = &mut self.queue.borrow_mut().waiting;
        // Mostly the newest is waited for, so the place is at the end or near.
        let at = waiting.iter().rposition(|other| other.sequence <= sequence).map_or(0, |before| before + 1);
        waiting.insert(at, Waiting { sequence, tell: Box::new(tell) });
        self.attention.notify_one();
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
}

impl Owner {
    /// Takes no more calls, and ends when those that were made are answered.
    pub(crate) fn close(self: &Rc<Owner>, closed: impl FnOnce() + 'static) {
        let last = self.store.borrow().last;
        if last <= self.durable() {
            self.end();
            return closed();
        }
        self.wait_for(last, move |owner, _| {
            owner.end();
            closed();
        });
    }

    fn end(&self) {
        self.is_closing.set(true);
        self.attention.notify_one();
    }
}

/// The life of a database: it ends when it is closed, or with its program.
pub(crate) async fn serve(owner: Rc<Owner>) {
    fiber::protect(|| async move {
        while !owner.is_closing.get() {
            if owner.attention.notified().await.is_err() {
                break;
            }
        }
    })
    .await;
}
