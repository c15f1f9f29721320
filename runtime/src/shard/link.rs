//! The line between a scope's child on another shard and the member that stands for it at home.
//!
//! Two fibers share it, each on its own shard. The child's end is told once, by the child, by its body being dropped,
//! or by whoever finds that it can never start; later words are nobody's. What home wants of the child, that it stops
//! and why, or that it is dropped, is written down and the child woken; the child looks before each of its turns, and
//! once more after it has left its waker, so that no order is missed.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// What home wants.
#[derive(Debug)]
pub(crate) struct Order<R> {
    /// It is to stop, for this reason.
    pub(crate) stop: Option<R>,
    /// It is to be dropped where it stands.
    pub(crate) give_up: bool,
}

/// The line; `T` is what the child comes to, `R` a reason to stop.
#[derive(Debug)]
pub(crate) struct Link<T, R> {
    state: Mutex<State<T, R>>,
}

#[derive(Debug)]
struct State<T, R> {
    end: Option<T>,
    told: bool,
    stop: Option<R>,
    give_up: bool,
    home: Option<Waker>,
    child: Option<Waker>,
}

impl<T, R: Copy> Link<T, R> {
    pub(crate) fn new() -> Link<T, R> {
        Link {
            state: Mutex::new(State { end: None, told: false, stop: None, give_up: false, home: None, child: None }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T, R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The child has ended so, unless that was told before.
    pub(crate) fn tell(&self, end: T) {
        let mut state = self.state();
        if state.told {
            drop(state);
            drop(end);
            return;
        }
        state.told = true;
        state.end = Some(end);
        let home = state.home.take();
        drop(state);
        home.into_iter().for_each(Waker::wake);
    }

    /// At home: how it ended, or `waker` is woken when it has.
    pub(crate) fn ended(&self, waker: &Waker) -> Option<T> {
        let mut state = self.state();
        let end = state.end.take();
        if end.is_none() {
            state.home = Some(waker.clone());
        }
        end
    }

    /// At home: the child is to stop. The first reason stays.
    pub(crate) fn stop(&self, reason: R) {
        self.order(|state| {
            state.stop.get_or_insert(reason);
        });
    }

    /// At home: the child is to be dropped.
    pub(crate) fn give_up(&self) {
        self.order(|state| state.give_up = true);
    }

    fn order(&self, write: impl FnOnce(&mut State<T, R>)) {
        let mut state = self.state();
        write(&mut state);
        let child = state.child.take();
        drop(state);
        child.into_iter().for_each(Waker::wake);
    }

    /// Over there: what home wants by now.
    pub(crate) fn order_so_far(&self) -> Order<R> {
        let state = self.state();
        Order { stop: state.stop, give_up: state.give_up }
    }

    /// Over there: wakes `waker` at the next order. False when there is one that `known` does not have.
    pub(crate) fn waits(&self, known: &Order<R>, waker: &Waker) -> bool {
        let mut state = self.state();
        if state.give_up != known.give_up || state.stop.is_some() != known.stop.is_some() {
            return false;
        }
        state.child = Some(waker.clone());
        true
    }
}
