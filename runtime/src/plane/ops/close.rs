//! Close a descriptor nobody else uses, and hear what the system says to it.
//!
//! The op owns the descriptor to its end. Only a completion that says the kernel has closed the number makes the op
//! forget it; an op that is dropped, or ends before the kernel looked at it, closes the descriptor by dropping it. So
//! a close whose waiter has gone still closes, and closes once.

use crate::error::{IoResult, OpKind, errno};
use crate::plane::fd::Fd;
use crate::plane::op::RawOp;
use crate::plane::ops::{Kernel, Op};

/// Closes a descriptor. Answers the error the close reports, for which the number is gone all the same.
#[derive(Debug)]
pub struct Close {
    fd: Fd,
}

impl Close {
    /// A close of `fd`.
    ///
    /// # Errors
    ///
    /// `fd` itself, when it cannot be closed now: others use it still, and the last of them will close it, or it was
    /// somebody else's from the start.
    pub fn new(fd: Fd) -> Result<Close, Fd> {
        if fd.is_unique() && !fd.is_foreign() { Ok(Close { fd }) } else { Err(fd) }
    }
}

// SAFETY: it points at nothing.
unsafe impl Op for Close {
    type Output = IoResult<()>;

    fn fd(&self) -> Option<&Fd> {
        Some(&self.fd)
    }

    fn lower(&mut self) -> RawOp {
        RawOp::Close { fd: self.fd.raw() }
    }

    fn finish(self, res: i32, _kernel: &mut dyn Kernel) -> IoResult<()> {
        let refusal = (res < 0).then(|| self.fd.refused(res, OpKind::Close));
        // These are the runtime's own answers, for an op the kernel did not begin.
        if !matches!(-res, errno::ECANCELED | errno::ENOBUFS | errno::ENXIO | errno::EXDEV) {
            // Whatever else close(2) answers, the number is free. Nobody shared it when the op was made, and nobody can
            // get it from the op.
            let forgotten = self.fd.forget_closed();
            debug_assert!(forgotten, "a descriptor that was closed is shared");
        }
        refusal.map_or(Ok(()), Err)
    }
}
