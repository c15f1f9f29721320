//! Who asks whom in a simulated program: what the report of a deadlock says of actors.
//!
//! An ask that parks there is noted with the actor it waits for and the message, and an actor's fiber with the actor.
//! Nothing is taken back: a note counts only while its fiber waits in an ask, and the next ask of that fiber replaces
//! it. From the notes the walk goes from fiber to actor to fiber; where it comes back, the asks on its way are the
//! circle, written `Deadlock[a.m1->b.m2->a.m1]`: each is the message that the one before it waits for.
//!
//! Real shards note nothing: nobody could read it while they run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fiber::{self, FiberId};
use crate::shard::program::{Program, here};

/// A fiber of a program: its shard, and its number there.
pub(crate) type Place = (usize, FiberId);

/// A fiber that waits, as its shard knows it.
pub(crate) struct Waiting {
    pub(crate) place: Place,
    /// It waits in an ask.
    pub(crate) asks: bool,
    /// It waits for the end of this fiber.
    pub(crate) joins: Option<FiberId>,
}

/// The notes of a program.
#[derive(Default)]
pub(crate) struct Asks(Mutex<Notes>);

#[derive(Default)]
struct Notes {
    actors: BTreeMap<u64, Actor>,
    /// Names that actors were given, by life.
    names: BTreeMap<u64, String>,
    /// The lives by the fibers that live them.
    lives: BTreeMap<Place, u64>,
    asks: BTreeMap<Place, Asked>,
}

struct Actor {
    place: Place,
    /// Its type's name, and which of them it is.
    name: String,
    /// Whether it waits for a message.
    is_idle: Box<dyn Fn() -> bool + Send>,
}

/// What a fiber asks.
#[derive(Clone)]
struct Asked {
    life: u64,
    message: &'static str,
}

fn here_and_notes() -> Option<(Place, Arc<Asks>)> {
    let fiber = fiber::id()?;
    here(|here| ((here.index, fiber), here.program.attached::<Asks>()))
}

/// The last part of a type's path, without its parameters.
pub(crate) fn short(type_name: &'static str) -> &'static str {
    let whole = type_name.split('<').next().unwrap_or(type_name);
    whole.rsplit("::").next().unwrap_or(whole)
}

/// This fiber lives an actor of this type.
pub(crate) fn note_actor(life: u64, type_name: &'static str, is_idle: impl Fn() -> bool + Send + 'static) {
    let Some((place, asks)) = here_and_notes() else { return };
    let mut notes = asks.lock();
    let number = notes.actors.len() + 1;
    let name = notes.actors.get(&life).map_or_else(|| format!("{}#{number}", short(type_name)), |of| of.name.clone());
    notes.lives.insert(place, life);
    notes.actors.insert(life, Actor { place, name, is_idle: Box::new(is_idle) });
}

/// An actor was given a name.
pub(crate) fn note_name(life: u64, name: &str) {
    if let Some(asks) = here(|here| here.program.attached::<Asks>()) {
        asks.lock().names.insert(life, name.to_owned());
    }
}

/// This fiber waits for an answer to this message.
pub(crate) fn note_ask(life: u64, message: &'static str) {
    let Some((place, asks)) = here_and_notes() else { return };
    asks.lock().asks.insert(place, Asked { life, message });
}

/// The circle that an ask would close: `asker`, an actor whose function runs now, asks `life`.
pub(crate) fn closed_circle(asker: u64, life: u64, message: &'static str) -> Option<String> {
    let asks = here(|here| here.program.attached::<Asks>())?;
    let notes = asks.lock();
    let mut labels = vec![notes.label(&Asked { life, message })];
    let mut at = life;
    while at != asker && labels.len() <= notes.actors.len() {
        let next = notes.actors.get(&at).and_then(|actor| notes.asks.get(&actor.place))?;
        labels.push(notes.label(next));
        at = next.life;
    }
    Some(written(labels))
}

impl Asks {
    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The notes of a program that stands still.
    pub(crate) fn of(program: &Program) -> Arc<Asks> {
        program.attached::<Asks>()
    }

    /// The actor a fiber lives, and whether it waits for a message.
    pub(crate) fn actor_at(&self, place: Place) -> Option<(String, bool)> {
        let notes = self.lock();
        let life = *notes.lives.get(&place)?;
        let is_idle = notes.actors.get(&life).is_some_and(|actor| actor.place == place && (actor.is_idle)());
        Some((notes.name(life), is_idle))
    }

    /// What a fiber asks: the actor and the message.
    pub(crate) fn ask_at(&self, place: Place) -> Option<String> {
        let notes = self.lock();
        notes.asks.get(&place).map(|asked| notes.label(asked))
    }

    /// The circles among fibers that wait, each once.
    pub(crate) fn circles(&self, waiting: &[Waiting]) -> Vec<String> {
        let notes = self.lock();
        let edges: BTreeMap<Place, (Place, Option<String>)> = waiting
            .iter()
            .filter_map(|one| {
                let edge = match one.joins {
                    Some(fiber) => ((one.place.0, fiber), None),
                    None if one.asks => {
                        let asked = notes.asks.get(&one.place)?;
                        (notes.actors.get(&asked.life)?.place, Some(notes.label(asked)))
                    }
                    None => return None,
                };
                Some((one.place, edge))
            })
            .collect();
        let mut seen: Vec<Place> = Vec::new();
        let mut circles = Vec::new();
        for start in edges.keys() {
            let mut way: Vec<Place> = Vec::new();
            let mut at = *start;
            while !seen.contains(&at) && !way.contains(&at) {
                way.push(at);
                match edges.get(&at) {
                    Some((next, _)) => at = *next,
                    None => break,
                }
            }
            let circle = way.iter().position(|place| *place == at).filter(|_| edges.contains_key(&at));
            if let Some(begin) = circle.filter(|_| !seen.contains(&at)) {
                let mut around = way[begin..].to_vec();
                // Whoever is first of them by shard and number begins, wherever the walk came in.
                let first = around.iter().enumerate().min_by_key(|(_, place)| **place).map_or(0, |(first, _)| first);
                around.rotate_left(first);
                let mut labels: Vec<String> = around.iter().filter_map(|place| edges[place].1.clone()).collect();
                if labels.is_empty() {
                    labels = around.iter().map(|(_, fiber)| format!("fiber {fiber}")).collect();
                } else {
                    // What the last one asks is where the first one stands.
                    labels.rotate_right(1);
                }
                circles.push(written(labels));
            }
            seen.extend(way);
        }
        circles
    }
}

impl Notes {
    fn name(&self, life: u64) -> String {
        let given = self.names.get(&life).cloned();
        given.or_else(|| self.actors.get(&life).map(|actor| actor.name.clone())).unwrap_or_else(|| "actor".to_owned())
    }

    fn label(&self, asked: &Asked) -> String {
        format!("{}.{}", self.name(asked.life), asked.message)
    }
}

/// A circle in words: it begins and ends with the same.
fn written(labels: Vec<String>) -> String {
    let first = labels.first().cloned();
    let around: Vec<String> = labels.into_iter().chain(first).collect();
    format!("Deadlock[{}]", around.join("->"))
}
