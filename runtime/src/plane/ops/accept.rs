//! Accept one connection.
//!
//! An accept whose reader has gone may still bring a connection. Its descriptor belongs to nobody then, so it is
//! adopted and closed, and the client reads end of file or a reset. A listener that must not lose it queues what it
//! accepts: see the plane's accept queue.

use crate::error::{IoResult, OpKind};
use crate::plane::fd::Fd;
use crate::plane::op::RawOp;
use crate::plane::ops::{Kernel, Op};

/// Accepts one connection of a listening socket. Answers its descriptor, close-on-exec.
#[derive(Debug)]
pub struct Accept {
    fd: Fd,
}

impl Accept {
    /// An accept on the listener `fd`.
    pub fn new(fd: &Fd) -> Accept {
        Accept { fd: fd.clone() }
    }
}

// SAFETY: it points at nothing.
unsafe impl Op for Accept {
    type Output = IoResult<Fd>;

    fn fd(&self) -> Option<&Fd> {
        Some(&self.fd)
    }

    fn lower(&mut self) -> RawOp {
        RawOp::Accept { fd: self.fd.raw(), multishot: false }
    }

    #[inline]
    fn finish(self, res: i32, kernel: &mut dyn Kernel) -> IoResult<Fd> {
        if res < 0 { Err(self.fd.refused(res, OpKind::Accept)) } else { Ok(kernel.adopt(res)) }
    }
}
