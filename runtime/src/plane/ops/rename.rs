//! Rename a file. One whose waiter has gone has been done, or not; the name tells.

use crate::error::{IoError, IoResult, OpKind};
use crate::plane::backend::operand::Path;
use crate::plane::op::RawOp;
use crate::plane::ops::{Kernel, Op, operand};

/// Renames a file or directory within its file system, in one step.
#[derive(Debug)]
pub struct Rename {
    from: Box<Path>,
    to: Box<Path>,
    replace: bool,
}

impl Rename {
    /// Takes the place of what `to` names.
    pub fn new(from: Path, to: Path) -> Rename {
        Rename { from: Box::new(from), to: Box::new(to), replace: true }
    }

    /// Refuses, with `EEXIST`, when `to` names something.
    pub fn without_replacing(from: Path, to: Path) -> Rename {
        Rename { replace: false, ..Rename::new(from, to) }
    }
}

// SAFETY: the paths lie in boxes of the value's own and are not touched after `lower`.
unsafe impl Op for Rename {
    type Output = IoResult<()>;

    fn lower(&mut self) -> RawOp {
        RawOp::Rename { from: operand(&mut self.from), to: operand(&mut self.to), replace: self.replace }
    }

    fn finish(self, res: i32, _kernel: &mut dyn Kernel) -> IoResult<()> {
        if res < 0 {
            let (from, to) = (self.from.to_path_buf(), self.to.to_path_buf());
            let names = format!("{} to {}", from.display(), to.display());
            return Err(IoError::from_result(res, OpKind::Rename).with_context(names));
        }
        Ok(())
    }
}
