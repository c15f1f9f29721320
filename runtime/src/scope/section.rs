//! Sections of one fiber's work: with a deadline, or sheltered from cancels.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use crate::scope::body::{Finish, judge};
use crate::scope::cancel::{Kind, Node, Ran, Within};
use crate::scope::cause::{Interrupt, Outcome};
use crate::scope::executor::{Boxed, Executor};

/// Runs `body` for at most `limit`: then it is cancelled, and its outcome is an interruption by deadline. Of nested
/// deadlines the nearest wins. `Duration::MAX` is no deadline; zero cancels before the first verb.
pub async fn with_deadline<X, E, R>(executor: X, limit: Duration, body: impl AsyncFnOnce() -> R) -> Outcome<R::Value, E>
where
    X: Executor,
    R: Finish<E>,
{
    let at = (limit != Duration::MAX).then(|| executor.now().saturating_add(limit));
    let node = Node::here(Kind::Open, at);
    if limit.is_zero() {
        node.cancel(Interrupt::Deadline);
    }
    let timer = at.filter(|_| !limit.is_zero()).map(|at| executor.timer(at));
    judge(Ok(Timed { work: node.run(body()), node: node.clone(), timer }.await))
}

pin_project! {
    /// Work under a node which is marked when the timer ends.
    struct Timed<F> {
        #[pin]
        work: Within<F>,
        node: Node,
        timer: Option<Boxed<()>>,
    }
}

impl<F: Future> Future for Timed<F> {
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
    Node::here(Kind::Protected, None).run(body()).await.output
}
