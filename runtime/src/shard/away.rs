//! Children of a scope on other shards.
//!
//! A member of the scope stands for the child at home, and a fiber runs it over there; a [`Link`] joins the two. The
//! member ends when the child has, so the scope waits for it as for any other. When the member is cancelled it passes
//! the reason on, and still waits; so it does when the scope gives up, and the child is dropped at its next turn.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use crate::fiber::{self, Child, Fibers};
use crate::scope::{self, AtRoot, Body, Cause, Crossed, Finish, Interrupt, Outcome};
use crate::shard::link::Link;
use crate::shard::program::{here, shards};

type Line<T, E> = Arc<Link<Outcome<T, E>, Interrupt>>;

impl<E: Send + 'static> scope::Scope<Fibers, E> {
    /// Starts a child on the shard whose turn it is; see [`fork_on`](scope::Scope::fork_on).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wo::fiber]
    /// # fn example() {
    /// // On two shards.
    /// let sum: wo::Outcome<u64> = wo::scope(|s: wo::Scope| {
    ///     let mut parts = Vec::new();
    ///     for part in 1..3 {
    ///         parts.push(s.fork_away(|| Ok(part)));
    ///     }
    ///     let mut sum = 0;
    ///     for part in parts {
    ///         sum += part.join()?;
    ///     }
    ///     Ok(sum)
    /// });
    /// assert_eq!(sum.unwrap(), 3);
    /// # }
    /// # wo::Builder::new().shards(2).run(example).unwrap();
    /// ```
    pub fn fork_away<R, F>(&self, body: impl FnOnce() -> F + Send + 'static) -> Child<R::Value, E>
    where
        R: Finish<E> + 'static,
        R::Value: Send + 'static,
        F: Body<Result = R> + 'static,
    {
        self.fork_on(here(|here| here.program.next_shard()).unwrap_or(0), body)
    }

    /// Starts a child on the shard whose turn it is, and leaves it to the scope.
    pub fn spawn_away<R, F>(&self, body: impl FnOnce() -> F + Send + 'static)
    where
        R: Finish<E> + 'static,
        R::Value: Send + 'static,
        F: Body<Result = R> + 'static,
    {
        drop(self.fork_away(body));
    }

    /// Starts a child on shard `shard`, counted around when there are not as many. The body moves there and runs there;
    /// its value, or its error, moves back.
    ///
    /// It is a child like any other: the scope waits for it, it is cancelled with the scope and told why, and its
    /// failure is the scope's. When the program ends before it has started, it is interrupted by that.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wo::fiber]
    /// # fn example() {
    /// // On two shards.
    /// let outcome = wo::scope(|s: wo::Scope| {
    ///     let there = s.fork_on(1, || Ok(wo::shard_index()));
    ///     Ok(there.join()?)
    /// });
    /// assert_eq!(outcome.unwrap(), Some(1));
    /// # }
    /// # wo::Builder::new().shards(2).run(example).unwrap();
    /// ```
    pub fn fork_on<R, F>(&self, shard: usize, body: impl FnOnce() -> F + Send + 'static) -> Child<R::Value, E>
    where
        R: Finish<E> + 'static,
        R::Value: Send + 'static,
        F: Body<Result = R> + 'static,
    {
        let index = shard % shards().max(1);
        let line: Line<R::Value, E> = Arc::new(Link::new());
        let away = Away { line: Arc::clone(&line), stopped: false, given_up: false, ended: false };
        let package = Package { goods: Some((body, line)) };
        let deadline = self.deadline();
        // At home it takes the same way: it begins no earlier than it would elsewhere.
        here(|here| here.program.post(index, Box::new(move || package.land(deadline))));
        self.stand_for(move || away)
    }

    /// Starts a child on shard `shard`, and leaves it to the scope; see [`fork_on`](scope::Scope::fork_on).
    pub fn spawn_on<R, F>(&self, shard: usize, body: impl FnOnce() -> F + Send + 'static)
    where
        R: Finish<E> + 'static,
        R::Value: Send + 'static,
        F: Future<Output = R> + 'static,
    {
        drop(self.fork_on(shard, body));
    }
}

/// A body on its way. Dropped before it arrives, it tells so.
struct Package<B, T, E> {
    goods: Option<(B, Line<T, E>)>,
}

impl<B, T, E> Package<B, T, E> {
    /// It has arrived.
    fn land<R, F>(mut self, deadline: Option<Duration>)
    where
        B: FnOnce() -> F + 'static,
        F: Future<Output = R> + 'static,
        R: Finish<E, Value = T> + 'static,
        T: 'static,
        E: 'static,
    {
        if let Some((body, line)) = self.goods.take() {
            let work = AtRoot::new(deadline, async move { body().await });
            // Where no fiber can be started any more, dropping it tells the end.
            let _started = fiber::start_detached(Landed { work: Some(work), line, started: false });
        }
    }
}

impl<B, T, E> Drop for Package<B, T, E> {
    fn drop(&mut self) {
        if let Some((body, line)) = self.goods.take() {
            drop(body);
            line.tell(Err(Cause::interrupted(Interrupt::Shutdown)));
        }
    }
}

/// What stands for the child at home.
struct Away<T, E> {
    line: Line<T, E>,
    stopped: bool,
    given_up: bool,
    ended: bool,
}

impl<T, E> Future for Away<T, E> {
    type Output = Crossed<T, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Crossed<T, E>> {
        if let Some(end) = self.line.ended(cx.waker()) {
            self.ended = true;
            return Poll::Ready(Crossed(end));
        }
        if !self.stopped
            && let Some(reason) = scope::interrupt()
        {
            self.stopped = true;
            self.line.stop(reason);
        }
        if !self.given_up && scope::is_given_up() {
            self.given_up = true;
            self.line.give_up();
        }
        Poll::Pending
    }
}

impl<T, E> Drop for Away<T, E> {
    fn drop(&mut self) {
        if !self.ended {
            self.line.give_up();
        }
    }
}

pin_project! {
    /// The child over there.
    struct Landed<F, T, E> {
        #[pin]
        work: Option<AtRoot<F>>,
        line: Line<T, E>,
        started: bool,
    }

    impl<F, T, E> PinnedDrop for Landed<F, T, E> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            this.work.set(None);
            this.line.tell(Err(Cause::interrupted(Interrupt::Shutdown)));
        }
    }
}

impl<F, R, E> Future for Landed<F, R::Value, E>
where
    F: Future<Output = R>,
    R: Finish<E>,
{
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let end = loop {
            let Some(mut work) = this.work.as_mut().as_pin_mut() else { return Poll::Ready(()) };
            let order = this.line.order_so_far();
            if order.give_up {
                break Err(Cause::interrupted(Interrupt::CleanupTimeout));
            }
            if let Some(reason) = order.stop {
                if !*this.started {
                    break Err(Cause::interrupted(reason));
                }
                work.as_ref().get_ref().cancel(reason);
            }
            *this.started = true;
            if let Poll::Ready(outcome) = work.as_mut().poll(cx) {
                break outcome;
            }
            if this.line.waits(&order, cx.waker()) {
                return Poll::Pending;
            }
        };
        this.work.set(None);
        this.line.tell(end);
        Poll::Ready(())
    }
}
