//! Read into several buffers, or write from several, in one op.
//!
//! The kernel fills, or empties, the buffers in order. One op carries at most 1024 buffers and 2 GiB less a page in
//! all; what is beyond is left for the next one, as a short count. An orphaned read loses nothing, as in `read.rs`.

use std::ptr::NonNull;
use std::task::Waker;

use crate::error::OpKind;
use crate::plane::backend::operand::IoVecs;
use crate::plane::buf::{BufResult, IoBuf, IoBufMut};
use crate::plane::fd::Fd;
use crate::plane::op::{NO_OFFSET, RawOp, RawSlice};
use crate::plane::ops::recv::before_read_into;
use crate::plane::ops::{Before, Kernel, Op, TRANSFER_BYTES_MAX, operand, source, target};

/// The most buffers one op carries: Linux's own limit.
const BUFFERS_MAX: usize = 1024;

/// Reads into several buffers, each up to its capacity, in order. Answers the count of bytes in all, 0 at end of
/// file, and the buffers; every one of them holds only what this read brought it.
#[derive(Debug)]
pub struct ReadVectored<B> {
    fd: Fd,
    bufs: Vec<B>,
    offset: u64,
    vecs: Option<Box<IoVecs>>,
}

impl<B: IoBufMut> ReadVectored<B> {
    /// A read at `offset` bytes from the beginning.
    pub fn at(fd: &Fd, bufs: Vec<B>, offset: u64) -> ReadVectored<B> {
        ReadVectored { fd: fd.clone(), bufs, offset, vecs: None }
    }

    /// A read where the descriptor stands.
    pub fn next(fd: &Fd, bufs: Vec<B>) -> ReadVectored<B> {
        ReadVectored::at(fd, bufs, NO_OFFSET)
    }

    fn is_stream(&self) -> bool {
        self.offset == NO_OFFSET
    }

    /// Declares what the kernel wrote, buffer after buffer.
    fn declare(&mut self, count: usize) {
        let mut left = count;
        for buf in &mut self.bufs {
            let here = left.min(buf.capacity());
            // SAFETY: the kernel filled the buffers in order, each to its capacity before the next, `count` bytes in
            // all.
            unsafe { buf.set_len(here) };
            left -= here;
        }
    }
}

// SAFETY: the buffers' bytes are owned and do not move with them, by `IoBufMut`'s promise; the list of them lies in a
// box of the value's own and is not touched after `lower`.
unsafe impl<B: IoBufMut> Op for ReadVectored<B> {
    type Output = BufResult<usize, Vec<B>>;

    fn fd(&self) -> Option<&Fd> {
        Some(&self.fd)
    }

    fn lower(&mut self) -> RawOp {
        let vecs = self.vecs.insert(list(self.bufs.iter_mut().map(target)));
        RawOp::ReadVectored { fd: self.fd.raw(), bufs: operand(vecs), offset: self.offset }
    }

    fn before(&mut self, waker: &Waker) -> Before {
        if !self.is_stream() || !self.fd.has_leftover() {
            return Before::Submit;
        }
        // The buffers in front of the first with room have none, so what it takes is the read's first bytes.
        let room = self.bufs.iter_mut().map(target).find(|slice| slice.len > 0);
        let none = RawSlice { ptr: NonNull::dangling().as_ptr(), len: 0, fixed: RawSlice::NOT_FIXED };
        // SAFETY: the buffer vouches for this memory and is owned here; no memory is always valid.
        unsafe { before_read_into(&self.fd, room.unwrap_or(none), waker) }
    }

    fn finish(mut self, res: i32, _kernel: &mut dyn Kernel) -> BufResult<usize, Vec<B>> {
        match usize::try_from(res) {
            Ok(count) => {
                self.declare(count);
                (Ok(count), self.bufs)
            }
            Err(_) => (Err(self.fd.refused(res, OpKind::ReadVectored)), self.bufs),
        }
    }

    fn abandoned(&mut self) {
        if self.is_stream() {
            self.fd.orphan_read();
        }
    }

    fn orphaned(mut self, res: i32, _kernel: &mut dyn Kernel) {
        if !self.is_stream() {
            return;
        }
        let count = usize::try_from(res).unwrap_or(0);
        self.declare(count);
        let mut bytes = Vec::with_capacity(count);
        for buf in &self.bufs {
            let here = buf.len().min(count - bytes.len());
            bytes.extend_from_slice(&buf.as_bytes()[..here]);
        }
        self.fd.orphan_ended(&bytes);
    }
}

/// Writes the bytes of several buffers, in order. Answers how many were written in all, and the buffers.
#[derive(Debug)]
pub struct WriteVectored<B> {
    fd: Fd,
    bufs: Vec<B>,
    offset: u64,
    vecs: Option<Box<IoVecs>>,
}

impl<B: IoBuf> WriteVectored<B> {
    /// A write at `offset` bytes from the beginning.
    pub fn at(fd: &Fd, bufs: Vec<B>, offset: u64) -> WriteVectored<B> {
        WriteVectored { fd: fd.clone(), bufs, offset, vecs: None }
    }

    /// A write where the descriptor stands.
    pub fn next(fd: &Fd, bufs: Vec<B>) -> WriteVectored<B> {
        WriteVectored::at(fd, bufs, NO_OFFSET)
    }
}

// SAFETY: as for `ReadVectored`.
unsafe impl<B: IoBuf> Op for WriteVectored<B> {
    type Output = BufResult<usize, Vec<B>>;

    fn fd(&self) -> Option<&Fd> {
        Some(&self.fd)
    }

    fn lower(&mut self) -> RawOp {
        let vecs = self.vecs.insert(list(self.bufs.iter().map(source)));
        RawOp::WriteVectored { fd: self.fd.raw(), bufs: operand(vecs), offset: self.offset }
    }

    fn finish(self, res: i32, _kernel: &mut dyn Kernel) -> BufResult<usize, Vec<B>> {
        match usize::try_from(res) {
            Ok(count) => (Ok(count), self.bufs),
            Err(_) => (Err(self.fd.refused(res, OpKind::WriteVectored)), self.bufs),
        }
    }
}

/// The buffers as the kernel takes them. Empty ones are left out, so that they do not count against the limit; the
/// list ends where the bytes in all would pass one transfer's limit.
fn list(slices: impl Iterator<Item = RawSlice>) -> Box<IoVecs> {
    let mut room = TRANSFER_BYTES_MAX;
    let cut = slices.filter(|slice| slice.len > 0).map_while(|mut slice| {
        slice.len = slice.len.min(room);
        room -= slice.len;
        (slice.len > 0).then_some(slice)
    });
    Box::new(IoVecs::new(cut.take(BUFFERS_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(len: u32) -> RawSlice {
        RawSlice { ptr: NonNull::dangling().as_ptr(), len, fixed: RawSlice::NOT_FIXED }
    }

    fn lengths(slices: impl IntoIterator<Item = u32>) -> Vec<u32> {
        list(slices.into_iter().map(slice)).slices().map(|slice| slice.len).collect()
    }

    #[test]
    fn what_one_op_cannot_carry_is_cut_at_the_end() {
        assert_eq!(lengths([3, 0, 5]), [3, 5]);
        assert_eq!(lengths(std::iter::repeat_n(1, 2000)).len(), BUFFERS_MAX);
        // A part that was cut is the last one: what followed it would land in the wrong place.
        assert_eq!(lengths([TRANSFER_BYTES_MAX - 1, 10, 10]), [TRANSFER_BYTES_MAX - 1, 1]);
    }
}
