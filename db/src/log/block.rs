//! Writing whole blocks, past the system's cache where that can be done.
//!
//! The system writes a file's blocks as wholes, whatever part of one it is given. Given whole blocks in memory that
//! lies right it passes its cache by: such a write needs no thread of the kernel to wait for it, so the disk hears of
//! it sooner and so does who waits. A block that has frames already is written with them again, as the system would:
//! what the disk has of them is the same before, during and after.
//!
//! A file system that cannot do it says `EINVAL`, to the opening or to the first write; then the bytes alone are
//! written, through the cache.

use std::path::Path;

use wo_runtime::error::{IoError, IoResult, OpKind, Stage, errno};
use wo_runtime::os::fs::{File, OpenOptions};
use wo_runtime::plane::buf::Slice;

/// File systems give space out in these, and devices take these.
pub(crate) const BLOCK_BYTES: usize = 4096;
/// Memory that grew larger than this for one large frame is not kept.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Writes in a row that do not get a block further.
const FRUITLESS_MAX: u32 = 8;

/// A segment's file, open for writing.
#[derive(Clone, Debug)]
pub(crate) struct SegmentFile {
    file: File,
    is_direct: bool,
}

impl SegmentFile {
    /// Opens one that is there and has that many bytes; `direct` unless it has been refused here.
    pub(crate) async fn open(path: &Path, bytes: u64, direct: bool) -> IoResult<SegmentFile> {
        SegmentFile::open_by(OpenOptions::new().write(true), path, bytes, direct).await
    }

    /// Makes one that will have that many bytes.
    pub(crate) async fn create(path: &Path, bytes: u64, direct: bool) -> IoResult<SegmentFile> {
        SegmentFile::open_by(OpenOptions::new().write(true).create(true).truncate(true), path, bytes, direct).await
    }

    async fn open_by(how: &mut OpenOptions, path: &Path, bytes: u64, direct: bool) -> IoResult<SegmentFile> {
        // The last block must not go on behind the file.
        if direct && bytes.is_multiple_of(BLOCK_BYTES as u64) {
            match how.direct(true).open(path).await {
                Err(error) if error.errno() == errno::EINVAL => {}
                opened => return opened.map(|file| SegmentFile { file, is_direct: true }),
            }
        }
        how.direct(false).open(path).await.map(|file| SegmentFile { file, is_direct: false })
    }

    /// Whether it takes whole blocks.
    pub(crate) fn is_direct(&self) -> bool {
        self.is_direct
    }

    fn step(&self) -> usize {
        if self.is_direct { BLOCK_BYTES } else { 1 }
    }

    /// Waits until everything written is on the disk.
    pub(crate) async fn sync(&self) -> IoResult<()> {
        self.file.sync_data().await
    }

    /// The same, and the file's length.
    pub(crate) async fn sync_all(&self) -> IoResult<()> {
        self.file.sync_all().await
    }

    /// Writes, and waits until all of it is on the disk: in one durable write where the system takes it all; else it
    /// writes the rest and syncs all of it.
    pub(crate) async fn write_durable(&self, blocks: &mut Blocks) -> IoResult<()> {
        let (written, part) = self.file.write_durable_at(blocks.lend(0), blocks.at).await;
        blocks.take_back(part);
        let count = written?;
        if count == blocks.len() {
            return Ok(());
        }
        refuse_nothing(count, &self.file)?;
        self.write_from(blocks, count / self.step() * self.step()).await?;
        self.sync().await
    }

    /// Writes, however often that takes.
    pub(crate) async fn write(&self, blocks: &mut Blocks) -> IoResult<()> {
        self.write_from(blocks, 0).await
    }

    async fn write_from(&self, blocks: &mut Blocks, mut done: usize) -> IoResult<()> {
        let mut fruitless = 0;
        while done < blocks.len() {
            let (written, part) = self.file.write_at(blocks.lend(done), blocks.at + done as u64).await;
            blocks.take_back(part);
            let count = written?;
            refuse_nothing(count, &self.file)?;
            let end = done + count;
            let goes_on = if end == blocks.len() { end } else { end / self.step() * self.step() };
            fruitless = if goes_on == done { fruitless + 1 } else { 0 };
            if fruitless > FRUITLESS_MAX {
                return refuse_nothing(0, &self.file);
            }
            done = goes_on;
        }
        Ok(())
    }
}

fn refuse_nothing(count: usize, file: &File) -> IoResult<()> {
    if count > 0 {
        return Ok(());
    }
    Err(IoError::new(errno::EIO, OpKind::Write, Stage::Completion).with_context(format!("{file:?} takes no bytes")))
}

/// Bytes on their way to a place in a file: the whole blocks they lie in, where the file takes those.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    room: Vec<u8>,
    /// Where in the room they begin.
    begin: usize,
    /// Where in the file they go.
    at: u64,
}

impl Blocks {
    /// Lays out `bytes` that go to `at`, behind what their first block has already.
    pub(crate) fn lay(&mut self, file: &SegmentFile, before: &[u8], bytes: &[u8], at: u64) {
        let before = if file.is_direct { before } else { &[] };
        let len = (before.len() + bytes.len()).next_multiple_of(file.step());
        self.clear(len);
        self.at = at - before.len() as u64;
        debug_assert!(self.at.is_multiple_of(file.step() as u64), "{} bytes are before {at}", before.len());
        self.room.extend_from_slice(before);
        self.room.extend_from_slice(bytes);
        self.room.resize(self.begin + len, 0);
    }

    /// Lays out so many zeros, whole blocks of them.
    pub(crate) fn lay_zeros(&mut self, len: usize) {
        self.clear(len);
        self.room.resize(self.begin + len, 0);
    }

    /// Has the first so many of them go to another place.
    pub(crate) fn move_to(&mut self, at: u64, len: usize) {
        self.at = at;
        self.room.truncate(self.begin + len);
    }

    /// Makes room for so many bytes that begin where a block may.
    fn clear(&mut self, len: usize) {
        self.room.clear();
        if self.room.capacity() > KEPT_BYTES_MAX {
            self.room = Vec::new();
        }
        self.room.reserve(len + BLOCK_BYTES);
        self.begin = self.room.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
        self.room.resize(self.begin, 0);
    }

    pub(crate) fn len(&self) -> usize {
        self.room.len() - self.begin
    }

    fn lend(&mut self, skip: usize) -> Slice<Vec<u8>> {
        let room = std::mem::take(&mut self.room);
        let end = room.len();
        Slice::new(room, self.begin + skip..end)
    }

    fn take_back(&mut self, part: Slice<Vec<u8>>) {
        self.room = part.into_inner();
    }
}

/// What a block has in front of the place where the next bytes go.
#[derive(Debug, Default)]
pub(crate) struct Tail(Vec<u8>);

impl Tail {
    /// Reads what a file's last block has in front of `offset`.
    pub(crate) async fn read(path: &Path, offset: u64) -> IoResult<Tail> {
        let count = (offset % BLOCK_BYTES as u64) as usize;
        if count == 0 {
            return Ok(Tail::default());
        }
        let (mut bytes, mut have) = (vec![0; count], 0);
        let file = File::open(path).await?;
        while have < count {
            let part = Slice::new(bytes, have..count);
            let (read, part) = file.read_at(part, offset - (count - have) as u64).await;
            bytes = part.into_inner();
            match read? {
                0 => {
                    let error = IoError::new(errno::EIO, OpKind::Read, Stage::Completion);
                    return Err(error.with_context(format!("{} became shorter", path.display())));
                }
                more => have += more,
            }
        }
        Ok(Tail(bytes))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// These were written at `at`.
    pub(crate) fn wrote(&mut self, bytes: &[u8], at: u64) {
        let end = at + bytes.len() as u64;
        let block = end - end % BLOCK_BYTES as u64;
        if block > at {
            self.0.clear();
        }
        let skip = usize::try_from(block.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
        self.0.extend_from_slice(&bytes[skip..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_what_the_last_block_has() {
        let all: Vec<u8> = (0..30_000_u32).map(|number| (number % 251) as u8).collect();
        let mut tail = Tail::default();
        let mut at = 0;
        for len in [64, 100, 3932, 1, 4095, 4096, 8192, 5, 4200, 8] {
            tail.wrote(&all[at..at + len], at as u64);
            at += len;
            assert_eq!(tail.bytes(), &all[at - at % BLOCK_BYTES..at], "at {at}");
        }
    }
}
