//! The writer: one fiber that takes a batch, writes it, and says how that ended.
//!
//! It is sheltered from cancels: a commit on its way is not stopped by whoever waits for it. When entries have gathered
//! during a write, it lets everybody else run twice before it writes those, once for who passes the news on and once
//! for those who hear it, so that they can join: a sync takes as long for one as for all, and two halves of a crowd
//! that take turns would share none. With nothing to write it parks, and whoever wakes it waits for nobody. No timer is
//! involved anywhere.

use std::rc::Rc;

use wo_runtime::error::{IoError, IoResult, errno};
use wo_runtime::fiber::{self, Unhurried};

use crate::log::batch::{Batch, FRAME_START};
use crate::log::block::{Blocks, SegmentFile};
use crate::log::error::{CommitError, is_full};
use crate::log::frame::{FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FileKind, FrameHeader, Place, SegmentHeader, seal};
use crate::log::names;
use crate::log::segments;
use crate::log::state::Shared;

/// How often everybody else runs between two batches in a row.
const TURNS_BETWEEN: u32 = 2;

/// How the write of a batch ended, unless all of it is on the disk.
enum Failure {
    /// Nothing of it is, and nothing will be.
    Undone(IoError),
    /// Nobody knows.
    Unknown(IoError),
}

/// Starts the writer.
pub(crate) fn start(shared: &Rc<Shared>) {
    let shared = Rc::clone(shared);
    let _detached = fiber::spawn_named("wo-db log", move || async move {
        let _end = End(&shared);
        fiber::protect(|| write_batches(&shared)).await;
    });
}

/// Whatever ends the writer, nobody waits for it any more.
struct End<'a>(&'a Rc<Shared>);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let woken = self.0.state.borrow_mut().end();
        self.0.directory.borrow_mut().take();
        woken.into_iter().for_each(std::task::Waker::wake);
        self.0.ended.notify_all();
    }
}

/// Closes the log: waits for the writer to write what was appended and to end, then lets the directory go.
pub(crate) async fn close(shared: &Rc<Shared>) -> Result<(), CommitError> {
    shared.state.borrow_mut().close();
    shared.work.notify_one();
    while !shared.state.borrow().ended || shared.copying.get() || shared.segments.borrow().is_filling() {
        if shared.ended.notified().await.is_err() {
            return Err(CommitError::Cancelled);
        }
    }
    let state = shared.state.borrow();
    match state.outcome(state.appended()) {
        Some(Err(failure @ (CommitError::CommitUnknown { .. } | CommitError::Poisoned { .. }))) => Err(failure),
        _ => Ok(()),
    }
}

async fn write_batches(shared: &Rc<Shared>) {
    loop {
        let taken = shared.state.borrow_mut().take_batch();
        let Some(mut batch) = taken else {
            if shared.state.borrow().is_closed() || shared.work.notified().await.is_err() {
                return;
            }
            continue;
        };
        let written = write(shared, &mut batch).await;
        let woken = match written {
            Ok(()) => shared.state.borrow_mut().written(batch),
            Err(Failure::Undone(error)) => shared.state.borrow_mut().undone(&batch, &error),
            Err(Failure::Unknown(error)) => shared.state.borrow_mut().poisoned(Some(&batch), &error),
        };
        woken.into_iter().for_each(std::task::Waker::wake);
        segments::think_ahead(shared);
        if shared.state.borrow().has_batch() {
            for _ in 0..TURNS_BETWEEN {
                if fiber::yield_now().await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Writes a batch as one frame, and waits until it is on the disk.
async fn write(shared: &Rc<Shared>, batch: &mut Batch) -> Result<(), Failure> {
    match segments::make_room(shared, batch.frame_bytes()).await {
        // No frame has been touched.
        Err(error) if is_full(&error) => return Err(Failure::Undone(error)),
        Err(error) => return Err(Failure::Unknown(error)),
        Ok(()) => {}
    }
    let (file, begin, at, checksum) = seal_for_place(shared, batch);
    let unhurried = Unhurried::begin();
    let durable = write_durable(shared, file, &batch.buf[begin..], at).await;
    drop(unhurried);
    match durable {
        Ok(()) => {
            let mut segments = shared.segments.borrow_mut();
            segments.chain = checksum;
            if let Some(active) = &mut segments.active {
                let bytes = &batch.buf[begin..];
                active.offset = at + bytes.len() as u64;
                active.tail.wrote(bytes, at);
                active.last = batch.last();
                active.fresh = false;
            }
            Ok(())
        }
        Err(error) if is_full(&error) => {
            // The frame may be whole nevertheless, since an error can be the sync's. It must not come back.
            let zeros = [0; FRAME_START + FRAME_HEADER_BYTES];
            match write_and_sync(shared, &zeros[begin..], at).await {
                Ok(()) => Err(Failure::Undone(error)),
                Err(_) => Err(Failure::Unknown(error)),
            }
        }
        Err(error) => Err(Failure::Unknown(error)),
    }
}

/// Finishes a batch's frame for the place it goes to, behind the segment's header if that is not written yet. Answers
/// the file, from which byte of the buffer on to write, where to, and the frame's checksum.
fn seal_for_place(shared: &Shared, batch: &mut Batch) -> (SegmentFile, usize, u64, u32) {
    let segments = shared.segments.borrow();
    let active = segments.active.as_ref().expect("there is room, so there is a segment");
    let place = Place { id: shared.id, kind: FileKind::Segment };
    let header = FrameHeader {
        length: 0,
        sequence: batch.first,
        entries: batch.entries,
        generation: shared.generation,
        segment: active.segment,
        schema: batch.schema,
        previous: segments.chain,
        checksum: 0,
    };
    let checksum = seal(&mut batch.buf, FRAME_START, place, active.offset, header);
    if !active.fresh {
        return (active.file.clone(), FRAME_START, active.offset, checksum);
    }
    let header = SegmentHeader {
        id: shared.id,
        sequence: batch.first,
        segment: active.segment,
        generation: shared.generation,
        previous: segments.chain,
        bytes: active.bytes,
        recycled: active.recycled,
    };
    batch.buf[..FILE_HEADER_BYTES].copy_from_slice(&header.encode());
    (active.file.clone(), 0, 0, checksum)
}

/// Writes bytes of the segment that is written to, and waits until they are on the disk. Where the file cannot be
/// written past the cache after all, it and all later ones are written through it.
async fn write_durable(shared: &Shared, file: SegmentFile, bytes: &[u8], at: u64) -> IoResult<()> {
    let mut blocks = shared.blocks.take();
    lay(shared, &mut blocks, &file, bytes, at);
    let mut durable = file.write_durable(&mut blocks).await;
    if durable.as_ref().is_err_and(|error| file.is_direct() && error.errno() == errno::EINVAL) {
        shared.direct.set(false);
        durable = match through_the_cache(shared).await {
            Ok(file) => {
                lay(shared, &mut blocks, &file, bytes, at);
                file.write_durable(&mut blocks).await
            }
            Err(error) => Err(error),
        };
    }
    shared.blocks.set(blocks);
    durable
}

fn lay(shared: &Shared, blocks: &mut Blocks, file: &SegmentFile, bytes: &[u8], at: u64) {
    let segments = shared.segments.borrow();
    let tail = segments.active.as_ref().map_or(&[][..], |active| active.tail.bytes());
    blocks.lay(file, tail, bytes, at);
}

/// Opens the segment that is written to once more.
async fn through_the_cache(shared: &Shared) -> IoResult<SegmentFile> {
    let (slot, bytes) = {
        let segments = shared.segments.borrow();
        let active = segments.active.as_ref().expect("it is written to");
        (active.slot, active.bytes)
    };
    let file = SegmentFile::open(&names::segment(&shared.dir, slot), bytes, false).await?;
    if let Some(active) = &mut shared.segments.borrow_mut().active {
        active.file = file.clone();
    }
    Ok(file)
}

async fn write_and_sync(shared: &Shared, bytes: &[u8], at: u64) -> IoResult<()> {
    let file = shared.segments.borrow().active.as_ref().map(|active| active.file.clone()).expect("it is written to");
    let mut blocks = Blocks::default();
    lay(shared, &mut blocks, &file, bytes, at);
    file.write(&mut blocks).await?;
    file.sync().await
}
