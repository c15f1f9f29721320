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
///
/// let outcome: wo::Outcome<&str> = wo::Builder::new().run(|| async {
///     let slow = async || {
///         wo::sleep(Duration::from_secs(60)).await?;
///         Ok("slow")
///     };
///     let quick = async || {
///         wo::yield_now().await?;
///         Ok("quick")
///     };
///     wo::race((slow, quick)).await
/// })?;
/// assert_eq!(outcome.unwrap(), "quick");
/// # Ok::<(), wo::RunError>(())
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
///
/// let first: wo::Outcome<u64> = wo::Builder::new().run(|| async {
///     wo::race_all([50_u64, 1, 70], async |millis: u64| {
///         wo::sleep(Duration::from_millis(millis)).await?;
///         Ok(millis)
///     })
///     .await
/// })?;
/// assert_eq!(first.unwrap(), 1);
/// # Ok::<(), wo::RunError>(())
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
/// let both: wo::Outcome<(u32, &str)> = wo::Builder::new().run(|| async {
///     wo::join((async || Ok(7), async || {
///         wo::yield_now().await?;
///         Ok("seven")
///     }))
///     .await
/// })?;
/// assert_eq!(both.unwrap(), (7, "seven"));
/// # Ok::<(), wo::RunError>(())
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
/// let squares: wo::Outcome<Vec<u32>> = wo::Builder::new().run(|| async {
///     wo::join_all([1_u32, 2, 3], async |number: u32| {
///         wo::yield_now().await?;
///         Ok(number * number)
///     })
///     .await
/// })?;
/// assert_eq!(squares.unwrap(), [1, 4, 9]);
/// # Ok::<(), wo::RunError>(())
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
