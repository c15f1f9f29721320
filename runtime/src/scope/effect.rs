//! Effects: work described as a value, to be run later, again, or beside other work.
//!
//! An effect has no meaning of its own. Each kind is a type, and running it is the direct code it stands for: a chain
//! of maps calls one function after the other, work that is tried again goes through [`retry`](crate::fiber::retry),
//! work with a limit through [`with_deadline`](crate::fiber::with_deadline), and two at once through
//! [`join`](crate::fiber::join). The compiler resolves all of it: nothing is boxed, and nothing is interpreted.
//!
//! What an effect needs of the world it is given when it is run, by reference, as any type it asks for.

use std::fmt;
use std::future::{Future, ready};
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use crate::scope::body::Crossed;
use crate::scope::cause::{Cause, Outcome};
use crate::scope::executor::Executor;
use crate::scope::schedule::Schedule;
use crate::scope::together::Together;
use crate::scope::{driver, section};

/// A description of work.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::effect::{Effect, Run, succeed};
/// use wo::schedule::recurs;
///
/// #[wo::main]
/// fn main() {
///     let tea = wo::effect(|| {
///         wo::yield_now()?;
///         Ok(3)
///     });
///     let order = tea
///         .with_retry(recurs(2))
///         .map(|cups| cups * 2)
///         .zip_par(succeed("milk"))
///         .with_timeout(Duration::from_secs(1));
///     let outcome: wo::Outcome<(u32, &str)> = order.run(&());
///     assert_eq!(outcome.unwrap(), (6, "milk"));
/// }
/// ```
#[must_use = "an effect does nothing until it is run"]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no effect",
    note = "`effect(|| ..)` makes one of a closure that gives a `Result`"
)]
pub trait Effect: Sized {
    /// What it gives when it goes well.
    type Value;
    /// How it fails.
    type Error;

    /// Does something with its value. Of maps in a row one is made.
    fn map<T, F: Fn(Self::Value) -> T>(self, then: F) -> Map<Self, F> {
        Map { effect: self, then }
    }

    /// Goes on with another effect, made of its value.
    fn and_then<N, F>(self, then: F) -> AndThen<Self, F>
    where
        N: Effect<Error = Self::Error>,
        F: Fn(Self::Value) -> N,
    {
        AndThen { effect: self, then }
    }

    /// Runs beside another, and gives both values. The first to fail has the other cancelled.
    fn zip_par<O: Effect<Error = Self::Error>>(self, other: O) -> ZipPar<Self, O> {
        ZipPar { one: self, other }
    }

    /// Runs again after each delay of `policy` while it fails.
    fn with_retry<S: Schedule>(self, policy: S) -> Retried<Self, S> {
        Retried { effect: self, policy }
    }

    /// Runs for at most `limit`.
    fn with_timeout(self, limit: Duration) -> Timed<Self> {
        Timed { effect: self, limit }
    }
}

/// An effect that can be run in a world `C`, which it is given by reference: one that was made by [`effect_in`] in the
/// world its closure takes, one without such a part in any.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not run in a `{C}`",
    label = "this is not the world it asks for"
)]
pub trait RunsIn<C: ?Sized>: Effect {
    /// Runs it on `executor`. Whoever uses fibers says [`run`](crate::fiber::Run::run).
    fn perform<X: Executor>(&self, executor: &X, world: &C) -> impl Future<Output = Outcome<Self::Value, Self::Error>>;
}

/// An effect that gives this value.
///
/// # Examples
///
/// ```
/// use wo::effect::{Effect, Run, succeed};
///
/// #[wo::main]
/// fn main() {
///     let outcome: wo::Outcome<u32> = succeed(20).map(|n| n + 1).run(&());
///     assert_eq!(outcome.unwrap(), 21);
/// }
/// ```
pub const fn succeed<T: Clone, E>(value: T) -> Succeed<T, E> {
    Succeed { value, error: PhantomData }
}

/// An effect that fails so.
///
/// # Examples
///
/// ```
/// use wo::effect::{Effect, Run, fail};
///
/// #[wo::main]
/// fn main() {
///     let outcome: wo::Outcome<u32, &str> = fail("no route").map(|n: u32| n + 1).run(&());
///     assert_eq!(outcome.unwrap_err().error(), Some(&"no route"));
/// }
/// ```
pub const fn fail<T, E: Clone>(error: E) -> Failed<T, E> {
    Failed { error, value: PhantomData }
}

/// An effect that runs `body`, in any world.
///
/// # Examples
///
/// ```
/// use wo::effect::{Effect, Run, effect};
///
/// #[wo::main]
/// fn main() {
///     let work = effect(async || Ok(2)).and_then(|n| effect(async move || Ok(n * 21)));
///     let outcome: wo::Outcome<u32, &str> = work.run(&());
///     assert_eq!(outcome.unwrap(), 42);
/// }
/// ```
pub const fn effect<F>(body: F) -> Lifted<F> {
    Lifted { body }
}

/// An effect that runs `body` in the world it is run in.
///
/// # Examples
///
/// ```
/// use wo::effect::{Run, effect_in};
///
/// struct Greeting(&'static str);
///
/// #[wo::main]
/// fn main() {
///     let work = effect_in(async |world: &Greeting| Ok(world.0.len()));
///     let outcome: wo::Outcome<usize, &str> = work.run(&Greeting("hello"));
///     assert_eq!(outcome.unwrap(), 5);
/// }
/// ```
pub const fn effect_in<C: ?Sized, T, E, F: AsyncFn(&C) -> Result<T, E>>(body: F) -> LiftedIn<C, F> {
    LiftedIn { body, world: PhantomData }
}

/// See [`succeed`].
#[derive(Clone, Copy)]
pub struct Succeed<T, E> {
    value: T,
    error: PhantomData<fn() -> E>,
}

impl<T: Clone, E> Effect for Succeed<T, E> {
    type Value = T;
    type Error = E;
}

impl<C: ?Sized, T: Clone, E> RunsIn<C> for Succeed<T, E> {
    #[inline]
    fn perform<X: Executor>(&self, _executor: &X, _world: &C) -> impl Future<Output = Outcome<T, E>> {
        ready(Ok(self.value.clone()))
    }
}

/// See [`fail`].
#[derive(Clone, Copy)]
pub struct Failed<T, E> {
    error: E,
    value: PhantomData<fn() -> T>,
}

impl<T, E: Clone> Effect for Failed<T, E> {
    type Value = T;
    type Error = E;
}

impl<C: ?Sized, T, E: Clone> RunsIn<C> for Failed<T, E> {
    #[inline]
    fn perform<X: Executor>(&self, _executor: &X, _world: &C) -> impl Future<Output = Outcome<T, E>> {
        ready(Err(Cause::fail(self.error.clone())))
    }
}

/// See [`effect`].
#[derive(Clone, Copy)]
pub struct Lifted<F> {
    body: F,
}

impl<T, E, F: AsyncFn() -> Result<T, E>> Effect for Lifted<F> {
    type Value = T;
    type Error = E;
}

impl<C: ?Sized, T, E, F: AsyncFn() -> Result<T, E>> RunsIn<C> for Lifted<F> {
    #[inline]
    fn perform<X: Executor>(&self, _executor: &X, _world: &C) -> impl Future<Output = Outcome<T, E>> {
        Lifting { body: (self.body)() }
    }
}

/// See [`effect_in`].
pub struct LiftedIn<C: ?Sized, F> {
    body: F,
    world: PhantomData<fn(&C)>,
}

impl<C: ?Sized, F: Clone> Clone for LiftedIn<C, F> {
    fn clone(&self) -> LiftedIn<C, F> {
        LiftedIn { body: self.body.clone(), world: PhantomData }
    }
}

impl<C: ?Sized, F: Copy> Copy for LiftedIn<C, F> {}

impl<C: ?Sized, T, E, F: AsyncFn(&C) -> Result<T, E>> Effect for LiftedIn<C, F> {
    type Value = T;
    type Error = E;
}

impl<C: ?Sized, T, E, F: AsyncFn(&C) -> Result<T, E>> RunsIn<C> for LiftedIn<C, F> {
    #[inline]
    fn perform<X: Executor>(&self, _executor: &X, world: &C) -> impl Future<Output = Outcome<T, E>> {
        Lifting { body: (self.body)(world) }
    }
}

/// A function of what an effect gives.
pub trait Function<T> {
    /// What it makes of it.
    type Output;

    #[doc(hidden)]
    fn of(&self, value: T) -> Self::Output;
}

impl<T, U, F: Fn(T) -> U> Function<T> for F {
    type Output = U;

    #[inline]
    fn of(&self, value: T) -> U {
        self(value)
    }
}

/// One function after the other: what maps in a row become.
#[derive(Clone, Copy)]
pub struct After<F, G> {
    first: F,
    second: G,
}

impl<T, F: Function<T>, G: Function<F::Output>> Function<T> for After<F, G> {
    type Output = G::Output;

    #[inline]
    fn of(&self, value: T) -> G::Output {
        self.second.of(self.first.of(value))
    }
}

/// See [`Effect::map`].
#[derive(Clone, Copy)]
pub struct Map<Eff, F> {
    effect: Eff,
    then: F,
}

impl<Eff, F> Map<Eff, F> {
    /// Does something more with its value: still one map.
    pub fn map<T, G>(self, then: G) -> Map<Eff, After<F, G>>
    where
        Eff: Effect,
        F: Function<Eff::Value>,
        G: Fn(F::Output) -> T,
    {
        Map { effect: self.effect, then: After { first: self.then, second: then } }
    }
}

impl<Eff: Effect, F: Function<Eff::Value>> Effect for Map<Eff, F> {
    type Value = F::Output;
    type Error = Eff::Error;
}

impl<C: ?Sized, Eff: RunsIn<C>, F: Function<Eff::Value>> RunsIn<C> for Map<Eff, F> {
    #[inline]
    fn perform<X: Executor>(&self, executor: &X, world: &C) -> impl Future<Output = Outcome<F::Output, Eff::Error>> {
        Mapping { value: self.effect.perform(executor, world), then: &self.then }
    }
}

pin_project! {
    /// A body on its way to an outcome. Written out rather than `async`, like the next, so that a chain of them is one
    /// function to the compiler.
    struct Lifting<F> {
        #[pin]
        body: F,
    }
}

impl<T, E, F: Future<Output = Result<T, E>>> Future for Lifting<F> {
    type Output = Outcome<T, E>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome<T, E>> {
        match self.project().body.poll(cx) {
            Poll::Ready(Ok(value)) => Poll::Ready(Ok(value)),
            Poll::Ready(Err(error)) => Poll::Ready(Err(Cause::fail(error))),
            Poll::Pending => Poll::Pending,
        }
    }
}

pin_project! {
    /// An outcome on its way through a function.
    struct Mapping<'a, V, F> {
        #[pin]
        value: V,
        then: &'a F,
    }
}

impl<T, E, V: Future<Output = Outcome<T, E>>, F: Function<T>> Future for Mapping<'_, V, F> {
    type Output = Outcome<F::Output, E>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome<F::Output, E>> {
        let this = self.project();
        match this.value.poll(cx) {
            Poll::Ready(Ok(value)) => Poll::Ready(Ok(this.then.of(value))),
            Poll::Ready(Err(cause)) => Poll::Ready(Err(cause)),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// See [`Effect::and_then`].
#[derive(Clone, Copy)]
pub struct AndThen<Eff, F> {
    effect: Eff,
    then: F,
}

impl<Eff, N, F> Effect for AndThen<Eff, F>
where
    Eff: Effect,
    N: Effect<Error = Eff::Error>,
    F: Fn(Eff::Value) -> N,
{
    type Value = N::Value;
    type Error = Eff::Error;
}

impl<C: ?Sized, Eff, N, F> RunsIn<C> for AndThen<Eff, F>
where
    Eff: RunsIn<C>,
    N: RunsIn<C, Error = Eff::Error>,
    F: Fn(Eff::Value) -> N,
{
    #[inline]
    async fn perform<X: Executor>(&self, executor: &X, world: &C) -> Outcome<N::Value, Eff::Error> {
        let value = self.effect.perform(executor, world).await?;
        (self.then)(value).perform(executor, world).await
    }
}

/// See [`Effect::zip_par`].
#[derive(Clone, Copy)]
pub struct ZipPar<A, B> {
    one: A,
    other: B,
}

impl<A: Effect, B: Effect<Error = A::Error>> Effect for ZipPar<A, B> {
    type Value = (A::Value, B::Value);
    type Error = A::Error;
}

impl<C: ?Sized, A: RunsIn<C>, B: RunsIn<C, Error = A::Error>> RunsIn<C> for ZipPar<A, B> {
    async fn perform<X: Executor>(&self, executor: &X, world: &C) -> Outcome<Self::Value, A::Error> {
        let one = async || Crossed(self.one.perform(executor, world).await);
        let other = async || Crossed(self.other.perform(executor, world).await);
        (one, other).together().await
    }
}

/// See [`Effect::with_retry`].
#[derive(Clone, Copy)]
pub struct Retried<Eff, S> {
    effect: Eff,
    policy: S,
}

impl<Eff: Effect, S: Schedule> Effect for Retried<Eff, S> {
    type Value = Eff::Value;
    type Error = Eff::Error;
}

impl<C: ?Sized, Eff: RunsIn<C>, S: Schedule> RunsIn<C> for Retried<Eff, S> {
    async fn perform<X: Executor>(&self, executor: &X, world: &C) -> Outcome<Eff::Value, Eff::Error> {
        let again = async || Crossed(self.effect.perform(executor, world).await);
        driver::retry(executor.clone(), self.policy.clone(), again).await
    }
}

/// See [`Effect::with_timeout`].
#[derive(Clone, Copy)]
pub struct Timed<Eff> {
    effect: Eff,
    limit: Duration,
}

impl<Eff: Effect> Effect for Timed<Eff> {
    type Value = Eff::Value;
    type Error = Eff::Error;
}

impl<C: ?Sized, Eff: RunsIn<C>> RunsIn<C> for Timed<Eff> {
    async fn perform<X: Executor>(&self, executor: &X, world: &C) -> Outcome<Eff::Value, Eff::Error> {
        let work = async || Crossed(self.effect.perform(executor, world).await);
        section::with_deadline(executor.clone(), self.limit, work).await
    }
}

macro_rules! named {
    ($($name:ident<$($part:ident),+>),+ $(,)?) => {$(
        impl<$($part),+> fmt::Debug for $name<$($part),+> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )+};
}

named!(
    Succeed<T, E>,
    Failed<T, E>,
    Lifted<F>,
    LiftedIn<C, F>,
    After<F, G>,
    Map<Eff, F>,
    AndThen<Eff, F>,
    ZipPar<A, B>,
    Retried<Eff, S>,
    Timed<Eff>,
);
