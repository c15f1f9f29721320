//! One op, lowered to one submission entry.
//!
//! Nothing is decided here but the kernel's form of an op: which opcode, which flags. What the ring cannot do on this
//! kernel goes to the worker pool, what no kernel could do is refused with an `errno`. Ops whose raw completion may
//! not be the answer yet are told apart, see [`retained`](super::retained): those that meet descriptors of others, and
//! those that threads of the kernel do, which it may fail to start.

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{opcode, squeue};

use crate::plane::backend::calls;
use crate::plane::backend::caps::OpSet;
use crate::plane::op::{Half, RawOp, RawSlice, Readiness};

/// What lowering depends on besides the op.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lowering {
    /// The kinds the ring does itself.
    pub(super) native: OpSet,
    /// Whether one accept may go on accepting.
    pub(super) multishot_accept: bool,
    /// Flags for every write: no SIGPIPE, where the kernel can be told so.
    pub(super) write_flags: i32,
}

/// The kernel's form of an op.
#[derive(Debug)]
pub(super) enum Lowered {
    /// An entry whose completion is the answer: no thread of the kernel is wanted for it.
    Entry(squeue::Entry),
    /// An entry whose completion has to be looked at first.
    Retained(squeue::Entry),
    /// Work for the worker pool.
    Pool,
    /// Nothing to submit: the answer is this `errno`.
    Refused(i32),
}

/// Lowers `op`; the entry has no user data yet.
///
/// # Safety
///
/// What `op` points at is valid; the entry may be submitted for as long as it stays so.
// Where the op's kind is known, nothing of the choice is left.
#[inline(always)]
pub(super) unsafe fn lower(op: &RawOp, how: &Lowering) -> Lowered {
    if !how.native.contains(op.kind()) {
        return Lowered::Pool;
    }
    // SAFETY: operands are read here, at most, and the caller vouches for them.
    let entry = unsafe {
        match *op {
            RawOp::Nop => opcode::Nop::new().build(),
            RawOp::Read { fd, buf, offset } => return Lowered::Retained(read(fd, buf, offset)),
            RawOp::Write { fd, buf, offset } => return Lowered::Retained(write(fd, buf, offset, how.write_flags)),
            RawOp::WriteDurable { fd, buf, offset } => {
                return Lowered::Retained(write(fd, buf, offset, how.write_flags | libc::RWF_DSYNC));
            }
            RawOp::ReadVectored { fd, bufs, offset } => {
                let (vecs, count) = calls::vectors(&bufs.as_ref().0);
                return Lowered::Retained(opcode::Readv::new(Fd(fd), vecs, count as u32).offset(offset).build());
            }
            RawOp::WriteVectored { fd, bufs, offset } => {
                let (vecs, count) = calls::vectors(&bufs.as_ref().0);
                let entry = opcode::Writev::new(Fd(fd), vecs, count as u32).offset(offset);
                return Lowered::Retained(entry.rw_flags(how.write_flags).build());
            }
            RawOp::Recv { fd, buf } => opcode::Recv::new(Fd(fd), buf.ptr, buf.len).build(),
            RawOp::Send { fd, buf, all } => {
                let flags = libc::MSG_NOSIGNAL | if all { libc::MSG_WAITALL } else { 0 };
                opcode::Send::new(Fd(fd), buf.ptr, buf.len).flags(flags).build()
            }
            RawOp::RecvFrom { fd, datagram } => {
                opcode::RecvMsg::new(Fd(fd), &raw mut (*datagram.as_ptr()).header).build()
            }
            RawOp::SendTo { fd, datagram } => {
                let header = &raw const (*datagram.as_ptr()).header;
                let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
                return Lowered::Retained(opcode::SendMsg::new(Fd(fd), header).flags(flags as u32).build());
            }
            RawOp::Accept { fd, multishot } => {
                return Lowered::Retained(if multishot && how.multishot_accept {
                    opcode::AcceptMulti::new(Fd(fd)).flags(libc::SOCK_CLOEXEC).build()
                } else {
                    // Whose connection it is can be asked of the connection.
                    let nowhere = std::ptr::null_mut();
                    opcode::Accept::new(Fd(fd), nowhere, nowhere.cast()).flags(libc::SOCK_CLOEXEC).build()
                });
            }
            RawOp::Connect { fd, address } => {
                let address = &address.as_ref().0;
                opcode::Connect::new(Fd(fd), address.as_ptr().cast(), address.len()).build()
            }
            RawOp::Shutdown { fd, half } => {
                return Lowered::Retained(opcode::Shutdown::new(Fd(fd), direction(half)).build());
            }
            RawOp::Poll { fd, wanted } => return Lowered::Retained(poll(fd, wanted)),
            RawOp::Open { path, how } => match how.flags() {
                Ok(flags) => {
                    let path = path.as_ref().0.as_ptr();
                    let entry = opcode::OpenAt::new(Fd(libc::AT_FDCWD), path).flags(flags).mode(how.mode).build();
                    return Lowered::Retained(if how.directory || how.create_new {
                        entry
                    } else {
                        // The kernel's first try is a non-blocking open, and a FIFO takes that at its word: it opens
                        // without a peer, or refuses. The worker it is sent to here waits as it should.
                        entry.flags(squeue::Flags::ASYNC)
                    });
                }
                Err(errno) => return Lowered::Refused(errno),
            },
            RawOp::Close { fd } => return Lowered::Retained(opcode::Close::new(Fd(fd)).build()),
            RawOp::StatFd { fd, into } => {
                let into = &raw mut (*into.as_ptr()).kernel;
                return Lowered::Retained(statx(fd, c"".as_ptr(), libc::AT_EMPTY_PATH, into));
            }
            RawOp::StatPath { path, follow, into } => {
                let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
                let into = &raw mut (*into.as_ptr()).kernel;
                return Lowered::Retained(statx(libc::AT_FDCWD, path.as_ref().0.as_ptr(), flags, into));
            }
            RawOp::Sync { fd, data_only } => {
                let flags = if data_only { FsyncFlags::DATASYNC } else { FsyncFlags::empty() };
                return Lowered::Retained(opcode::Fsync::new(Fd(fd)).flags(flags).build());
            }
            RawOp::Allocate { fd, offset, len, keep_size } => {
                let mode = if keep_size { libc::FALLOC_FL_KEEP_SIZE } else { 0 };
                return Lowered::Retained(opcode::Fallocate::new(Fd(fd), len).offset(offset).mode(mode).build());
            }
            RawOp::Truncate { fd, len } => return Lowered::Retained(opcode::Ftruncate::new(Fd(fd), len).build()),
            RawOp::Rename { from, to, replace } => {
                let (from, to) = (from.as_ref().0.as_ptr(), to.as_ref().0.as_ptr());
                let flags = if replace { 0 } else { libc::RENAME_NOREPLACE };
                let entry = opcode::RenameAt::new(Fd(libc::AT_FDCWD), from, Fd(libc::AT_FDCWD), to);
                return Lowered::Retained(entry.flags(flags).build());
            }
            RawOp::Unlink { path, directory } => {
                let flags = if directory { libc::AT_REMOVEDIR } else { 0 };
                let entry = opcode::UnlinkAt::new(Fd(libc::AT_FDCWD), path.as_ref().0.as_ptr());
                return Lowered::Retained(entry.flags(flags).build());
            }
            RawOp::Mkdir { path, mode } => {
                let entry = opcode::MkDirAt::new(Fd(libc::AT_FDCWD), path.as_ref().0.as_ptr());
                return Lowered::Retained(entry.mode(mode).build());
            }
            RawOp::ReadDir { .. } | RawOp::Job { .. } => return Lowered::Pool,
        }
    };
    Lowered::Entry(entry)
}

#[inline(always)]
fn read(fd: i32, buf: RawSlice, offset: u64) -> squeue::Entry {
    match buf.fixed {
        RawSlice::NOT_FIXED => opcode::Read::new(Fd(fd), buf.ptr, buf.len).offset(offset).build(),
        index => opcode::ReadFixed::new(Fd(fd), buf.ptr, buf.len, index).offset(offset).build(),
    }
}

#[inline(always)]
fn write(fd: i32, buf: RawSlice, offset: u64, flags: i32) -> squeue::Entry {
    match buf.fixed {
        RawSlice::NOT_FIXED => opcode::Write::new(Fd(fd), buf.ptr, buf.len).offset(offset).rw_flags(flags).build(),
        index => opcode::WriteFixed::new(Fd(fd), buf.ptr, buf.len, index).offset(offset).rw_flags(flags).build(),
    }
}

fn statx(dir: i32, path: *const libc::c_char, flags: i32, into: *mut libc::statx) -> squeue::Entry {
    let mask = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
    opcode::Statx::new(Fd(dir), path, into.cast()).flags(flags).mask(mask).build()
}

fn direction(half: Half) -> i32 {
    match half {
        Half::Read => libc::SHUT_RD,
        Half::Write => libc::SHUT_WR,
        Half::Both => libc::SHUT_RDWR,
    }
}

/// Waits once for readiness. Errors and hang-ups are always waited for as well.
pub(super) fn poll(fd: i32, wanted: Readiness) -> squeue::Entry {
    let mut events = 0;
    if wanted.readable {
        events |= libc::POLLIN;
    }
    if wanted.writable {
        events |= libc::POLLOUT;
    }
    opcode::PollAdd::new(Fd(fd), events as u32).build()
}

/// What a poll's completion says.
pub(super) fn readiness(events: i32) -> Readiness {
    let has = |event: libc::c_short| events & i32::from(event) != 0;
    Readiness {
        readable: has(libc::POLLIN),
        writable: has(libc::POLLOUT),
        error: has(libc::POLLERR),
        hangup: has(libc::POLLHUP),
    }
}
