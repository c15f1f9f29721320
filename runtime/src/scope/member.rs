//! A child of a scope, from its start to the moment the scope knows how it ended.
//!
//! It never starts when its scope was cancelled before its first turn. Its body is dropped before anybody is told of
//! its end, so that what it captured has gone by then. A scope that has given up waiting has it dropped at its next
//! turn, wherever it stands.
//!
//! A member that stands for work elsewhere is asked to the end in any case: only it knows when that work has ended.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::scope::body::{Finish, judge};
use crate::scope::cancel::Within;
use crate::scope::cause::{Cause, Interrupt};
use crate::scope::nursery::State;
use crate::scope::panics::catch;

pin_project! {
    /// The fiber of a child. It gives the child's value, or what whoever joins it hears.
    pub(crate) struct Member<X, E, F> {
        #[pin]
        work: Option<Within<F>>,
        started: bool,
        stands_for_another: bool,
        seat: Seat<X, E>,
    }
}

/// What kind of child.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    Daemon,
    StandsForAnother,
}

/// A child's place among those its scope waits for, given up when this is dropped.
struct Seat<X, E> {
    state: Rc<State<X, E>>,
    daemon: bool,
}

impl<X, E> Drop for Seat<X, E> {
    fn drop(&mut self) {
        self.state.left(self.daemon);
    }
}

impl<X, E, F> Member<X, E, F> {
    pub(crate) fn new(state: Rc<State<X, E>>, work: Within<F>, kind: Kind) -> Member<X, E, F> {
        let daemon = kind == Kind::Daemon;
        state.joined(daemon);
        let stands_for_another = kind == Kind::StandsForAnother;
        Member { work: Some(work), started: stands_for_another, stands_for_another, seat: Seat { state, daemon } }
    }
}

impl<X, E, F, R> Future for Member<X, E, F>
where
    F: Future<Output = R>,
    R: Finish<E>,
{
    type Output = Result<R::Value, Interrupt>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let state = &this.seat.state;
        let Some(work) = this.work.as_mut().as_pin_mut() else {
            return Poll::Ready(Err(Interrupt::Shutdown));
        };
        let place = work.as_ref().get_ref().place();
        let ended = if state.node().is_given_up() && !*this.stands_for_another {
            state.abandon();
            Err(Cause::interrupted(Interrupt::CleanupTimeout))
        } else if let (false, Some(reason)) = (*this.started, place.reason()) {
            Err(Cause::interrupted(reason))
        } else {
            *this.started = true;
            match catch(|| work.poll(cx)) {
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(ran)) => judge(Ok(ran)),
                Err(payload) => judge::<R, E>(Err(payload)),
            }
        };
        this.work.set(None);
        Poll::Ready(ended.map_err(|cause| {
            let told = cause.interrupt().unwrap_or(Interrupt::SiblingFailed);
            if *this.stands_for_another && told == Interrupt::CleanupTimeout {
                state.abandon();
            }
            state.note(cause);
            told
        }))
    }
}
