//! Read from a file at an offset, or from a stream where it stands.
//!
//! A positional read takes nothing away, so one whose reader has gone is forgotten with its buffer. A read of a stream
//! ([`Read::next`]) takes bytes off it: those it brings after its reader has gone are kept with the descriptor, as
//! for a socket's receive, together with what earlier reads had put in front of them in the same buffer.

use std::task::Waker;

use crate::error::OpKind;
use crate::plane::buf::{BufResult, IoBufMut};
use crate::plane::fd::Fd;
use crate::plane::op::{NO_OFFSET, RawOp, RawSlice};
use crate::plane::ops::recv::before_read_into;
use crate::plane::ops::{Before, Kernel, Op, TRANSFER_BYTES_MAX, target};

/// Reads into a buffer up to its capacity. Answers the count of new bytes, 0 at end of file, and the buffer.
///
/// One read carries at most 2 GiB less a page.
#[derive(Debug)]
pub struct Read<B: IoBufMut> {
    fd: Fd,
    /// None once the answer was given.
    buf: Option<B>,
    filled: usize,
    offset: u64,
}

impl<B: IoBufMut> Read<B> {
    /// A read at `offset` bytes from the beginning.
    pub fn at(fd: &Fd, buf: B, offset: u64) -> Read<B> {
        Read { fd: fd.clone(), buf: Some(buf), filled: 0, offset }
    }

    /// A read where the descriptor stands: the next bytes of a pipe, a terminal or another stream.
    pub fn next(fd: &Fd, buf: B) -> Read<B> {
        Read::at(fd, buf, NO_OFFSET)
    }

    /// The same read, behind the first `filled` bytes of the buffer, which earlier reads brought.
    ///
    /// # Panics
    ///
    /// When fewer than `filled` bytes of the buffer are initialised.
    #[must_use]
    pub fn behind(mut self, filled: usize) -> Read<B> {
        let initialised = self.buf.as_ref().map_or(0, |buf| buf.len());
        assert!(filled <= initialised, "{filled} bytes filled of {initialised} initialised ones");
        self.filled = filled;
        self
    }

    fn is_stream(&self) -> bool {
        self.offset == NO_OFFSET
    }

    fn rest(&mut self) -> RawSlice {
        let Some(buf) = &mut self.buf else {
            return RawSlice { ptr: std::ptr::dangling_mut(), len: 0, fixed: RawSlice::NOT_FIXED };
        };
        let whole = target(buf);
        let len = (buf.capacity() - self.filled).min(TRANSFER_BYTES_MAX as usize);
        RawSlice {
            // SAFETY: `filled` bytes are initialised, so the address lies within the buffer or at its end.
            ptr: unsafe { whole.ptr.add(self.filled) },
            len: u32::try_from(len).unwrap_or(TRANSFER_BYTES_MAX),
            fixed: whole.fixed,
        }
    }
}

// SAFETY: the buffer's bytes are owned and do not move with it, by `IoBufMut`'s promise.
unsafe impl<B: IoBufMut> Op for Read<B> {
    type Output = BufResult<usize, B>;

    fn fd(&self) -> Option<&Fd> {
        Some(&self.fd)
    }

    fn lower(&mut self) -> RawOp {
        RawOp::Read { fd: self.fd.raw(), buf: self.rest(), offset: self.offset }
    }

    fn before(&mut self, waker: &Waker) -> Before {
        if !self.is_stream() || !self.fd.has_leftover() {
            return Before::Submit;
        }
        let rest = self.rest();
        // SAFETY: the buffer vouches for this memory and is owned here.
        unsafe { before_read_into(&self.fd, rest, waker) }
    }

    fn finish(mut self, res: i32, _kernel: &mut dyn Kernel) -> BufResult<usize, B> {
        let mut buf = self.buf.take().expect("an op is finished once");
        match usize::try_from(res) {
            Ok(count) => {
                // SAFETY: the first `filled` bytes were initialised, and the kernel wrote `count` after them, within
                // the capacity.
                unsafe { buf.set_len(self.filled + count) };
                (Ok(count), buf)
            }
            Err(_) => (Err(self.fd.refused(res, OpKind::Read)), buf),
        }
    }

    fn abandoned(&mut self) {
        if self.is_stream() {
            self.fd.orphan_read();
        }
    }

    fn orphaned(mut self, res: i32, _kernel: &mut dyn Kernel) {
        let Some(mut buf) = self.buf.take() else { return };
        if self.is_stream() {
            let reached = self.filled + usize::try_from(res).unwrap_or(0);
            // SAFETY: as in `finish`.
            unsafe { buf.set_len(reached) };
            self.fd.orphan_ended(&buf.as_bytes()[..reached]);
        }
    }
}

impl<B: IoBufMut> Drop for Read<B> {
    /// Nobody took the answer and no completion will come: a stream's bytes from before go back.
    fn drop(&mut self) {
        if let Some(buf) = &self.buf
            && self.is_stream()
        {
            self.fd.keep(&buf.as_bytes()[..self.filled]);
        }
    }
}
