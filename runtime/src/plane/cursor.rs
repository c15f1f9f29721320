//! A file handle's position, and whose turn it is to move it.
//!
//! The kernel is asked at explicit offsets, so nobody but the handle knows where it stands; and where an op ends is
//! known only when it has ended. So the verbs that move the position take turns, in the order they came: a turn is
//! taken, one op or several read or move the position, and the turn is given up. Two reads started at once get
//! disjoint parts, whatever either of them is cut short by.
//!
//! A turn is a value, and giving it up is dropping it. An op in flight owns the turn it runs in, so when its reader
//! goes away the next verb still waits for its last word: a write that nobody waits for any more cannot land on top
//! of a later one. Whoever waits keeps its place in the queue until it has the turn or is dropped; a turn is passed
//! on by waking the first in the queue, and a first one that is dropped wakes the next, so no wake is lost.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// A position that is moved in turns. Cloning it shares it.
#[derive(Clone, Default)]
pub struct Cursor(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    position: u64,
    taken: bool,
    tickets: u64,
    /// Who waits, first come first; as many as there are verbs waiting on one handle. Their tickets count up, so one is
    /// found by halves.
    waiting: VecDeque<(u64, Waker)>,
}

impl Cursor {
    /// A cursor at the beginning.
    pub fn new() -> Cursor {
        Cursor::default()
    }

    /// Takes the turn, unless somebody has it or waits for it.
    pub fn try_turn(&self) -> Option<Turn> {
        let mut state = self.lock();
        if state.taken || !state.waiting.is_empty() {
            return None;
        }
        state.taken = true;
        Some(Turn(self.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Cursor")
            .field("position", &state.position)
            .field("taken", &state.taken)
            .field("waiting", &state.waiting.len())
            .finish()
    }
}

impl State {
    fn place_of(&self, mine: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&mine, |(ticket, _)| *ticket).ok()
    }
}

/// The right to move a cursor, until it is dropped.
#[must_use = "the turn is given up at once when it is dropped"]
pub struct Turn(Cursor);

impl Turn {
    /// Where the cursor stands.
    pub fn position(&self) -> u64 {
        self.0.lock().position
    }

    /// Moves the cursor to `position`.
    pub fn move_to(&mut self, position: u64) {
        self.0.lock().position = position;
    }

    /// Moves the cursor on by `count` bytes.
    pub fn advance(&mut self, count: usize) {
        let mut state = self.0.lock();
        state.position = state.position.saturating_add(count as u64);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        debug_assert!(state.taken, "a turn is given up once");
        state.taken = false;
        let next = state.waiting.front().map(|(_, waker)| waker.clone());
        drop(state);
        if let Some(next) = next {
            next.wake();
        }
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("position", &self.position()).finish()
    }
}

/// A place in the queue for a turn, from the first look until the turn is there or the place is dropped.
#[derive(Debug)]
pub struct Place {
    cursor: Cursor,
    ticket: Option<u64>,
}

impl Place {
    /// No place yet: it is taken by the first [`poll`](Place::poll).
    pub fn new(cursor: &Cursor) -> Place {
        Place { cursor: cursor.clone(), ticket: None }
    }

    /// Takes the turn when it is this one's; else `waker` is called when it may be.
    pub fn poll(&mut self, waker: &Waker) -> Option<Turn> {
        let mut state = self.cursor.lock();
        let first = state.waiting.front().map(|(ticket, _)| *ticket);
        if !state.taken && (first.is_none() || first == self.ticket) {
            state.taken = true;
            if self.ticket.take().is_some() {
                state.waiting.pop_front();
            }
            return Some(Turn(self.cursor.clone()));
        }
        match self.ticket {
            Some(mine) => {
                if let Some(index) = state.place_of(mine) {
                    state.waiting[index].1.clone_from(waker);
                }
            }
            None => {
                let mine = state.tickets;
                state.tickets += 1;
                state.waiting.push_back((mine, waker.clone()));
                self.ticket = Some(mine);
            }
        }
        None
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(mine) = self.ticket else { return };
        let mut state = self.cursor.lock();
        let Some(index) = state.place_of(mine) else { return };
        state.waiting.remove(index);
        // It may have been woken for a turn it will not take.
        let next = match state.waiting.front() {
            Some((_, waker)) if index == 0 && !state.taken => Some(waker.clone()),
            _ => None,
        };
        drop(state);
        if let Some(next) = next {
            next.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn waiter(cursor: &Cursor) -> (Place, Arc<Wakes>) {
        let wakes = Arc::new(Wakes::default());
        let mut place = Place::new(cursor);
        assert!(place.poll(&Waker::from(Arc::clone(&wakes))).is_none());
        (place, wakes)
    }

    fn count(wakes: &Wakes) -> usize {
        wakes.0.load(Ordering::SeqCst)
    }

    #[test]
    fn turns_go_first_come_first() {
        let cursor = Cursor::new();
        let mut turn = cursor.try_turn().expect("nobody has it");
        let (mut first, first_wakes) = waiter(&cursor);
        let (mut second, second_wakes) = waiter(&cursor);
        turn.advance(10);
        drop(turn);
        assert_eq!((count(&first_wakes), count(&second_wakes)), (1, 0));
        assert!(second.poll(Waker::noop()).is_none(), "the first one's turn is not for the second");
        assert!(cursor.try_turn().is_none(), "nor for a newcomer");
        let turn = first.poll(Waker::noop()).expect("its turn");
        assert_eq!(turn.position(), 10);
        drop(turn);
        assert!(second.poll(Waker::noop()).is_some());
    }

    #[test]
    fn a_woken_waiter_that_goes_away_passes_the_turn_on() {
        let cursor = Cursor::new();
        let turn = cursor.try_turn().expect("nobody has it");
        let (first, _) = waiter(&cursor);
        let (middle, middle_wakes) = waiter(&cursor);
        let (mut last, last_wakes) = waiter(&cursor);
        drop(middle);
        drop(turn);
        drop(first);
        assert_eq!((count(&middle_wakes), count(&last_wakes)), (0, 1));
        assert!(last.poll(Waker::noop()).is_some());
        assert!(cursor.try_turn().is_some(), "nothing is left behind");
    }

    #[test]
    fn the_end_of_positions_is_not_passed() {
        let cursor = Cursor::new();
        let mut turn = cursor.try_turn().expect("nobody has it");
        turn.move_to(u64::MAX - 1);
        turn.advance(5);
        assert_eq!(turn.position(), u64::MAX);
    }
}
