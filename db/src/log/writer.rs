//! The writer: one fiber that takes a batch, writes it, and says how that ended.
//!
//! It is sheltered from cancels: a commit on its way is not stopped by whoever waits for it. When entries have gathered
//! during a write, it lets everybody else run twice before it writes those, once for who passes the news on and once
//! for those who hear it, so that they can join: a sync takes as long for one as for all, and two halves of a crowd
//! that take turns would share none. With nothing to write it parks, and whoever wakes it waits for nobody. No timer is
//! involved anywhere.

use std::rc::Rc;

use wo_runtime::error::{IoError, IoResult, OpKind, Stage, errno};
use wo_runtime::fiber::{self, Unhurried};
use wo_runtime::os::fs::File;
use wo_runtime::plane::buf::Slice;

use crate::log::batch::{Batch, FRAME_START};
use crate::log::error::{CommitError, is_full};
use crate::log::frame::{FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FileKind, FrameHeader, Place, SegmentHeader, seal};
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
    let end = batch.buf.len();
    let unhurried = Unhurried::begin();
    let durable = write_and_sync(&file, batch, begin, at).await;
    drop(unhurried);
    match durable {
        Ok(()) => {
            let mut segments = shared.segments.borrow_mut();
            segments.chain = checksum;
            if let Some(active) = &mut segments.active {
                active.offset = at + (end - begin) as u64;
                active.last = batch.last();
                active.fresh = false;
            }
            Ok(())
        }
        Err(error) if is_full(&error) => {
            // The frame may be whole nevertheless, since an error can be the sync's. It must not come back.
            let zeros = vec![0; FRAME_START - begin + FRAME_HEADER_BYTES];
            match write_all_and_sync(&file, zeros, at).await {
                Ok(()) => Err(Failure::Undone(error)),
                Err(_) => Err(Failure::Unknown(error)),
            }
        }
        Err(error) => Err(Failure::Unknown(error)),
    }
}

/// Finishes a batch's frame for the place it goes to, behind the segment's header if that is not written yet. Answers
/// the file, from which byte of the buffer on to write, where to, and the frame's checksum.
fn seal_for_place(shared: &Shared, batch: &mut Batch) -> (File, usize, u64, u32) {
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

/// Writes a batch's bytes from `begin` on, in one durable write where the system takes them all; else writes the rest
/// and syncs all of it.
async fn write_and_sync(file: &File, batch: &mut Batch, begin: usize, at: u64) -> IoResult<()> {
    let end = batch.buf.len();
    let buf = Slice::new(std::mem::take(&mut batch.buf), begin..end);
    let (written, buf) = file.write_durable_at(buf, at).await;
    batch.buf = buf.into_inner();
    let count = written?;
    if begin + count == end {
        return Ok(());
    }
    refuse_nothing(count, file)?;
    let rest = Slice::new(std::mem::take(&mut batch.buf), begin + count..end);
    let (written, rest) = file.write_all_at(rest, at + count as u64).await;
    batch.buf = rest.into_inner();
    written?;
    file.sync_data().await
}

async fn write_all_and_sync(file: &File, bytes: Vec<u8>, at: u64) -> IoResult<()> {
    file.write_all_at(bytes, at).await.0?;
    file.sync_data().await
}

fn refuse_nothing(count: usize, file: &File) -> IoResult<()> {
    if count > 0 {
        return Ok(());
    }
    Err(IoError::new(errno::EIO, OpKind::Write, Stage::Completion).with_context(format!("{file:?} takes no bytes")))
}
