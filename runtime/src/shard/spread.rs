//! Fibers that the program's shards get in turn.
//!
//! The body moves to the shard whose turn it is, which makes the fiber and sends the handle to join it back, as with a
//! fiber that was left to be stolen; but here the place is known at once.

use crate::fiber::{IntoFiber, JoinHandle, handed_over, spawn};
use crate::shard::program::here;

/// Starts a fiber on the shard whose turn it is: they are taken one after the other, so that each gets as many. There
/// it stays. For what comes in on one shard and is work for all, such as accepted connections.
///
/// What the body captures moves with it, so it is `Send`; what the fiber holds once it runs need not be. Where the
/// program is ending, the body is dropped, and joining says so.
///
/// # Examples
///
/// ```
/// use wo_runtime::shard::{Builder, shard_index, spawn_anywhere};
///
/// let places = Builder::new().shards(2).run(|| async {
///     let mut places = Vec::new();
///     for _ in 0..4 {
///         places.push(spawn_anywhere(|| async { shard_index() }).join().await.unwrap().unwrap());
///     }
///     places
/// })?;
/// assert_eq!(places, [0, 1, 0, 1]);
/// # Ok::<(), wo_runtime::shard::RunError>(())
/// ```
pub fn spawn_anywhere<B>(body: B) -> JoinHandle<B::Output>
where
    B: IntoFiber + Send + 'static,
    B::Output: Send,
{
    let place = here(|here| {
        let shard = here.program.next_shard();
        (shard != here.index).then_some(shard)
    });
    let Some(Some(elsewhere)) = place else { return spawn(body) };
    let (start, handle) = handed_over(body);
    // When the program is ending, dropping the start tells the handle.
    let _posted = here(|here| here.program.post(elsewhere, start));
    handle
}
