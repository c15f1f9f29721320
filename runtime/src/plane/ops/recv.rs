//! Receive from a connected socket.
//!
//! A receive whose reader has gone may still bring bytes. They are kept with the descriptor, and the next receive
//! on it gets them first; until the orphan's last word the next receive waits, so that bytes stay in order.

use std::task::Waker;

use crate::error::OpKind;
use crate::plane::buf::{BufResult, IoBufMut};
use crate::plane::fd::{Fd, Leftover};
use crate::plane::op::{RawOp, RawSlice};
use crate::plane::ops::{Before, Kernel, Op, target};

/// Receives into `buf`, from its first byte up to its capacity. Answers the count, 0 at end of file, and the buffer.
#[derive(Debug)]
pub struct Recv<B> {
    fd: Fd,
    buf: B,
}

impl<B: IoBufMut> Recv<B> {
    /// A receive on `fd`.
    pub fn new(fd: &Fd, buf: B) -> Recv<B> {
        Recv { fd: fd.clone(), buf }
    }
}

// SAFETY: the buffer's bytes are owned and do not move with it, by `IoBufMut`'s promise.
unsafe impl<B: IoBufMut> Op for Recv<B> {
    type Output = BufResult<usize, B>;

    fn fd(&self) -> Option<&Fd> {
        Some(&self.fd)
    }

    fn lower(&mut self) -> RawOp {
        RawOp::Recv { fd: self.fd.raw(), buf: target(&mut self.buf) }
    }

    fn before(&mut self, waker: &Waker) -> Before {
        before_read(&self.fd, &mut self.buf, waker)
    }

    fn finish(self, res: i32, _kernel: &mut dyn Kernel) -> BufResult<usize, B> {
        finish_read(res, &self.fd, self.buf, OpKind::Recv)
    }

    fn abandoned(&mut self) {
        self.fd.orphan_read();
    }

    fn orphaned(mut self, res: i32, _kernel: &mut dyn Kernel) {
        orphaned_read(&self.fd, &mut self.buf, res);
    }
}

/// Looks for bytes an earlier, orphaned read left with the descriptor.
pub(crate) fn before_read(fd: &Fd, buf: &mut impl IoBufMut, waker: &Waker) -> Before {
    if !fd.has_leftover() {
        return Before::Submit;
    }
    let slice = target(buf);
    // SAFETY: the buffer vouches for this memory and is borrowed here.
    unsafe { before_read_into(fd, slice, waker) }
}

/// As [`before_read`], for a part of a buffer.
///
/// # Safety
///
/// The memory is writable, initialised or not, and nothing else uses it during the call.
pub(crate) unsafe fn before_read_into(fd: &Fd, slice: RawSlice, waker: &Waker) -> Before {
    // SAFETY: the caller's promise.
    let into = unsafe { std::slice::from_raw_parts_mut(slice.ptr.cast(), slice.len as usize) };
    match fd.leftover(into, waker) {
        Leftover::Nothing => Before::Submit,
        Leftover::Bytes(count) => Before::Done(i32::try_from(count).unwrap_or(i32::MAX)),
        Leftover::Wait => Before::Wait,
    }
}

/// Turns a read's result into the answer, declaring the bytes it brought initialised.
pub(crate) fn finish_read<B: IoBufMut>(res: i32, fd: &Fd, mut buf: B, kind: OpKind) -> BufResult<usize, B> {
    match usize::try_from(res) {
        Ok(count) => {
            // SAFETY: the kernel wrote `count` bytes from the buffer's first on, and never more than its capacity.
            unsafe { buf.set_len(count) };
            (Ok(count), buf)
        }
        Err(_) => (Err(fd.refused(res, kind)), buf),
    }
}

/// Leaves the bytes of an orphaned read with the descriptor.
pub(crate) fn orphaned_read(fd: &Fd, buf: &mut impl IoBufMut, res: i32) {
    let count = usize::try_from(res).unwrap_or(0);
    // SAFETY: as in `finish_read`.
    unsafe { buf.set_len(count) };
    fd.orphan_ended(&buf.as_bytes()[..count]);
}
