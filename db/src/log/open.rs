//! Opening: lock, look, replay, and only then change.
//!
//! Until everything has been read and made sense of, nothing in the directory is written, renamed or removed. Then the
//! tail of a torn write is made zeros, the file gets its length back, both are synced, and what no crash could have
//! made needful is removed: unfinished snapshots, and segments in front of the snapshot.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use wo_runtime::error::errno;
use wo_runtime::fiber::{self, Notify};
use wo_runtime::os::fs::{self, File, OpenOptions};

use crate::log::block::{SegmentFile, Tail};
use crate::log::directory::{self, Directory};
use crate::log::error::OpenError;
use crate::log::frame::DatabaseId;
use crate::log::replay::Replayed;
use crate::log::segments::{self, Active, Sealed, Segments, Spare};
use crate::log::state::{Shared, State};
use crate::log::survey::{Survey, Why, survey};
use crate::log::walk::End;
use crate::log::{LogOptions, Replay, names, snapshot};

/// What opening a database found and did.
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
/// # let dir = std::env::temp_dir().join(format!("wo-db-recovery-{}", std::process::id()));
/// # let db = wo::db::Db::builder().table::<City>().open(dir.join("cities"))?;
/// # db.table::<City>()?.insert(City { name: "Rome".to_owned() })?;
/// # db.close()?;
/// # let cities = dir.join("cities");
///
/// let db = wo::db::Db::builder().table::<City>().open(&cities)?;
/// let recovery = db.recovery()?.expect("it has a directory");
/// assert!(!recovery.created && recovery.torn_tail.is_none());
/// assert_eq!(recovery.generation, 2);
/// # db.close()?;
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// There was no database before.
    pub created: bool,
    /// The number of times it has been opened for writing, this one included.
    pub generation: u32,
    /// The snapshot everything builds upon, and the transaction it is as of.
    pub snapshot: Option<(PathBuf, u64)>,
    /// Newer snapshots that were not whole and passed over, and why.
    pub snapshots_passed_over: Vec<(PathBuf, String)>,
    /// The number of the last transaction.
    pub last_sequence: u64,
    /// Transactions replayed from the log, besides the snapshot.
    pub transactions: u64,
    /// Bytes of the log's frames that were replayed.
    pub log_bytes: u64,
    /// Bytes of the snapshot.
    pub snapshot_bytes: u64,
    /// Segments that were read.
    pub segments: u32,
    /// Bytes of a last write that a crash tore, and that were cut off. Nothing in it had been acknowledged.
    pub torn_tail_bytes: u64,
    /// Where that was.
    pub torn_tail: Option<TornTail>,
    /// How long it all took.
    pub took: Duration,
}

/// Where a torn write was cut off.
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
/// # let dir = std::env::temp_dir().join(format!("wo-db-torn-{}", std::process::id()));
/// # let db = wo::db::Db::builder().table::<City>().open(dir.join("cities"))?;
/// # db.table::<City>()?.insert(City { name: "Rome".to_owned() })?;
/// # db.close()?;
/// # let cities = dir.join("cities");
///
/// // A crash in the middle of a write leaves a part of it.
/// # let segment = cities.join("log.0");
/// # let mut bytes = std::fs::read(&segment)?;
/// # let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
/// # bytes[end] = 0;
/// # std::fs::write(&segment, bytes)?;
/// let contents = wo::db::tools::verify(&cities, |_, _| ())?;
/// let torn = contents.torn_tail.expect("the last frame is not whole");
/// assert_eq!(torn.file, segment);
/// println!("{} from byte {} on: {}", torn.file.display(), torn.offset, torn.reason);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TornTail {
    /// The segment.
    pub file: PathBuf,
    /// Where the torn frame began, in bytes.
    pub offset: u64,
    /// Why it is no frame.
    pub reason: String,
}

/// Opens the log in `dir`; see [`Log::open`](super::Log::open).
pub(crate) async fn open(
    dir: &Path,
    options: &LogOptions,
    replay: &mut dyn Replay,
) -> Result<(Rc<Shared>, Recovery), OpenError> {
    let began = fiber::now();
    let directory = Directory::open(dir).await?;
    let survey = survey(dir).await?;
    let mut replayed = Replayed::default();
    replayed.feed_snapshot(&survey, replay, &mut |_| ()).await?;
    let end = replayed.feed_log(&survey, replay, &mut |_| ()).await?;
    replay.end().map_err(|cause| snapshot::undecodable(dir, 0, end.last, cause))?;
    let id = match survey.id {
        Some(id) => id,
        None => draw_id(dir).await,
    };
    let generation = end.generation.saturating_add(1);
    let mut recovery = report(&survey, &end, &replayed, generation);

    cut_tail(&survey, &end).await?;
    settle_names(dir, &directory, survey.id.is_none()).await?;
    let segments = take_over(&survey, &end, options).await?;
    let shared = Rc::new(Shared {
        dir: dir.to_owned(),
        options: options.clone(),
        id,
        generation,
        directory: RefCell::new(Some(directory)),
        state: RefCell::new(State::new(dir, options, end.last, replayed.schema)),
        segments: RefCell::new(segments),
        work: Notify::new(),
        ended: Notify::new(),
        copying: Cell::new(false),
        blocks: Cell::default(),
        direct: Cell::new(true),
        snapshot: Cell::new(survey.snapshot.as_ref().map(|snapshot| snapshot.header.as_of)),
        bytes_at_snapshot: Cell::new(0),
    });
    // Room for the first frame, so that a full disk is told now.
    segments::make_room(&shared, 0).await.map_err(|error| OpenError::io(dir, error))?;
    recovery.took = fiber::now().since(began);
    Ok((shared, recovery))
}

fn report(survey: &Survey, end: &End, replayed: &Replayed, generation: u32) -> Recovery {
    let torn_tail = end.active().filter(|_| end.torn_bytes > 0).map(|active| TornTail {
        file: names::segment(&survey.dir, active.slot),
        offset: active.end,
        reason: end.torn_why.map_or_else(String::new, |why| why.to_string()),
    });
    Recovery {
        created: survey.id.is_none(),
        generation,
        snapshot: survey.snapshot.as_ref().map(|snapshot| (snapshot.path.clone(), snapshot.header.as_of)),
        snapshots_passed_over: survey.refused.clone(),
        last_sequence: end.last,
        transactions: replayed.transactions,
        log_bytes: end.bytes,
        snapshot_bytes: survey.snapshot.as_ref().map_or(0, |snapshot| snapshot.bytes),
        segments: end.segments.len() as u32,
        torn_tail_bytes: end.torn_bytes,
        torn_tail,
        took: Duration::ZERO,
    }
}

/// A number for a new database. A simulated world has no dice of its own to read, so there it is the time's.
async fn draw_id(dir: &Path) -> DatabaseId {
    if let Ok(dice) = File::open("/dev/urandom").await
        && let (Ok(16), bytes) = dice.read(Box::<[u8]>::from([0; 16])).await
        && let Ok(id) = <[u8; 16]>::try_from(&bytes[..])
    {
        return DatabaseId(id);
    }
    let now = fiber::now().as_nanos().to_le_bytes();
    let mut id = [0; 16];
    for (part, salt) in id.chunks_exact_mut(4).zip(1u32..) {
        let name = crc32c::crc32c_append(salt, dir.as_os_str().as_encoded_bytes());
        part.copy_from_slice(&crc32c::crc32c_append(name, &now).to_le_bytes());
    }
    DatabaseId(id)
}

/// Makes zeros of what a torn write left, gives a file that was cut its length back, and syncs. There is always
/// something to sync perhaps: a process that was killed leaves its last frame in the system's cache, whole and not on
/// the disk, and a later sync of other bytes would not take it along.
async fn cut_tail(survey: &Survey, end: &End) -> Result<(), OpenError> {
    let Some(active) = end.active() else { return Ok(()) };
    let path = names::segment(&survey.dir, active.slot);
    let len = survey.segments.iter().find(|segment| segment.slot == active.slot).map_or(0, |segment| segment.len);
    let fails = |error| OpenError::io(&path, error);
    let file = OpenOptions::new().write(true).open(&path).await.map_err(fails)?;
    let until = if len < active.bytes { active.bytes } else { active.end + end.torn_bytes };
    let mut zeros = vec![0; 1 << 20];
    let mut at = active.end;
    while at < until {
        zeros.truncate(usize::try_from(until - at).unwrap_or(usize::MAX));
        let written;
        (written, zeros) = file.write_all_at(zeros, at).await;
        written.map_err(fails)?;
        at += zeros.len() as u64;
    }
    file.sync_all().await.map_err(fails)
}

/// Waits until the names in the directory are on the disk, and for a new database its own and those above it: whoever
/// made them may have been killed before.
async fn settle_names(dir: &Path, directory: &Directory, is_new: bool) -> Result<(), OpenError> {
    directory.sync().await.map_err(|error| OpenError::io(dir, error))?;
    let mut here = dir.to_owned();
    while is_new && here != directory::above(&here) {
        here = directory::above(&here);
        match fs::sync_dir(&here).await {
            // What this user may not read, this user did not make.
            Err(error) if !matches!(error.errno(), errno::EACCES | errno::EPERM | errno::EROFS | errno::EINVAL) => {
                return Err(OpenError::io(&here, error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Opens the segment the log goes on in, and sorts the other files into what is needed, ready, and to be removed.
async fn take_over(survey: &Survey, end: &End, options: &LogOptions) -> Result<Segments, OpenError> {
    let mut segments = Segments::new(survey.listing.slots.iter().copied());
    segments.chain = end.chain;
    segments.bytes_replayed = end.bytes;
    segments.segment = match (end.active(), &survey.snapshot) {
        (Some(active), _) => active.segment,
        (None, Some(snapshot)) => snapshot.first_segment - 1,
        (None, None) => 0,
    };
    if let Some((active, before)) = end.segments.split_last() {
        segments.sealed.extend(before.iter().map(|walked| Sealed {
            slot: walked.slot,
            segment: walked.segment,
            bytes: walked.bytes,
            last: walked.last,
            end: walked.end,
        }));
        let path = names::segment(&survey.dir, active.slot);
        let tail = Tail::read(&path, active.end).await.map_err(|error| OpenError::io(&path, error))?;
        segments.active = Some(Active {
            file: open_for_writing(&path, active.bytes).await?,
            slot: active.slot,
            segment: active.segment,
            bytes: active.bytes,
            offset: active.end,
            tail,
            last: active.last,
            fresh: false,
            recycled: false,
        });
    }
    let in_use = |slot: u32| end.segments.iter().any(|walked| walked.slot == slot);
    let former = survey.segments.iter().map(|segment| (segment.slot, segment.len, true));
    let blank = survey.headless.iter().map(|headless| (headless.slot, headless.len, headless.why != Why::Blank));
    for (slot, len, recycled) in former.chain(blank).filter(|(slot, _, _)| !in_use(*slot)) {
        let path = names::segment(&survey.dir, slot);
        if len == options.segment_bytes && segments.has_room_for_spare() {
            let file = open_for_writing(&path, len).await?;
            segments.add_spare(Spare { file, slot, bytes: len, recycled });
        } else {
            fs::remove_file(&path).await.map_err(|error| OpenError::io(&path, error))?;
            segments.forget_slot(slot);
        }
    }
    if survey.listing.draft {
        let path = survey.dir.join(names::SNAPSHOT_DRAFT);
        fs::remove_file(&path).await.map_err(|error| OpenError::io(&path, error))?;
    }
    Ok(segments)
}

async fn open_for_writing(path: &Path, bytes: u64) -> Result<SegmentFile, OpenError> {
    SegmentFile::open(path, bytes, true).await.map_err(|error| OpenError::io(path, error))
}
