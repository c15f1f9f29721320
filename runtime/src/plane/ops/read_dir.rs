//! List a directory. The whole list is in memory, as large as the directory is. A list without a reader is dropped.

use std::ffi::OsString;

use crate::error::{IoResult, OpKind};
use crate::plane::backend::operand::{FileKind, Listing, Path};
use crate::plane::op::RawOp;
use crate::plane::ops::{Kernel, Op, operand, refused};

/// Lists a directory. Answers names and kinds, sorted by name, without `.` and `..`.
#[derive(Debug)]
pub struct ReadDir {
    path: Box<Path>,
    into: Box<Listing>,
}

impl ReadDir {
    /// The directory at `path`.
    pub fn new(path: Path) -> ReadDir {
        ReadDir { path: Box::new(path), into: Box::default() }
    }
}

// SAFETY: path and list lie in boxes of the value's own and are not touched after `lower`.
unsafe impl Op for ReadDir {
    type Output = IoResult<Vec<(OsString, FileKind)>>;

    fn lower(&mut self) -> RawOp {
        RawOp::ReadDir { path: operand(&mut self.path), into: operand(&mut self.into) }
    }

    #[inline]
    fn finish(self, res: i32, _kernel: &mut dyn Kernel) -> IoResult<Vec<(OsString, FileKind)>> {
        if res < 0 { Err(refused(res, OpKind::ReadDir, &self.path)) } else { Ok(self.into.entries) }
    }
}
