//! Snapshots: the whole state as of one transaction, in a file of its own.
//!
//! A snapshot is written under another name, synced piece by piece, renamed, and the directory synced; only then does
//! it count, and only then is anything removed that it makes needless. It is whole when every frame of it is, in order,
//! up to the end frame, which says how many there were. So a snapshot is never half believed: one that is not whole is
//! passed over, and an older one, or the log from its beginning, serves instead.

use std::path::{Path, PathBuf};

use crate::log::body::{self, Entry};
use crate::log::error::{OpenError, Undecodable};
use crate::log::frame::{
    FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FileKind, FileStart, FrameHeader, Place, SEGMENT_MAX, SEQUENCE_MAX,
    SnapshotHeader, VERSION, frame_bytes, peek, prove,
};
use crate::log::window::Window;

/// Bytes of the end frame's body.
pub(crate) const END_BYTES: usize = 20;

/// A snapshot that is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotFile {
    pub(crate) path: PathBuf,
    pub(crate) header: SnapshotHeader,
    /// Some of the transactions up to this one may be in it as well; the log must reach as far.
    pub(crate) until: u64,
    /// The first segment that has anything behind `as_of`.
    pub(crate) first_segment: u32,
    /// Entries in it.
    pub(crate) entries: u64,
    /// Bytes of the file up to the end frame's end.
    pub(crate) bytes: u64,
}

/// The end frame's body.
pub(crate) fn encode_end(until: u64, first_segment: u32, entries: u64) -> [u8; END_BYTES] {
    let mut end = [0; END_BYTES];
    end[..8].copy_from_slice(&until.to_le_bytes());
    end[8..12].copy_from_slice(&first_segment.to_le_bytes());
    end[12..].copy_from_slice(&entries.to_le_bytes());
    end
}

fn decode_end(body: &[u8]) -> Option<(u64, u32, u64)> {
    let body: &[u8; END_BYTES] = body.try_into().ok()?;
    let (until, rest) = body.split_first_chunk()?;
    let (first_segment, rest) = rest.split_first_chunk()?;
    let (entries, _) = rest.split_first_chunk()?;
    Some((u64::from_le_bytes(*until), u32::from_le_bytes(*first_segment), u64::from_le_bytes(*entries)))
}

/// What is told of every entry.
pub(crate) type Take<'a> = &'a mut dyn FnMut(Entry, &[u8]) -> Result<(), Undecodable>;

/// Reads a whole snapshot and proves it; the reason when it is not whole.
pub(crate) async fn check(path: &Path) -> Result<Result<SnapshotFile, String>, OpenError> {
    read(path, &mut |_, _| Ok(())).await
}

/// Reads a snapshot and hands out its entries; what was handed out before a reason is not to be believed.
pub(crate) async fn read(path: &Path, take: Take<'_>) -> Result<Result<SnapshotFile, String>, OpenError> {
    let mut window = Window::open(path).await?;
    let header = match SnapshotHeader::decode(window.start().await?) {
        FileStart::Whole(header) => header,
        FileStart::Newer(version) => {
            return Err(OpenError::NewerFormat { file: path.to_owned(), version, known: VERSION });
        }
        FileStart::Blank => return Ok(Err("nothing is written at its beginning".to_owned())),
        FileStart::Broken => return Ok(Err("its header is broken".to_owned())),
        FileStart::Foreign => return Ok(Err("its first bytes are not those of a snapshot".to_owned())),
    };
    let place = Place { id: header.id, kind: FileKind::Snapshot };
    let (mut offset, mut frames, mut chain, mut entries) = (FILE_HEADER_BYTES as u64, 0u64, 0, 0u64);
    loop {
        let room = window.len().saturating_sub(offset);
        let broken = |why| Ok(Err(format!("at byte {offset}: {why}")));
        let head = match peek(window.bytes(offset, FRAME_HEADER_BYTES).await?, room) {
            Ok(head) => head,
            Err(why) => return broken(why.to_string()),
        };
        if head.sequence != frames + 1 || head.previous != chain || head.generation != header.generation {
            return broken("the frame does not continue the one before".to_owned());
        }
        let size = frame_bytes(head.length as usize);
        let body = match prove(window.bytes(offset, size).await?, &head, place, offset) {
            Ok(body) => body,
            Err(why) => return broken(why.to_string()),
        };
        (frames, chain) = (frames + 1, head.checksum);
        if head.entries == 0 {
            let Some((until, first_segment, counted)) = decode_end(body) else {
                return broken("the end is not one".to_owned());
            };
            if counted != entries || until < header.as_of {
                return broken(format!("the end counts {counted} entries, and there are {entries}"));
            }
            if until > SEQUENCE_MAX || !(1..=SEGMENT_MAX).contains(&first_segment) {
                return broken(format!("the end tells of transaction {until} and segment {first_segment}"));
            }
            let bytes = offset + size as u64;
            return Ok(Ok(SnapshotFile { path: path.to_owned(), header, until, first_segment, entries, bytes }));
        }
        if let Err(why) = take_entries(path, offset, header.as_of, &head, body, take)? {
            return broken(why);
        }
        entries += u64::from(head.entries);
        offset += size as u64;
    }
}

fn take_entries(
    path: &Path,
    offset: u64,
    as_of: u64,
    head: &FrameHeader,
    body: &[u8],
    take: Take<'_>,
) -> Result<Result<(), String>, OpenError> {
    let mut counted = 0;
    for entry in body::entries(body) {
        let Ok((entry, bytes)) = entry else { return Ok(Err("its entries do not come out even".to_owned())) };
        counted += 1;
        take(entry, bytes).map_err(|cause| undecodable(path, offset, as_of, cause))?;
    }
    Ok(if counted == head.entries {
        Ok(())
    } else {
        Err(format!("its header counts {} entries, and there are {counted}", head.entries))
    })
}

/// An entry that its reader cannot make sense of.
pub(crate) fn undecodable(file: &Path, offset: u64, sequence: u64, cause: Undecodable) -> OpenError {
    OpenError::Undecodable { file: file.to_owned(), offset, sequence, cause }
}
