//! Work below no node of this thread: its scope is elsewhere.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use crate::scope::body::{Finish, judge};
use crate::scope::cause::{Interrupt, Outcome};
use crate::scope::node::{Kind, Owned, Within};
use crate::scope::panics::catch;

pin_project! {
    /// Such work. A panic of it is an outcome.
    pub(crate) struct AtRoot<F> {
        #[pin]
        work: Within<F>,
    }
}

impl<F: Future> AtRoot<F> {
    /// To be made outside of every scope.
    pub(crate) fn new(deadline: Option<Duration>, work: F) -> AtRoot<F> {
        AtRoot { work: Owned::open(Kind::Open, deadline).run_own(work) }
    }

    /// Cancels it. The first reason stays.
    pub(crate) fn cancel(&self, reason: Interrupt) {
        self.work.place().cancel(reason);
    }

    /// Goes on with it.
    pub(crate) fn poll<R: Finish<E>, E>(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome<R::Value, E>>
    where
        F: Future<Output = R>,
    {
        let work = self.project().work;
        match catch(|| work.poll(cx)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(ran)) => Poll::Ready(judge(Ok(ran))),
            Err(payload) => Poll::Ready(judge::<R, E>(Err(payload))),
        }
    }
}
