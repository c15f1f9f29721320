//! Transfers of borrowed memory, through buffers of the runtime's.
//!
//! A read moves at most one such buffer at a time, so does a write; the verbs that move everything go on from there.
//! What an exact read has taken off the stream goes back when it does not get the rest: its guard sees to that on
//! every way out, being dropped included.

use std::convert::identity;
use std::future::Future;

use wo_runtime::error::IoResult;
use wo_runtime::fiber::{self, Call};
use wo_runtime::plane::buf::{Bounce, IoBuf};
use wo_runtime::plane::ops::{Recv, Send};
use wo_runtime::plane::{Deadline, Fd, Instant, Written};

use crate::explain;
use crate::family::Family;
use crate::stream::Stream;
use crate::stream::owned::by_then;

impl<F: Family> Stream<F> {
    /// Reads what has come into `buf`, at most 64 KiB at a time. Answers the count, 0 at end of file and for an empty
    /// buffer.
    ///
    /// # Errors
    ///
    /// ECONNRESET when the peer broke the connection, ECANCELED when the fiber was cancelled.
    pub fn read(&self, buf: &mut [u8]) -> Call<impl Future<Output = IoResult<usize>>> {
        Call::new(self.read_until(buf, None, Option::unwrap_or_default))
    }

    /// As [`read`](Stream::read), with a deadline: none when nothing has come by then. A byte that came in the very
    /// moment is delivered, none is lost.
    pub fn read_by(
        &self,
        buf: &mut [u8],
        deadline: impl Into<Deadline>,
    ) -> Call<impl Future<Output = IoResult<Option<usize>>>> {
        let at = deadline.into().instant(fiber::now());
        Call::new(self.read_until(buf, at, identity))
    }

    async fn read_until<T>(
        &self,
        buf: &mut [u8],
        at: Option<Instant>,
        answer: impl FnOnce(Option<usize>) -> T,
    ) -> IoResult<T> {
        if buf.is_empty() {
            // Not for the kernel: it might wait for a byte that has nowhere to go.
            return Ok(answer(Some(0)));
        }
        let room = Bounce::with_room(buf.len().min(Bounce::BYTES_MAX));
        let ((result, bounce), late) = fiber::verb(Recv::new(&self.fd, room)).by(at).await;
        let count = by_then(result, late).map_err(|error| self.explain(error))?;
        if let Some(count) = count {
            buf[..count].copy_from_slice(&bounce.as_bytes()[..count]);
        }
        Ok(answer(count))
    }

    /// Fills `buf`. All or nothing: when it cannot, what it took off the stream stays readable, whatever `buf` holds.
    ///
    /// # Errors
    ///
    /// ENODATA (of kind `UnexpectedEof`) when the stream ends before; else as [`read`](Stream::read).
    pub fn read_exact(&self, buf: &mut [u8]) -> Call<impl Future<Output = IoResult<()>>> {
        Call::new(self.read_exact_until(buf, None, drop))
    }

    /// As [`read_exact`](Stream::read_exact), with a deadline: none when not everything has come by then, and what has
    /// come stays readable.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wo::net::UnixStream;
    ///
    /// #[wo::main]
    /// fn main() -> wo::IoResult<()> {
    ///     let (here, there) = UnixStream::pair()?;
    ///     here.write_all(b"ten bytes.")?;
    ///     let mut block = [0; 64];
    ///     assert_eq!(there.read_exact_by(&mut block, Duration::from_millis(5))?, None);
    ///     assert_eq!(there.read(&mut block)?, 10, "they are still there");
    ///     Ok(())
    /// }
    /// ```
    pub fn read_exact_by(
        &self,
        buf: &mut [u8],
        deadline: impl Into<Deadline>,
    ) -> Call<impl Future<Output = IoResult<Option<()>>>> {
        let at = deadline.into().instant(fiber::now());
        Call::new(self.read_exact_until(buf, at, identity))
    }

    async fn read_exact_until<T>(
        &self,
        buf: &mut [u8],
        at: Option<Instant>,
        answer: impl FnOnce(Option<()>) -> T,
    ) -> IoResult<T> {
        let mut taken = Taken { fd: &self.fd, buf, count: 0 };
        while taken.count < taken.buf.len() {
            let (got, wanted) = (taken.count, taken.buf.len());
            match self.read_until(&mut taken.buf[got..], at, identity).await? {
                Some(0) => return Err(explain::ended_early(&self.peer, got, wanted)),
                Some(count) => taken.count += count,
                None => return Ok(answer(None)),
            }
        }
        Ok(answer(Some(())))
    }

    /// Writes bytes of `buf`, as many as the kernel takes in one go, at most 64 KiB. Answers the count.
    ///
    /// # Errors
    ///
    /// EPIPE or ECONNRESET when the peer has gone; no signal is raised. ECANCELED when the fiber was cancelled.
    pub fn write(&self, buf: &[u8]) -> Call<impl Future<Output = IoResult<usize>>> {
        Call::new(self.write_until(buf, None, Option::unwrap_or_default))
    }

    /// As [`write`](Stream::write), with a deadline: none when nothing could be written by then.
    pub fn write_by(
        &self,
        buf: &[u8],
        deadline: impl Into<Deadline>,
    ) -> Call<impl Future<Output = IoResult<Option<usize>>>> {
        let at = deadline.into().instant(fiber::now());
        Call::new(self.write_until(buf, at, identity))
    }

    async fn write_until<T>(
        &self,
        buf: &[u8],
        at: Option<Instant>,
        answer: impl FnOnce(Option<usize>) -> T,
    ) -> IoResult<T> {
        if buf.is_empty() {
            return Ok(answer(Some(0)));
        }
        let copy = Bounce::holding(&buf[..buf.len().min(Bounce::BYTES_MAX)]);
        let ((result, _), late) = fiber::verb(Send::new(&self.fd, copy)).by(at).await;
        by_then(result, late).map(answer).map_err(|error| self.explain(error))
    }

    /// Writes all of `buf`.
    ///
    /// # Errors
    ///
    /// As [`write`](Stream::write); the error says after how many bytes.
    pub fn write_all(&self, buf: &[u8]) -> Call<impl Future<Output = IoResult<()>>> {
        Call::new(self.write_all_until(buf, None, drop))
    }

    /// As [`write_all`](Stream::write_all), with a deadline, and says how far it got by then.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wo::net::{UnixStream, Written};
    ///
    /// #[wo::main]
    /// fn main() -> wo::IoResult<()> {
    ///     let (here, there) = UnixStream::pair()?;
    ///     let much = vec![0; 16 << 20];
    ///     match here.write_all_by(&much, Duration::from_millis(5))? {
    ///         Written::All => {}
    ///         Written::Nothing => println!("try again later"),
    ///         Written::Torn(sent) => println!("the peer has {sent} bytes; go on from there, or close"),
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn write_all_by(
        &self,
        buf: &[u8],
        deadline: impl Into<Deadline>,
    ) -> Call<impl Future<Output = IoResult<Written>>> {
        let at = deadline.into().instant(fiber::now());
        Call::new(self.write_all_until(buf, at, identity))
    }

    async fn write_all_until<T>(
        &self,
        buf: &[u8],
        at: Option<Instant>,
        answer: impl FnOnce(Written) -> T,
    ) -> IoResult<T> {
        let mut sent = 0;
        while sent < buf.len() {
            let rest = &buf[sent..];
            let copy = Bounce::holding(&rest[..rest.len().min(Bounce::BYTES_MAX)]);
            let ((result, _), late) = fiber::verb(Send::all(&self.fd, copy)).by(at).await;
            match by_then(result, late) {
                Ok(Some(count)) => sent += count,
                Ok(None) => break,
                Err(error) => return Err(explain::torn(error, &self.peer, sent, buf.len())),
            }
        }
        Ok(answer(Written::of(sent, buf.len())))
    }
}

/// What an exact read has taken off the stream so far.
struct Taken<'a> {
    fd: &'a Fd,
    buf: &'a mut [u8],
    count: usize,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if self.count < self.buf.len() {
            self.fd.keep(&self.buf[..self.count]);
        }
    }
}
