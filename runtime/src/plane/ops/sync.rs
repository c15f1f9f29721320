//! Wait until a file is on the disk.
//!
//! A sync whose waiter has gone runs to its end all the same. Its error is then heard by nobody, here or ever: the
//! system reports each failure once.

use crate::error::{IoResult, OpKind};
use crate::plane::fd::Fd;
use crate::plane::op::RawOp;
use crate::plane::ops::{Kernel, Op};

/// Waits until what was written to a descriptor's file is on the disk.
#[derive(Debug)]
pub struct Sync {
    fd: Fd,
    data_only: bool,
}

impl Sync {
    /// Data and all metadata.
    pub fn all(fd: &Fd) -> Sync {
        Sync { fd: fd.clone(), data_only: false }
    }

    /// Data, and the metadata needed to read it back.
    pub fn data(fd: &Fd) -> Sync {
        Sync { fd: fd.clone(), data_only: true }
    }
}

// SAFETY: it points at nothing.
unsafe impl Op for Sync {
    type Output = IoResult<()>;

    fn fd(&self) -> Option<&Fd> {
        Some(&self.fd)
    }

    fn lower(&mut self) -> RawOp {
        RawOp::Sync { fd: self.fd.raw(), data_only: self.data_only }
    }

    #[inline]
    fn finish(self, res: i32, _kernel: &mut dyn Kernel) -> IoResult<()> {
        if res < 0 { Err(self.fd.refused(res, OpKind::Sync)) } else { Ok(()) }
    }
}
