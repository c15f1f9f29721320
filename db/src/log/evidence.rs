//! Telling a torn tail from a broken middle.
//!
//! A frame is written only after the one before it has been synced. So a whole frame of the log's own behind a broken
//! one is evidence that the broken one had been on the disk, whole, and was changed there; without such evidence it is
//! the last one, whose write was torn. Old frames of a segment's former life prove themselves too, so whoever looks
//! says by their headers which count.

use crate::log::error::OpenError;
use crate::log::frame::{
    ALIGN_BYTES, DatabaseId, FRAME_HEADER_BYTES, FRAME_MAGIC, FileKind, FrameHeader, Place, frame_bytes, peek, prove,
};
use crate::log::window::Window;

/// What lies behind a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Behind {
    /// Where the first frame is that counts.
    pub(crate) frame: Option<u64>,
    /// Where the last byte that is not zero ends, when there is no such frame; the place itself when all are zero.
    pub(crate) end: u64,
}

/// Bytes that are taken through a checksum at most, in lengths of the file: who stores bytes that look like headers by
/// the thousands must not make an opening take for ever.
const PROOFS_MAX: u64 = 64;

/// Bytes searched at once.
const PIECE_BYTES: usize = 1 << 20;

/// Searches from `offset`, a multiple of the alignment, to the end of a segment.
pub(crate) async fn look(
    window: &mut Window,
    id: DatabaseId,
    offset: u64,
    counts: impl Fn(&FrameHeader) -> bool,
) -> Result<Behind, OpenError> {
    let place = Place { id, kind: FileKind::Segment };
    let mut budget = window.len().saturating_mul(PROOFS_MAX);
    let (mut at, mut end) = (offset, offset);
    while at < window.len() {
        let bytes = window.bytes(at, PIECE_BYTES).await?;
        let bytes = &bytes[..bytes.len().min(PIECE_BYTES)];
        if bytes.is_empty() {
            break;
        }
        let mut candidates = Vec::new();
        for (index, chunk) in bytes.chunks(ALIGN_BYTES).enumerate() {
            if let Some(last) = chunk.iter().rposition(|byte| *byte != 0) {
                let start = at + (index * ALIGN_BYTES) as u64;
                end = start + last as u64 + 1;
                if chunk.starts_with(&FRAME_MAGIC) {
                    candidates.push(start);
                }
            }
        }
        at += bytes.len() as u64;
        for start in candidates {
            let room = window.len() - start;
            let Ok(header) = peek(window.bytes(start, FRAME_HEADER_BYTES).await?, room) else { continue };
            let size = frame_bytes(header.length as usize);
            if !counts(&header) || (size as u64) > budget {
                continue;
            }
            budget -= size as u64;
            if prove(window.bytes(start, size).await?, &header, place, start).is_ok() {
                return Ok(Behind { frame: Some(start), end });
            }
        }
    }
    Ok(Behind { frame: None, end })
}
