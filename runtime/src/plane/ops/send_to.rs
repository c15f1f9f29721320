//! Send a datagram.
//!
//! A datagram goes whole or not at all. One whose sender has gone may still be on its way; that is what datagrams
//! are like.

use crate::error::{IoError, IoResult, OpKind};
use crate::plane::addr::SocketAddress;
use crate::plane::backend::operand::Datagram;
use crate::plane::buf::{BufResult, IoBuf};
use crate::plane::fd::Fd;
use crate::plane::op::RawOp;
use crate::plane::ops::{Kernel, Op, operand, source};

/// Sends the bytes of `buf` as one datagram. Answers how many the kernel took, and the buffer.
#[derive(Debug)]
pub struct SendTo<B> {
    fd: Fd,
    buf: B,
    datagram: Box<Datagram>,
}

impl<B: IoBuf> SendTo<B> {
    /// A datagram of `buf`'s bytes on `fd`, to `address`, or to the connected peer without one.
    ///
    /// # Errors
    ///
    /// An address that has no form in the kernel: a path too long for a Unix socket, or an unnamed one. The buffer
    /// comes back.
    pub fn new(fd: &Fd, buf: B, address: Option<&SocketAddress>) -> Result<SendTo<B>, (IoError, B)> {
        match Datagram::to(source(&buf), address) {
            Ok(datagram) => Ok(SendTo { fd: fd.clone(), buf, datagram }),
            Err(error) => Err((error, buf)),
        }
    }
}

// SAFETY: the header lies in a box of the value's own, the buffer's bytes are owned and do not move with it, by
// `IoBuf`'s promise, and neither is touched after `lower`.
unsafe impl<B: IoBuf> Op for SendTo<B> {
    type Output = BufResult<usize, B>;

    fn fd(&self) -> Option<&Fd> {
        Some(&self.fd)
    }

    fn lower(&mut self) -> RawOp {
        RawOp::SendTo { fd: self.fd.raw(), datagram: operand(&mut self.datagram) }
    }

    fn finish(self, res: i32, _kernel: &mut dyn Kernel) -> BufResult<usize, B> {
        let result: IoResult<usize> = usize::try_from(res).map_err(|_| self.fd.refused(res, OpKind::SendTo));
        (result, self.buf)
    }
}
