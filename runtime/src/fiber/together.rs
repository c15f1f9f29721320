//! Racing and joining work within one fiber.

use std::future::Future;

use crate::scope::{self, Call, Finish, Outcome, Race, Together};

/// Runs several closures at once and answers how the first of them ended, well or badly. The others are cancelled, hear
/// that the race is lost, and are waited for.
///
/// They are parts of this fiber: they may borrow what is around them. What a loser still comes to is dropped.
///
/// # Errors
///
/// Why the first one has no value; an interruption of this fiber, told by the first to hear of it.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo_runtime::error::IoResult;
/// use wo_runtime::fiber;
/// use wo_runtime::scope::Outcome;
/// use wo_runtime::shard::Builder;
///
/// let outcome: Outcome<&str> = Builder::new().run(|| async {
///     let slow = async || {
///         fiber::sleep(Duration::from_secs(60)).await?;
///         Ok("slow")
///     };
///     let quick = async || {
///         fiber::yield_now().await?;
///         Ok("quick")
///     };
///     fiber::race((slow, quick)).await
/// })?;
/// assert_eq!(outcome.unwrap(), "quick");
/// # Ok::<(), wo_runtime::shard::RunError>(())
/// ```
pub fn race<T, E, C: Race<T, E>>(contenders: C) -> Call<impl Future<Output = Outcome<T, E>>> {
    Call::new(contenders.race())
}

/// Runs `body` for each of `items` at once, and answers how the first of them ended; see [`race`]. Without any item it
/// is lost.
///
/// # Errors
///
/// As [`race`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo_runtime::fiber;
/// use wo_runtime::scope::Outcome;
/// use wo_runtime::shard::Builder;
///
/// let first: Outcome<u64> = Builder::new().run(|| async {
///     fiber::race_all([50_u64, 1, 70], async |millis: u64| {
///         fiber::sleep(Duration::from_millis(millis)).await?;
///         Ok(millis)
///     })
///     .await
/// })?;
/// assert_eq!(first.unwrap(), 1);
/// # Ok::<(), wo_runtime::shard::RunError>(())
/// ```
pub fn race_all<I, E, R>(items: I, body: impl AsyncFn(I::Item) -> R) -> Call<impl Future<Output = Outcome<R::Value, E>>>
where
    I: IntoIterator,
    R: Finish<E>,
{
    Call::new(scope::race_all(items, body))
}

/// Runs several closures at once and answers their values, as a tuple in their order. The first that fails or panics
/// has the others cancelled; they are waited for on every path.
///
/// They are parts of this fiber: they may borrow what is around them.
///
/// # Errors
///
/// The first cause, and how many came after it.
///
/// # Examples
///
/// ```
/// use wo_runtime::fiber;
/// use wo_runtime::scope::Outcome;
/// use wo_runtime::shard::Builder;
///
/// let both: Outcome<(u32, &str)> = Builder::new().run(|| async {
///     fiber::join((async || Ok(7), async || {
///         fiber::yield_now().await?;
///         Ok("seven")
///     }))
///     .await
/// })?;
/// assert_eq!(both.unwrap(), (7, "seven"));
/// # Ok::<(), wo_runtime::shard::RunError>(())
/// ```
pub fn join<E, C: Together<E>>(closures: C) -> Call<impl Future<Output = Outcome<C::Values, E>>> {
    Call::new(closures.together())
}

/// Runs `body` for each of `items` at once and answers the values in the items' order; see [`join`].
///
/// All of them begin at once: what should not be open in any number wants a bound of its own.
///
/// # Errors
///
/// As [`join`].
///
/// # Examples
///
/// ```
/// use wo_runtime::fiber;
/// use wo_runtime::scope::Outcome;
/// use wo_runtime::shard::Builder;
///
/// let squares: Outcome<Vec<u32>> = Builder::new().run(|| async {
///     fiber::join_all([1_u32, 2, 3], async |number: u32| {
///         fiber::yield_now().await?;
///         Ok(number * number)
///     })
///     .await
/// })?;
/// assert_eq!(squares.unwrap(), [1, 4, 9]);
/// # Ok::<(), wo_runtime::shard::RunError>(())
/// ```
pub fn join_all<I, E, R>(
    items: I,
    body: impl AsyncFn(I::Item) -> R,
) -> Call<impl Future<Output = Outcome<Vec<R::Value>, E>>>
where
    I: IntoIterator,
    R: Finish<E>,
{
    Call::new(scope::join_all(items, body))
}
