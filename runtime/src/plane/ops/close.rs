//! Close a descriptor nobody else uses, and hear what the system says to it.
//!
//! Until the op is lowered the descriptor is owned as ever, so an op that is never submitted closes it by being
//! dropped. From then on the number is the kernel's to close; only an op that was cancelled before the kernel looked
//! at it gives the number back, and it is closed here. So a close whose waiter has gone still closes, once.

use crate::error::{IoError, IoResult, OpKind, errno};
use crate::plane::fd::{Fd, RawDescriptor};
use crate::plane::op::RawOp;
use crate::plane::ops::{Kernel, Op};

/// Closes a descriptor. Answers the error the close reports, for which the number is gone all the same.
#[derive(Debug)]
pub struct Close(State);

#[derive(Debug)]
enum State {
    Ours(Fd),
    Kernels(RawDescriptor),
}

impl Close {
    /// A close of `fd`, given back when it cannot be closed now: others use it still, and the last of them will
    /// close it, or it was somebody else's from the start.
    pub fn new(fd: Fd) -> Result<Close, Fd> {
        if fd.is_unique() && !fd.is_foreign() { Ok(Close(State::Ours(fd))) } else { Err(fd) }
    }
}

// SAFETY: it points at nothing.
unsafe impl Op for Close {
    type Output = IoResult<()>;

    fn lower(&mut self) -> RawOp {
        let raw = match &self.0 {
            State::Ours(fd) => fd.raw(),
            State::Kernels(raw) => *raw,
        };
        if let State::Ours(fd) = std::mem::replace(&mut self.0, State::Kernels(raw)) {
            // Nobody else had it when the op was made, and nobody can get it from the op.
            let given = fd.into_raw();
            debug_assert!(given.is_ok(), "a descriptor about to be closed is shared: {given:?}");
        }
        RawOp::Close { fd: raw }
    }

    fn finish(self, res: i32, kernel: &mut dyn Kernel) -> IoResult<()> {
        if let State::Kernels(raw) = self.0
            && res == -errno::ECANCELED
        {
            drop(kernel.adopt(raw));
        }
        if res < 0 { Err(IoError::from_result(res, OpKind::Close)) } else { Ok(()) }
    }
}
