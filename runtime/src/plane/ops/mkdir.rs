//! Make a directory. One whose waiter has gone has been made, or not; the name tells.

use crate::error::{IoResult, OpKind};
use crate::plane::backend::operand::Path;
use crate::plane::op::RawOp;
use crate::plane::ops::{Kernel, Op, operand, refused};

/// Makes a directory.
#[derive(Debug)]
pub struct Mkdir {
    path: Box<Path>,
    mode: u32,
}

impl Mkdir {
    /// With this mode, before the umask.
    pub fn new(path: Path, mode: u32) -> Mkdir {
        Mkdir { path: Box::new(path), mode }
    }
}

// SAFETY: the path lies in a box of the value's own and is not touched after `lower`.
unsafe impl Op for Mkdir {
    type Output = IoResult<()>;

    fn lower(&mut self) -> RawOp {
        RawOp::Mkdir { path: operand(&mut self.path), mode: self.mode }
    }

    #[inline]
    fn finish(self, res: i32, _kernel: &mut dyn Kernel) -> IoResult<()> {
        if res < 0 { Err(refused(res, OpKind::Mkdir, &self.path)) } else { Ok(()) }
    }
}
