//! Accept connections until told to end.
//!
//! Where the kernel has it, one submission goes on accepting. A connection that arrives when nobody waits is adopted
//! all the same, and closed when its descriptor is dropped.

use crate::error::{IoResult, OpKind};
use crate::plane::fd::Fd;
use crate::plane::op::RawOp;
use crate::plane::ops::Kernel;

/// Accepts connections on a listening socket, many with one submission where the kernel has it.
#[derive(Debug)]
pub struct AcceptMany {
    fd: Fd,
    multishot: bool,
}

impl AcceptMany {
    /// Accepts on `fd`; without `multishot` it ends after the first connection.
    pub fn new(fd: &Fd, multishot: bool) -> AcceptMany {
        AcceptMany { fd: fd.clone(), multishot }
    }

    pub(crate) fn fd(&self) -> &Fd {
        &self.fd
    }

    pub(crate) fn lower(&self) -> RawOp {
        RawOp::Accept { fd: self.fd.raw(), multishot: self.multishot }
    }

    pub(crate) fn accepted(&self, res: i32, kernel: &mut dyn Kernel) -> IoResult<Fd> {
        if res < 0 { Err(self.fd.refused(res, OpKind::Accept)) } else { Ok(kernel.adopt(res)) }
    }
}
