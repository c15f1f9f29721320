//! Reserve space for a file. A reservation whose waiter has gone may still be made; it loses nothing.

use crate::error::{IoResult, OpKind};
use crate::plane::fd::Fd;
use crate::plane::op::RawOp;
use crate::plane::ops::{Kernel, Op};

/// Reserves the disk space of a part of a file, so that writing there cannot run out of it. New bytes read as zeros.
#[derive(Debug)]
pub struct Allocate {
    fd: Fd,
    offset: u64,
    len: u64,
    keep_size: bool,
}

impl Allocate {
    /// For `len` bytes from `offset` on; the file grows to hold them, unless `keep_size`.
    pub fn new(fd: &Fd, offset: u64, len: u64, keep_size: bool) -> Allocate {
        Allocate { fd: fd.clone(), offset, len, keep_size }
    }
}

// SAFETY: it points at nothing.
unsafe impl Op for Allocate {
    type Output = IoResult<()>;

    fn fd(&self) -> Option<&Fd> {
        Some(&self.fd)
    }

    fn lower(&mut self) -> RawOp {
        RawOp::Allocate { fd: self.fd.raw(), offset: self.offset, len: self.len, keep_size: self.keep_size }
    }

    #[inline]
    fn finish(self, res: i32, _kernel: &mut dyn Kernel) -> IoResult<()> {
        if res < 0 { Err(self.fd.refused(res, OpKind::Allocate)) } else { Ok(()) }
    }
}
