//! Making a snapshot while the log goes on.
//!
//! The order is what counts. The state is written under the draft's name; everything that may be in it is on the disk
//! before the end frame says so; the draft is synced, takes its name, and the name is synced. Only then do older
//! snapshots and segments go. A crash between any two of these leaves either the old snapshot with all segments behind
//! it, or the new one with at least those it needs.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use wo_runtime::error::{IoError, IoResult, OpKind, Stage, errno};
use wo_runtime::fiber;
use wo_runtime::os::fs::{self, File};

use crate::log::Snapshot;
use crate::log::body::{self, Entry};
use crate::log::directory::Directory;
use crate::log::error::{CommitError, CopyError};
use crate::log::frame::{
    FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FileKind, FileStart, FrameHeader, Place, SegmentHeader, SnapshotHeader, seal,
};
use crate::log::state::Shared;
use crate::log::{names, segments, snapshot};

/// Bytes of one frame of a snapshot, about; each is written and synced by itself, so that the log's own syncs never
/// wait for much.
const PIECE_BYTES: usize = 512 << 10;
/// Batches the log writes undisturbed before the next piece, while it has any: a piece delays one or two, and those
/// are to be fewer than one in a hundred.
const BATCHES_BETWEEN: u64 = 256;
/// A log that gets nothing for so long has nothing to be disturbed at.
const LULL: Duration = Duration::from_millis(1);

/// The copy that is being made; there is one at a time.
pub(crate) struct Copying {
    shared: Rc<Shared>,
    /// Nobody else opens the directory while the copy is being made.
    pub(crate) directory: Directory,
}

impl Copying {
    pub(crate) fn begin(shared: &Rc<Shared>) -> Result<Copying, CopyError> {
        let directory = shared.directory.borrow().clone();
        let Some(directory) = directory.filter(|_| !shared.state.borrow().is_closed()) else {
            return Err(CopyError::Commit(CommitError::Closed { dir: shared.dir.clone() }));
        };
        if shared.copying.replace(true) {
            return Err(CopyError::Busy { dir: shared.dir.clone() });
        }
        Ok(Copying { shared: Rc::clone(shared), directory })
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        self.shared.copying.set(false);
        self.shared.ended.notify_all();
    }
}

/// Makes a snapshot; see [`Log::snapshot`](super::Log::snapshot).
pub(crate) async fn snapshot(
    shared: &Rc<Shared>,
    catalogue: &[u8],
    as_of: u64,
    rows: impl FnMut(&mut Vec<u8>) -> bool,
) -> Result<Snapshot, CopyError> {
    let copying = Copying::begin(shared)?;
    let draft = shared.dir.join(names::SNAPSHOT_DRAFT);
    let made = make(shared, &draft, catalogue, as_of, rows).await;
    let (first_segment, bytes) = match made {
        Ok(made) => made,
        Err(error) => {
            // Its space may be what is missing. One that stays is removed at the next opening.
            let _ = fs::remove_file(&draft).await;
            return Err(error);
        }
    };
    let file = publish(shared, &copying.directory, &draft, as_of).await?;
    shared.snapshot.set(Some(as_of));
    shared.bytes_at_snapshot.set(shared.state.borrow().bytes_written());
    shared.segments.borrow_mut().bytes_replayed = 0;
    let freed = shared.segments.borrow_mut().take_before(first_segment);
    let segments_freed = freed.len() as u32;
    remove_others(shared, as_of).await?;
    segments::release(shared, freed).await.map_err(|error| CopyError::io(&shared.dir, error))?;
    Ok(Snapshot { file, as_of, bytes, segments_freed })
}

/// Writes the draft, whole and synced. Answers the first segment that is needed behind it, and its size.
async fn make(
    shared: &Rc<Shared>,
    draft: &Path,
    catalogue: &[u8],
    as_of: u64,
    mut rows: impl FnMut(&mut Vec<u8>) -> bool,
) -> Result<(u32, u64), CopyError> {
    let undone = shared.state.borrow().undone;
    let fails = |error| CopyError::io(draft, error);
    let mut file = Draft::create(shared, draft, as_of).await.map_err(fails)?;
    file.put(Entry::Catalogue, catalogue);
    let mut row = Vec::new();
    loop {
        row.clear();
        if !rows(&mut row) {
            break;
        }
        file.put(Entry::Transaction, &row);
        if file.is_full() {
            file.write(true).await.map_err(fails)?;
            let_pass(shared, BATCHES_BETWEEN).await?;
        } else {
            // Encoding rows takes its time as well.
            fiber::yield_now().await.map_err(fails)?;
        }
    }
    let until = shared.state.borrow().appended().max(as_of);
    file.write(true).await.map_err(fails)?;
    durable(shared, until).await?;
    if shared.state.borrow().undone != undone {
        // Rows of transactions that were undone meanwhile may be in it.
        let error = IoError::new(errno::ENOSPC, OpKind::Write, Stage::Completion);
        return Err(CopyError::Commit(CommitError::NoSpace { dir: shared.dir.clone(), error }));
    }
    let first_segment = shared.segments.borrow().first_behind(as_of);
    let bytes = file.finish(until, first_segment).await.map_err(fails)?;
    Ok((first_segment, bytes))
}

/// Waits until the log has written so many batches, or has none to write.
async fn let_pass(shared: &Shared, batches: u64) -> Result<(), CopyError> {
    let fails = |error| CopyError::io(&shared.dir, error);
    let until = shared.stats().batches + batches;
    let mut before = None;
    while shared.stats().batches < until {
        let (appended, ended) = {
            let state = shared.state.borrow();
            (state.appended(), state.ended || state.poison().is_some())
        };
        if ended || before.replace(appended) == Some(appended) {
            break;
        }
        fiber::sleep(LULL).await.map_err(fails)?;
    }
    Ok(())
}

async fn durable(shared: &Rc<Shared>, sequence: u64) -> Result<(), CommitError> {
    let mut wait = super::state::Wait::new(shared, sequence);
    fiber::park(OpKind::Sync, |cx| wait.poll(cx)).await.unwrap_or(Err(CommitError::Cancelled))
}

/// A snapshot being written.
pub(crate) struct Draft {
    file: File,
    place: Place,
    generation: u32,
    buf: Vec<u8>,
    /// Where the buffer's bytes go.
    at: u64,
    /// Where in the buffer the frame begins.
    start: usize,
    frames: u64,
    chain: u32,
    in_frame: u32,
    entries: u64,
}

impl Draft {
    pub(crate) async fn create(shared: &Shared, path: &Path, as_of: u64) -> IoResult<Draft> {
        let header = SnapshotHeader { id: shared.id, as_of, generation: shared.generation };
        let file = File::create(path).await?;
        let mut buf = header.encode().to_vec();
        let start = buf.len();
        buf.resize(start + FRAME_HEADER_BYTES, 0);
        Ok(Draft {
            file,
            place: Place { id: shared.id, kind: FileKind::Snapshot },
            generation: shared.generation,
            buf,
            at: 0,
            start,
            frames: 0,
            chain: 0,
            in_frame: 0,
            entries: 0,
        })
    }

    pub(crate) fn put(&mut self, entry: Entry, bytes: &[u8]) {
        body::put(&mut self.buf, entry, bytes);
        self.in_frame += 1;
        self.entries += 1;
    }

    fn is_full(&self) -> bool {
        self.buf.len() >= PIECE_BYTES
    }

    /// Seals and writes the frame that fills.
    async fn write(&mut self, sync: bool) -> IoResult<()> {
        if self.in_frame > 0 {
            self.seal();
        }
        let bytes = std::mem::take(&mut self.buf);
        let count = bytes.len() as u64;
        let (written, bytes) = self.file.write_all_at(bytes, self.at).await;
        written?;
        if sync {
            self.file.sync_data().await?;
        }
        self.at += count;
        (self.buf, self.start) = (bytes, 0);
        self.buf.clear();
        self.buf.resize(FRAME_HEADER_BYTES, 0);
        Ok(())
    }

    fn seal(&mut self) {
        self.frames += 1;
        let header = FrameHeader {
            length: 0,
            sequence: self.frames,
            entries: self.in_frame,
            generation: self.generation,
            segment: 0,
            schema: 0,
            previous: self.chain,
            checksum: 0,
        };
        let offset = self.at + self.start as u64;
        self.chain = seal(&mut self.buf, self.start, self.place, offset, header);
        self.in_frame = 0;
    }

    /// Writes the end, and waits until all of it is on the disk. Answers the size.
    async fn finish(mut self, until: u64, first_segment: u32) -> IoResult<u64> {
        self.buf.extend_from_slice(&snapshot::encode_end(until, first_segment, self.entries));
        self.seal();
        self.in_frame = 0;
        self.write(false).await?;
        self.file.sync_all().await?;
        Ok(self.at)
    }
}

/// Gives the draft its name, unless the log has another life by now.
async fn publish(shared: &Shared, directory: &Directory, draft: &Path, as_of: u64) -> Result<PathBuf, CopyError> {
    check_generation(shared).await?;
    let file = names::snapshot(&shared.dir, as_of);
    fs::rename(draft, &file).await.map_err(|error| CopyError::io(draft, error))?;
    directory.sync().await.map_err(|error| CopyError::io(&shared.dir, error))?;
    Ok(file)
}

/// Refuses when a file on the disk tells of a newer generation: somebody opened the log although we hold its lock, as
/// can happen where locks are not shared. What we know is old then.
pub(crate) async fn check_generation(shared: &Shared) -> Result<(), CopyError> {
    let listing = names::list(&shared.dir).await?;
    for slot in listing.slots {
        let path = names::segment(&shared.dir, slot);
        let file = match File::open(&path).await {
            Ok(file) => file,
            // A spare that was given up a moment ago.
            Err(error) if error.errno() == errno::ENOENT => continue,
            Err(error) => return Err(CopyError::io(&path, error)),
        };
        let (read, head) = file.read_at(Box::<[u8]>::from([0; FILE_HEADER_BYTES]), 0).await;
        let count = read.map_err(|error| CopyError::io(&path, error))?;
        if let FileStart::Whole(header) = SegmentHeader::decode(&head[..count])
            && header.generation > shared.generation
        {
            let (ours, found) = (shared.generation, header.generation);
            return Err(CopyError::OtherGeneration { dir: shared.dir.clone(), ours, found });
        }
    }
    Ok(())
}

/// Removes every snapshot but the newest.
async fn remove_others(shared: &Shared, as_of: u64) -> Result<(), CopyError> {
    for other in names::list(&shared.dir).await?.snapshots {
        if other != as_of {
            let path = names::snapshot(&shared.dir, other);
            fs::remove_file(&path).await.map_err(|error| CopyError::io(&path, error))?;
        }
    }
    Ok(())
}
