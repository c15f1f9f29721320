//! Taking what is whole out of a directory that is not.
//!
//! Frames prove themselves one by one, so those behind a broken place are as good as those before it. Salvage reads
//! every file of the directory whatever its header says, puts the frames of the log's last life in order, leaves out
//! what the newest whole snapshot has already, and writes all of it into a new directory as a log from the beginning.
//! The old directory is only read. What was lost is listed, and nobody can say what it was: a transaction behind a gap
//! may build upon one that is gone.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use wo_runtime::os::fs;

use crate::log::body::{self, Entry};
use crate::log::copy::{InPlace, NewPlace};
use crate::log::error::{CopyError, OpenError};
use crate::log::evidence;
use crate::log::frame::{
    DatabaseId, FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FileKind, FileStart, FrameHeader, Place, SEQUENCE_MAX,
    SegmentHeader, SnapshotHeader, frame_bytes, peek, prove,
};
use crate::log::names::{self, Listing};
use crate::log::snapshot::{self, SnapshotFile};
use crate::log::window::Window;
use crate::log::{Log, LogOptions, Progress};

/// Frames put into the new log before its writer is waited for.
const FRAMES_PER_SYNC: usize = 1024;

/// A stretch that could not be read.
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
/// # let dir = std::env::temp_dir().join(format!("wo-db-gap-{}", std::process::id()));
/// # let db = wo::db::Db::builder().table::<City>().open(dir.join("cities"))?;
/// # db.table::<City>()?.insert(City { name: "Rome".to_owned() })?;
/// # db.close()?;
/// # let cities = dir.join("cities");
///
/// # let db = wo::db::Db::builder().table::<City>().open(&cities)?;
/// # db.table::<City>()?.insert(City { name: "Oslo".to_owned() })?;
/// # db.close()?;
/// # let segment = cities.join("log.0");
/// # let mut bytes = std::fs::read(&segment)?;
/// # bytes[100] ^= 1;
/// # std::fs::write(&segment, bytes)?;
/// // A bit of the log has flipped.
/// let salvaged = wo::db::tools::salvage(&cities, dir.join("saved"), |_, _| ())?;
/// let gap = &salvaged.gaps[0];
/// assert!(gap.file == segment && gap.from < gap.to);
/// println!("{gap}");
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gap {
    /// The file, or the directory when whole segments are missing.
    pub file: PathBuf,
    /// Where it begins, in bytes.
    pub from: u64,
    /// Where it ends.
    pub to: u64,
    /// What is wrong there.
    pub reason: String,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: bytes {} to {}: {}", self.file.display(), self.from, self.to, self.reason)
    }
}

/// What was taken out of a broken directory.
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
/// # let dir = std::env::temp_dir().join(format!("wo-db-salvaged-{}", std::process::id()));
/// # let db = wo::db::Db::builder().table::<City>().open(dir.join("cities"))?;
/// # db.table::<City>()?.insert(City { name: "Rome".to_owned() })?;
/// # db.close()?;
/// # let cities = dir.join("cities");
///
/// let salvaged = wo::db::tools::salvage(&cities, dir.join("saved"), |_, _| ())?;
/// assert!(salvaged.gaps.is_empty(), "nothing is broken");
/// assert!(salvaged.snapshot_entries + salvaged.log_entries > 0);
/// assert_eq!(salvaged.dir, dir.join("saved"));
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Salvaged {
    /// The new directory.
    pub dir: PathBuf,
    /// Entries that came from a snapshot.
    pub snapshot_entries: u64,
    /// Entries that came from the log.
    pub log_entries: u64,
    /// What was lost, in order.
    pub gaps: Vec<Gap>,
}

impl InPlace for Salvaged {
    fn is_now_at(&mut self, dir: &Path) {
        self.dir = dir.to_owned();
    }
}

/// A whole frame of the log.
#[derive(Clone, Copy, Debug)]
struct Found {
    slot: u32,
    offset: u64,
    header: FrameHeader,
}

/// Takes what is whole out of `from`, into the new directory `to`.
pub async fn salvage(from: &Path, to: &Path, progress: Progress<'_>) -> Result<Salvaged, CopyError> {
    let listing = names::list(from).await?;
    let Some(id) = most_likely_id(from, &listing).await? else {
        let reason = "no file of it tells of a database".to_owned();
        return Err(CopyError::Source(OpenError::Foreign { file: from.to_owned(), reason }));
    };
    let place = NewPlace::begin(to).await?;
    let salvaged = take_out(from, &listing, id, &place.draft, progress).await;
    place.finish(salvaged).await
}

/// The number most files carry.
async fn most_likely_id(dir: &Path, listing: &Listing) -> Result<Option<DatabaseId>, OpenError> {
    let mut votes: BTreeMap<[u8; 16], u32> = BTreeMap::new();
    let segments = listing.slots.iter().map(|slot| names::segment(dir, *slot));
    let snapshots = listing.snapshots.iter().map(|as_of| names::snapshot(dir, *as_of));
    for path in segments.chain(snapshots) {
        let mut window = Window::open(&path).await?;
        let start = window.start().await?;
        let whole = match (SegmentHeader::decode(start), SnapshotHeader::decode(start)) {
            (FileStart::Whole(header), _) => Some(header.id),
            (_, FileStart::Whole(header)) => Some(header.id),
            _ => None,
        };
        if let Some(id) = whole {
            *votes.entry(id.0).or_default() += 2;
        } else if let Some(id) = start.get(16..32).and_then(|id| <[u8; 16]>::try_from(id).ok()) {
            // A broken header may still have its number; its frames will tell.
            *votes.entry(id).or_default() += u32::from(id != [0; 16]);
        }
    }
    Ok(votes.into_iter().max_by_key(|(_, votes)| *votes).map(|(id, _)| DatabaseId(id)))
}

async fn take_out(
    from: &Path,
    listing: &Listing,
    id: DatabaseId,
    to: &Path,
    progress: Progress<'_>,
) -> Result<Salvaged, CopyError> {
    let mut salvaged = Salvaged { dir: to.to_owned(), ..Salvaged::default() };
    let mut found = Vec::new();
    let mut read = 0;
    let mut total = 0;
    for slot in &listing.slots {
        let path = names::segment(from, *slot);
        total += fs::metadata(&path).await.map_err(|error| CopyError::io(&path, error))?.len();
    }
    let snapshot = best_snapshot(from, listing, &mut salvaged.gaps).await?;
    let as_of = snapshot.as_ref().map_or(0, |snapshot| snapshot.header.as_of);
    for slot in &listing.slots {
        let mut window = Window::open(&names::segment(from, *slot)).await?;
        let (frames, gaps) = frames_in(&mut window, id, *slot, as_of).await?;
        found.extend(frames);
        salvaged.gaps.extend(gaps);
        read += window.len();
        progress(read, total * 2);
    }
    found.retain(|frame: &Found| frame.header.last() > as_of && frame.header.sequence <= SEQUENCE_MAX);
    found.sort_by_key(|frame| (frame.header.sequence, frame.header.generation));
    tell_missing_segments(from, &found, &mut salvaged.gaps);

    let (log, _) = Log::open(to, &LogOptions::default(), &mut ()).await?;
    if let Some(snapshot) = &snapshot {
        salvaged.snapshot_entries = put_snapshot(snapshot, &log).await?;
    }
    let mut window: Option<(u32, Window)> = None;
    for (index, frame) in found.iter().enumerate() {
        let window = match &mut window {
            Some((slot, window)) if *slot == frame.slot => window,
            other => &mut other.insert((frame.slot, Window::open(&names::segment(from, frame.slot)).await?)).1,
        };
        salvaged.log_entries += put_frame(window, id, frame, as_of, &log).await?;
        if index % FRAMES_PER_SYNC == 0 {
            log.durable(log.last_sequence()).await?;
        }
        progress(total + total * (index as u64 + 1) / found.len() as u64, total * 2);
    }
    log.durable(log.last_sequence()).await?;
    log.close().await?;
    Ok(salvaged)
}

/// The newest snapshot that is whole. Those that are not are told as gaps.
async fn best_snapshot(dir: &Path, listing: &Listing, gaps: &mut Vec<Gap>) -> Result<Option<SnapshotFile>, CopyError> {
    for as_of in &listing.snapshots {
        let file = names::snapshot(dir, *as_of);
        match snapshot::check(&file).await? {
            Ok(snapshot) => return Ok(Some(snapshot)),
            Err(reason) => {
                let to = fs::metadata(&file).await.map_err(|error| CopyError::io(&file, error))?.len();
                gaps.push(Gap { file, from: 0, to, reason });
            }
        }
    }
    Ok(None)
}

/// Every frame of a file's last life, and the stretches between them that are none.
async fn frames_in(
    window: &mut Window,
    id: DatabaseId,
    slot: u32,
    as_of: u64,
) -> Result<(Vec<Found>, Vec<Gap>), OpenError> {
    let segment = match SegmentHeader::decode(window.start().await?) {
        FileStart::Whole(header) => Some(header.segment),
        _ => None,
    };
    let place = Place { id, kind: FileKind::Segment };
    let mut frames: Vec<Found> = Vec::new();
    let mut gaps = Vec::new();
    let mut offset = FILE_HEADER_BYTES as u64;
    let mut gap_from = segment.is_none().then_some(0);
    while offset < window.len() {
        let room = window.len() - offset;
        let head = peek(window.bytes(offset, FRAME_HEADER_BYTES).await?, room);
        let whole = match head {
            Ok(header) if segment.is_none_or(|segment| segment == header.segment) => {
                let size = frame_bytes(header.length as usize);
                prove(window.bytes(offset, size).await?, &header, place, offset).map(|_| (header, size))
            }
            Ok(_) => Err(crate::log::frame::Broken::Chain),
            Err(why) => Err(why),
        };
        match whole {
            Ok((header, size)) => {
                if let Some(from) = gap_from.take()
                    && header.last() > as_of
                {
                    let reason = if from == 0 { "the header is broken" } else { "what was here is no frame" };
                    gaps.push(Gap { file: window.path().to_owned(), from, to: offset, reason: reason.to_owned() });
                }
                frames.push(Found { slot, offset, header });
                offset += size as u64;
            }
            Err(_) => {
                gap_from.get_or_insert(offset);
                let mine = |header: &FrameHeader| segment.is_none_or(|segment| segment == header.segment);
                match evidence::look(window, id, offset + 8, mine).await?.frame {
                    Some(next) => offset = next,
                    None => break,
                }
            }
        }
    }
    if segment.is_none() {
        // Only the file's last life counts; which that was, its own frames tell.
        let last = frames.iter().map(|frame| frame.header.segment).max().unwrap_or(0);
        frames.retain(|frame| frame.header.segment == last);
    }
    Ok((frames, gaps))
}

/// Segments come without a hole between them; one nobody has any more is a gap.
fn tell_missing_segments(dir: &Path, found: &[Found], gaps: &mut Vec<Gap>) {
    let mut last: Option<u32> = None;
    for frame in found {
        let segment = frame.header.segment;
        if let Some(last) = last
            && segment > last + 1
        {
            let reason = format!("segments {} to {} are missing", last + 1, segment - 1);
            gaps.push(Gap { file: dir.to_owned(), from: 0, to: 0, reason });
        }
        last = Some(segment.max(last.unwrap_or(0)));
    }
}

async fn put_snapshot(snapshot: &SnapshotFile, log: &Log) -> Result<u64, CopyError> {
    let mut failed = None;
    let mut entries = 0;
    let mut put = |entry: Entry, bytes: &[u8]| {
        entries += 1;
        if let Err(error) = log.append(entry, bytes) {
            failed.get_or_insert(error);
        }
        Ok(())
    };
    let read = snapshot::read(&snapshot.path, &mut put).await?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    match read {
        Ok(_) => {
            log.durable(log.last_sequence()).await?;
            Ok(entries)
        }
        Err(what) => Err(CopyError::Source(OpenError::Missing { dir: snapshot.path.clone(), what })),
    }
}

async fn put_frame(
    window: &mut Window,
    id: DatabaseId,
    frame: &Found,
    as_of: u64,
    log: &Log,
) -> Result<u64, CopyError> {
    let dir = window.path().to_owned();
    let size = frame_bytes(frame.header.length as usize);
    let place = Place { id, kind: FileKind::Segment };
    let bytes = window.bytes(frame.offset, size).await?;
    let Ok(body) = prove(bytes, &frame.header, place, frame.offset) else {
        let what = format!("the frame at byte {} changed while it was read", frame.offset);
        return Err(CopyError::Source(OpenError::Missing { dir, what }));
    };
    let mut entries = 0;
    for (entry, sequence) in body::entries(body).zip(frame.header.sequence..) {
        // A body whose checksum fits and that does not come out even was never written by this format.
        let Ok((entry, bytes)) = entry else { break };
        if sequence > as_of {
            log.append(entry, bytes)?;
            entries += 1;
        }
    }
    Ok(entries)
}
