//! Fork-join create: `number` actors are started, sent one message each, and end. An operation is one actor, from its
//! start to its end.

use std::sync::Arc;

use super::{Latch, Library, Never, Role, Watch, compute, expect, no_end};
use crate::failure::Failure;
use crate::stats::Sample;

/// It reports when it is dropped, at its actor's very end.
struct Mayfly {
    done: u64,
    latch: Arc<Latch>,
}

impl Drop for Mayfly {
    fn drop(&mut self) {
        self.latch.arrive(self.done);
    }
}

struct Work;

impl<L: Library> Role<L> for Mayfly {
    type Message = Work;
    type Question = Never;
    type Answer = Never;

    async fn receive(&mut self, Work: Work) {
        self.done += compute(37.2);
    }

    fn answer(&mut self, question: Never) -> Never {
        question
    }
}

pub async fn run<L: Library>(number: usize) -> Result<Vec<Sample>, Failure> {
    let (latch, end) = Latch::new(number);
    let latch = Arc::new(latch);
    let watch = Watch::start();
    for place in 0..number {
        let actor = L::start(Mayfly { done: 0, latch: Arc::clone(&latch) }, place).await;
        L::tell::<Mayfly>(&actor, Work).await;
        L::dismiss::<Mayfly>(actor);
    }
    expect("the messages handled", end.await.map_err(no_end)?, number as u64)?;
    Ok(watch.stop(number as u64))
}
