//! Close one half of a connection, or both.
//!
//! The kernel decides at once; a shutdown whose waiter has gone has happened all the same.

use crate::error::{IoResult, OpKind};
use crate::plane::fd::Fd;
use crate::plane::op::{Half, RawOp};
use crate::plane::ops::{Kernel, Op};

/// Shuts `half` of a connection down.
#[derive(Debug)]
pub struct Shutdown {
    fd: Fd,
    half: Half,
}

impl Shutdown {
    /// A shutdown of `half` of `fd`.
    pub fn new(fd: &Fd, half: impl Into<Half>) -> Shutdown {
        Shutdown { fd: fd.clone(), half: half.into() }
    }
}

// SAFETY: it points at nothing.
unsafe impl Op for Shutdown {
    type Output = IoResult<()>;

    fn fd(&self) -> Option<&Fd> {
        Some(&self.fd)
    }

    fn lower(&mut self) -> RawOp {
        RawOp::Shutdown { fd: self.fd.raw(), half: self.half }
    }

    #[inline]
    fn finish(self, res: i32, _kernel: &mut dyn Kernel) -> IoResult<()> {
        if res < 0 { Err(self.fd.refused(res, OpKind::Shutdown)) } else { Ok(()) }
    }
}
