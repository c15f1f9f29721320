//! Sections of one fiber's work: with a deadline, or sheltered from cancels.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use crate::scope::body::{Finish, judge};
use crate::scope::cause::{Interrupt, Outcome};
use crate::scope::executor::{Boxed, Executor};
use crate::scope::node::{Kind, Node, Owned, Ran, Within};

/// Runs `body` for at most `limit`: then it is cancelled, and its outcome is an interruption by deadline. Of nested
/// deadlines the nearest wins. `Duration::MAX` is no deadline; zero cancels before the first verb.
pub async fn with_deadline<X, E, R>(executor: X, limit: Duration, body: impl AsyncFnOnce() -> R) -> Outcome<R::Value, E>
where
    X: Executor,
    R: Finish<E>,
{
    let at = (limit != Duration::MAX).then(|| executor.now().saturating_add(limit));
    let node = Owned::open(Kind::Open, at);
    if limit.is_zero() {
        node.node().cancel(Interrupt::Deadline);
    }
    let timer = at.filter(|_| !limit.is_zero()).map(|at| executor.timer(at));
    let ran = Timed { work: node.run_own(body()), node: node.node(), timer }.await;
    node.end();
    judge(Ok(ran))
}

pin_project! {
    /// Work under a node which is marked when the timer ends.
    struct Timed<'a, F> {
        #[pin]
        work: Within<F>,
        node: &'a Node,
        timer: Option<Boxed<()>>,
    }
}

impl<F: Future> Future for Timed<'_, F> {
    type Output = Ran<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ran<F::Output>> {
        let this = self.project();
        if let Some(timer) = this.timer
            && timer.as_mut().poll(cx).is_ready()
        {
            *this.timer = None;
            this.node.cancel(Interrupt::Deadline);
        }
        this.work.poll(cx)
    }
}

/// Runs `body` sheltered from every cancel of the scopes around it; a pending one arrives at the first checkpoint after
/// it.
pub async fn protect<R>(body: impl AsyncFnOnce() -> R) -> R {
    let node = Owned::open(Kind::Protected, None);
    let ran = node.run_own(body()).await;
    node.end();
    ran.output
}
