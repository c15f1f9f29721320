//! Pipes: 64 KiB between a writer and a reader, at once and without a wire.
//!
//! A write of up to 4096 bytes goes in whole or waits; a longer one writes what there is room for. The bytes belong
//! to the reading end.

use std::collections::VecDeque;

use crate::plane::backend::sim::exec::Answer;
use crate::plane::backend::sim::ops::InFlight;
use crate::plane::backend::sim::world::{Body, Errno, ObjectId, State};
use crate::plane::op::Readiness;

const PIPE_BYTES: usize = 65_536;
/// The longest write that is never split.
const WHOLE_BYTES_MAX: usize = 4096;

/// The end to read from.
#[derive(Debug, Default)]
pub(super) struct PipeReader {
    bytes: VecDeque<u8>,
    /// The other end, while it is open.
    writer: Option<ObjectId>,
}

/// The end to write to.
#[derive(Debug)]
pub(super) struct PipeWriter {
    /// The other end, while it is open.
    reader: Option<ObjectId>,
    /// Whether there was room when the other end closed.
    room: bool,
}

impl PipeReader {
    /// Whether a write that must not be split would go in.
    fn has_room(&self) -> bool {
        PIPE_BYTES - self.bytes.len() >= WHOLE_BYTES_MAX
    }
}

impl State {
    /// Makes a pipe: the end to read from, then the end to write to.
    pub(super) fn make_pipe(&mut self) -> (ObjectId, ObjectId) {
        let reader = self.add(Body::PipeReader(PipeReader::default()));
        let writer = self.add(Body::PipeWriter(PipeWriter { reader: Some(reader), room: true }));
        if let Some(end) = self.pipe_reader(reader) {
            end.writer = Some(writer);
        }
        (reader, writer)
    }

    fn pipe_reader(&mut self, object: ObjectId) -> Option<&mut PipeReader> {
        match self.body_mut(object) {
            Ok(Body::PipeReader(end)) => Some(end),
            _ => None,
        }
    }

    pub(super) fn read_pipe(&mut self, object: ObjectId, op: &mut InFlight) -> Answer {
        let Some(bytes) = self.take_from_pipe(object, op.want())? else { return Ok(None) };
        op.operand.scatter(0, &bytes);
        Ok(Some(bytes.len()))
    }

    pub(super) fn write_pipe(&mut self, object: ObjectId, op: &mut InFlight) -> Answer {
        let bytes = op.operand.gather(0, op.want());
        self.put_into_pipe(object, &bytes)
    }

    /// Takes up to `want` bytes; none of them is the end, no answer means to wait.
    pub(super) fn take_from_pipe(&mut self, object: ObjectId, want: usize) -> Result<Option<Vec<u8>>, Errno> {
        let Some(end) = self.pipe_reader(object) else { return Err(libc::EBADF) };
        if want == 0 {
            return Ok(Some(Vec::new()));
        }
        if end.bytes.is_empty() {
            return Ok(end.writer.is_none().then(Vec::new));
        }
        let bytes: Vec<u8> = end.bytes.drain(..want.min(end.bytes.len())).collect();
        if let Some(writer) = end.writer {
            self.touch(writer);
        }
        Ok(Some(bytes))
    }

    /// Puts in what there is room for, or what must not be split as a whole; no answer means to wait.
    pub(super) fn put_into_pipe(&mut self, object: ObjectId, bytes: &[u8]) -> Answer {
        let reader = match self.body(object)? {
            Body::PipeWriter(end) => end.reader,
            _ => return Err(libc::EBADF),
        };
        if bytes.is_empty() {
            return Ok(Some(0));
        }
        let reader = reader.ok_or(libc::EPIPE)?;
        let Some(end) = self.pipe_reader(reader) else { return Err(libc::EPIPE) };
        let room = PIPE_BYTES - end.bytes.len();
        if room == 0 || bytes.len() <= WHOLE_BYTES_MAX && room < bytes.len() {
            return Ok(None);
        }
        let count = room.min(bytes.len());
        end.bytes.extend(&bytes[..count]);
        self.touch(reader);
        Ok(Some(count))
    }

    pub(super) fn pipe_reader_readiness(end: &PipeReader) -> Readiness {
        Readiness { readable: !end.bytes.is_empty(), hangup: end.writer.is_none(), ..Readiness::default() }
    }

    pub(super) fn pipe_writer_readiness(&self, end: &PipeWriter) -> Readiness {
        let room = end.reader.and_then(|reader| match self.body(reader) {
            Ok(Body::PipeReader(end)) => Some(end.has_room()),
            _ => None,
        });
        Readiness { writable: room.unwrap_or(end.room), error: room.is_none(), ..Readiness::default() }
    }

    pub(super) fn end_pipe_reader(&mut self, end: &PipeReader) {
        let Some(writer) = end.writer else { return };
        if let Ok(Body::PipeWriter(other)) = self.body_mut(writer) {
            (other.reader, other.room) = (None, end.has_room());
        }
        self.touch(writer);
    }

    pub(super) fn end_pipe_writer(&mut self, end: &PipeWriter) {
        let Some(reader) = end.reader else { return };
        if let Some(other) = self.pipe_reader(reader) {
            other.writer = None;
        }
        self.touch(reader);
    }
}
