//! The system calls of one op, none of which waits.
//!
//! A socket's call is told so by a flag. A pipe made here is non-blocking. Any other descriptor may share its open
//! file description with other processes, so its mode is left alone: RWF_NOWAIT is tried first, and where the kernel
//! refuses that, the descriptor is asked by poll(2) right before the call. (Another reader of the same terminal or
//! old FIFO could still take the bytes in between; then the call waits for the next ones.) What even so might wait,
//! a write to a terminal or to a blocking device, goes to the worker pool, as files do.
//!
//! Nothing here kills by SIGPIPE: sockets are told by a flag, newer kernels too, and elsewhere the signal is held
//! back during the write and taken off again.

use std::mem::MaybeUninit;

use crate::error::errno;
use crate::plane::backend::calls::{self, retrying};
use crate::plane::backend::operand::{Datagram, PeerAddress};
use crate::plane::backend::poll::source::{Kind, Nature, Pending};
use crate::plane::fd::RawDescriptor;
use crate::plane::op::{RawOp, RawSlice, Readiness};

/// What became of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The op ended.
    Done(i32),
    /// A multishot op brought one result and goes on.
    More(i32),
    /// A part was done; the rest can be tried at once.
    Part,
    /// It would wait, and an event will tell when to try again.
    Wait,
    /// It would wait, and no event will tell.
    Stalled,
    /// The descriptor takes no RWF_NOWAIT: remember that, and try again.
    NoNowait,
    /// Try again once the poller watches the descriptor.
    Watch,
    /// It is for the worker pool.
    Pool,
}

/// Bytes that a pipe reported writable takes without waiting.
const PIPE_ATOMIC: usize = libc::PIPE_BUF;

/// Raise no signal, as MSG_NOSIGNAL does for sockets; newer than the libc crate.
const RWF_NOSIGNAL: libc::c_int = 0x100;

/// Tries an op once.
///
/// # Safety
///
/// What the op points at is valid, and nobody else touches it, during the call.
pub(super) unsafe fn attempt(nature: Nature, no_signal_flag: bool, pending: &mut Pending) -> Outcome {
    // SAFETY: the caller vouches for every pointer of the op. A datagram's header is the kernel's alone during the
    // call, which writes it only when it succeeds, so it serves again after an attempt that would have waited.
    unsafe {
        match pending.op {
            RawOp::Recv { fd, buf } => {
                ended(retrying(|| libc::recv(fd, buf.ptr.cast(), buf.len as usize, libc::MSG_DONTWAIT)))
            }
            RawOp::Send { fd, buf, all } => send(fd, buf, all, &mut pending.sent),
            RawOp::RecvFrom { fd, datagram } => {
                let header = &raw mut (*datagram.as_ptr()).header;
                ended(retrying(|| libc::recvmsg(fd, header, libc::MSG_DONTWAIT)))
            }
            RawOp::SendTo { fd, datagram } => send_to(fd, datagram.as_ref()),
            RawOp::Accept { fd, multishot } => accept(fd, multishot, nature),
            RawOp::Connect { fd, address } => connect(fd, address.as_ref(), nature, &mut pending.begun),
            RawOp::Read { fd, buf, .. } => read(fd, &[vector(buf)], nature),
            RawOp::ReadVectored { fd, bufs, .. } => read(fd, &bufs.as_ref().0, nature),
            RawOp::Write { fd, buf, .. } => write(fd, &[vector(buf)], nature, no_signal_flag),
            RawOp::WriteVectored { fd, bufs, .. } => write(fd, &bufs.as_ref().0, nature, no_signal_flag),
            _ => Outcome::Pool,
        }
    }
}

fn vector(buf: RawSlice) -> libc::iovec {
    libc::iovec { iov_base: buf.ptr.cast(), iov_len: buf.len as usize }
}

/// A call's answer as an outcome: EAGAIN alone is not the end.
fn ended(res: i32) -> Outcome {
    if res == -errno::EAGAIN { Outcome::Wait } else { Outcome::Done(res) }
}

/// Sends once.
///
/// # Safety
///
/// `buf` is valid for reading, and `sent` is within it.
unsafe fn send(fd: RawDescriptor, buf: RawSlice, all: bool, sent: &mut u32) -> Outcome {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let rest = (buf.len - *sent) as usize;
    // SAFETY: the caller vouches for the memory.
    let res = retrying(|| unsafe { libc::send(fd, buf.ptr.add(*sent as usize).cast(), rest, flags) });
    match res {
        more if more >= 0 => {
            *sent += more as u32;
            // A send that moves nothing would be tried for ever.
            if all && more > 0 && *sent < buf.len { Outcome::Part } else { Outcome::Done(*sent as i32) }
        }
        refusal if refusal == -errno::EAGAIN => Outcome::Wait,
        // What went out went out; the next send meets the error again.
        _ if *sent > 0 => Outcome::Done(*sent as i32),
        refusal => Outcome::Done(refusal),
    }
}

fn send_to(fd: RawDescriptor, datagram: &Datagram) -> Outcome {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the header points into the datagram and at the op's memory, which both outlive the op.
    let res = retrying(|| unsafe { libc::sendmsg(fd, &datagram.header, flags) });
    // A Unix socket waits for room at the addressee, and is not told when there is some.
    if res == -errno::EAGAIN && datagram.address.is_unix() { Outcome::Stalled } else { ended(res) }
}

/// Whether calls on `fd` return at once by its own mode.
fn is_nonblocking(fd: RawDescriptor) -> bool {
    // SAFETY: the call takes no pointers.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    // What is not open will be told by the call itself.
    flags < 0 || flags & libc::O_NONBLOCK != 0
}

fn accept(fd: RawDescriptor, multishot: bool, nature: Nature) -> Outcome {
    if !nature.nonblocking && !is_nonblocking(fd) {
        // Somebody else's listener: another process may take the connection first, and then a worker waits, not us.
        return match ready_now(fd, Readiness::READABLE) {
            Ok(ready) if ready == Readiness::default() => Outcome::Wait,
            _ => Outcome::Pool,
        };
    }
    match calls::accept(fd) {
        accepted if accepted >= 0 && multishot => Outcome::More(accepted),
        res => ended(res),
    }
}

fn connect(fd: RawDescriptor, address: &PeerAddress, nature: Nature, begun: &mut bool) -> Outcome {
    if !nature.nonblocking && !is_nonblocking(fd) {
        return Outcome::Pool;
    }
    // Asked again, the call tells how the connecting went: once 0, or the error that ended it.
    match -calls::connect(fd, address) {
        errno::EINPROGRESS => {
            *begun = true;
            Outcome::Wait
        }
        libc::EALREADY if *begun => Outcome::Wait,
        errno::EISCONN if *begun => Outcome::Done(0),
        // A Unix listener whose queue is full; nothing tells when there is room.
        errno::EAGAIN if address.0.is_unix() => Outcome::Stalled,
        refusal => Outcome::Done(-refusal),
    }
}

/// Reads from anything but a file.
///
/// # Safety
///
/// The memory the list names is valid for writing.
unsafe fn read(fd: RawDescriptor, vecs: &[libc::iovec], nature: Nature) -> Outcome {
    let (ptr, count) = calls::vectors(vecs);
    // SAFETY: the caller vouches for the memory; the list itself lives during the call.
    let plain = || ended(retrying(|| unsafe { libc::readv(fd, ptr, count) }));
    match nature.kind {
        Kind::File | Kind::Unknown => Outcome::Pool,
        Kind::Socket => {
            let mut header = message(ptr, count);
            // SAFETY: as above.
            ended(retrying(|| unsafe { libc::recvmsg(fd, &mut header, libc::MSG_DONTWAIT) }))
        }
        _ if nature.nonblocking => plain(),
        _ if !nature.no_nowait => {
            // SAFETY: as above.
            match retrying(|| unsafe { libc::preadv2(fd, ptr, count, -1, libc::RWF_NOWAIT) }) {
                refusal if refuses_flags(refusal) => Outcome::NoNowait,
                res => ended(res),
            }
        }
        _ if !nature.watched => Outcome::Watch,
        _ => match ready_now(fd, Readiness::READABLE) {
            Ok(ready) if ready == Readiness::default() => Outcome::Wait,
            Ok(_) => plain(),
            Err(errno) => Outcome::Done(-errno),
        },
    }
}

/// Writes to anything but a file.
///
/// # Safety
///
/// The memory the list names is valid for reading.
unsafe fn write(fd: RawDescriptor, vecs: &[libc::iovec], nature: Nature, no_signal_flag: bool) -> Outcome {
    let (ptr, count) = calls::vectors(vecs);
    // SAFETY: the caller vouches for the memory; the list itself lives during the call.
    let flagged = |flags| retrying(|| unsafe { libc::pwritev2(fd, ptr, count, -1, flags) });
    match nature.kind {
        Kind::File | Kind::Unknown => Outcome::Pool,
        Kind::Socket => {
            let header = message(ptr, count);
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            // SAFETY: as above.
            ended(retrying(|| unsafe { libc::sendmsg(fd, &header, flags) }))
        }
        _ if no_signal_flag && !nature.no_nowait => match flagged(libc::RWF_NOWAIT | RWF_NOSIGNAL) {
            refusal if refuses_flags(refusal) => Outcome::NoNowait,
            res => ended(res),
        },
        _ if nature.nonblocking => ended(without_sigpipe(|| {
            // SAFETY: as above.
            retrying(|| unsafe { libc::writev(fd, ptr, count) })
        })),
        _ if !nature.no_nowait => match without_sigpipe(|| flagged(libc::RWF_NOWAIT)) {
            refusal if refuses_flags(refusal) => Outcome::NoNowait,
            res => ended(res),
        },
        _ if !nature.watched => Outcome::Watch,
        Kind::Device => Outcome::Pool,
        _ => match ready_now(fd, Readiness::WRITABLE) {
            Ok(ready) if ready == Readiness::default() => Outcome::Wait,
            Ok(_) => {
                let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
                let first = vecs.iter().find(|vec| vec.iov_len > 0).copied().unwrap_or(nothing);
                let len = first.iov_len.min(PIPE_ATOMIC);
                // SAFETY: as above.
                ended(without_sigpipe(|| retrying(|| unsafe { libc::write(fd, first.iov_base, len) })))
            }
            Err(errno) => Outcome::Done(-errno),
        },
    }
}

/// Whether an answer says that the descriptor, or the kernel, does not take the call's flags.
fn refuses_flags(res: i32) -> bool {
    res == -errno::EOPNOTSUPP || res == -errno::ENOSYS
}

fn message(vecs: *const libc::iovec, count: libc::c_int) -> libc::msghdr {
    // SAFETY: `msghdr` is plain words and pointers, all valid when zero.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = vecs.cast_mut();
    header.msg_iovlen = count as _;
    header
}

/// What a descriptor is ready for right now.
pub(super) fn ready_now(fd: RawDescriptor, wanted: Readiness) -> Result<Readiness, i32> {
    let mut events = 0;
    if wanted.readable {
        events |= libc::POLLIN;
    }
    if wanted.writable {
        events |= libc::POLLOUT;
    }
    let mut entry = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: one live entry; the call does not wait.
    let res = retrying(|| unsafe { libc::poll(&mut entry, 1, 0) } as isize);
    if res < 0 {
        return Err(-res);
    }
    let has = |bit| entry.revents & bit != 0;
    if has(libc::POLLNVAL) {
        return Err(errno::EBADF);
    }
    Ok(Readiness {
        readable: has(libc::POLLIN),
        writable: has(libc::POLLOUT),
        error: has(libc::POLLERR),
        hangup: has(libc::POLLHUP),
    })
}

/// Reads what the page cache holds, when that is all that was asked for, or all there is to the end of the file.
///
/// # Safety
///
/// `buf` is valid for writing.
pub(super) unsafe fn read_cached(fd: RawDescriptor, buf: RawSlice, offset: u64) -> Option<i32> {
    let at = i64::try_from(offset).ok()?;
    let read = |skip: usize, at: i64| {
        // SAFETY: the caller vouches for the memory; `skip` lies within it.
        let vec = libc::iovec { iov_base: unsafe { buf.ptr.add(skip) }.cast(), iov_len: buf.len as usize - skip };
        // SAFETY: as above.
        retrying(|| unsafe { libc::preadv2(fd, &vec, 1, at, libc::RWF_NOWAIT) })
    };
    let count = usize::try_from(read(0, at)).ok()?;
    let ends = count == buf.len as usize || read(count, at.checked_add(count as i64)?) == 0;
    ends.then_some(count as i32)
}

/// Whether a number names a descriptor.
pub(super) fn is_open(fd: RawDescriptor) -> bool {
    // SAFETY: the call takes no pointers.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

/// What a descriptor is, or why that cannot be told.
pub(super) fn kind_of(fd: RawDescriptor) -> Result<Kind, i32> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the call writes the whole struct when it answers 0.
    let res = retrying(|| unsafe { libc::fstat(fd, stat.as_mut_ptr()) } as isize);
    if res < 0 {
        return Err(-res);
    }
    // SAFETY: it answered 0.
    Ok(match unsafe { stat.assume_init() }.st_mode & libc::S_IFMT {
        libc::S_IFSOCK => Kind::Socket,
        libc::S_IFIFO => Kind::Pipe,
        libc::S_IFCHR => Kind::Device,
        libc::S_IFREG | libc::S_IFDIR | libc::S_IFBLK => Kind::File,
        _ => Kind::Other,
    })
}

/// Whether it is a TCP socket.
pub(super) fn is_tcp(fd: RawDescriptor) -> bool {
    let mut protocol: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    let value = (&raw mut protocol).cast();
    // SAFETY: the option's value and its length are live, and of the type the option has.
    let res = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL, value, &mut len) };
    res == 0 && protocol == libc::IPPROTO_TCP
}

/// Makes an open file description that is nobody else's non-blocking. False when it was refused.
pub(super) fn make_nonblocking(fd: RawDescriptor) -> bool {
    // SAFETY: the calls take no pointers.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        flags >= 0 && libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) >= 0
    }
}

/// Closes a descriptor, unless closing it could wait: then none.
pub(super) fn close(fd: RawDescriptor, kind: Kind) -> Option<i32> {
    let waits = match kind {
        Kind::Socket => {
            let mut linger = libc::linger { l_onoff: 0, l_linger: 0 };
            let mut len = size_of::<libc::linger>() as libc::socklen_t;
            let value = (&raw mut linger).cast();
            // SAFETY: the option's value and its length are live, and of the type the option has.
            let res = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, value, &mut len) };
            res < 0 || linger.l_onoff != 0 && linger.l_linger != 0
        }
        Kind::Pipe => false,
        _ => true,
    };
    (!waits).then(|| calls::close(fd))
}

/// Makes a call that may raise SIGPIPE with the signal held back, and takes off what it raised.
fn without_sigpipe(call: impl FnOnce() -> i32) -> i32 {
    let mut pipe = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the sets are written before they are read: `pipe` by sigemptyset, `before` by pthread_sigmask.
    let (pipe, before) = unsafe {
        libc::sigemptyset(pipe.as_mut_ptr());
        libc::sigaddset(pipe.as_mut_ptr(), libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, pipe.as_ptr(), before.as_mut_ptr());
        (pipe.assume_init(), before.assume_init())
    };
    let res = call();
    // SAFETY: the sets are initialised, and the wait is told not to wait.
    unsafe {
        // Somebody who holds the signal back already keeps what is pending.
        if libc::sigismember(&before, libc::SIGPIPE) == 0 {
            if res == -errno::EPIPE {
                let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
                retrying(|| libc::sigtimedwait(&pipe, std::ptr::null_mut(), &at_once) as isize);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        }
    }
    res
}
