//! Transfers that lend their buffer to the kernel.
//!
//! The buffer goes into the op and comes back with the answer, on success and on failure. A transfer of several ops
//! keeps its place in the buffer: an exact receive goes on after what came, a send after what went.
//!
//! A verb and its form with a deadline are one future; they differ in how they put the answer. (One inside the other
//! would make every parked fiber larger.)

use std::convert::identity;
use std::future::Future;

use wo_runtime::error::{IoError, IoResult, OpKind, Stage, errno};
use wo_runtime::fiber::{self, Call};
use wo_runtime::plane::buf::{BufResult, IoBuf, IoBufMut, Slice};
use wo_runtime::plane::ops::{Recv, RecvMore, Send};
use wo_runtime::plane::{Deadline, Instant, Written};

use crate::explain;
use crate::family::Family;
use crate::stream::Stream;

impl<F: Family> Stream<F> {
    /// Receives into `buf`, from its first byte up to its capacity; what it held before is overwritten. Answers the
    /// count, 0 at end of file, and the buffer, whose length is the count where it has a length of its own.
    ///
    /// Nothing is copied. For a part of a buffer, lend a [`Slice`].
    ///
    /// # Errors
    ///
    /// ECONNRESET when the peer broke the connection, and EINVAL for a buffer without room, for which 0 would look
    /// like the end of file. ECANCELED when the fiber was cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::net::UnixStream;
    ///
    /// #[wo::main]
    /// fn main() -> wo::IoResult<()> {
    ///     let (here, there) = UnixStream::pair()?;
    ///     here.send_all("hello").0?;
    ///     let buf = Vec::with_capacity(4096);
    ///     let (received, buf) = there.recv(buf);
    ///     assert_eq!(received?, 5);
    ///     assert_eq!(buf, b"hello");
    ///     Ok(())
    /// }
    /// ```
    pub fn recv<B: IoBufMut>(&self, buf: B) -> Call<impl Future<Output = BufResult<usize, B>>> {
        Call::new(self.recv_until(buf, None, Option::unwrap_or_default))
    }

    /// As [`recv`](Stream::recv), with a deadline: none when nothing has come by then. A byte that came in the very
    /// moment is delivered.
    pub fn recv_by<B: IoBufMut>(
        &self,
        buf: B,
        deadline: impl Into<Deadline>,
    ) -> Call<impl Future<Output = BufResult<Option<usize>, B>>> {
        let at = deadline.into().instant(fiber::now());
        Call::new(self.recv_until(buf, at, identity))
    }

    async fn recv_until<B: IoBufMut, T>(
        &self,
        buf: B,
        at: Option<Instant>,
        answer: impl FnOnce(Option<usize>) -> T,
    ) -> BufResult<T, B> {
        if buf.capacity() == 0 {
            return (Err(self.explain(no_room(OpKind::Recv))), buf);
        }
        let ((result, buf), late) = fiber::verb(Recv::new(&self.fd, buf)).by(at).await;
        (by_then(result, late).map(answer).map_err(|error| self.explain(error)), buf)
    }

    /// Fills `buf` to its capacity. All or nothing: when it cannot, what it took off the stream stays readable.
    ///
    /// A vector's capacity may be more than was asked for; lend a [`Slice`] or a boxed slice for an exact number.
    ///
    /// # Errors
    ///
    /// ENODATA (of kind `UnexpectedEof`) when the stream ends before; else as [`recv`](Stream::recv).
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::net::UnixStream;
    /// use wo::plane::buf::Slice;
    ///
    /// #[wo::main]
    /// fn main() -> wo::IoResult<()> {
    ///     let (here, there) = UnixStream::pair()?;
    ///     here.send_all("headbody").0?;
    ///     let (received, head) = there.recv_exact(Slice::new(Vec::with_capacity(100), 0..4));
    ///     received?;
    ///     assert_eq!(head.into_inner(), b"head");
    ///     Ok(())
    /// }
    /// ```
    pub fn recv_exact<B: IoBufMut>(&self, buf: B) -> Call<impl Future<Output = BufResult<(), B>>> {
        Call::new(self.recv_exact_until(buf, None, drop))
    }

    /// As [`recv_exact`](Stream::recv_exact), with a deadline: none when not everything has come by then, and what
    /// has come stays readable.
    pub fn recv_exact_by<B: IoBufMut>(
        &self,
        buf: B,
        deadline: impl Into<Deadline>,
    ) -> Call<impl Future<Output = BufResult<Option<()>, B>>> {
        let at = deadline.into().instant(fiber::now());
        Call::new(self.recv_exact_until(buf, at, identity))
    }

    async fn recv_exact_until<B: IoBufMut, T>(
        &self,
        mut buf: B,
        at: Option<Instant>,
        answer: impl FnOnce(Option<()>) -> T,
    ) -> BufResult<T, B> {
        let wanted = buf.capacity();
        let mut filled = 0;
        while filled < wanted {
            let ((result, back), late) = fiber::verb(RecvMore::new(&self.fd, buf, filled)).by(at).await;
            buf = back;
            let short = match by_then(result, late) {
                Ok(Some(0)) => Err(explain::ended_early(&self.peer, filled, wanted)),
                Ok(Some(count)) => {
                    filled += count;
                    continue;
                }
                Ok(None) => Ok(answer(None)),
                Err(error) => Err(self.explain(error)),
            };
            self.fd.keep(&buf.as_bytes()[..filled]);
            return (short, buf);
        }
        (Ok(answer(Some(()))), buf)
    }

    /// Sends bytes of `buf`, as many as the kernel takes in one go. Answers the count and the buffer.
    ///
    /// # Errors
    ///
    /// EPIPE or ECONNRESET when the peer has gone; no signal is raised. ECANCELED when the fiber was cancelled.
    pub fn send<B: IoBuf>(&self, buf: B) -> Call<impl Future<Output = BufResult<usize, B>>> {
        Call::new(self.send_until(buf, None, Option::unwrap_or_default))
    }

    /// As [`send`](Stream::send), with a deadline: none when nothing could be sent by then.
    pub fn send_by<B: IoBuf>(
        &self,
        buf: B,
        deadline: impl Into<Deadline>,
    ) -> Call<impl Future<Output = BufResult<Option<usize>, B>>> {
        let at = deadline.into().instant(fiber::now());
        Call::new(self.send_until(buf, at, identity))
    }

    async fn send_until<B: IoBuf, T>(
        &self,
        buf: B,
        at: Option<Instant>,
        answer: impl FnOnce(Option<usize>) -> T,
    ) -> BufResult<T, B> {
        let ((result, buf), late) = fiber::verb(Send::new(&self.fd, buf)).by(at).await;
        (by_then(result, late).map(answer).map_err(|error| self.explain(error)), buf)
    }

    /// Sends all bytes of `buf`. Answers the buffer.
    ///
    /// # Errors
    ///
    /// As [`send`](Stream::send); the error says after how many bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::net::UnixStream;
    ///
    /// #[wo::main]
    /// fn main() -> wo::IoResult<()> {
    ///     let (here, there) = UnixStream::pair()?;
    ///     let (sent, buf) = here.send_all(vec![7; 1000]);
    ///     sent?;
    ///     assert_eq!(buf.len(), 1000, "the buffer comes back");
    ///     there.read_exact(&mut [0; 1000])?;
    ///     Ok(())
    /// }
    /// ```
    pub fn send_all<B: IoBuf>(&self, buf: B) -> Call<impl Future<Output = BufResult<(), B>>> {
        Call::new(self.send_all_until(buf, None, drop))
    }

    /// As [`send_all`](Stream::send_all), with a deadline, and says how far it got by then.
    pub fn send_all_by<B: IoBuf>(
        &self,
        buf: B,
        deadline: impl Into<Deadline>,
    ) -> Call<impl Future<Output = BufResult<Written, B>>> {
        let at = deadline.into().instant(fiber::now());
        Call::new(self.send_all_until(buf, at, identity))
    }

    async fn send_all_until<B: IoBuf, T>(
        &self,
        mut buf: B,
        at: Option<Instant>,
        answer: impl FnOnce(Written) -> T,
    ) -> BufResult<T, B> {
        let len = buf.len();
        let mut sent = 0;
        while sent < len {
            // The first op takes the buffer as it is; only a short count makes it a part.
            let (result, late);
            if sent == 0 {
                ((result, buf), late) = fiber::verb(Send::all(&self.fd, buf)).by(at).await;
            } else {
                let (answer, was_late) = fiber::verb(Send::all(&self.fd, Slice::new(buf, sent..len))).by(at).await;
                (result, buf, late) = (answer.0, answer.1.into_inner(), was_late);
            }
            match by_then(result, late) {
                Ok(Some(count)) => sent += count,
                Ok(None) => break,
                Err(error) => return (Err(explain::torn(error, &self.peer, sent, len)), buf),
            }
        }
        (Ok(answer(Written::of(sent, len))), buf)
    }
}

/// A result whose deadline may have passed: an op that was cancelled for that has nothing to answer.
pub(crate) fn by_then<T>(result: IoResult<T>, late: bool) -> IoResult<Option<T>> {
    match result {
        Err(error) if late && error.is_cancelled() => Ok(None),
        other => other.map(Some),
    }
}

/// A buffer nothing can be received into.
pub(crate) fn no_room(op: OpKind) -> IoError {
    IoError::new(errno::EINVAL, op, Stage::Submit)
        .with_context("the buffer has no room; lend one with capacity, like Vec::with_capacity(4096)")
}
