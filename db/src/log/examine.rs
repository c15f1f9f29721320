//! Looking at a data directory without touching it.
//!
//! The same reading as an opening's, and the same refusals, but nothing is locked, made, cut or removed. A directory
//! that is being served can be looked at too: then the end may be torn because it is being written.

use std::path::{Path, PathBuf};

use wo_runtime::os::fs::{self, OpenOptions};

use crate::log::error::OpenError;
use crate::log::replay::Replayed;
use crate::log::survey::survey;
use crate::log::{Progress, Replay, TornTail, names};

/// What a data directory holds.
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
/// # let dir = std::env::temp_dir().join(format!("wo-db-contents-{}", std::process::id()));
/// # let db = wo::db::Db::builder().table::<City>().open(dir.join("cities"))?;
/// # db.table::<City>()?.insert(City { name: "Rome".to_owned() })?;
/// # db.close()?;
/// # let cities = dir.join("cities");
///
/// let contents = wo::db::tools::verify(&cities, |_, _| ())?;
/// assert!(!contents.is_empty && contents.open_in.is_none());
/// assert!(contents.frames > 0 && contents.log_bytes < contents.file_bytes);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contents {
    /// Nothing was ever committed to it.
    pub is_empty: bool,
    /// The process that has it open, where the system tells.
    pub open_in: Option<u32>,
    /// The newest life that wrote anything.
    pub generation: u32,
    /// The number of the last transaction.
    pub last_sequence: u64,
    /// The newest whole snapshot, and the transaction it is as of.
    pub snapshot: Option<(PathBuf, u64)>,
    /// Entries of the snapshot.
    pub snapshot_entries: u64,
    /// Bytes of the snapshot.
    pub snapshot_bytes: u64,
    /// Snapshots that are not whole, newer than that one, and why.
    pub snapshots_passed_over: Vec<(PathBuf, String)>,
    /// Transactions in the log, behind the snapshot.
    pub transactions: u64,
    /// Descriptions of the tables in the log, behind the snapshot.
    pub catalogues: u64,
    /// Whole frames in the live segments: one for every sync.
    pub frames: u64,
    /// Their bytes.
    pub log_bytes: u64,
    /// Segments that are replayed.
    pub segments: u32,
    /// Segment files besides those: ready for use, or to be made ready.
    pub spares: u32,
    /// Bytes of all files of the database.
    pub file_bytes: u64,
    /// Bytes of a torn write at the end, which the next opening cuts.
    pub torn_tail_bytes: u64,
    /// Where that is.
    pub torn_tail: Option<TornTail>,
}

/// Reads a whole data directory, and hands what it holds to `replay`.
pub async fn examine(dir: &Path, replay: &mut dyn Replay, progress: Progress<'_>) -> Result<Contents, OpenError> {
    let held = OpenOptions::new().read(true).directory(true).open(dir).await;
    let held = held.map_err(|error| OpenError::io(dir, error))?;
    let open_in = held.lock_holder().await;
    let survey = survey(dir).await?;
    let file_bytes = file_bytes(dir).await?;
    let live: u64 = survey.live()?.iter().map(|segment| segment.len).sum();
    let total = live + survey.snapshot.as_ref().map_or(0, |snapshot| snapshot.bytes);
    let mut done = 0;
    let mut read = |bytes| {
        done += bytes;
        progress(done.min(total), total);
    };
    let mut replayed = Replayed::default();
    replayed.feed_snapshot(&survey, replay, &mut read).await?;
    let end = replayed.feed_log(&survey, replay, &mut read).await?;
    progress(total, total);
    let torn_tail = end.active().filter(|_| end.torn_bytes > 0).map(|active| TornTail {
        file: names::segment(dir, active.slot),
        offset: active.end,
        reason: end.torn_why.map_or_else(String::new, |why| why.to_string()),
    });
    Ok(Contents {
        is_empty: survey.id.is_none(),
        open_in,
        generation: end.generation,
        last_sequence: end.last,
        snapshot: survey.snapshot.as_ref().map(|snapshot| (snapshot.path.clone(), snapshot.header.as_of)),
        snapshot_entries: survey.snapshot.as_ref().map_or(0, |snapshot| snapshot.entries),
        snapshot_bytes: survey.snapshot.as_ref().map_or(0, |snapshot| snapshot.bytes),
        snapshots_passed_over: survey.refused.clone(),
        transactions: replayed.transactions,
        catalogues: replayed.catalogues,
        frames: end.frames,
        log_bytes: end.bytes,
        segments: end.segments.len() as u32,
        spares: (survey.listing.slots.len() - end.segments.len()) as u32,
        file_bytes,
        torn_tail_bytes: end.torn_bytes,
        torn_tail,
    })
}

async fn file_bytes(dir: &Path) -> Result<u64, OpenError> {
    let listing = names::list(dir).await?;
    let segments = listing.slots.iter().map(|slot| names::segment(dir, *slot));
    let snapshots = listing.snapshots.iter().map(|as_of| names::snapshot(dir, *as_of));
    let mut bytes = 0;
    for file in segments.chain(snapshots) {
        bytes += fs::metadata(&file).await.map_err(|error| OpenError::io(&file, error))?.len();
    }
    Ok(bytes)
}

/// Whether there is a whole snapshot.
pub(crate) async fn has_snapshot(dir: &Path) -> Result<bool, OpenError> {
    Ok(survey(dir).await?.snapshot.is_some())
}
