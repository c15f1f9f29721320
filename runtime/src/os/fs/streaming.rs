//! Reading and writing where a handle stands: at a file's position, or a stream's next bytes.
//!
//! Each verb is one session: it waits for its turn, reads or writes until it is satisfied, and leaves the position
//! where it ended. A stream's bytes that a verb took and could not answer are put back for the next reader.

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::fiber::Call;
use crate::os::fs::explain::{ended_early, explain, took_nothing, torn};
use crate::os::fs::file::File;
use crate::os::fs::session::{Session, Way};
use crate::plane::buf::{Bounce, BufResult, IoBuf, IoBufMut};

/// The first room for bytes whose number is not known.
const ROOM_BYTES_MIN: usize = 4096;

/// Borrowed bytes are copied for the kernel in parts of this size; smaller ones use the thread's bounce buffers.
const COPY_BYTES_MAX: usize = 1 << 20;

impl File {
    /// Reads at the position, from the buffer's first byte up to its capacity, and moves the position by what was
    /// read. Answers the count, which may be short, and is 0 at the end of the file, or once a stream's other end is
    /// closed.
    ///
    /// It waits for its turn behind the reads, and on a file with positions the writes, that were started before.
    /// Dropped half-way, it loses nothing: the position has not moved, and a stream's bytes are kept for the next
    /// read.
    ///
    /// # Errors
    ///
    /// `EBADF` when the file is not open for reading, `EISDIR` for a directory.
    pub fn read<B: IoBufMut>(&self, buf: B) -> Call<impl Future<Output = BufResult<usize, B>>> {
        Call::new(async move {
            let session = match Session::reading(self).await {
                Ok(session) => session,
                Err(error) => return (Err(self.explain(error)), buf),
            };
            let ((result, buf), mut session) = session.read(buf, 0).await;
            session.advance(*result.as_ref().unwrap_or(&0));
            (result.map_err(|error| self.explain(error)), buf)
        })
    }

    /// As [`read`](File::read), into borrowed memory. The kernel never sees that: it is copied into at the end, so
    /// this may be dropped half-way too. One call reads at most 64 KiB.
    ///
    /// # Errors
    ///
    /// As [`read`](File::read).
    pub fn read_into(&self, into: &mut [u8]) -> Call<impl Future<Output = IoResult<usize>>> {
        Call::new(async move {
            let room = into.len().min(Bounce::BYTES_MAX);
            let (result, bounce) = self.read(Bounce::with_room(room)).await;
            let count = result?;
            into[..count].copy_from_slice(bounce.as_bytes());
            Ok(count)
        })
    }

    /// Reads at the position until the buffer is full to its capacity.
    ///
    /// # Errors
    ///
    /// `ENODATA` when the file or stream ends before. Whatever the error, the buffer comes back with what was read; a
    /// file's position stands behind that, and a stream gives the same bytes again to its next reader.
    pub fn read_exact<B: IoBufMut>(&self, buf: B) -> Call<impl Future<Output = BufResult<(), B>>> {
        Call::new(async move {
            let (result, buf) = self.fill(buf).await;
            (result.map_err(|error| self.explain(error)), buf)
        })
    }

    async fn fill<B: IoBufMut>(&self, mut buf: B) -> BufResult<(), B> {
        let wanted = buf.capacity();
        let mut filled = 0;
        let mut session = match Session::reading(self).await {
            Ok(session) => session,
            Err(error) => return (Err(error), buf),
        };
        let outcome = loop {
            if filled == wanted {
                break Ok(());
            }
            let result;
            ((result, buf), session) = session.read(buf, filled).await;
            match result {
                Ok(0) => break Err(ended_early(filled, wanted)),
                Ok(count) => filled += count,
                Err(error) => break Err(torn(error, filled, wanted)),
            }
        };
        session.advance(filled);
        if outcome.is_err() {
            session.put_back(&buf.as_bytes()[..filled]);
        }
        (outcome, buf)
    }

    /// Reads from the position to the end of the file, or until a stream's other end is closed. All of it is in
    /// memory.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when it does not fit, else as [`read`](File::read). Bytes read before an error are put back for a
    /// stream's next reader; a file's position stands where the verb began.
    pub fn read_to_end(&self) -> Call<impl Future<Output = IoResult<Vec<u8>>>> {
        Call::new(async move { self.rest().await.map_err(|error| self.explain(error)) })
    }

    async fn rest(&self) -> IoResult<Vec<u8>> {
        let mut session = Session::reading(self).await?;
        let expected = match session.way() {
            // Some files, those of /proc among them, have more bytes than they say.
            Way::Positional => self.metadata().await?.len().saturating_sub(session.position()),
            Way::Stream => 0,
        };
        let mut bytes = Vec::new();
        // One byte more than expected: the end is known by a read that finds nothing.
        let mut room = usize::try_from(expected).unwrap_or(usize::MAX).saturating_add(1).max(ROOM_BYTES_MIN);
        let outcome = loop {
            if let Err(error) = make_room(&mut bytes, room) {
                break Err(error);
            }
            let filled = bytes.len();
            let result;
            ((result, bytes), session) = session.read(bytes, filled).await;
            match result {
                Ok(0) => break Ok(()),
                // Where the length was wrong, the room doubles.
                Ok(_) => room = if bytes.len() == bytes.capacity() { bytes.len() } else { 0 },
                Err(error) => break Err(error),
            }
        };
        match outcome {
            Ok(()) => {
                session.advance(bytes.len());
                Ok(bytes)
            }
            Err(error) => {
                session.put_back(&bytes);
                Err(error)
            }
        }
    }

    /// Writes at the position, and moves it by what was written; at the end of a file opened for appending, whose
    /// position stays. Answers how many bytes were written, which may be short.
    ///
    /// It waits for its turn behind the writes, and on a file with positions the reads, that were started before.
    /// Dropped half-way, none, some or all of the bytes have been written, and the position stands behind those.
    ///
    /// # Errors
    ///
    /// `EBADF` when the file is not open for writing, `ENOSPC` when the file system is full, `EPIPE` when nobody
    /// reads a pipe's other end.
    pub fn write<B: IoBuf>(&self, buf: B) -> Call<impl Future<Output = BufResult<usize, B>>> {
        Call::new(async move {
            let session = match Session::writing(self).await {
                Ok(session) => session,
                Err(error) => return (Err(self.explain(error)), buf),
            };
            let ((result, buf), _) = session.write(buf).await;
            (result.map_err(|error| self.explain(error)), buf)
        })
    }

    /// Writes all of `bytes` at the position, in one turn: the bytes of two writers do not mix. The kernel sees a
    /// copy, so this may be dropped half-way; a part has then been written.
    ///
    /// # Errors
    ///
    /// As [`write`](File::write), saying how many bytes had been written.
    pub fn write_all(&self, bytes: &[u8]) -> Call<impl Future<Output = IoResult<()>>> {
        Call::new(async move { self.write_copied(bytes).await.map_err(|error| self.explain(error)) })
    }

    async fn write_copied(&self, bytes: &[u8]) -> IoResult<()> {
        let mut session = Session::writing(self).await?;
        let mut done = 0;
        let mut copy = Vec::new();
        while done < bytes.len() {
            let rest = &bytes[done..];
            let result;
            if rest.len() <= Bounce::BYTES_MAX {
                ((result, _), session) = session.write(Bounce::holding(rest)).await;
            } else {
                copy.clear();
                copy.extend_from_slice(&rest[..rest.len().min(COPY_BYTES_MAX)]);
                ((result, copy), session) = session.write(copy).await;
            }
            match result {
                Ok(0) => return Err(took_nothing(done, bytes.len())),
                Ok(count) => done += count,
                Err(error) => return Err(torn(error, done, bytes.len())),
            }
        }
        Ok(())
    }
}

/// Makes room for at least `room` more bytes.
fn make_room(bytes: &mut Vec<u8>, room: usize) -> IoResult<()> {
    let len = bytes.len();
    bytes.try_reserve(room).map_err(|_| {
        let refused = IoError::new(errno::ENOMEM, OpKind::Read, Stage::Submit);
        explain(refused, &format!("{len} bytes and no memory for {room} more; read it in parts"))
    })
}
