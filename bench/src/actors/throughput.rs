//! Fork-join throughput: `actors` actors are sent `messages` each, in turn, from outside. An operation is one message
//! and a little arithmetic.

use std::sync::Arc;

use super::{Latch, Library, Never, Role, Watch, compute, expect, no_end};
use crate::failure::Failure;
use crate::stats::Sample;

struct Crunch {
    left: usize,
    sum: u64,
    latch: Arc<Latch>,
}

struct Work;

impl<L: Library> Role<L> for Crunch {
    type Message = Work;
    type Question = Never;
    type Answer = Never;

    async fn receive(&mut self, Work: Work) {
        self.sum += compute(37.2);
        self.left -= 1;
        if self.left == 0 {
            self.latch.arrive(self.sum);
        }
    }

    fn answer(&mut self, question: Never) -> Never {
        question
    }
}

pub async fn run<L: Library>(actors: usize, messages: usize) -> Result<Vec<Sample>, Failure> {
    let (latch, end) = Latch::new(actors);
    let latch = Arc::new(latch);
    let mut crew = Vec::with_capacity(actors);
    for place in 0..actors {
        crew.push(L::start(Crunch { left: messages, sum: 0, latch: Arc::clone(&latch) }, place).await);
    }
    let watch = Watch::start();
    for _ in 0..messages {
        for actor in &crew {
            L::tell::<Crunch>(actor, Work).await;
        }
    }
    let operations = (actors * messages) as u64;
    expect("the messages handled", end.await.map_err(no_end)?, operations)?;
    Ok(watch.stop(operations))
}
