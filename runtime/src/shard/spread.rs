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
/// # Panics
///
/// Where no shard runs on this thread.
///
/// # Examples
///
/// ```
/// # #[wo::fiber]
/// # fn example() {
/// // On two shards.
/// let mut places = Vec::new();
/// for _ in 0..4 {
///     places.push(wo::spawn_anywhere(|| wo::shard_index()).join().expect("it does not panic"));
/// }
/// assert_eq!(places, [Some(0), Some(1), Some(0), Some(1)]);
/// # }
/// # wo::Builder::new().shards(2).run(example).unwrap();
/// ```
#[track_caller]
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
