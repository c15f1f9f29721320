//! What is known of every entry: filling, in flight, on the disk, undone, or unknown.
//!
//! Numbers only grow. Those of a batch that was undone are never given out again, so that nobody who still asks about
//! one hears of another.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use wo_runtime::error::{IoError, IoResult};
use wo_runtime::fiber::Notify;

use crate::log::batch::{self, Batch};
use crate::log::block::Blocks;
use crate::log::body::{ENTRY_HEADER_BYTES_MAX, Entry};
use crate::log::directory::Directory;
use crate::log::error::CommitError;
use crate::log::frame::{BODY_BYTES_MAX, DatabaseId};
use crate::log::segments::Segments;
use crate::log::{LogOptions, LogStats};

/// What the log's handle and its fibers share.
pub(crate) struct Shared {
    pub(crate) dir: PathBuf,
    pub(crate) options: LogOptions,
    pub(crate) id: DatabaseId,
    pub(crate) generation: u32,
    /// The lock; none once it was let go.
    pub(crate) directory: RefCell<Option<Directory>>,
    pub(crate) state: RefCell<State>,
    pub(crate) segments: RefCell<Segments>,
    /// Wakes the writer.
    pub(crate) work: Notify,
    /// The writer, a copy, or the making of a segment has ended.
    pub(crate) ended: Notify,
    /// For the blocks of the next batch.
    pub(crate) blocks: Cell<Blocks>,
    /// Segments are written past the cache, unless that was refused.
    pub(crate) direct: Cell<bool>,
    /// Copies that are being made, which need the files as they are.
    pub(crate) copying: Cell<bool>,
    /// The newest snapshot.
    pub(crate) snapshot: Cell<Option<u64>>,
    /// Bytes written before the newest snapshot's state.
    pub(crate) bytes_at_snapshot: Cell<u64>,
}

impl Shared {
    pub(crate) fn stats(&self) -> LogStats {
        let state = self.state.borrow();
        let segments = self.segments.borrow();
        LogStats {
            appended: state.appended,
            durable: state.durable,
            batches: state.batches_written,
            bytes: state.bytes_written,
            bytes_since_snapshot: state.bytes_written.saturating_sub(self.bytes_at_snapshot.get())
                + segments.bytes_replayed,
            segments: segments.in_use(),
            spares: segments.spares(),
            generation: self.generation,
        }
    }
}

/// Numbers that ended without being on the disk for sure.
#[derive(Debug)]
struct Failed {
    first: u64,
    last: u64,
    error: CommitError,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct State {
    dir: PathBuf,
    entry_bytes_max: u32,
    batch_bytes: usize,
    /// The last one fills.
    batches: VecDeque<Batch>,
    in_flight: bool,
    appended: u64,
    durable: u64,
    schema: u32,
    durable_schema: u32,
    failed: Vec<Failed>,
    poison: Option<IoError>,
    /// What failed and is not undone in memory yet.
    failure: Option<CommitError>,
    closed: bool,
    /// The writer has ended.
    pub(crate) ended: bool,
    waiting: Vec<(u64, u64, Waker)>,
    waits_made: u64,
    spare_buf: Option<Vec<u8>>,
    batches_written: u64,
    bytes_written: u64,
    /// How often a full disk undid something.
    pub(crate) undone: u64,
}

impl State {
    pub(crate) fn new(dir: &Path, options: &LogOptions, last: u64, schema: u32) -> State {
        State {
            dir: dir.to_owned(),
            entry_bytes_max: options.entry_bytes_max.min(BODY_BYTES_MAX - ENTRY_HEADER_BYTES_MAX as u32),
            batch_bytes: options.batch_bytes,
            batches: VecDeque::new(),
            in_flight: false,
            appended: last,
            durable: last,
            schema,
            durable_schema: schema,
            failed: Vec::new(),
            poison: None,
            failure: None,
            closed: false,
            ended: false,
            waiting: Vec::new(),
            waits_made: 0,
            spare_buf: None,
            batches_written: 0,
            bytes_written: 0,
            undone: 0,
        }
    }

    pub(crate) fn append(&mut self, entry: Entry, bytes: &[u8]) -> Result<u64, CommitError> {
        if let Some(poisoned) = self.poison() {
            return Err(poisoned);
        }
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        if self.closed {
            return Err(CommitError::Closed { dir: self.dir.clone() });
        }
        if bytes.len() as u64 > u64::from(self.entry_bytes_max) {
            let (bytes, bytes_max) = (bytes.len() as u64, u64::from(self.entry_bytes_max));
            return Err(CommitError::TooLarge { dir: self.dir.clone(), bytes, bytes_max });
        }
        self.appended += 1;
        if !self.batches.back().is_some_and(|batch| batch.has_room(bytes.len(), self.batch_bytes)) {
            self.batches.push_back(Batch::new(self.appended, self.schema, self.spare_buf.take()));
        }
        if let Some(batch) = self.batches.back_mut() {
            batch.push(entry, bytes);
            self.schema = batch.schema_after;
        }
        Ok(self.appended)
    }

    /// Takes the oldest batch to be written.
    pub(crate) fn take_batch(&mut self) -> Option<Batch> {
        let batch = self.batches.pop_front()?;
        self.in_flight = true;
        Some(batch)
    }

    /// Something fills.
    pub(crate) fn has_batch(&self) -> bool {
        !self.batches.is_empty()
    }

    /// Nothing fills and nothing is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.batches.is_empty() && !self.in_flight
    }

    /// All of the batch is on the disk; answers who waits for that.
    pub(crate) fn written(&mut self, batch: Batch) -> Vec<Waker> {
        self.in_flight = false;
        self.durable = batch.last();
        self.durable_schema = batch.schema_after;
        self.batches_written += 1;
        self.bytes_written += batch.frame_bytes_sealed();
        self.spare_buf = batch::keep(batch.buf).or(self.spare_buf.take());
        self.take_waiting()
    }

    /// The batch and all behind it is undone, on the disk as well.
    pub(crate) fn undone(&mut self, batch: &Batch, error: &IoError) -> Vec<Waker> {
        self.in_flight = false;
        self.batches.clear();
        self.schema = self.durable_schema;
        self.undone += 1;
        let error = CommitError::NoSpace { dir: self.dir.clone(), error: error.clone() };
        self.failure = Some(error.clone());
        match self.failed.last_mut() {
            // Nothing in between succeeded.
            Some(before) if before.last + 1 == batch.first => {
                (before.last, before.error) = (self.appended, error);
            }
            _ => self.failed.push(Failed { first: batch.first, last: self.appended, error }),
        }
        self.take_waiting()
    }

    /// Nobody knows about the batch, and nothing is acknowledged any more.
    pub(crate) fn poisoned(&mut self, batch: Option<&Batch>, error: &IoError) -> Vec<Waker> {
        self.in_flight = false;
        self.batches.clear();
        self.poison = Some(error.clone());
        let dir = &self.dir;
        let mut refused = self.durable + 1;
        if let Some(batch) = batch {
            let error = CommitError::CommitUnknown { dir: dir.clone(), error: error.clone() };
            self.failure = Some(error.clone());
            self.failed.push(Failed { first: batch.first, last: batch.last(), error });
            refused = batch.last() + 1;
        }
        let error = CommitError::Poisoned { dir: dir.clone(), error: error.clone() };
        self.failed.push(Failed { first: refused, last: u64::MAX, error });
        self.take_waiting()
    }

    pub(crate) fn poison(&self) -> Option<CommitError> {
        let error = self.poison.clone()?;
        Some(CommitError::Poisoned { dir: self.dir.clone(), error })
    }

    pub(crate) fn failure(&self) -> Option<CommitError> {
        self.failure.clone()
    }

    pub(crate) fn rolled_back(&mut self) {
        self.failure = None;
    }

    /// No more entries.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable
    }

    pub(crate) fn appended(&self) -> u64 {
        self.appended
    }

    pub(crate) fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    /// What is known of an entry; none while it is on its way.
    pub(crate) fn outcome(&self, sequence: u64) -> Option<Result<(), CommitError>> {
        if let Some(failed) = self.failed.iter().rev().find(|failed| (failed.first..=failed.last).contains(&sequence)) {
            return Some(Err(failed.error.clone()));
        }
        if sequence <= self.durable {
            return Some(Ok(()));
        }
        self.ended.then(|| Err(CommitError::Closed { dir: self.dir.clone() }))
    }

    /// Those whose outcome is known by now.
    fn take_waiting(&mut self) -> Vec<Waker> {
        let waiting = std::mem::take(&mut self.waiting);
        let (known, unknown): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(sequence, _, _)| self.outcome(*sequence).is_some());
        self.waiting = unknown;
        known.into_iter().map(|(_, _, waker)| waker).collect()
    }

    /// Everybody who waits, at the writer's end.
    pub(crate) fn end(&mut self) -> Vec<Waker> {
        self.ended = true;
        self.take_waiting()
    }
}

impl Batch {
    /// Bytes of the frame, which is sealed.
    fn frame_bytes_sealed(&self) -> u64 {
        (self.buf.len() - batch::FRAME_START) as u64
    }
}

/// Somebody waits for an entry. Dropping it ends the wait and nothing else.
pub(crate) struct Wait {
    shared: Rc<Shared>,
    sequence: u64,
    number: Option<u64>,
}

impl Wait {
    pub(crate) fn new(shared: &Rc<Shared>, sequence: u64) -> Wait {
        Wait { shared: Rc::clone(shared), sequence, number: None }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<IoResult<Result<(), CommitError>>> {
        let shared = Rc::clone(&self.shared);
        let mut state = shared.state.borrow_mut();
        if let Some(outcome) = state.outcome(self.sequence) {
            return Poll::Ready(Ok(outcome));
        }
        self.register(&mut state, cx);
        Poll::Pending
    }
}

impl Wait {
    /// Waits for anything to be on the disk from the entry on.
    pub(crate) fn poll_progress(&mut self, cx: &mut Context<'_>) -> Poll<IoResult<Result<u64, CommitError>>> {
        let shared = Rc::clone(&self.shared);
        let mut state = shared.state.borrow_mut();
        if state.durable >= self.sequence {
            return Poll::Ready(Ok(Ok(state.durable)));
        }
        if let Some(failure) = state.failure().or_else(|| state.poison()) {
            return Poll::Ready(Ok(Err(failure)));
        }
        if state.ended {
            return Poll::Ready(Ok(Err(CommitError::Closed { dir: state.dir.clone() })));
        }
        self.register(&mut state, cx);
        Poll::Pending
    }

    fn register(&mut self, state: &mut State, cx: &mut Context<'_>) {
        let number = *self.number.get_or_insert_with(|| {
            state.waits_made += 1;
            state.waits_made
        });
        match state.waiting.iter_mut().find(|(_, waiting, _)| *waiting == number) {
            Some((_, _, waker)) => waker.clone_from(cx.waker()),
            // The first time, or it was woken for something else.
            None => state.waiting.push((self.sequence, number, cx.waker().clone())),
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some(number) = self.number
            && let Ok(mut state) = self.shared.state.try_borrow_mut()
        {
            state.waiting.retain(|(_, waiting, _)| *waiting != number);
        }
    }
}
