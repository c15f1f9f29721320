//! Remove a file or an empty directory. One whose waiter has gone has been removed, or not; the name tells.

use crate::error::{IoResult, OpKind};
use crate::plane::backend::operand::Path;
use crate::plane::op::RawOp;
use crate::plane::ops::{Kernel, Op, operand, refused};

/// Removes a name; the file goes with its last one.
#[derive(Debug)]
pub struct Unlink {
    path: Box<Path>,
    directory: bool,
}

impl Unlink {
    /// A file, a symbolic link, anything but a directory.
    pub fn file(path: Path) -> Unlink {
        Unlink { path: Box::new(path), directory: false }
    }

    /// An empty directory.
    pub fn directory(path: Path) -> Unlink {
        Unlink { path: Box::new(path), directory: true }
    }
}

// SAFETY: the path lies in a box of the value's own and is not touched after `lower`.
unsafe impl Op for Unlink {
    type Output = IoResult<()>;

    fn lower(&mut self) -> RawOp {
        RawOp::Unlink { path: operand(&mut self.path), directory: self.directory }
    }

    #[inline]
    fn finish(self, res: i32, _kernel: &mut dyn Kernel) -> IoResult<()> {
        if res < 0 { Err(refused(res, OpKind::Unlink, &self.path)) } else { Ok(()) }
    }
}
