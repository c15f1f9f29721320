//! Chameneos: `creatures` meet in pairs at a mall, `meetings` times, and change colour. An operation is one meeting,
//! which takes four messages.

use futures_channel::oneshot;

use super::{Library, Never, Role, Watch, expect, no_end};
use crate::failure::Failure;
use crate::stats::Sample;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Colour {
    Blue,
    Red,
    Yellow,
    Faded,
}

impl Colour {
    /// The colour both take after a meeting: the same, or the one neither had.
    fn complement(self, other: Colour) -> Colour {
        match (self, other) {
            (Colour::Faded, _) | (_, Colour::Faded) => Colour::Faded,
            (one, other) if one == other => one,
            (Colour::Red, Colour::Blue) | (Colour::Blue, Colour::Red) => Colour::Yellow,
            (Colour::Red, Colour::Yellow) | (Colour::Yellow, Colour::Red) => Colour::Blue,
            _ => Colour::Red,
        }
    }
}

struct Mall<L: Library> {
    waiting: Option<L::Address<Creature<L>>>,
    meetings_left: usize,
    creatures_left: usize,
    sum: usize,
    done: Option<oneshot::Sender<usize>>,
}

enum AtMall<L: Library> {
    Meet(Colour, L::Address<Creature<L>>),
    Gone { meetings: usize },
}

impl<L: Library> Role<L> for Mall<L> {
    type Message = AtMall<L>;
    type Question = Never;
    type Answer = Never;

    async fn receive(&mut self, message: AtMall<L>) {
        match message {
            AtMall::Meet(_, creature) if self.meetings_left == 0 => {
                L::tell::<Creature<L>>(&creature, Meet::Close).await;
            }
            AtMall::Meet(colour, creature) => match self.waiting.take() {
                None => self.waiting = Some(creature),
                Some(waiting) => {
                    self.meetings_left -= 1;
                    L::tell::<Creature<L>>(&waiting, Meet::Partner(colour, creature)).await;
                }
            },
            AtMall::Gone { meetings } => {
                self.sum += meetings;
                self.creatures_left -= 1;
                if self.creatures_left == 0
                    && let Some(done) = self.done.take()
                {
                    let _ = done.send(self.sum);
                }
            }
        }
    }

    fn answer(&mut self, question: Never) -> Never {
        question
    }
}

struct Creature<L: Library> {
    colour: Colour,
    meetings: usize,
    place: Option<Place<L>>,
}

struct Place<L: Library> {
    mall: L::Address<Mall<L>>,
    myself: L::Address<Creature<L>>,
}

enum Meet<L: Library> {
    Begin(Place<L>),
    Partner(Colour, L::Address<Creature<L>>),
    Change(Colour),
    Close,
}

impl<L: Library> Role<L> for Creature<L> {
    type Message = Meet<L>;
    type Question = Never;
    type Answer = Never;

    async fn receive(&mut self, message: Meet<L>) {
        match message {
            Meet::Begin(place) => self.place = Some(place),
            Meet::Partner(colour, partner) => {
                self.colour = self.colour.complement(colour);
                self.meetings += 1;
                L::tell::<Creature<L>>(&partner, Meet::Change(self.colour)).await;
            }
            Meet::Change(colour) => {
                self.colour = colour;
                self.meetings += 1;
            }
            Meet::Close => {
                if let Some(Place { mall, .. }) = self.place.take() {
                    self.colour = Colour::Faded;
                    L::tell::<Mall<L>>(&mall, AtMall::Gone { meetings: self.meetings }).await;
                }
                return;
            }
        }
        if let Some(Place { mall, myself }) = &self.place {
            L::tell::<Mall<L>>(mall, AtMall::Meet(self.colour, myself.clone())).await;
        }
    }

    fn answer(&mut self, question: Never) -> Never {
        question
    }
}

pub async fn run<L: Library>(creatures: usize, meetings: usize) -> Result<Vec<Sample>, Failure> {
    let (done, end) = oneshot::channel();
    let mall = Mall { waiting: None, meetings_left: meetings, creatures_left: creatures, sum: 0, done: Some(done) };
    let mall = L::start::<Mall<L>>(mall, 0).await;
    let mut crowd = Vec::with_capacity(creatures);
    for place in 0..creatures {
        let colour = [Colour::Blue, Colour::Red, Colour::Yellow][place % 3];
        crowd.push(L::start::<Creature<L>>(Creature { colour, meetings: 0, place: None }, place + 1).await);
    }
    let watch = Watch::start();
    for creature in crowd {
        let place = Place { mall: mall.clone(), myself: creature.clone() };
        L::tell::<Creature<L>>(&creature, Meet::Begin(place)).await;
    }
    expect("the sum of all meetings", end.await.map_err(no_end)?, 2 * meetings)?;
    Ok(watch.stop(meetings as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_alike_stay_and_two_that_differ_take_the_third_colour() {
        assert_eq!(Colour::Red.complement(Colour::Red), Colour::Red);
        assert_eq!(Colour::Red.complement(Colour::Blue), Colour::Yellow);
        assert_eq!(Colour::Yellow.complement(Colour::Blue), Colour::Red);
        assert_eq!(Colour::Yellow.complement(Colour::Red), Colour::Blue);
        assert_eq!(Colour::Faded.complement(Colour::Red), Colour::Faded);
    }
}
