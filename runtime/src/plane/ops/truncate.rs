//! Set a file's length. One whose waiter has gone may still be set.

use crate::error::{IoResult, OpKind};
use crate::plane::fd::Fd;
use crate::plane::op::RawOp;
use crate::plane::ops::{Kernel, Op};

/// Cuts a file, or lengthens it with zeros that take no space.
#[derive(Debug)]
pub struct Truncate {
    fd: Fd,
    len: u64,
}

impl Truncate {
    /// To `len` bytes.
    pub fn new(fd: &Fd, len: u64) -> Truncate {
        Truncate { fd: fd.clone(), len }
    }
}

// SAFETY: it points at nothing.
unsafe impl Op for Truncate {
    type Output = IoResult<()>;

    fn fd(&self) -> Option<&Fd> {
        Some(&self.fd)
    }

    fn lower(&mut self) -> RawOp {
        RawOp::Truncate { fd: self.fd.raw(), len: self.len }
    }

    #[inline]
    fn finish(self, res: i32, _kernel: &mut dyn Kernel) -> IoResult<()> {
        if res < 0 { Err(self.fd.refused(res, OpKind::Truncate)) } else { Ok(()) }
    }
}
