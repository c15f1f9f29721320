//! Reading and writing where a handle stands: at a file's position, or a stream's next bytes.
//!
//! Each verb is one session: it waits for its turn, reads or writes until it is satisfied, and leaves the position
//! where it ended. A stream's bytes that a verb took and could not answer are put back for the next reader.
//!
//! A verb and its form with a deadline are one future; they differ in how they put the answer.

use std::convert::identity;

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::fiber::{Call, now};
use crate::os::fs::explain::{ended_early, explain, took_nothing, torn};
use crate::os::fs::file::File;
use crate::os::fs::session::{Session, Way};
use crate::plane::buf::{Bounce, BufResult, IoBuf, IoBufMut};
use crate::plane::{Deadline, Instant, Written};

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
        Call::new(self.read_until(buf, None, Option::unwrap_or_default))
    }

    /// As [`read`](File::read), with a deadline: none when nothing has come by then, be it that the turn has not. A
    /// byte that came in the very moment is delivered, none is lost. Without a deadline, which zero is too, it is the
    /// plain verb.
    ///
    /// It is for pipes, terminals and their like. A disk answers in its own time, and a read that it is about to
    /// answer is waited for.
    ///
    /// # Errors
    ///
    /// As [`read`](File::read).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # #[wo::fiber]
    /// # fn example() -> wo::IoResult<()> {
    /// let (reader, writer) = wo::io::pipe()?;
    /// let (read, buf) = reader.read_by(Vec::with_capacity(16), Duration::from_millis(5));
    /// assert_eq!(read?, None, "nobody has written anything");
    /// writer.write_all(b"at last")?;
    /// let (read, buf) = reader.read_by(buf, Duration::from_millis(5));
    /// assert_eq!((read?, &buf[..]), (Some(7), &b"at last"[..]));
    /// # Ok(())
    /// # }
    /// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
    /// ```
    pub fn read_by<B: IoBufMut>(
        &self,
        buf: B,
        deadline: impl Into<Deadline>,
    ) -> Call<impl Future<Output = BufResult<Option<usize>, B>>> {
        let at = deadline.into().instant(now());
        Call::new(self.read_until(buf, at, identity))
    }

    async fn read_until<B: IoBufMut, T>(
        &self,
        buf: B,
        at: Option<Instant>,
        answer: impl FnOnce(Option<usize>) -> T,
    ) -> BufResult<T, B> {
        let session = match Session::reading(self, at).await {
            Ok(Some(session)) => session,
            Ok(None) => return (Ok(answer(None)), buf),
            Err(error) => return (Err(self.explain(error)), buf),
        };
        let ((result, buf), mut session) = session.read(buf, 0, at).await;
        session.advance(*result.as_ref().ok().and_then(Option::as_ref).unwrap_or(&0));
        (result.map(answer).map_err(|error| self.explain(error)), buf)
    }

    /// As [`read`](File::read), into borrowed memory. The kernel never sees that: it is copied into at the end, so
    /// this may be dropped half-way too. One call reads at most 64 KiB.
    ///
    /// # Errors
    ///
    /// As [`read`](File::read).
    pub fn read_into(&self, into: &mut [u8]) -> Call<impl Future<Output = IoResult<usize>>> {
        Call::new(self.read_into_until(into, None, Option::unwrap_or_default))
    }

    /// As [`read_into`](File::read_into), with a deadline, as [`read_by`](File::read_by) has one.
    ///
    /// # Errors
    ///
    /// As [`read`](File::read).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # #[wo::fiber]
    /// # fn example() -> wo::IoResult<()> {
    /// let (reader, _writer) = wo::io::pipe()?;
    /// let mut key = [0];
    /// assert_eq!(reader.read_into_by(&mut key, Duration::from_millis(5))?, None, "no key was pressed");
    /// # Ok(())
    /// # }
    /// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
    /// ```
    pub fn read_into_by(
        &self,
        into: &mut [u8],
        deadline: impl Into<Deadline>,
    ) -> Call<impl Future<Output = IoResult<Option<usize>>>> {
        let at = deadline.into().instant(now());
        Call::new(self.read_into_until(into, at, identity))
    }

    async fn read_into_until<T>(
        &self,
        into: &mut [u8],
        at: Option<Instant>,
        answer: impl FnOnce(Option<usize>) -> T,
    ) -> IoResult<T> {
        let room = into.len().min(Bounce::BYTES_MAX);
        let (result, bounce) = self.read_until(Bounce::with_room(room), at, identity).await;
        let count = result?;
        if let Some(count) = count {
            into[..count].copy_from_slice(bounce.as_bytes());
        }
        Ok(answer(count))
    }

    /// Reads at the position until the buffer is full to its capacity.
    ///
    /// # Errors
    ///
    /// `ENODATA` when the file or stream ends before. Whatever the error, the buffer comes back with what was read; a
    /// file's position stands behind that, and a stream gives the same bytes again to its next reader.
    pub fn read_exact<B: IoBufMut>(&self, buf: B) -> Call<impl Future<Output = BufResult<(), B>>> {
        Call::new(self.read_exact_until(buf, None, drop))
    }

    /// As [`read_exact`](File::read_exact), with a deadline: none when not everything has come by then. What has come
    /// is read again by whoever reads next: a file's position has not moved, and a stream's bytes are kept.
    ///
    /// # Errors
    ///
    /// As [`read_exact`](File::read_exact).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # #[wo::fiber]
    /// # fn example() -> wo::IoResult<()> {
    /// let (reader, writer) = wo::io::pipe()?;
    /// writer.write_all(b"half")?;
    /// let (read, _buf) = reader.read_exact_by(vec![0; 8], Duration::from_millis(5));
    /// assert_eq!(read?, None);
    /// writer.write_all(b"full")?;
    /// let (read, buf) = reader.read_exact_by(vec![0; 8], Duration::from_millis(5));
    /// assert_eq!((read?, &buf[..]), (Some(()), &b"halffull"[..]));
    /// # Ok(())
    /// # }
    /// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
    /// ```
    pub fn read_exact_by<B: IoBufMut>(
        &self,
        buf: B,
        deadline: impl Into<Deadline>,
    ) -> Call<impl Future<Output = BufResult<Option<()>, B>>> {
        let at = deadline.into().instant(now());
        Call::new(self.read_exact_until(buf, at, identity))
    }

    async fn read_exact_until<B: IoBufMut, T>(
        &self,
        buf: B,
        at: Option<Instant>,
        answer: impl FnOnce(Option<()>) -> T,
    ) -> BufResult<T, B> {
        let (result, buf) = self.fill(buf, at).await;
        (result.map(answer).map_err(|error| self.explain(error)), buf)
    }

    async fn fill<B: IoBufMut>(&self, mut buf: B, at: Option<Instant>) -> BufResult<Option<()>, B> {
        let wanted = buf.capacity();
        let mut filled = 0;
        let mut session = match Session::reading(self, at).await {
            Ok(Some(session)) => session,
            Ok(None) => return (Ok(None), buf),
            Err(error) => return (Err(error), buf),
        };
        let outcome = loop {
            if filled == wanted {
                break Ok(Some(()));
            }
            let result;
            ((result, buf), session) = session.read(buf, filled, at).await;
            match result {
                Ok(Some(0)) => break Err(ended_early(filled, wanted)),
                Ok(Some(count)) => filled += count,
                Ok(None) => break Ok(None),
                Err(error) => break Err(torn(error, filled, wanted)),
            }
        };
        if !matches!(outcome, Ok(None)) {
            session.advance(filled);
        }
        if !matches!(outcome, Ok(Some(()))) {
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
        let mut session = Session::reading(self, None).await?.expect("without a deadline its turn comes");
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
            ((result, bytes), session) = session.read(bytes, filled, None).await;
            match result.map(Option::unwrap_or_default) {
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
        Call::new(self.write_until(buf, None, Option::unwrap_or_default))
    }

    /// As [`write`](File::write), with a deadline: none when nothing could be written by then, be it that the turn has
    /// not come. Without a deadline, which zero is too, it is the plain verb.
    ///
    /// # Errors
    ///
    /// As [`write`](File::write).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # #[wo::fiber]
    /// # fn example() -> wo::IoResult<()> {
    /// let (_reader, writer) = wo::io::pipe()?;
    /// let mut written = 0;
    /// while let (Ok(Some(count)), _) = writer.write_by(vec![0; 4096], Duration::from_millis(5)) {
    ///     written += count;
    /// }
    /// assert!(written > 0, "until the pipe is full");
    /// # Ok(())
    /// # }
    /// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
    /// ```
    pub fn write_by<B: IoBuf>(
        &self,
        buf: B,
        deadline: impl Into<Deadline>,
    ) -> Call<impl Future<Output = BufResult<Option<usize>, B>>> {
        let at = deadline.into().instant(now());
        Call::new(self.write_until(buf, at, identity))
    }

    async fn write_until<B: IoBuf, T>(
        &self,
        buf: B,
        at: Option<Instant>,
        answer: impl FnOnce(Option<usize>) -> T,
    ) -> BufResult<T, B> {
        let session = match Session::writing(self, at).await {
            Ok(Some(session)) => session,
            Ok(None) => return (Ok(answer(None)), buf),
            Err(error) => return (Err(self.explain(error)), buf),
        };
        let ((result, buf), _) = session.write(buf, at).await;
        (result.map(answer).map_err(|error| self.explain(error)), buf)
    }

    /// Writes all of `bytes` at the position, in one turn: the bytes of two writers do not mix. The kernel sees a
    /// copy, so this may be dropped half-way; a part has then been written.
    ///
    /// # Errors
    ///
    /// As [`write`](File::write), saying how many bytes had been written.
    pub fn write_all(&self, bytes: &[u8]) -> Call<impl Future<Output = IoResult<()>>> {
        Call::new(self.write_all_until(bytes, None, drop))
    }

    /// As [`write_all`](File::write_all), with a deadline, and says how far it got by then.
    ///
    /// # Errors
    ///
    /// As [`write_all`](File::write_all).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wo::Written;
    ///
    /// # #[wo::fiber]
    /// # fn example() -> wo::IoResult<()> {
    /// let (_reader, writer) = wo::io::pipe()?;
    /// match writer.write_all_by(&vec![0; 1 << 20], Duration::from_millis(5))? {
    ///     Written::All => {}
    ///     Written::Nothing => println!("try again later"),
    ///     Written::Torn(count) => println!("the reader has {count} bytes; go on from there, or close"),
    /// }
    /// # Ok(())
    /// # }
    /// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
    /// ```
    pub fn write_all_by(
        &self,
        bytes: &[u8],
        deadline: impl Into<Deadline>,
    ) -> Call<impl Future<Output = IoResult<Written>>> {
        let at = deadline.into().instant(now());
        Call::new(self.write_all_until(bytes, at, identity))
    }

    async fn write_all_until<T>(
        &self,
        bytes: &[u8],
        at: Option<Instant>,
        answer: impl FnOnce(Written) -> T,
    ) -> IoResult<T> {
        self.write_copied(bytes, at).await.map(answer).map_err(|error| self.explain(error))
    }

    async fn write_copied(&self, bytes: &[u8], at: Option<Instant>) -> IoResult<Written> {
        let Some(mut session) = Session::writing(self, at).await? else {
            return Ok(Written::of(0, bytes.len()));
        };
        let mut done = 0;
        let mut copy = Vec::new();
        while done < bytes.len() {
            let rest = &bytes[done..];
            let result;
            if rest.len() <= Bounce::BYTES_MAX {
                ((result, _), session) = session.write(Bounce::holding(rest), at).await;
            } else {
                copy.clear();
                copy.extend_from_slice(&rest[..rest.len().min(COPY_BYTES_MAX)]);
                ((result, copy), session) = session.write(copy, at).await;
            }
            match result {
                Ok(Some(0)) => return Err(took_nothing(done, bytes.len())),
                Ok(Some(count)) => done += count,
                Ok(None) => break,
                Err(error) => return Err(torn(error, done, bytes.len())),
            }
        }
        Ok(Written::of(done, bytes.len()))
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
