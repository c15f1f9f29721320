//! The file ops as plain calls of the system, for a thread that may wait.
//!
//! One function performs one op from start to end and answers what a ring's completion would: a count, a descriptor
//! or 0, or `-errno`. An interrupted call is made again, and every descriptor is born close-on-exec.

use std::ffi::CStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::errno;
use crate::plane::backend::operand::{FileKind, FileStat, Listing, PeerAddress};
use crate::plane::op::{Half, NO_OFFSET, RawOp};

/// Makes `call` until no signal interrupts it: its answer, or `-errno`.
pub(super) fn retrying(call: impl FnMut() -> isize) -> i32 {
    static NEVER: AtomicBool = AtomicBool::new(false);
    retrying_unless(&NEVER, call)
}

/// The same, until an interrupted call finds that it was cancelled.
fn retrying_unless(cancelled: &AtomicBool, mut call: impl FnMut() -> isize) -> i32 {
    loop {
        let answer = call();
        if answer >= 0 {
            // The kernel moves less than 2 GiB at a time, and descriptors are small.
            return i32::try_from(answer).unwrap_or(i32::MAX);
        }
        match last_errno() {
            errno::EINTR if cancelled.load(Ordering::SeqCst) => return -errno::ECANCELED,
            errno::EINTR => {}
            errno => return -errno,
        }
    }
}

/// The calling thread's `errno`, never 0.
pub(super) fn last_errno() -> i32 {
    negated(&io::Error::last_os_error()).wrapping_neg()
}

fn negated(error: &io::Error) -> i32 {
    -error.raw_os_error().filter(|errno| *errno != 0).unwrap_or(errno::EIO)
}

/// Performs one op, waiting for as long as it takes, or until a signal comes after `cancelled` was set.
///
/// Ops that move a peer's bytes, and poll, have no place on a thread of a small pool and answer `-EOPNOTSUPP`; so
/// does a job, whose call the caller runs itself. Accept and connect are for blocking descriptors of others.
///
/// # Safety
///
/// What `op` points at is valid, and nobody else touches it, during the call.
pub(super) unsafe fn perform(op: &RawOp, cancelled: &AtomicBool) -> i32 {
    let waiting = |call: &mut dyn FnMut() -> isize| retrying_unless(cancelled, call);
    // SAFETY: the caller vouches for every pointer of the op; paths end in a zero byte, being `CString`s, and a
    // descriptor that is not open is answered with EBADF.
    unsafe {
        match *op {
            RawOp::Nop => 0,
            RawOp::Read { fd, buf, offset } => {
                let (ptr, len) = (buf.ptr.cast(), buf.len as usize);
                match position(offset) {
                    Err(refusal) => refusal,
                    Ok(None) => waiting(&mut || libc::read(fd, ptr, len)),
                    Ok(Some(at)) => waiting(&mut || libc::pread(fd, ptr, len, at)),
                }
            }
            RawOp::Write { fd, buf, offset } => {
                let (ptr, len) = (buf.ptr.cast_const().cast(), buf.len as usize);
                match position(offset) {
                    Err(refusal) => refusal,
                    Ok(None) => waiting(&mut || libc::write(fd, ptr, len)),
                    Ok(Some(at)) => waiting(&mut || libc::pwrite(fd, ptr, len, at)),
                }
            }
            RawOp::WriteDurable { fd, buf, offset } => {
                let vec = libc::iovec { iov_base: buf.ptr.cast(), iov_len: buf.len as usize };
                match position(offset) {
                    Ok(Some(at)) => waiting(&mut || libc::pwritev2(fd, &vec, 1, at, libc::RWF_DSYNC)),
                    Ok(None) => -errno::EINVAL,
                    Err(refusal) => refusal,
                }
            }
            RawOp::ReadVectored { fd, bufs, offset } => {
                let (vecs, count) = vectors(&bufs.as_ref().0);
                match position(offset) {
                    Err(refusal) => refusal,
                    Ok(None) => waiting(&mut || libc::readv(fd, vecs, count)),
                    Ok(Some(at)) => waiting(&mut || libc::preadv(fd, vecs, count, at)),
                }
            }
            RawOp::WriteVectored { fd, bufs, offset } => {
                let (vecs, count) = vectors(&bufs.as_ref().0);
                match position(offset) {
                    Err(refusal) => refusal,
                    Ok(None) => waiting(&mut || libc::writev(fd, vecs, count)),
                    Ok(Some(at)) => waiting(&mut || libc::pwritev(fd, vecs, count, at)),
                }
            }
            RawOp::Accept { fd, .. } => waiting(&mut || accept_once(fd)),
            RawOp::Connect { fd, address } => waiting(&mut || connect_once(fd, address.as_ref())),
            RawOp::Shutdown { fd, half } => shutdown(fd, half),
            RawOp::Open { path, how } => match how.flags() {
                Ok(flags) => {
                    let path = path.as_ref().0.as_ptr();
                    waiting(&mut || libc::open(path, flags, how.mode) as isize)
                }
                Err(errno) => -errno,
            },
            RawOp::Close { fd } => close(fd),
            RawOp::StatFd { fd, into } => statx(fd, c"", libc::AT_EMPTY_PATH, into.as_ptr()),
            RawOp::StatPath { path, follow, into } => {
                let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
                statx(libc::AT_FDCWD, &path.as_ref().0, flags, into.as_ptr())
            }
            RawOp::Sync { fd, data_only: true } => waiting(&mut || libc::fdatasync(fd) as isize),
            RawOp::Sync { fd, data_only: false } => waiting(&mut || libc::fsync(fd) as isize),
            RawOp::Allocate { fd, offset, len, keep_size } => {
                let mode = if keep_size { libc::FALLOC_FL_KEEP_SIZE } else { 0 };
                match (i64::try_from(offset), i64::try_from(len)) {
                    (Ok(offset), Ok(len)) => waiting(&mut || libc::fallocate(fd, mode, offset, len) as isize),
                    _ => -errno::EINVAL,
                }
            }
            RawOp::Truncate { fd, len } => match i64::try_from(len) {
                Ok(len) => waiting(&mut || libc::ftruncate(fd, len) as isize),
                Err(_) => -errno::EINVAL,
            },
            RawOp::Rename { from, to, replace } => {
                let (from, to) = (from.as_ref().0.as_ptr(), to.as_ref().0.as_ptr());
                let flags = if replace { 0 } else { libc::RENAME_NOREPLACE };
                waiting(&mut || {
                    libc::syscall(libc::SYS_renameat2, libc::AT_FDCWD, from, libc::AT_FDCWD, to, flags) as isize
                })
            }
            RawOp::Unlink { path, directory } => {
                let path = path.as_ref().0.as_ptr();
                let flags = if directory { libc::AT_REMOVEDIR } else { 0 };
                waiting(&mut || libc::unlinkat(libc::AT_FDCWD, path, flags) as isize)
            }
            RawOp::Mkdir { path, mode } => {
                let path = path.as_ref().0.as_ptr();
                waiting(&mut || libc::mkdir(path, mode) as isize)
            }
            RawOp::ReadDir { path, mut into } => match list(&path.as_ref().0, into.as_mut()) {
                Ok(()) => 0,
                Err(error) => negated(&error),
            },
            RawOp::Recv { .. }
            | RawOp::Send { .. }
            | RawOp::RecvFrom { .. }
            | RawOp::SendTo { .. }
            | RawOp::Poll { .. }
            | RawOp::Job { .. } => -errno::EOPNOTSUPP,
        }
    }
}

/// Closes one half of a connection, or both; never waits.
pub(super) fn shutdown(fd: i32, half: Half) -> i32 {
    let how = match half {
        Half::Read => libc::SHUT_RD,
        Half::Write => libc::SHUT_WR,
        Half::Both => libc::SHUT_RDWR,
    };
    // SAFETY: the call takes no pointers.
    retrying(|| unsafe { libc::shutdown(fd, how) } as isize)
}

/// Accepts one connection, non-blocking and close-on-exec.
pub(super) fn accept(fd: i32) -> i32 {
    retrying(|| accept_once(fd))
}

fn accept_once(fd: i32) -> isize {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: nobody asks for the peer's address, so there are no pointers.
    unsafe { libc::accept4(fd, std::ptr::null_mut(), std::ptr::null_mut(), flags) as isize }
}

/// Connects, or goes on connecting. An interrupted call goes on in the background, which the next one tells.
pub(super) fn connect(fd: i32, address: &PeerAddress) -> i32 {
    retrying(|| connect_once(fd, address))
}

fn connect_once(fd: i32, address: &PeerAddress) -> isize {
    let address = &address.0;
    // SAFETY: the address lives during the call.
    unsafe { libc::connect(fd, address.as_ptr().cast(), address.len()) as isize }
}

/// Closes a descriptor. The number is gone even when a signal interrupted the call, so it is never made again.
pub(super) fn close(fd: i32) -> i32 {
    // SAFETY: the call takes no pointers; the op's owner gave the number up.
    if unsafe { libc::close(fd) } == 0 {
        return 0;
    }
    match last_errno() {
        errno::EINTR => 0,
        errno => -errno,
    }
}

/// Where to read or write: the descriptor's own position, a place, or nowhere the system could name.
fn position(offset: u64) -> Result<Option<i64>, i32> {
    match offset {
        NO_OFFSET => Ok(None),
        at => i64::try_from(at).map(Some).map_err(|_| -errno::EINVAL),
    }
}

/// A list of buffers as the system takes it; more than it would take are left for the next call, as a short count.
pub(super) fn vectors(vecs: &[libc::iovec]) -> (*const libc::iovec, libc::c_int) {
    const VECTORS_MAX: usize = libc::UIO_MAXIOV as usize;
    (vecs.as_ptr(), vecs.len().min(VECTORS_MAX) as libc::c_int)
}

/// Asks metadata.
///
/// # Safety
///
/// `into` is valid for writing.
unsafe fn statx(dir: i32, path: &CStr, flags: i32, into: *mut FileStat) -> i32 {
    let mask = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
    // SAFETY: the path lives during the call, and the caller vouches for `into`.
    retrying(|| unsafe { libc::statx(dir, path.as_ptr(), flags, mask, &raw mut (*into).kernel) } as isize)
}

/// Lists a directory, sorted by name.
fn list(path: &CStr, into: &mut Listing) -> io::Result<()> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(std::ffi::OsStr::from_bytes(path.to_bytes()))? {
        let entry = entry?;
        match entry.file_type() {
            Ok(kind) => entries.push((entry.file_name(), kind_of(kind))),
            // Removed since the directory was read: then it is not in it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    entries.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    into.entries = entries;
    Ok(())
}

fn kind_of(kind: std::fs::FileType) -> FileKind {
    match kind {
        kind if kind.is_file() => FileKind::File,
        kind if kind.is_dir() => FileKind::Directory,
        kind if kind.is_symlink() => FileKind::Symlink,
        kind if kind.is_fifo() => FileKind::Fifo,
        kind if kind.is_socket() => FileKind::Socket,
        kind if kind.is_char_device() => FileKind::CharDevice,
        kind if kind.is_block_device() => FileKind::BlockDevice,
        _ => FileKind::Other,
    }
}
