//! How many processors this process may keep busy.

use std::num::NonZero;
use std::sync::Once;

/// The processors this process may use: those its affinity mask allows, cut to the quota of its control groups and of
/// every group above them. A quota of a processor and a half is one processor; the answer is 1 at least.
///
/// It is asked anew each time, and is what the calling thread may use: a thread that was confined answers for itself.
///
/// # Examples
///
/// ```
/// assert!(wo_runtime::shard::cores() >= 1);
/// ```
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Says once that shards have to share processors. They get on, but each waits for the others' turns.
pub(crate) fn say_crowded_once(shards: usize) {
    static SAID: Once = Once::new();
    let cores = cores();
    if shards > cores {
        SAID.call_once(|| {
            eprintln!(
                "wo: {shards} shards share {cores} core(s), by affinity mask or quota; WO_SHARDS={cores} is enough"
            );
        });
    }
}
