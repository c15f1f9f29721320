//! Concurrent dictionary: `workers` actors send one dictionary of `keys` keys requests and wait for each result,
//! `requests` times; a tenth of them write. An operation is one request and its result.
//!
//! A value is its key plus a multiple of the number of keys, in the beginning and after every write, so each result
//! shows whether it is the one asked for.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Dice, Latch, Library, Never, Role, Watch, expect, no_end};
use crate::failure::Failure;
use crate::stats::Sample;

/// One request in this many writes.
const ONE_WRITES: usize = 10;

struct Dictionary(HashMap<usize, usize>);

enum Request<L: Library> {
    Read { from: L::Address<Worker<L>>, key: usize },
    Write { from: L::Address<Worker<L>>, key: usize, value: usize },
}

impl<L: Library> Role<L> for Dictionary {
    type Message = Request<L>;
    type Question = Never;
    type Answer = Never;

    async fn receive(&mut self, message: Request<L>) {
        let (from, value) = match message {
            Request::Read { from, key } => (from, self.0.get(&key).copied()),
            Request::Write { from, key, value } => (from, self.0.insert(key, value)),
        };
        L::tell::<Worker<L>>(&from, Reply::Value(value)).await;
    }

    fn answer(&mut self, question: Never) -> Never {
        question
    }
}

struct Worker<L: Library> {
    place: Option<Place<L>>,
    dice: Dice,
    keys: usize,
    key: usize,
    left: usize,
    right: u64,
    latch: Arc<Latch>,
}

struct Place<L: Library> {
    dictionary: L::Address<Dictionary>,
    myself: L::Address<Worker<L>>,
}

enum Reply<L: Library> {
    Begin(Place<L>),
    Value(Option<usize>),
}

impl<L: Library> Role<L> for Worker<L> {
    type Message = Reply<L>;
    type Question = Never;
    type Answer = Never;

    async fn receive(&mut self, message: Reply<L>) {
        match message {
            Reply::Begin(place) => self.place = Some(place),
            Reply::Value(value) => self.right += u64::from(value.is_some_and(|value| value % self.keys == self.key)),
        }
        let Some(Place { dictionary, myself }) = &self.place else { return };
        if self.left == 0 {
            self.latch.arrive(self.right);
            return;
        }
        self.left -= 1;
        self.key = self.dice.below(self.keys);
        let (from, key) = (myself.clone(), self.key);
        let request = if self.dice.below(ONE_WRITES) == 0 {
            Request::Write { from, key, value: key + self.keys * self.left }
        } else {
            Request::Read { from, key }
        };
        L::tell::<Dictionary>(dictionary, request).await;
    }

    fn answer(&mut self, question: Never) -> Never {
        question
    }
}

pub async fn run<L: Library>(workers: usize, requests: usize, keys: usize) -> Result<Vec<Sample>, Failure> {
    let (latch, end) = Latch::new(workers);
    let latch = Arc::new(latch);
    let dictionary = L::start(Dictionary((0..keys).map(|key| (key, key)).collect()), 0).await;
    let mut crew = Vec::with_capacity(workers);
    for number in 0..workers {
        let dice = Dice::new(number as u64);
        let worker =
            Worker::<L> { place: None, dice, keys, key: 0, left: requests, right: 0, latch: Arc::clone(&latch) };
        crew.push(L::start(worker, number + 1).await);
    }
    let watch = Watch::start();
    for worker in crew {
        let begin = Reply::Begin(Place { dictionary: dictionary.clone(), myself: worker.clone() });
        L::tell::<Worker<L>>(&worker, begin).await;
    }
    let operations = (workers * requests) as u64;
    expect("the right results", end.await.map_err(no_end)?, operations)?;
    Ok(watch.stop(operations))
}
