//! Wait until a descriptor is ready.
//!
//! Readiness is a report and takes nothing from the descriptor, so a poll whose waiter has gone loses nothing: who
//! asks next is told again.

use crate::error::{IoResult, OpKind};
use crate::plane::fd::Fd;
use crate::plane::op::{RawOp, Readiness};
use crate::plane::ops::{Kernel, Op};

/// Waits until a descriptor is ready for what is wanted, or is broken. Answers what it is ready for.
#[derive(Debug)]
pub struct Poll {
    fd: Fd,
    wanted: Readiness,
}

impl Poll {
    /// A wait for any of `wanted` on `fd`.
    pub fn new(fd: &Fd, wanted: Readiness) -> Poll {
        Poll { fd: fd.clone(), wanted }
    }
}

// SAFETY: it points at nothing.
unsafe impl Op for Poll {
    type Output = IoResult<Readiness>;

    fn fd(&self) -> Option<&Fd> {
        Some(&self.fd)
    }

    fn lower(&mut self) -> RawOp {
        RawOp::Poll { fd: self.fd.raw(), wanted: self.wanted }
    }

    #[inline]
    fn finish(self, res: i32, _kernel: &mut dyn Kernel) -> IoResult<Readiness> {
        if res < 0 { Err(self.fd.refused(res, OpKind::Poll)) } else { Ok(Readiness::from_bits(res)) }
    }
}
