//! The op that does nothing, for measuring the way there and back.

use crate::error::{IoError, IoResult, OpKind};
use crate::plane::op::RawOp;
use crate::plane::ops::{Kernel, Op};

/// Does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nop;

// SAFETY: it points at nothing.
unsafe impl Op for Nop {
    type Output = IoResult<()>;

    fn lower(&mut self) -> RawOp {
        RawOp::Nop
    }

    #[inline]
    fn finish(self, res: i32, _kernel: &mut dyn Kernel) -> IoResult<()> {
        if res < 0 { Err(IoError::from_result(res, OpKind::Nop)) } else { Ok(()) }
    }
}
