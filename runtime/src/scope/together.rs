//! Several pieces of work at once, in one fiber: the first to end wins, or all of them end.
//!
//! Each piece sits at one node and is polled by the fiber that waits for all of them, so it may borrow what is around
//! it. Whoever is not needed any more is cancelled, told why, and waited for: nothing is dropped half-way, and nothing
//! goes on behind the caller's back.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use futures_util::stream::{FuturesUnordered, Stream};

use crate::scope::body::{Finish, judge};
use crate::scope::cause::{Cause, Interrupt, Outcome};
use crate::scope::node::{Kind, Node, Owned, Place, Ran, Within};
use crate::scope::panics::CatchPanic;

type Work<F> = Within<CatchPanic<F>>;

/// A place for one of them, and its work.
fn seat<F: Future>(node: &Node, future: F) -> (Place, Work<F>) {
    let work = node.run(CatchPanic { future });
    (work.place().clone(), work)
}

async fn judged<F: Future<Output = R>, R: Finish<E>, E>(work: Work<F>) -> Outcome<R::Value, E> {
    let Ran { output, interrupted } = work.await;
    judge(output.map(|output| Ran { output, interrupted }))
}

/// One of a race.
struct Contender<'a, T, E> {
    place: Place,
    work: Option<Pin<&'a mut dyn Future<Output = Outcome<T, E>>>>,
}

/// Ends when all have; answers how the first of them did.
async fn first<T, E>(mut contenders: Vec<Contender<'_, T, E>>) -> Outcome<T, E> {
    let mut won = None;
    std::future::poll_fn(|cx| {
        for at in 0..contenders.len() {
            let Some(work) = &mut contenders[at].work else { continue };
            let Poll::Ready(outcome) = work.as_mut().poll(cx) else { continue };
            contenders[at].work = None;
            if won.is_none() {
                won = Some(outcome);
                // Whoever was polled before in this round is woken by it, and asked again.
                contenders.iter().filter(|other| other.work.is_some()).for_each(|other| {
                    other.place.cancel(Interrupt::RaceLost);
                });
            }
        }
        if contenders.iter().all(|contender| contender.work.is_none()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    // A race nobody takes part in is lost by everybody.
    won.unwrap_or(Err(Cause::interrupted(Interrupt::RaceLost)))
}

/// What keeps what all of them came to.
struct Tally<E> {
    node: Node,
    cause: Option<Cause<E>>,
}

impl<E> Tally<E> {
    /// One has ended: its value, or nothing. The first that failed has the others cancelled.
    fn note<T>(&mut self, outcome: Outcome<T, E>) -> Option<T> {
        let cause = match outcome {
            Ok(value) => return Some(value),
            Err(cause) => cause,
        };
        match self.cause.take() {
            None => {
                self.node.cancel(Interrupt::SiblingFailed);
                self.cause = Some(cause);
            }
            // That it was interrupted is the first one's doing.
            Some(first) if cause.interrupt().is_some() => self.cause = Some(first),
            Some(first) => self.cause = Some(first.with_suppressed(1)),
        }
        None
    }

    fn end<T>(self, values: Option<T>) -> Outcome<T, E> {
        match (self.cause, values) {
            (None, Some(values)) => Ok(values),
            (Some(cause), _) => Err(cause),
            (None, None) => Err(Cause::interrupted(Interrupt::Cancelled)),
        }
    }
}

/// Closures that take part in a race: a tuple of up to eight, whose values are of one type.
#[diagnostic::on_unimplemented(
    message = "this is no race",
    label = "a race is between a tuple of closures that give the same type: `(|| one(), || other())`"
)]
pub trait Race<T, E> {
    #[doc(hidden)]
    fn race(self) -> impl Future<Output = Outcome<T, E>>;
}

/// Closures whose values are wanted together: a tuple of up to eight.
#[diagnostic::on_unimplemented(
    message = "these cannot be joined",
    label = "what is joined is a tuple of closures: `(|| one(), || other())`"
)]
pub trait Together<E> {
    /// The values, in the order of the closures.
    type Values;

    #[doc(hidden)]
    fn together(self) -> impl Future<Output = Outcome<Self::Values, E>>;
}

macro_rules! tuples {
    ($($(($closure:ident, $result:ident, $name:ident)),+;)+) => {$(
        impl<T, E, $($closure, $result),+> Race<T, E> for ($($closure,)+)
        where
            $($closure: AsyncFnOnce() -> $result, $result: Finish<E, Value = T>,)+
        {
            async fn race(self) -> Outcome<T, E> {
                let ($($name,)+) = self;
                let node = Owned::open(Kind::Open, None);
                $(let $name = seat(node.node(), $name());)+
                $(let mut $name = ($name.0, pin!(judged($name.1)));)+
                let won = first(vec![$(Contender { place: $name.0, work: Some($name.1.as_mut()) }),+]).await;
                node.end();
                won
            }
        }

        impl<E, $($closure, $result),+> Together<E> for ($($closure,)+)
        where
            $($closure: AsyncFnOnce() -> $result, $result: Finish<E>,)+
        {
            type Values = ($($result::Value,)+);

            async fn together(self) -> Outcome<Self::Values, E> {
                let ($($name,)+) = self;
                let node = Owned::open(Kind::Open, None);
                let mut tally = Tally { node: node.node().clone(), cause: None };
                $(let mut $name = One { work: pin!(judged(seat(node.node(), $name()).1)), value: None, ended: false };)+
                std::future::poll_fn(|cx| {
                    let mut all = true;
                    $(all &= $name.poll(cx, &mut tally);)+
                    if all { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
                let values = match ($($name.value,)+) {
                    ($(Some($name),)+) => Some(($($name,)+)),
                    _ => None,
                };
                node.end();
                tally.end(values)
            }
        }
    )+};
}

tuples! {
    (A, RA, a);
    (A, RA, a), (B, RB, b);
    (A, RA, a), (B, RB, b), (C, RC, c);
    (A, RA, a), (B, RB, b), (C, RC, c), (D, RD, d);
    (A, RA, a), (B, RB, b), (C, RC, c), (D, RD, d), (F, RF, f);
    (A, RA, a), (B, RB, b), (C, RC, c), (D, RD, d), (F, RF, f), (G, RG, g);
    (A, RA, a), (B, RB, b), (C, RC, c), (D, RD, d), (F, RF, f), (G, RG, g), (H, RH, h);
    (A, RA, a), (B, RB, b), (C, RC, c), (D, RD, d), (F, RF, f), (G, RG, g), (H, RH, h), (I, RI, i);
}

/// One of those that are joined.
struct One<'a, F, T> {
    work: Pin<&'a mut F>,
    value: Option<T>,
    ended: bool,
}

impl<F, T, E> One<'_, F, T>
where
    F: Future<Output = Outcome<T, E>>,
{
    /// Whether it has ended.
    fn poll(&mut self, cx: &mut Context<'_>, tally: &mut Tally<E>) -> bool {
        if !self.ended
            && let Poll::Ready(outcome) = self.work.as_mut().poll(cx)
        {
            self.ended = true;
            self.value = tally.note(outcome);
        }
        self.ended
    }
}

/// Runs `body` for each of `items` at once, and answers the values in the items' order.
pub async fn join_all<I, E, R>(items: I, body: impl AsyncFn(I::Item) -> R) -> Outcome<Vec<R::Value>, E>
where
    I: IntoIterator,
    R: Finish<E>,
{
    let node = Owned::open(Kind::Open, None);
    let mut tally = Tally { node: node.node().clone(), cause: None };
    let mut running: FuturesUnordered<_> =
        items.into_iter().enumerate().map(|(at, item)| numbered(at, seat(node.node(), body(item)).1)).collect();
    let mut values: Vec<Option<R::Value>> = Vec::new();
    values.resize_with(running.len(), || None);
    while let Some((at, outcome)) = next(&mut running).await {
        values[at] = tally.note(outcome);
    }
    node.end();
    tally.end(values.into_iter().collect())
}

/// Runs `body` for each of `items` at once; answers how the first of them ended, and cancels the others.
pub async fn race_all<I, E, R>(items: I, body: impl AsyncFn(I::Item) -> R) -> Outcome<R::Value, E>
where
    I: IntoIterator,
    R: Finish<E>,
{
    let node = Owned::open(Kind::Open, None);
    let mut running: FuturesUnordered<_> =
        items.into_iter().enumerate().map(|(at, item)| numbered(at, seat(node.node(), body(item)).1)).collect();
    let mut won = None;
    while let Some((_, outcome)) = next(&mut running).await {
        if won.is_none() {
            won = Some(outcome);
            node.node().cancel(Interrupt::RaceLost);
        }
    }
    node.end();
    won.unwrap_or(Err(Cause::interrupted(Interrupt::RaceLost)))
}

async fn numbered<F, R, E>(at: usize, work: Work<F>) -> (usize, Outcome<R::Value, E>)
where
    F: Future<Output = R>,
    R: Finish<E>,
{
    (at, judged(work).await)
}

async fn next<F: Future>(running: &mut FuturesUnordered<F>) -> Option<F::Output> {
    std::future::poll_fn(|cx| Pin::new(&mut *running).poll_next(cx)).await
}
