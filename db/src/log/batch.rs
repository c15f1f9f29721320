//! Entries that will share a frame, and with it a write and a sync.

use crate::log::body::{self, ENTRY_HEADER_BYTES_MAX, Entry};
use crate::log::frame::{FILE_HEADER_BYTES, FRAME_HEADER_BYTES, frame_bytes};

/// Where a batch's frame begins in its buffer: there is room in front for a segment's header, so that the first frame
/// of a segment and its header are one write.
pub(crate) const FRAME_START: usize = FILE_HEADER_BYTES;
const BODY_START: usize = FRAME_START + FRAME_HEADER_BYTES;
/// A buffer that grew larger than this for one large entry is not kept.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Some entries in a row.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) buf: Vec<u8>,
    pub(crate) first: u64,
    pub(crate) entries: u32,
    /// The catalogue in force before the first entry.
    pub(crate) schema: u32,
    /// And behind the last.
    pub(crate) schema_after: u32,
}

impl Batch {
    pub(crate) fn new(first: u64, schema: u32, buf: Option<Vec<u8>>) -> Batch {
        let mut buf = buf.unwrap_or_default();
        buf.clear();
        buf.resize(BODY_START, 0);
        Batch { buf, first, entries: 0, schema, schema_after: schema }
    }

    pub(crate) fn push(&mut self, entry: Entry, bytes: &[u8]) {
        body::put(&mut self.buf, entry, bytes);
        self.entries += 1;
        if entry == Entry::Catalogue {
            self.schema_after = schema_of(bytes);
        }
    }

    /// The number of the last entry.
    pub(crate) fn last(&self) -> u64 {
        self.first + u64::from(self.entries) - 1
    }

    /// Bytes of the entries.
    pub(crate) fn body_bytes(&self) -> usize {
        self.buf.len() - BODY_START
    }

    /// Whether an entry of so many bytes may still join. The first one always may.
    pub(crate) fn has_room(&self, bytes: usize, bytes_max: usize) -> bool {
        self.entries == 0 || self.body_bytes() + bytes + ENTRY_HEADER_BYTES_MAX <= bytes_max
    }

    /// Bytes of the frame this becomes.
    pub(crate) fn frame_bytes(&self) -> u64 {
        frame_bytes(self.body_bytes()) as u64
    }
}

/// A buffer for the next batch.
pub(crate) fn keep(buf: Vec<u8>) -> Option<Vec<u8>> {
    (buf.capacity() <= KEPT_BYTES_MAX).then_some(buf)
}

/// What frames say of the catalogue in force.
pub(crate) fn schema_of(catalogue: &[u8]) -> u32 {
    crc32c::crc32c(catalogue)
}
