//! Big: `actors` actors, each of which pings another one at random, waits for its pong, and so on, `pings` times. An
//! operation is one ping and its pong.

use std::sync::Arc;

use super::{Dice, Latch, Library, Never, Role, Watch, expect, no_end};
use crate::failure::Failure;
use crate::stats::Sample;

struct Member<L: Library> {
    number: usize,
    crowd: Arc<Vec<L::Address<Member<L>>>>,
    dice: Dice,
    left: usize,
    pinged: Option<usize>,
    answered: u64,
    latch: Arc<Latch>,
}

enum Call<L: Library> {
    Meet(Arc<Vec<L::Address<Member<L>>>>),
    Begin,
    Ping { from: usize },
    Pong { from: usize },
}

impl<L: Library> Member<L> {
    async fn ping_somebody(&mut self) {
        if self.left == 0 {
            self.latch.arrive(self.answered);
            return;
        }
        self.left -= 1;
        let to = self.dice.below(self.crowd.len());
        self.pinged = Some(to);
        L::tell::<Member<L>>(&self.crowd[to], Call::Ping { from: self.number }).await;
    }
}

impl<L: Library> Role<L> for Member<L> {
    type Message = Call<L>;
    type Question = Never;
    type Answer = Never;

    async fn receive(&mut self, message: Call<L>) {
        match message {
            Call::Meet(crowd) => self.crowd = crowd,
            Call::Begin => self.ping_somebody().await,
            Call::Ping { from } => {
                L::tell::<Member<L>>(&self.crowd[from], Call::Pong { from: self.number }).await;
            }
            Call::Pong { from } => {
                self.answered += u64::from(self.pinged.take() == Some(from));
                self.ping_somebody().await;
            }
        }
    }

    fn answer(&mut self, question: Never) -> Never {
        question
    }
}

pub async fn run<L: Library>(actors: usize, pings: usize) -> Result<Vec<Sample>, Failure> {
    let (latch, end) = Latch::new(actors);
    let latch = Arc::new(latch);
    let mut crowd = Vec::with_capacity(actors);
    for number in 0..actors {
        let member = Member::<L> {
            number,
            crowd: Arc::default(),
            dice: Dice::new(number as u64),
            left: pings,
            pinged: None,
            answered: 0,
            latch: Arc::clone(&latch),
        };
        crowd.push(L::start(member, number).await);
    }
    let crowd = Arc::new(crowd);
    // A ping may come before the word to begin, but nobody pings before all know each other.
    for member in crowd.iter() {
        L::tell::<Member<L>>(member, Call::Meet(Arc::clone(&crowd))).await;
    }
    let watch = Watch::start();
    for member in crowd.iter() {
        L::tell::<Member<L>>(member, Call::Begin).await;
    }
    let operations = (actors * pings) as u64;
    expect("the pings answered by whom they went to", end.await.map_err(no_end)?, operations)?;
    Ok(watch.stop(operations))
}
