//! What a supervisor and one of its children say to each other.
//!
//! Nothing is sent: the supervisor writes what it wants of the child, the child writes how it is, each wakes the other
//! after it wrote, and each looks at the whole again when woken. So no word is lost or comes twice, whatever happens at
//! the same time on two shards.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::actor::life::Exit;

/// What the supervisor wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// That it is down, when it has done with its message.
    Down,
    /// That it is down, and the verbs of its functions are cancelled.
    DownNow,
    Up,
    /// That its life ends.
    End,
}

/// How the child is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It has no state: it was never started, or was suspended.
    Down,
    /// It has no state: it failed.
    Failed(Exit),
    /// It has a state whose `started` has not returned.
    Starting,
    Up,
    /// Its life has ended.
    Ended(Exit),
}

/// What a child without a state may do.
#[derive(Debug)]
pub(crate) enum Permission {
    Begin,
    End(Exit),
}

/// The place where both write; see the module's text.
#[derive(Debug)]
pub(crate) struct Control {
    state: Mutex<State>,
    supervisor: Arc<Signal>,
}

#[derive(Debug)]
struct State {
    wanted: Wanted,
    phase: Phase,
    /// The child, while it waits for permission.
    child: Option<Waker>,
}

impl Control {
    pub(crate) fn new(supervisor: &Arc<Signal>) -> Control {
        let state = State { wanted: Wanted::Down, phase: Phase::Down, child: None };
        Control { state: Mutex::new(state), supervisor: Arc::clone(supervisor) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // The supervisor's side.

    /// How the child is.
    pub(crate) fn phase(&self) -> Phase {
        self.state().phase.clone()
    }

    /// Wants something else. A child that has a state is to be told to look.
    pub(crate) fn want(&self, wanted: Wanted) {
        let mut state = self.state();
        state.wanted = wanted;
        if wanted == Wanted::Up && matches!(state.phase, Phase::Down | Phase::Failed(_)) {
            state.phase = Phase::Starting;
        }
        let child = state.child.take();
        drop(state);
        if let Some(child) = child {
            child.wake();
        }
    }

    // The child's side.

    /// Whether the child's state is to end.
    pub(crate) fn wants_down(&self) -> bool {
        matches!(self.state().wanted, Wanted::Down | Wanted::DownNow)
    }

    /// Whether the verbs of its functions are cancelled.
    pub(crate) fn is_forced(&self) -> bool {
        self.state().wanted == Wanted::DownNow
    }

    /// What a child without a state may do. `ordered` is the exit that somebody else ordered meanwhile.
    pub(crate) fn permission(&self, ordered: Option<Exit>, waker: &Waker) -> Poll<Permission> {
        let mut state = self.state();
        let failure = match &state.phase {
            Phase::Failed(exit) => Some(exit.clone()),
            _ => None,
        };
        match (state.wanted, ordered) {
            (_, Some(exit)) => Poll::Ready(Permission::End(failure.unwrap_or(exit))),
            (Wanted::End, None) => Poll::Ready(Permission::End(failure.unwrap_or(Exit::Killed))),
            (Wanted::Up, None) => {
                state.phase = Phase::Starting;
                Poll::Ready(Permission::Begin)
            }
            (Wanted::Down | Wanted::DownNow, None) => {
                state.child = Some(waker.clone());
                Poll::Pending
            }
        }
    }

    /// `started` has returned.
    pub(crate) fn is_up(&self) {
        self.state().phase = Phase::Up;
        self.supervisor.give();
    }

    /// The state has ended, by a failure or because that was wanted. It stays down until it is wanted up again.
    pub(crate) fn is_down(&self, failure: Option<Exit>) {
        let mut state = self.state();
        if state.wanted == Wanted::Up {
            state.wanted = Wanted::Down;
        }
        state.phase = failure.map_or(Phase::Down, Phase::Failed);
        drop(state);
        self.supervisor.give();
    }

    /// The life has ended.
    pub(crate) fn has_ended(&self, exit: Exit) {
        self.state().phase = Phase::Ended(exit);
        self.supervisor.give();
    }
}

/// Wakes a supervisor; it looks at everything when it wakes.
#[derive(Debug, Default)]
pub(crate) struct Signal(Mutex<Option<Waker>>);

impl Signal {
    /// Has this waker called by the next signal. To be said before looking.
    pub(crate) fn register(&self, waker: &Waker) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *kept {
            Some(kept) => kept.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    fn give(&self) {
        let waker = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
