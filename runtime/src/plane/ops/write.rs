//! Write to a file at an offset, or to a stream where it stands.
//!
//! A write whose waiter has gone may still land, whole or in part; nobody is told how much. Whoever must know where
//! such a write ended gives it a turn of a cursor.

use crate::error::OpKind;
use crate::plane::buf::{BufResult, IoBuf};
use crate::plane::fd::Fd;
use crate::plane::op::{NO_OFFSET, RawOp};
use crate::plane::ops::{Kernel, Op, source};

/// Writes the bytes of a buffer. Answers how many were written, and the buffer.
///
/// One write carries at most 2 GiB less a page.
#[derive(Debug)]
pub struct Write<B> {
    fd: Fd,
    buf: B,
    offset: u64,
    durable: bool,
}

impl<B: IoBuf> Write<B> {
    /// A write at `offset` bytes from the beginning; at the end of a file that was opened for appending.
    pub fn at(fd: &Fd, buf: B, offset: u64) -> Write<B> {
        Write { fd: fd.clone(), buf, offset, durable: false }
    }

    /// The same write, which ends only once what it wrote is on the disk. At an offset only.
    pub fn durable(self) -> Write<B> {
        Write { durable: true, ..self }
    }

    /// A write where the descriptor stands: a pipe's other end, a terminal, the end of a file opened for appending.
    pub fn next(fd: &Fd, buf: B) -> Write<B> {
        Write::at(fd, buf, NO_OFFSET)
    }
}

// SAFETY: the buffer's bytes are owned and do not move with it, by `IoBuf`'s promise.
unsafe impl<B: IoBuf> Op for Write<B> {
    type Output = BufResult<usize, B>;

    fn fd(&self) -> Option<&Fd> {
        Some(&self.fd)
    }

    fn lower(&mut self) -> RawOp {
        let (fd, buf, offset) = (self.fd.raw(), source(&self.buf), self.offset);
        if self.durable { RawOp::WriteDurable { fd, buf, offset } } else { RawOp::Write { fd, buf, offset } }
    }

    fn finish(self, res: i32, _kernel: &mut dyn Kernel) -> BufResult<usize, B> {
        match usize::try_from(res) {
            Ok(count) => (Ok(count), self.buf),
            Err(_) => (Err(self.fd.refused(res, OpKind::Write)), self.buf),
        }
    }
}
