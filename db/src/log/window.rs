//! Looking at a file through a window of memory that moves along.

use std::path::{Path, PathBuf};

use wo_runtime::os::fs::File;
use wo_runtime::plane::buf::Slice;

use crate::log::error::OpenError;
use crate::log::frame::FILE_HEADER_BYTES;

/// Bytes read at once.
const PIECE_BYTES: usize = 1 << 20;

/// A file to be looked at from its beginning to its end, in order, with a little looking back. What is in memory is one
/// piece, or what was asked for where that is more.
#[derive(Debug)]
pub(crate) struct Window {
    file: File,
    path: PathBuf,
    len: u64,
    buf: Vec<u8>,
    /// Where in the file the buffer's first byte is.
    at: u64,
}

impl Window {
    /// Opens a file for reading. Its length is what it is now: another process may be writing.
    pub(crate) async fn open(path: &Path) -> Result<Window, OpenError> {
        let file = File::open(path).await.map_err(|error| OpenError::io(path, error))?;
        let len = file.metadata().await.map_err(|error| OpenError::io(path, error))?.len();
        Ok(Window { file, path: path.to_owned(), len, buf: Vec::new(), at: 0 })
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file's first bytes, as many as a header has; fewer in a shorter file.
    pub(crate) async fn start(&mut self) -> Result<&[u8], OpenError> {
        let bytes = self.bytes(0, FILE_HEADER_BYTES).await?;
        Ok(&bytes[..bytes.len().min(FILE_HEADER_BYTES)])
    }

    /// The bytes at `offset`: as many as asked for, or up to the file's end. There may be more than asked for.
    pub(crate) async fn bytes(&mut self, offset: u64, count: usize) -> Result<&[u8], OpenError> {
        let count = count.min(usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX));
        if offset < self.at || offset + count as u64 > self.at + self.buf.len() as u64 {
            self.move_to(offset, count).await?;
        }
        let skip = usize::try_from(offset - self.at).unwrap_or(usize::MAX).min(self.buf.len());
        Ok(&self.buf[skip..])
    }

    async fn move_to(&mut self, offset: u64, count: usize) -> Result<(), OpenError> {
        let kept_from = offset.checked_sub(self.at).and_then(|skip| usize::try_from(skip).ok());
        match kept_from {
            Some(skip) if skip < self.buf.len() => {
                self.buf.drain(..skip);
            }
            _ => self.buf.clear(),
        }
        self.at = offset;
        let rest = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = count.max(PIECE_BYTES).min(rest);
        self.buf.reserve(wanted.saturating_sub(self.buf.len()));
        while self.buf.len() < wanted {
            let have = self.buf.len();
            let part = Slice::new(std::mem::take(&mut self.buf), have..wanted);
            let (read, part) = self.file.read_at(part, offset + have as u64).await;
            self.buf = part.into_inner();
            match read {
                // Shorter than it was a moment ago.
                Ok(0) => {
                    self.len = offset + have as u64;
                    break;
                }
                Ok(_) => {}
                Err(error) => return Err(OpenError::io(&self.path, error)),
            }
        }
        Ok(())
    }
}
