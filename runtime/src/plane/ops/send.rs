//! Send on a connected socket.

use crate::error::OpKind;
use crate::plane::backend::Backend;
use crate::plane::buf::{BufResult, IoBuf};
use crate::plane::fd::Fd;
use crate::plane::op::RawOp;
use crate::plane::ops::{Kernel, Op, source};

/// Sends the bytes of `buf`. Answers how many the kernel took, and the buffer.
#[derive(Debug)]
pub struct Send<B> {
    fd: Fd,
    buf: B,
    all: bool,
}

impl<B: IoBuf> Send<B> {
    /// A send on `fd` that may end with a part of the bytes.
    pub fn new(fd: &Fd, buf: B) -> Send<B> {
        Send { fd: fd.clone(), buf, all: false }
    }

    /// A send that asks the kernel to take all bytes before it completes. It may still end with a part: when it is
    /// cancelled or the connection breaks half-way.
    pub fn all(fd: &Fd, buf: B) -> Send<B> {
        Send { fd: fd.clone(), buf, all: true }
    }
}

// SAFETY: the buffer's bytes are owned and do not move with it, by `IoBuf`'s promise.
unsafe impl<B: IoBuf> Op for Send<B> {
    type Output = BufResult<usize, B>;

    fn fd(&self) -> Option<&Fd> {
        Some(&self.fd)
    }

    fn lower(&mut self) -> RawOp {
        RawOp::Send { fd: self.fd.raw(), buf: source(&self.buf), all: self.all }
    }

    fn attempt<K: Backend>(&mut self, backend: &mut K) -> Option<i32> {
        let slice = source(&self.buf);
        // SAFETY: the buffer is owned here and its bytes are initialised.
        let sent = unsafe { backend.try_send(&self.fd, slice) }?;
        // A part is left to the ring when all is asked for; the caller sees a short count and goes on from there.
        Some(sent)
    }

    fn finish(self, res: i32, _kernel: &mut dyn Kernel) -> BufResult<usize, B> {
        match usize::try_from(res) {
            Ok(count) => (Ok(count), self.buf),
            Err(_) => (Err(self.fd.refused(res, OpKind::Send)), self.buf),
        }
    }
}
