//! Philosophers: `philosophers` ask one arbitrator for both their forks, again and again until they are granted, eat,
//! and give them back, `meals` times. An operation is one meal.

use futures_channel::oneshot;

use super::{Library, Never, Role, Watch, expect, no_end};
use crate::failure::Failure;
use crate::stats::Sample;

struct Arbitrator<L: Library> {
    forks: Vec<Fork>,
    philosophers_left: usize,
    meals: usize,
    done: Option<oneshot::Sender<(usize, usize)>>,
    table: Vec<L::Address<Philosopher<L>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fork {
    Free,
    Taken,
}

enum Ask<L: Library> {
    Seat(Vec<L::Address<Philosopher<L>>>),
    Hungry { number: usize },
    Fed { number: usize },
    Leave { meals: usize },
}

impl<L: Library> Role<L> for Arbitrator<L> {
    type Message = Ask<L>;
    type Question = Never;
    type Answer = Never;

    async fn receive(&mut self, message: Ask<L>) {
        let both = |number: usize, forks: usize| [number, (number + 1) % forks];
        match message {
            Ask::Seat(table) => self.table = table,
            Ask::Hungry { number } => {
                let both = both(number, self.forks.len());
                let granted = both.iter().all(|fork| self.forks[*fork] == Fork::Free);
                if granted {
                    both.iter().for_each(|fork| self.forks[*fork] = Fork::Taken);
                }
                let word = if granted { Word::Eat } else { Word::Denied };
                L::tell::<Philosopher<L>>(&self.table[number], word).await;
            }
            Ask::Fed { number } => {
                both(number, self.forks.len()).iter().for_each(|fork| self.forks[*fork] = Fork::Free)
            }
            Ask::Leave { meals } => {
                self.meals += meals;
                self.philosophers_left -= 1;
                if self.philosophers_left == 0
                    && let Some(done) = self.done.take()
                {
                    let taken = self.forks.iter().filter(|fork| **fork == Fork::Taken).count();
                    let _ = done.send((self.meals, taken));
                }
            }
        }
    }

    fn answer(&mut self, question: Never) -> Never {
        question
    }
}

struct Philosopher<L: Library> {
    number: usize,
    meals: usize,
    eaten: usize,
    arbitrator: L::Address<Arbitrator<L>>,
}

enum Word {
    Begin,
    Denied,
    Eat,
}

impl<L: Library> Role<L> for Philosopher<L> {
    type Message = Word;
    type Question = Never;
    type Answer = Never;

    async fn receive(&mut self, message: Word) {
        let number = self.number;
        if let Word::Eat = message {
            self.eaten += 1;
            L::tell::<Arbitrator<L>>(&self.arbitrator, Ask::Fed { number }).await;
        }
        let next = if self.eaten == self.meals { Ask::Leave { meals: self.eaten } } else { Ask::Hungry { number } };
        L::tell::<Arbitrator<L>>(&self.arbitrator, next).await;
    }

    fn answer(&mut self, question: Never) -> Never {
        question
    }
}

pub async fn run<L: Library>(philosophers: usize, meals: usize) -> Result<Vec<Sample>, Failure> {
    let (done, end) = oneshot::channel();
    let arbitrator = Arbitrator::<L> {
        forks: vec![Fork::Free; philosophers],
        philosophers_left: philosophers,
        meals: 0,
        done: Some(done),
        table: Vec::new(),
    };
    let arbitrator = L::start(arbitrator, 0).await;
    let mut table = Vec::with_capacity(philosophers);
    for number in 0..philosophers {
        let philosopher = Philosopher::<L> { number, meals, eaten: 0, arbitrator: arbitrator.clone() };
        table.push(L::start(philosopher, number + 1).await);
    }
    let watch = Watch::start();
    L::tell::<Arbitrator<L>>(&arbitrator, Ask::Seat(table.clone())).await;
    for philosopher in &table {
        L::tell::<Philosopher<L>>(philosopher, Word::Begin).await;
    }
    let operations = philosophers * meals;
    expect("the meals eaten, and the forks still taken", end.await.map_err(no_end)?, (operations, 0))?;
    Ok(watch.stop(operations as u64))
}
