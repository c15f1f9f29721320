//! A child of a scope, from its start to the moment the scope knows how it ended.
//!
//! It never starts when its scope was cancelled before its first turn. Its body is dropped before anybody is told of
//! its end, so that what it captured has gone by then. A scope that has given up waiting has it dropped at its next
//! turn, wherever it stands.
//!
//! A member that stands for work elsewhere is asked to the end in any case: only it knows when that work has ended.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::scope::body::{Finish, judge};
use crate::scope::cause::{Cause, Interrupt};
use crate::scope::node::{Place, Ran, Sitting};

pin_project! {
    /// The fiber of a child. It gives the child's value, or what whoever joins it hears.
    pub(crate) struct Member<E, F> {
        // First, so that it is dropped first.
        #[pin]
        work: Option<F>,
        seat: Seat,
        told: bool,
        started: bool,
        stands_for_another: bool,
        error: PhantomData<fn() -> E>,
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
struct Seat {
    sitting: Sitting,
    daemon: bool,
}

impl Drop for Seat {
    #[inline]
    fn drop(&mut self) {
        self.sitting.place().node().left(self.daemon);
    }
}

impl<E, F> Member<E, F> {
    #[inline]
    pub(crate) fn new(sitting: Sitting, work: F, kind: Kind) -> Member<E, F> {
        let daemon = kind == Kind::Daemon;
        sitting.place().node().crew().joined(daemon);
        let stands_for_another = kind == Kind::StandsForAnother;
        Member {
            work: Some(work),
            seat: Seat { sitting, daemon },
            told: false,
            started: stands_for_another,
            stands_for_another,
            error: PhantomData,
        }
    }
}

impl<E, F, R> Future for Member<E, F>
where
    E: 'static,
    F: Future<Output = R>,
    R: Finish<E>,
{
    type Output = Result<R::Value, Interrupt>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let sitting = &mut this.seat.sitting;
        let Some(work) = this.work.as_mut().as_pin_mut() else {
            return Poll::Ready(Err(Interrupt::Shutdown));
        };
        let place = sitting.place();
        let refused =
            if place.is_undisturbed() { None } else { refusal(place, *this.started, *this.stands_for_another) };
        let ended = if let Some(reason) = refused {
            Err(Cause::interrupted(reason))
        } else {
            *this.started = true;
            let (polled, told) = sitting.poll_caught(|| work.poll(cx));
            *this.told |= told;
            match polled {
                Ok(Poll::Pending) => {
                    sitting.waits(cx.waker());
                    return Poll::Pending;
                }
                Ok(Poll::Ready(output)) => judge(Ok(Ran::at(sitting, output, *this.told))),
                Err(payload) => judge::<R, E>(Err(payload)),
            }
        };
        this.work.set(None);
        Poll::Ready(match ended {
            Ok(value) => Ok(value),
            Err(cause) => Err(this.seat.note(cause, *this.stands_for_another)),
        })
    }
}

/// Why a child is not polled any more, if it is not.
#[cold]
fn refusal(place: &Place, started: bool, stands_for_another: bool) -> Option<Interrupt> {
    if place.node().is_given_up() && !stands_for_another {
        place.node().crew().abandon();
        return Some(Interrupt::CleanupTimeout);
    }
    if started { None } else { place.reason() }
}

impl Seat {
    /// The child ended for this cause; answers what whoever joins it hears.
    #[cold]
    fn note<E: 'static>(&self, cause: Cause<E>, stands_for_another: bool) -> Interrupt {
        let node = self.sitting.place().node();
        let told = cause.interrupt().unwrap_or(Interrupt::SiblingFailed);
        if stands_for_another && told == Interrupt::CleanupTimeout {
            node.crew().abandon();
        }
        node.note(cause);
        told
    }
}
