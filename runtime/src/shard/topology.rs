//! How a program's shards share its work.

/// How a program's shards share its work, as [`Builder::topology`](crate::shard::Builder::topology) and
/// `#[wo::main(topology = "work-stealing")]` set it. In a simulated world the shards take turns on one thread.
///
/// Batch work that never parks has a [`Pool`](crate::shard::pool::Pool) of its own, whatever the topology.
///
/// # Examples
///
/// ```
/// use wo::{Builder, Topology};
///
/// let shards = Builder::new().shards(4).topology(Topology::Single).run(|| async { wo::shards() })?;
/// assert_eq!(shards, 1);
/// # Ok::<(), wo::RunError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Topology {
    /// One shard, on the thread that runs the program, however many are asked for: no other thread, no inbox in use.
    Single,
    /// A thread for each shard, which share nothing: a fiber starts where it is spawned.
    #[default]
    ThreadPerCore,
    /// The same, but a fiber of [`spawn_stealable`](crate::fiber::spawn_stealable) may be started by any shard that
    /// has run dry. Where it started it stays.
    WorkStealing,
}
