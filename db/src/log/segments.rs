//! Files for frames: one that is written to, those before it, and some that are ready.
//!
//! A segment is zero-filled and synced, and its name with it, before the first frame goes in: so a commit meets no full
//! disk, and its sync has no metadata to write. Half-way through one segment the next is made ready on the side,
//! gently. One that a snapshot made needless is ready as it is; the frames in it are of a former life and count for
//! nothing.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;

use wo_runtime::error::{IoError, IoResult, OpKind, Stage, errno};
use wo_runtime::fiber::{self, Notify};
use wo_runtime::os::fs;

use crate::log::block::{BLOCK_BYTES, Blocks, SegmentFile, Tail};
use crate::log::directory::Directory;
use crate::log::frame::FILE_HEADER_BYTES;
use crate::log::names;
use crate::log::state::Shared;

/// Bytes written before each sync while commits go on.
const GENTLE_BYTES: usize = 256 << 10;
/// Bytes written at once while somebody waits for the file.
const HASTY_BYTES: usize = 1 << 20;
/// Files kept ready at most; a snapshot may free more, which are removed.
const SPARES_MAX: usize = 4;

/// The segment that is written to.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) file: SegmentFile,
    pub(crate) slot: u32,
    pub(crate) segment: u32,
    pub(crate) bytes: u64,
    /// Where the next frame goes.
    pub(crate) offset: u64,
    /// What its block has in front of that.
    pub(crate) tail: Tail,
    /// The last number in it, or before it.
    pub(crate) last: u64,
    /// Its header is not written yet.
    pub(crate) fresh: bool,
    pub(crate) recycled: bool,
}

/// A segment that takes no more frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sealed {
    pub(crate) slot: u32,
    pub(crate) segment: u32,
    pub(crate) bytes: u64,
    pub(crate) last: u64,
    /// Where its last frame ends.
    pub(crate) end: u64,
}

/// A file that is ready.
#[derive(Debug)]
pub(crate) struct Spare {
    pub(crate) file: SegmentFile,
    pub(crate) slot: u32,
    pub(crate) bytes: u64,
    pub(crate) recycled: bool,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Segments {
    pub(crate) active: Option<Active>,
    /// Oldest first.
    pub(crate) sealed: VecDeque<Sealed>,
    spares: Vec<Spare>,
    slots: BTreeSet<u32>,
    /// The checksum of the last frame.
    pub(crate) chain: u32,
    /// The number of the last segment that was begun.
    pub(crate) segment: u32,
    /// Bytes of frames that were there at the opening, behind the snapshot.
    pub(crate) bytes_replayed: u64,
    filling: bool,
    filled: Rc<Notify>,
}

impl Segments {
    /// No segment yet; these file numbers are taken.
    pub(crate) fn new(slots: impl IntoIterator<Item = u32>) -> Segments {
        Segments {
            active: None,
            sealed: VecDeque::new(),
            spares: Vec::new(),
            slots: slots.into_iter().collect(),
            chain: 0,
            segment: 0,
            bytes_replayed: 0,
            filling: false,
            filled: Rc::new(Notify::new()),
        }
    }

    pub(crate) fn in_use(&self) -> u32 {
        (self.sealed.len() + usize::from(self.active.is_some())) as u32
    }

    pub(crate) fn spares(&self) -> u32 {
        self.spares.len() as u32
    }

    /// Whether a file is being made ready on the side.
    pub(crate) fn is_filling(&self) -> bool {
        self.filling
    }

    /// Whether another file may be kept ready.
    pub(crate) fn has_room_for_spare(&self) -> bool {
        self.spares.len() < SPARES_MAX
    }

    pub(crate) fn add_spare(&mut self, spare: Spare) {
        self.spares.push(spare);
    }

    pub(crate) fn forget_slot(&mut self, slot: u32) {
        self.slots.remove(&slot);
    }

    fn reserve_slot(&mut self) -> u32 {
        let slot = (0..).find(|slot| !self.slots.contains(slot)).unwrap_or(u32::MAX);
        self.slots.insert(slot);
        slot
    }

    /// Whether the segment that is written to has room for a frame.
    fn has_room(&self, frame: u64) -> bool {
        self.active.as_ref().is_some_and(|active| active.offset + frame <= active.bytes)
    }

    /// Goes on in a file that is ready and large enough.
    fn rotate(&mut self, frame: u64) -> bool {
        let wanted = FILE_HEADER_BYTES as u64 + frame;
        let Some(place) = self.spares.iter().position(|spare| spare.bytes >= wanted) else { return false };
        let spare = self.spares.remove(place);
        let last = self.active.as_ref().map_or(0, |active| active.last);
        if let Some(full) = self.active.take() {
            if full.fresh {
                // Nothing was ever written to it, so it has no number yet.
                self.segment -= 1;
                let Active { file, slot, bytes, recycled, .. } = full;
                self.spares.push(Spare { file, slot, bytes, recycled });
            } else {
                let Active { slot, segment, bytes, last, offset, .. } = full;
                self.sealed.push_back(Sealed { slot, segment, bytes, last, end: offset });
            }
        }
        self.segment += 1;
        self.active = Some(Active {
            file: spare.file,
            slot: spare.slot,
            segment: self.segment,
            bytes: spare.bytes,
            offset: FILE_HEADER_BYTES as u64,
            tail: Tail::default(),
            last,
            fresh: true,
            recycled: spare.recycled,
        });
        true
    }

    /// The first segment that has, or will have, anything behind a number.
    pub(crate) fn first_behind(&self, as_of: u64) -> u32 {
        match self.sealed.iter().find(|sealed| sealed.last > as_of) {
            Some(sealed) => sealed.segment,
            None => self.segment,
        }
    }

    /// Takes out the segments in front of one.
    pub(crate) fn take_before(&mut self, segment: u32) -> Vec<Sealed> {
        let kept = self.sealed.iter().position(|sealed| sealed.segment >= segment).unwrap_or(self.sealed.len());
        self.sealed.drain(..kept).collect()
    }
}

/// Sees to it that the segment written to has room for a frame: goes on in the next one where it has not.
pub(crate) async fn make_room(shared: &Rc<Shared>, frame: u64) -> IoResult<()> {
    loop {
        let filled = {
            let mut segments = shared.segments.borrow_mut();
            if segments.has_room(frame) || segments.rotate(frame) {
                return Ok(());
            }
            segments.filling.then(|| Rc::clone(&segments.filled))
        };
        match filled {
            Some(filled) => filled.notified().await?,
            None => {
                let wanted = (FILE_HEADER_BYTES as u64 + frame).next_multiple_of(BLOCK_BYTES as u64);
                let spare = prepare(shared, wanted.max(shared.options.segment_bytes), HASTY_BYTES).await?;
                shared.segments.borrow_mut().spares.push(spare);
            }
        }
    }
}

/// Once half of a segment is written, makes the next one ready on the side. What that meets, the one who needs the
/// file will meet and answer for.
pub(crate) fn think_ahead(shared: &Rc<Shared>) {
    let mut segments = shared.segments.borrow_mut();
    let half_full = segments.active.as_ref().is_some_and(|active| active.offset > active.bytes / 2);
    if !half_full || segments.filling || !segments.spares.is_empty() {
        return;
    }
    segments.filling = true;
    drop(segments);
    let shared = Rc::clone(shared);
    let _detached = fiber::spawn_named("wo-db segment", move || async move {
        let spare = fiber::protect(|| prepare(&shared, shared.options.segment_bytes, GENTLE_BYTES)).await;
        let mut segments = shared.segments.borrow_mut();
        segments.filling = false;
        segments.spares.extend(spare.ok());
        segments.filled.notify_one();
        drop(segments);
        shared.ended.notify_all();
    });
}

/// Makes a file of zeros, on the disk with its name.
async fn prepare(shared: &Rc<Shared>, bytes: u64, piece: usize) -> IoResult<Spare> {
    // Held to the end: a file is made and removed in a directory that is ours.
    let directory = shared.directory.borrow().clone();
    let Some(directory) = directory else {
        return Err(IoError::new(errno::ECANCELED, OpKind::Open, Stage::Submit).with_context("the log is closed"));
    };
    let slot = shared.segments.borrow_mut().reserve_slot();
    let path = names::segment(&shared.dir, slot);
    let filled = fill(shared, &directory, path.clone(), bytes, piece).await;
    match filled {
        Ok(file) => Ok(Spare { file, slot, bytes, recycled: false }),
        Err(error) => {
            // A part of it is of no use, and the space it has may be what is missing.
            if fs::remove_file(&path).await.is_ok() {
                shared.segments.borrow_mut().forget_slot(slot);
            }
            Err(error)
        }
    }
}

async fn fill(
    shared: &Shared,
    directory: &Directory,
    path: PathBuf,
    bytes: u64,
    piece: usize,
) -> IoResult<SegmentFile> {
    let mut file = SegmentFile::create(&path, bytes, shared.direct.get()).await?;
    let mut zeros = Blocks::default();
    zeros.lay_zeros(piece);
    let mut at = 0;
    while at < bytes {
        zeros.move_to(at, piece.min(usize::try_from(bytes - at).unwrap_or(usize::MAX)));
        match file.write(&mut zeros).await {
            Err(error) if file.is_direct() && error.errno() == errno::EINVAL => {
                shared.direct.set(false);
                file = SegmentFile::create(&path, bytes, false).await?;
                at = 0;
                continue;
            }
            written => written?,
        }
        at += zeros.len() as u64;
        if piece == GENTLE_BYTES {
            file.sync().await?;
        }
    }
    file.sync_all().await?;
    directory.sync().await?;
    Ok(file)
}

/// Makes segments ready again that are not needed any more, or removes them.
pub(crate) async fn release(shared: &Rc<Shared>, freed: Vec<Sealed>) -> IoResult<()> {
    for Sealed { slot, bytes, .. } in freed {
        let path = names::segment(&shared.dir, slot);
        let keep = bytes == shared.options.segment_bytes && shared.segments.borrow().has_room_for_spare();
        if keep {
            let file = SegmentFile::open(&path, bytes, shared.direct.get()).await?;
            shared.segments.borrow_mut().add_spare(Spare { file, slot, bytes, recycled: true });
        } else {
            fs::remove_file(&path).await?;
            shared.segments.borrow_mut().forget_slot(slot);
        }
    }
    Ok(())
}
