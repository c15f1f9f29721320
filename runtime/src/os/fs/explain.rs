//! What the errors of files say beyond the kernel's word: on what it was tried, and the remedy.

use crate::error::{IoError, NO_THREAD, OpKind, Stage, errno};
use crate::plane::current::meaning_of_enxio;

/// The error, naming what it was tried on in front of what it says already, and the remedy behind.
pub(crate) fn explain(error: IoError, what: &str) -> IoError {
    let known = error.context();
    let mut context = if known.starts_with(what) { known.to_owned() } else { what.to_owned() };
    if !known.is_empty() && !known.starts_with(what) {
        context = format!("{context}: {known}");
    }
    let elsewhere = if error.errno() == errno::ENXIO { meaning_of_enxio() } else { None };
    if let Some(remedy) = elsewhere.or_else(|| remedy(error.op(), error.errno()))
        && !context.ends_with(remedy)
    {
        context = format!("{context}: {remedy}");
    }
    error.with_context(context)
}

/// An error of an op that names its path itself, with the remedy.
pub(crate) fn with_remedy(error: IoError) -> IoError {
    let what = error.context().to_owned();
    explain(error, &what)
}

/// A transfer that broke off after a part.
pub(crate) fn torn(error: IoError, done: usize, len: usize) -> IoError {
    if done == 0 {
        return error;
    }
    let part = format!("after {done} of {len} bytes");
    let context = if error.context().is_empty() { part } else { format!("{part}: {}", error.context()) };
    error.with_context(context)
}

/// A file or stream that ended before an exact read was satisfied.
pub(crate) fn ended_early(got: usize, wanted: usize) -> IoError {
    IoError::new(errno::ENODATA, OpKind::Read, Stage::Completion)
        .with_context(format!("it ended after {got} of {wanted} bytes"))
}

/// A write that was answered with no bytes and no error.
pub(crate) fn took_nothing(done: usize, len: usize) -> IoError {
    torn(IoError::new(errno::EIO, OpKind::Write, Stage::Completion).with_context("it takes no more bytes"), done, len)
}

fn remedy(op: OpKind, errno: i32) -> Option<&'static str> {
    use OpKind::{
        Allocate, Mkdir, Open, Read, ReadDir, ReadVectored, Rename, Sync, Truncate, Unlink, Write, WriteVectored,
    };
    let remedy = match (op, errno) {
        (_, errno::EMFILE) => "the process has too many files open; close some, or raise `ulimit -n`",
        (_, errno::ENFILE) => "the system has too many files open; raise fs.file-max",
        (_, errno::EAGAIN) => NO_THREAD,
        (_, errno::EROFS) => "the file system is mounted read-only",
        (_, errno::ENAMETOOLONG) => "a name has 255 bytes at most, a path 4095",
        (_, errno::ELOOP) => "its symbolic links lead in a circle, or may not be followed",
        (_, errno::EDQUOT) => "the quota of this user is used up",
        (Write | WriteVectored | Allocate | Truncate | Sync | Open | Mkdir | Rename, errno::ENOSPC) => {
            "the file system is full"
        }
        (Write | WriteVectored | Allocate | Truncate, errno::EFBIG) => {
            "larger than the file system or `ulimit -f` allows"
        }
        (Open | ReadDir, errno::EACCES) => "its permissions, or those of a directory above it, forbid it to this user",
        (Mkdir | Rename | Unlink, errno::EACCES | errno::EPERM) => {
            "the directory it lies in must be writable for this user"
        }
        (Open, errno::EISDIR) | (Read, errno::EISDIR) => "it is a directory; `read_dir` lists it",
        (Open, errno::ETXTBSY) => "a program runs from it; write a new file and rename it to this name",
        (Open, errno::ENXIO) => "a FIFO nobody reads, a socket, or a device that is gone",
        (Mkdir, errno::ENOENT) => "the directory above it must exist; `create_dir_all` makes it",
        (Unlink, errno::EISDIR) => "it is a directory; `remove_dir` removes an empty one",
        (Unlink, errno::ENOTDIR) => "it, or a part of the path before it, is no directory",
        (Unlink | Rename, errno::ENOTEMPTY) => "the directory is not empty",
        (Unlink | Rename, errno::EBUSY) => "something is mounted there, or the system uses it",
        (Rename, errno::EXDEV) => "they lie on different file systems; copy the file, then remove it",
        (Rename, errno::EINVAL) => {
            "a directory cannot move into itself; and some file systems cannot rename without replacing"
        }
        (Read | ReadVectored, errno::EBADF) => "it is not open for reading",
        (Write | WriteVectored, errno::EBADF) => "it is not open for writing",
        (Allocate | Truncate, errno::EBADF | errno::EINVAL) => {
            "it is not open for writing, has no length to set, or the length is zero or past the last offset"
        }
        (Read | ReadVectored | Write | WriteVectored, errno::ESPIPE) => {
            "a stream has no offsets; use `read` and `write`"
        }
        (Write | WriteVectored, errno::EPIPE) => "nobody reads its other end any more",
        (Allocate, errno::EOPNOTSUPP) => "this file system cannot reserve space; write zeros instead",
        (Sync, errno::EINVAL) => "this kind of file cannot be synced",
        (Sync, errno::EIO) => "what was written since the last sync may be lost, and syncing again does not tell",
        _ => return None,
    };
    Some(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_comes_first_then_what_is_known_then_the_remedy() {
        let full = IoError::new(errno::ENOSPC, OpKind::Write, Stage::Completion);
        let torn = explain(torn(full, 3, 9), "/data/log");
        assert_eq!(torn.context(), "/data/log: after 3 of 9 bytes: the file system is full");
        assert_eq!(explain(torn.clone(), "/data/log"), torn, "said once is enough");
    }

    #[test]
    fn an_error_without_a_remedy_only_names() {
        let missing = IoError::new(errno::ENOENT, OpKind::Open, Stage::Completion);
        assert_eq!(explain(missing, "a").to_string(), "open a: No such file or directory (os error 2)");
    }
}
