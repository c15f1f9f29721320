//! Open a file.
//!
//! An open whose waiter has gone may still bring a descriptor; it is adopted and closed by being dropped.

use crate::error::{IoResult, OpKind};
use crate::plane::backend::operand::{OpenHow, Path};
use crate::plane::fd::Fd;
use crate::plane::op::RawOp;
use crate::plane::ops::{Kernel, Op, operand, refused};

/// Opens a file, close-on-exec. Answers its descriptor.
#[derive(Debug)]
pub struct Open {
    path: Box<Path>,
    how: OpenHow,
}

impl Open {
    /// An open of `path`.
    pub fn new(path: Path, how: OpenHow) -> Open {
        Open { path: Box::new(path), how }
    }
}

// SAFETY: the path lies in a box of the value's own and is not touched after `lower`.
unsafe impl Op for Open {
    type Output = IoResult<Fd>;

    fn lower(&mut self) -> RawOp {
        RawOp::Open { path: operand(&mut self.path), how: self.how }
    }

    #[inline]
    fn finish(self, res: i32, kernel: &mut dyn Kernel) -> IoResult<Fd> {
        if res < 0 { Err(refused(res, OpKind::Open, &self.path)) } else { Ok(kernel.adopt(res)) }
    }
}
