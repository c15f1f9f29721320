//! Receive more into a buffer that earlier receives filled in part.
//!
//! Whoever reads an exact number of bytes has taken some off the connection while it waits for the rest. When it goes
//! away in between, those bytes are not lost with its buffer: the op puts what was there before back with the
//! descriptor, together with what the orphaned receive may still bring, and the next receive gets all of it in order.

use std::task::Waker;

use crate::error::OpKind;
use crate::plane::buf::{BufResult, IoBufMut};
use crate::plane::fd::Fd;
use crate::plane::op::{RawOp, RawSlice};
use crate::plane::ops::recv::before_read_into;
use crate::plane::ops::{Before, Kernel, Op, target};

/// Receives into `buf` after its first `filled` bytes, up to its capacity. Answers the count of new bytes, 0 at end of
/// file, and the buffer.
#[derive(Debug)]
pub struct RecvMore<B: IoBufMut> {
    fd: Fd,
    /// None once the answer was given.
    buf: Option<B>,
    filled: usize,
}

impl<B: IoBufMut> RecvMore<B> {
    /// A receive on `fd` that goes on after the first `filled` bytes of `buf`, which were received on `fd` as well.
    ///
    /// # Panics
    ///
    /// When fewer than `filled` bytes of the buffer are initialised.
    pub fn new(fd: &Fd, buf: B, filled: usize) -> RecvMore<B> {
        assert!(filled <= buf.len(), "{filled} bytes filled of {} initialised ones", buf.len());
        RecvMore { fd: fd.clone(), buf: Some(buf), filled }
    }

    fn rest(&mut self) -> RawSlice {
        let Some(buf) = &mut self.buf else {
            return RawSlice { ptr: std::ptr::dangling_mut(), len: 0, fixed: RawSlice::NOT_FIXED };
        };
        let whole = target(buf);
        // Capacities past one transfer's limit are cut for the rest, not for the whole.
        let len = (buf.capacity() - self.filled).min(super::TRANSFER_BYTES_MAX as usize);
        RawSlice {
            // SAFETY: `filled` bytes are initialised, so the address lies within the buffer or at its end.
            ptr: unsafe { whole.ptr.add(self.filled) },
            len: u32::try_from(len).unwrap_or(super::TRANSFER_BYTES_MAX),
            fixed: whole.fixed,
        }
    }
}

// SAFETY: the buffer's bytes are owned and do not move with it, by `IoBufMut`'s promise.
unsafe impl<B: IoBufMut> Op for RecvMore<B> {
    type Output = BufResult<usize, B>;

    fn fd(&self) -> Option<&Fd> {
        Some(&self.fd)
    }

    fn lower(&mut self) -> RawOp {
        RawOp::Recv { fd: self.fd.raw(), buf: self.rest() }
    }

    fn before(&mut self, waker: &Waker) -> Before {
        if !self.fd.has_leftover() {
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
            Err(_) => (Err(self.fd.refused(res, OpKind::Recv)), buf),
        }
    }

    fn abandoned(&mut self) {
        self.fd.orphan_read();
    }

    fn orphaned(mut self, res: i32, _kernel: &mut dyn Kernel) {
        let Some(mut buf) = self.buf.take() else { return };
        let reached = self.filled + usize::try_from(res).unwrap_or(0);
        // SAFETY: as in `finish`.
        unsafe { buf.set_len(reached) };
        self.fd.orphan_ended(&buf.as_bytes()[..reached]);
    }
}

impl<B: IoBufMut> Drop for RecvMore<B> {
    /// Nobody took the answer and no completion will come: the bytes from before go back.
    fn drop(&mut self) {
        if let Some(buf) = &self.buf {
            self.fd.keep(&buf.as_bytes()[..self.filled]);
        }
    }
}
