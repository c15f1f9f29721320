//! Counting: one actor sends another `number` messages, then asks how many have come. An operation is one message.

use futures_channel::oneshot;

use super::{Library, Never, Role, Watch, expect, no_end};
use crate::failure::Failure;
use crate::stats::Sample;

struct Counter(u64);

struct Add;
struct HowMany;

impl<L: Library> Role<L> for Counter {
    type Message = Add;
    type Question = HowMany;
    type Answer = u64;

    async fn receive(&mut self, Add: Add) {
        self.0 += 1;
    }

    fn answer(&mut self, HowMany: HowMany) -> u64 {
        self.0
    }
}

struct Producer;

struct Produce<L: Library> {
    number: usize,
    counter: L::Address<Counter>,
    done: oneshot::Sender<u64>,
}

impl<L: Library> Role<L> for Producer {
    const PARKS: bool = true;

    type Message = Produce<L>;
    type Question = Never;
    type Answer = Never;

    async fn receive(&mut self, Produce { number, counter, done }: Produce<L>) {
        for _ in 0..number {
            L::tell::<Counter>(&counter, Add).await;
        }
        let _ = done.send(L::ask::<Counter>(&counter, HowMany).await);
    }

    fn answer(&mut self, question: Never) -> Never {
        question
    }
}

pub async fn run<L: Library>(number: usize) -> Result<Vec<Sample>, Failure> {
    let producer = L::start(Producer, 0).await;
    let counter = L::start(Counter(0), 1).await;
    let (done, end) = oneshot::channel();
    let watch = Watch::start();
    L::tell::<Producer>(&producer, Produce { number, counter, done }).await;
    expect("the count", end.await.map_err(no_end)?, number as u64)?;
    Ok(watch.stop(number as u64))
}
