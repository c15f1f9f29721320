//! Who watches which table, how far each has come, and who waits for the next change.
//!
//! The owner keeps a number and a position for each watcher, and pushes nothing: a watcher asks for what came after
//! its position, and if nothing has, its question waits here. So a slow watcher costs no memory; what it can fall
//! behind is bounded by the changes its table keeps.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::owner::{Owner, contained};

/// Answers a question if there is an answer by now; it answers the sequence that the watcher has then seen, and whether
/// the question is done with.
pub(crate) type Question = Box<dyn FnMut(&Owner) -> (u64, bool)>;

#[derive(Default)]
pub(crate) struct Watchers {
    made: u64,
    watching: BTreeMap<u64, Watching>,
}

struct Watching {
    seen: u64,
    question: Option<Question>,
}

impl Watchers {
    /// A new watcher, who has seen everything up to this sequence.
    pub(crate) fn add(&mut self, seen: u64) -> u64 {
        self.made += 1;
        self.watching.insert(self.made, Watching { seen, question: None });
        self.made
    }

    pub(crate) fn remove(&mut self, number: u64) {
        self.watching.remove(&number);
    }

    /// How many there are, and how far the slowest has come. One that waits has seen everything.
    pub(crate) fn count_and_slowest(&self) -> (usize, Option<u64>) {
        let seen = self.watching.values().filter(|watching| watching.question.is_none()).map(|watching| watching.seen);
        (self.watching.len(), seen.min())
    }
}

impl Owner {
    /// Answers a watcher's question now, or when there is something to answer.
    pub(crate) fn question(self: &Rc<Owner>, number: u64, mut question: Question) {
        let (seen, done) = question(self);
        if let Some(watching) = self.watchers.borrow_mut().watching.get_mut(&number) {
            watching.seen = seen;
            watching.question = if done { None } else { Some(question) };
        }
    }

    /// Something is certain: looks whether questions can be answered.
    pub(crate) fn serve_watchers(self: &Rc<Owner>) {
        if self.watchers.borrow().watching.is_empty() {
            return;
        }
        let asking: Vec<(u64, Question)> = {
            let mut watchers = self.watchers.borrow_mut();
            let take = |(number, watching): (&u64, &mut Watching)| Some((*number, watching.question.take()?));
            watchers.watching.iter_mut().filter_map(take).collect()
        };
        for (number, question) in asking {
            contained(|| self.question(number, question));
        }
    }
}
