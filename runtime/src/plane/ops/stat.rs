//! Ask a file's metadata, by its path or by an open descriptor. An answer without a reader is dropped.

use std::ptr::NonNull;

use crate::error::{IoResult, OpKind};
use crate::plane::backend::operand::{FileStat, Path};
use crate::plane::fd::Fd;
use crate::plane::op::RawOp;
use crate::plane::ops::{Kernel, Op, operand, refused};

/// Asks a file's metadata.
#[derive(Debug)]
pub struct Stat {
    of: Of,
    into: Box<FileStat>,
}

#[derive(Debug)]
enum Of {
    Descriptor(Fd),
    Path(Box<Path>, bool),
}

impl Stat {
    /// Of an open descriptor.
    pub fn of(fd: &Fd) -> Stat {
        Stat { of: Of::Descriptor(fd.clone()), into: Box::default() }
    }

    /// Of a path; `follow` sees through a symbolic link at its end.
    pub fn at(path: Path, follow: bool) -> Stat {
        Stat { of: Of::Path(Box::new(path), follow), into: Box::default() }
    }
}

// SAFETY: path and answer lie in boxes of the value's own and are not touched after `lower`.
unsafe impl Op for Stat {
    type Output = IoResult<FileStat>;

    fn fd(&self) -> Option<&Fd> {
        match &self.of {
            Of::Descriptor(fd) => Some(fd),
            Of::Path(..) => None,
        }
    }

    fn lower(&mut self) -> RawOp {
        let into: NonNull<FileStat> = operand(&mut self.into);
        match &mut self.of {
            Of::Descriptor(fd) => RawOp::StatFd { fd: fd.raw(), into },
            Of::Path(path, follow) => RawOp::StatPath { path: operand(path), follow: *follow, into },
        }
    }

    fn finish(self, res: i32, _kernel: &mut dyn Kernel) -> IoResult<FileStat> {
        match self.of {
            _ if res >= 0 => Ok(*self.into),
            Of::Descriptor(fd) => Err(fd.refused(res, OpKind::Stat)),
            Of::Path(path, _) => Err(refused(res, OpKind::Stat, &path)),
        }
    }
}
