//! Thread ring: `actors` actors in a ring hand a token on, `hops` times. An operation is one hop.

use futures_channel::oneshot;

use super::{Library, Never, Role, Watch, expect, no_end};
use crate::failure::Failure;
use crate::stats::Sample;

struct Link<L: Library> {
    number: usize,
    next: Option<L::Address<Link<L>>>,
}

enum Hand<L: Library> {
    Join(L::Address<Link<L>>),
    Token { hops: usize, done: oneshot::Sender<usize> },
}

impl<L: Library> Role<L> for Link<L> {
    type Message = Hand<L>;
    type Question = Never;
    type Answer = Never;

    async fn receive(&mut self, message: Hand<L>) {
        match message {
            Hand::Join(next) => self.next = Some(next),
            Hand::Token { hops: 0, done } => {
                let _ = done.send(self.number);
            }
            Hand::Token { hops, done } => {
                if let Some(next) = &self.next {
                    L::tell(next, Hand::Token { hops: hops - 1, done }).await;
                }
            }
        }
    }

    fn answer(&mut self, question: Never) -> Never {
        question
    }
}

pub async fn run<L: Library>(actors: usize, hops: usize) -> Result<Vec<Sample>, Failure> {
    let mut ring: Vec<L::Address<Link<L>>> = Vec::with_capacity(actors);
    for number in 0..actors {
        ring.push(L::start(Link { number, next: None }, number).await);
    }
    for (number, link) in ring.iter().enumerate() {
        L::tell::<Link<L>>(link, Hand::Join(ring[(number + 1) % actors].clone())).await;
    }
    let (done, end) = oneshot::channel();
    let watch = Watch::start();
    L::tell::<Link<L>>(&ring[0], Hand::Token { hops, done }).await;
    expect("the last link", end.await.map_err(no_end)?, hops % actors)?;
    Ok(watch.stop(hops as u64))
}
