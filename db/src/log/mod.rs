//! The log: bytes that are on the disk before anybody hears of them.
//!
//! # Protocol
//!
//! Entries are appended to a batch in memory; the writer takes the batch as one frame, writes it with one durable
//! write, and only when all of it and the sync have come acknowledges everything in it. While one batch is in flight
//! the next one fills, so a lone commit waits for nobody, and many share a sync.
//!
//! A short write is continued, and then synced as a whole. A full disk undoes the batch and all behind it, on the disk
//! too, and the log goes on once there is room. Any other failure is final: the batch in flight is unknown, what fills
//! is refused, and nothing is acknowledged ever after.
//!
//! Frames lie in segments, files that are zero-filled before use and used again when a snapshot has made them
//! needless. They are written past the system's cache where the file system can do that. `FORMAT.md` draws the bytes
//! and goes through what a crash can leave.
//!
//! Opening locks the directory, looks at every file, hands the newest whole snapshot and every frame behind it to a
//! [`Replay`], and only then changes anything: a torn tail is cut, and counted in the [`Recovery`].

mod batch;
mod block;
mod body;
pub mod copy;
pub(crate) mod directory;
pub mod error;
mod evidence;
pub mod examine;
mod frame;
pub(crate) mod names;
mod open;
mod publish;
mod replay;
pub mod salvage;
mod segments;
mod snapshot;
mod state;
mod survey;
mod walk;
mod window;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use wo_runtime::error::OpKind;
use wo_runtime::fiber;

use crate::log::error::{CommitError, CopyError, OpenError, Undecodable};

pub use body::Entry;
pub use open::{Recovery, TornTail};
use state::Shared;

/// What is told of everything the log holds, in order.
pub trait Replay {
    /// The tables from here on, as they were described to [`Log::append`] or [`Log::snapshot`].
    fn catalogue(&mut self, bytes: &[u8]) -> Result<(), Undecodable>;

    /// The snapshot is over, as of this number; what comes now are the transactions behind it. Without a snapshot this
    /// is not called.
    fn snapshot_end(&mut self, as_of: u64) -> Result<(), Undecodable>;

    /// One transaction. What comes from a snapshot has the snapshot's number, several times; applying a transaction to
    /// a state that has it already must change nothing.
    fn transaction(&mut self, sequence: u64, body: &[u8]) -> Result<(), Undecodable>;

    /// Everything has been told, and nothing has been changed yet: the last chance to refuse it.
    fn end(&mut self) -> Result<(), Undecodable> {
        Ok(())
    }
}

/// Nobody listens: for a log that holds nothing anybody would want to know of.
impl Replay for () {
    fn catalogue(&mut self, _bytes: &[u8]) -> Result<(), Undecodable> {
        Ok(())
    }

    fn snapshot_end(&mut self, _as_of: u64) -> Result<(), Undecodable> {
        Ok(())
    }

    fn transaction(&mut self, _sequence: u64, _body: &[u8]) -> Result<(), Undecodable> {
        Ok(())
    }
}

/// Told now and then how much is done, of how much.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// How the log uses its disk.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Bytes of one segment; a multiple of 4096.
    pub segment_bytes: u64,
    /// The longest entry there may be, in bytes.
    pub entry_bytes_max: u32,
    /// A batch that has this many bytes takes no more entries.
    pub batch_bytes: usize,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions { segment_bytes: 16 << 20, entry_bytes_max: 64 << 20, batch_bytes: 256 << 10 }
    }
}

/// What the log has done since it was opened, and what it holds.
///
/// # Examples
///
/// ```
/// # #[derive(wo::Record, Clone)]
/// # struct City {
/// #     #[key]
/// #     name: String,
/// # }
/// # #[wo::main]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = std::env::temp_dir().join(format!("wo-db-logstats-{}", std::process::id()));
/// # let db = wo::db::Db::builder().table::<City>().open(dir.join("cities"))?;
/// # db.table::<City>()?.insert(City { name: "Rome".to_owned() })?;
/// # db.close()?;
/// # let cities = dir.join("cities");
///
/// let db = wo::db::Db::builder().table::<City>().open(&cities)?;
/// db.table::<City>()?.insert(City { name: "Oslo".to_owned() })?;
/// let log = db.stats()?.log.expect("it has a directory");
/// assert_eq!(log.appended, log.durable);
/// assert!(log.batches > 0 && log.generation == 2);
/// # db.close()?;
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogStats {
    /// The number of the last entry appended.
    pub appended: u64,
    /// The number of the last entry that is on the disk.
    pub durable: u64,
    /// Batches written.
    pub batches: u64,
    /// Bytes of frames written.
    pub bytes: u64,
    /// Bytes of frames behind the newest snapshot.
    pub bytes_since_snapshot: u64,
    /// Segments in use.
    pub segments: u32,
    /// Segments ready for use.
    pub spares: u32,
    /// The number of times the database was opened for writing, this one included.
    pub generation: u32,
}

/// A log that is open. It lives on one shard. Dropping it takes no more entries; what was appended is still written,
/// and the directory is let go when that is done.
pub struct Log {
    shared: Rc<Shared>,
}

impl Log {
    /// Opens the log in `dir`, makes the directory when there is none, and replays what it holds.
    pub async fn open(dir: &Path, options: &LogOptions, replay: &mut dyn Replay) -> Result<(Log, Recovery), OpenError> {
        let (shared, recovery) = open::open(dir, options, replay).await?;
        writer::start(&shared);
        Ok((Log { shared }, recovery))
    }

    /// Appends an entry to the batch that fills, and answers its number. Never parks. Nothing is promised of it before
    /// [`durable`](Log::durable) says so.
    pub fn append(&self, entry: Entry, bytes: &[u8]) -> Result<u64, CommitError> {
        let sequence = self.shared.state.borrow_mut().append(entry, bytes)?;
        self.shared.work.notify_one();
        Ok(sequence)
    }

    /// Parks until an entry is on the disk, or never will be, or nobody knows.
    pub async fn durable(&self, sequence: u64) -> Result<(), CommitError> {
        let mut wait = state::Wait::new(&self.shared, sequence);
        fiber::park(OpKind::Sync, |cx| wait.poll(cx)).await.unwrap_or(Err(CommitError::Cancelled))
    }

    /// What is known of an entry now: none while it is on its way.
    pub fn outcome(&self, sequence: u64) -> Option<Result<(), CommitError>> {
        self.shared.state.borrow().outcome(sequence)
    }

    /// The number of the last entry that is on the disk.
    pub fn durable_sequence(&self) -> u64 {
        self.shared.state.borrow().durable()
    }

    /// The number of the last entry appended.
    pub fn last_sequence(&self) -> u64 {
        self.shared.state.borrow().appended()
    }

    /// Parks until more is on the disk than up to `beyond`, and answers the number of the last entry that is.
    pub async fn progress(&self, beyond: u64) -> Result<u64, CommitError> {
        let mut wait = state::Wait::new(&self.shared, beyond + 1);
        fiber::park(OpKind::Sync, |cx| wait.poll_progress(cx)).await.unwrap_or(Err(CommitError::Cancelled))
    }

    /// What failed and is not acknowledged by [`rolled_back`](Log::rolled_back) yet: every entry above
    /// [`durable_sequence`](Log::durable_sequence) is undone, or unknown. Until then nothing can be appended.
    pub fn failure(&self) -> Option<CommitError> {
        self.shared.state.borrow().failure()
    }

    /// What had failed is undone in memory as well. After a full disk, entries can be appended again.
    pub fn rolled_back(&self) {
        self.shared.state.borrow_mut().rolled_back();
    }

    /// The number the next entry will have.
    pub fn next_sequence(&self) -> u64 {
        self.shared.state.borrow().appended() + 1
    }

    /// The error of an earlier write or sync that ended all commits, if there was one.
    pub fn poison(&self) -> Option<CommitError> {
        self.shared.state.borrow().poison()
    }

    /// Writes a snapshot while the log goes on, and removes what it makes needless.
    ///
    /// `catalogue` and the entries `rows` gives are the state as of `as_of` at least; it may have, of later
    /// transactions, whole or in part, what had been appended when its last row was given. `rows` appends one
    /// transaction body to the empty buffer it is given, and is called between parks until it answers false, adding
    /// nothing.
    pub async fn snapshot(
        &self,
        catalogue: &[u8],
        as_of: u64,
        rows: impl FnMut(&mut Vec<u8>) -> bool,
    ) -> Result<Snapshot, CopyError> {
        publish::snapshot(&self.shared, catalogue, as_of, rows).await
    }

    /// Copies the log to a new directory while it goes on; the copy has what is on the disk now.
    pub async fn backup(&self, to: &Path, progress: Progress<'_>) -> Result<copy::Backup, CopyError> {
        copy::backup_open(&self.shared, to, progress).await
    }

    /// Figures.
    pub fn stats(&self) -> LogStats {
        self.shared.stats()
    }

    /// The data directory.
    pub fn dir(&self) -> &Path {
        &self.shared.dir
    }

    /// Writes what was appended, and lets the directory go. Everything later is refused.
    pub async fn close(self) -> Result<(), CommitError> {
        writer::close(&self.shared).await
    }
}

/// A snapshot that was made.
///
/// # Examples
///
/// ```
/// # #[derive(wo::Record, Clone)]
/// # struct City {
/// #     #[key]
/// #     name: String,
/// # }
/// # #[wo::main]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = std::env::temp_dir().join(format!("wo-db-madesnapshot-{}", std::process::id()));
/// # let db = wo::db::Db::builder().table::<City>().open(dir.join("cities"))?;
/// # db.table::<City>()?.insert(City { name: "Rome".to_owned() })?;
/// # db.close()?;
/// # let cities = dir.join("cities");
///
/// let db = wo::db::Db::builder().table::<City>().open(&cities)?;
/// let snapshot = db.snapshot()?;
/// assert_eq!(std::fs::metadata(&snapshot.file)?.len(), snapshot.bytes);
/// # db.close()?;
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Its file.
    pub file: PathBuf,
    /// The last transaction that is in it for sure.
    pub as_of: u64,
    /// Its size, in bytes.
    pub bytes: u64,
    /// Segments it made needless.
    pub segments_freed: u32,
}

impl Drop for Log {
    fn drop(&mut self) {
        let mut state = self.shared.state.borrow_mut();
        state.close();
        let idle = state.is_idle();
        drop(state);
        self.shared.work.notify_one();
        if idle {
            // Whoever still makes a copy or a segment has a share of its own.
            self.shared.directory.borrow_mut().take();
        }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("dir", &self.shared.dir).field("stats", &self.stats()).finish_non_exhaustive()
    }
}
