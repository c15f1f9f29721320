//! Ping-pong: two actors and one ball. `strokes` times it goes over and comes back; an operation is one message.

use futures_channel::oneshot;

use super::{Library, Never, Role, Watch, expect, no_end};
use crate::failure::Failure;
use crate::stats::Sample;

struct Player<L: Library> {
    other: Option<L::Address<Player<L>>>,
    last: u64,
    done: Option<oneshot::Sender<u64>>,
}

enum Move<L: Library> {
    Meet(L::Address<Player<L>>),
    Ball(u64),
}

impl<L: Library> Role<L> for Player<L> {
    type Message = Move<L>;
    type Question = Never;
    type Answer = Never;

    async fn receive(&mut self, message: Move<L>) {
        match message {
            Move::Meet(other) => self.other = Some(other),
            Move::Ball(number) if number == self.last => {
                if let Some(done) = self.done.take() {
                    let _ = done.send(number);
                }
            }
            Move::Ball(number) => {
                if let Some(other) = &self.other {
                    L::tell(other, Move::Ball(number + 1)).await;
                }
            }
        }
    }

    fn answer(&mut self, question: Never) -> Never {
        question
    }
}

pub async fn run<L: Library>(strokes: usize) -> Result<Vec<Sample>, Failure> {
    let last = 2 * strokes as u64;
    let (done, end) = oneshot::channel();
    let (ping, pong) = (Player { other: None, last, done: None }, Player { other: None, last, done: Some(done) });
    let ping = L::start::<Player<L>>(ping, 0).await;
    let pong = L::start::<Player<L>>(pong, 1).await;
    L::tell(&ping, Move::Meet(pong.clone())).await;
    L::tell(&pong, Move::Meet(ping.clone())).await;
    let watch = Watch::start();
    // The first message has number 1, so the last, which has an even one, comes to `pong`.
    L::tell(&ping, Move::Ball(1)).await;
    expect("the number of the last message", end.await.map_err(no_end)?, last)?;
    Ok(watch.stop(last))
}
