//! The operating system's synchronous calls, shared by the backends that run on it.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::time::Duration;

use socket2::{SockRef, Socket, TcpKeepalive, Type};

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::plane::addr::SocketAddress;
use crate::plane::backend::Backend;
use crate::plane::backend::caps::KernelVersion;
use crate::plane::backend::operand::{FileKind, FileStat};
use crate::plane::backend::socket::{LINGER_MAX, SocketKind, SocketOption, SocketOptionName};
use crate::plane::fd::{Fd, RawDescriptor};
use crate::plane::op::RawSlice;

/// The monotonic clock.
pub(crate) fn monotonic_nanos() -> u64 {
    let mut now = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the call writes the whole time. It cannot fail: every system has this clock.
    let now = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, now.as_mut_ptr());
        now.assume_init()
    };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Closes a descriptor. An error is not answered: the number is gone either way.
pub(crate) fn close(raw: RawDescriptor) {
    // SAFETY: the caller owned the number and gives it up; dropping the owner closes it and ignores the answer.
    drop(unsafe { OwnedFd::from_raw_fd(raw) });
}

/// Makes an event descriptor for a waker, close-on-exec and non-blocking.
pub(crate) fn event() -> IoResult<RawDescriptor> {
    // SAFETY: the call takes no pointers.
    let raw = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if raw < 0 {
        let error = last(OpKind::Setup, Stage::Setup);
        let remedy = match error.errno() {
            errno::EMFILE => ": the process has too many files open; raise `ulimit -n`",
            errno::ENFILE => ": the system has too many files open; raise fs.file-max",
            errno::ENOMEM => ": the kernel has no memory for it",
            errno::EPERM | errno::EACCES | errno::ENOSYS => {
                ": a seccomp filter refuses it; allow eventfd2 in the filter"
            }
            _ => "",
        };
        return Err(error.with_context(format!("eventfd for the loop's waker{remedy}")));
    }
    Ok(raw)
}

/// The bytes this process may lock, or `None` for any number.
pub(crate) fn lockable_bytes() -> Option<u64> {
    let mut limit = MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: the limit is writable, and read only when the call has filled it.
    let limit = unsafe {
        if libc::getrlimit(libc::RLIMIT_MEMLOCK, limit.as_mut_ptr()) != 0 {
            return None;
        }
        limit.assume_init()
    };
    (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Rings an event descriptor. Async-signal-safe, and leaves `errno` as it was.
pub(crate) fn ring(event: RawDescriptor) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: errno's address is the thread's own; the write reads eight bytes of a live array. A full counter
    // answers EAGAIN, and then the descriptor is readable already.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::write(event, one.as_ptr().cast(), one.len());
        *errno = before;
    }
}

/// Ends listening on a socket whose descriptor other ops still share. An error is not answered: the socket closes
/// with its last user in any case.
pub(crate) fn stop_listening(raw: RawDescriptor) {
    // SAFETY: the call takes no pointers, and the caller holds the descriptor open.
    unsafe { libc::shutdown(raw, libc::SHUT_RDWR) };
}

/// Takes all rings out of an event descriptor; never waits.
pub(crate) fn silence(event: RawDescriptor) {
    let mut count = [0u8; 8];
    // SAFETY: the read writes eight bytes of a live array. Without a ring it answers EAGAIN, which is as good.
    unsafe { libc::read(event, count.as_mut_ptr().cast(), count.len()) };
}

/// The release of the running kernel; 0.0 when it does not say.
pub(crate) fn kernel() -> KernelVersion {
    // SAFETY: `utsname` is plain bytes, valid when zero, and the call writes only into it; the release ends in a
    // zero byte.
    let release = unsafe {
        let mut name: libc::utsname = std::mem::zeroed();
        libc::uname(&mut name);
        std::ffi::CStr::from_ptr(name.release.as_ptr()).to_string_lossy().into_owned()
    };
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|digits| digits.parse().unwrap_or(0));
    KernelVersion { major: numbers.next().unwrap_or(0), minor: numbers.next().unwrap_or(0) }
}

/// The calling thread's last system error.
pub(crate) fn last(op: OpKind, stage: Stage) -> IoError {
    IoError::new(std::io::Error::last_os_error().raw_os_error().unwrap_or(0), op, stage)
}

fn convert(error: std::io::Error, op: OpKind) -> IoError {
    IoError::new(error.raw_os_error().unwrap_or(0), op, Stage::Completion)
}

/// A simulated kernel's descriptor is none of the system's, whose number may be another's here.
fn own(fd: &Fd, kind: OpKind) -> IoResult<()> {
    if fd.is_system() { Ok(()) } else { Err(fd.strayed(kind)) }
}

fn borrow(fd: &Fd) -> BorrowedFd<'_> {
    // SAFETY: the `Fd` is borrowed for as long, and closes its number only when it is dropped.
    unsafe { BorrowedFd::borrow_raw(fd.raw()) }
}

/// Has a loop take over a descriptor of the operating system.
pub(crate) fn adopt(kernel: &mut impl Backend, fd: OwnedFd) -> Fd {
    kernel.adopt(fd.into_raw_fd())
}

/// A descriptor of a child's own for what `fd` is open on. A child expects to wait in its reads and writes, and the
/// mode is the file description's: where ours does not wait, a pipe is opened once more.
pub(crate) fn for_a_child(fd: &Fd) -> std::io::Result<OwnedFd> {
    own(fd, OpKind::Spawn)?;
    let own = borrow(fd).try_clone_to_owned()?;
    let flags = rustix::fs::fcntl_getfl(&own)?;
    let is_pipe = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&own)?.st_mode) == rustix::fs::FileType::Fifo;
    if !is_pipe || !flags.contains(rustix::fs::OFlags::NONBLOCK) {
        return Ok(own);
    }
    let mode = (flags & rustix::fs::OFlags::RWMODE) | rustix::fs::OFlags::CLOEXEC;
    let path = format!("/proc/self/fd/{}", own.as_raw_fd());
    Ok(rustix::fs::open(path, mode, rustix::fs::Mode::empty())?)
}

/// Makes a call while this thread blocks no signal, so that a child it starts begins like that.
pub(crate) fn with_no_signal_blocked<R>(call: impl FnOnce() -> R) -> R {
    struct Before(libc::sigset_t);

    impl Drop for Before {
        fn drop(&mut self) {
            // SAFETY: the set was filled by the call below, and is this thread's own from before.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
        }
    }

    let (mut none, mut before) = (MaybeUninit::<libc::sigset_t>::uninit(), MaybeUninit::<libc::sigset_t>::uninit());
    // SAFETY: the first call fills one set, the second reads it and fills the other; with these arguments neither can
    // fail.
    let _before = unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), before.as_mut_ptr());
        Before(before.assume_init())
    };
    call()
}

fn socket_type(kind: SocketKind) -> Type {
    match kind {
        SocketKind::Stream => Type::STREAM,
        SocketKind::Datagram => Type::DGRAM,
    }
}

/// Makes a socket, close-on-exec, and non-blocking where `nonblocking` says so.
pub(crate) fn socket(domain: socket2::Domain, kind: SocketKind, nonblocking: bool) -> IoResult<Fd> {
    let ty = if nonblocking { socket_type(kind).nonblocking() } else { socket_type(kind) };
    Socket::new(domain, ty, None)
        .map(|socket| Fd::system(socket.into_raw_fd()))
        .map_err(|error| no_descriptor(convert(error, OpKind::Socket), &format!("{kind:?} {domain:?}")))
}

/// Why `what` could not be had, and what to do about it.
fn no_descriptor(error: IoError, what: &str) -> IoError {
    let remedy = match error.errno() {
        errno::EMFILE => ": the process has too many files open; close some, or raise `ulimit -n`",
        errno::ENFILE => ": the system has too many files open; raise fs.file-max",
        _ => "",
    };
    error.with_context(format!("{what}{remedy}"))
}

/// Makes a connected pair of Unix sockets.
pub(crate) fn socket_pair(kind: SocketKind, nonblocking: bool) -> IoResult<(Fd, Fd)> {
    let ty = if nonblocking { socket_type(kind).nonblocking() } else { socket_type(kind) };
    Socket::pair(socket2::Domain::UNIX, ty, None)
        .map(|(a, b)| (Fd::system(a.into_raw_fd()), Fd::system(b.into_raw_fd())))
        .map_err(|error| no_descriptor(convert(error, OpKind::Socket), "socket pair"))
}

/// Makes a pipe: the reading end, then the writing end.
pub(crate) fn pipe(nonblocking: bool) -> IoResult<(Fd, Fd)> {
    let mut ends = [0; 2];
    let flags = libc::O_CLOEXEC | if nonblocking { libc::O_NONBLOCK } else { 0 };
    // SAFETY: the array has room for the two numbers the call writes.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), flags) } < 0 {
        return Err(no_descriptor(last(OpKind::Open, Stage::Completion), "pipe"));
    }
    Ok((Fd::system(ends[0]), Fd::system(ends[1])))
}

/// Binds a socket to an address.
pub(crate) fn bind(fd: &Fd, address: &SocketAddress) -> IoResult<()> {
    own(fd, OpKind::Bind)?;
    let kernel = address.to_kernel(OpKind::Bind)?;
    SockRef::from(&borrow(fd))
        .bind(&kernel)
        .map_err(|error| convert(error, OpKind::Bind).with_context(address.to_string()))
}

/// Starts to listen.
pub(crate) fn listen(fd: &Fd, backlog: u32) -> IoResult<()> {
    own(fd, OpKind::Listen)?;
    let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
    SockRef::from(&borrow(fd)).listen(backlog).map_err(|error| convert(error, OpKind::Listen))
}

/// The address a socket is bound to.
pub(crate) fn local_address(fd: &Fd) -> IoResult<SocketAddress> {
    own(fd, OpKind::SocketOption)?;
    let kernel = SockRef::from(&borrow(fd)).local_addr().map_err(|error| convert(error, OpKind::SocketOption))?;
    known(&kernel)
}

/// The address a socket is connected to.
pub(crate) fn peer_address(fd: &Fd) -> IoResult<SocketAddress> {
    own(fd, OpKind::SocketOption)?;
    let kernel = SockRef::from(&borrow(fd)).peer_addr().map_err(|error| convert(error, OpKind::SocketOption))?;
    known(&kernel)
}

fn known(kernel: &socket2::SockAddr) -> IoResult<SocketAddress> {
    SocketAddress::from_kernel(kernel).ok_or_else(|| {
        IoError::new(crate::error::errno::EOPNOTSUPP, OpKind::SocketOption, Stage::Completion)
            .with_context(format!("an address of family {}", kernel.family()))
    })
}

/// Sets a socket option.
pub(crate) fn set_socket_option(fd: &Fd, option: SocketOption) -> IoResult<()> {
    own(fd, OpKind::SocketOption)?;
    let borrowed = borrow(fd);
    let socket = SockRef::from(&borrowed);
    match option {
        SocketOption::NoDelay(on) => socket.set_tcp_nodelay(on),
        SocketOption::ReuseAddress(on) => socket.set_reuse_address(on),
        SocketOption::ReusePort(on) => socket.set_reuse_port(on),
        SocketOption::KeepAlive(None) => socket.set_keepalive(false),
        SocketOption::KeepAlive(Some(idle)) => socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(idle)),
        SocketOption::ReceiveBuffer(bytes) => socket.set_recv_buffer_size(bytes),
        SocketOption::SendBuffer(bytes) => socket.set_send_buffer_size(bytes),
        // The largest would be the -1 that stands for the system's default; 256 is refused.
        SocketOption::TimeToLive(hops) => socket.set_ttl_v4(hops.min(256)),
        SocketOption::Broadcast(on) => socket.set_broadcast(on),
        SocketOption::OnlyV6(on) => socket.set_only_v6(on),
        SocketOption::Linger(span) => socket.set_linger(span.map(|span| span.min(LINGER_MAX))),
        SocketOption::Error(_) => Err(std::io::Error::from_raw_os_error(crate::error::errno::EINVAL)),
    }
    .map_err(|error| convert(error, OpKind::SocketOption).with_context(format!("{option:?}")))
}

/// Reads a socket option.
pub(crate) fn socket_option(fd: &Fd, name: SocketOptionName) -> IoResult<SocketOption> {
    own(fd, OpKind::SocketOption)?;
    let borrowed = borrow(fd);
    let socket = SockRef::from(&borrowed);
    match name {
        SocketOptionName::NoDelay => socket.tcp_nodelay().map(SocketOption::NoDelay),
        SocketOptionName::ReuseAddress => socket.reuse_address().map(SocketOption::ReuseAddress),
        SocketOptionName::ReusePort => socket.reuse_port().map(SocketOption::ReusePort),
        SocketOptionName::KeepAlive => socket.keepalive().and_then(|on| {
            let idle: Option<Duration> = if on { Some(socket.tcp_keepalive_time()?) } else { None };
            Ok(SocketOption::KeepAlive(idle))
        }),
        SocketOptionName::ReceiveBuffer => socket.recv_buffer_size().map(SocketOption::ReceiveBuffer),
        SocketOptionName::SendBuffer => socket.send_buffer_size().map(SocketOption::SendBuffer),
        SocketOptionName::TimeToLive => socket.ttl_v4().map(SocketOption::TimeToLive),
        SocketOptionName::Broadcast => socket.broadcast().map(SocketOption::Broadcast),
        SocketOptionName::OnlyV6 => socket.only_v6().map(SocketOption::OnlyV6),
        SocketOptionName::Linger => socket.linger().map(SocketOption::Linger),
        SocketOptionName::Error => socket
            .take_error()
            .map(|error| SocketOption::Error(error.and_then(|error| error.raw_os_error()).unwrap_or(0))),
    }
    .map_err(|error| convert(error, OpKind::SocketOption).with_context(format!("{name:?}")))
}

/// Whether reads and writes of a descriptor may name their place. Asks only what the system has in memory.
pub(crate) fn has_positions(fd: &Fd) -> IoResult<bool> {
    own(fd, OpKind::Stat)?;
    let mut stat = FileStat::default();
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    // SAFETY: the path is empty and static, and there is room for the answer.
    if unsafe { libc::statx(fd.raw(), c"".as_ptr(), flags, libc::STATX_TYPE, &raw mut stat.kernel) } < 0 {
        return Err(last(OpKind::Stat, Stage::Completion));
    }
    // A device may have a position and still give each byte once; and some of /proc's files say they are regular.
    let may = matches!(stat.kind(), FileKind::File | FileKind::Directory | FileKind::BlockDevice);
    // SAFETY: the call takes no pointers.
    Ok(may && unsafe { libc::lseek(fd.raw(), 0, libc::SEEK_CUR) } >= 0)
}

/// Locks what a descriptor has open, unless another opening has the lock. Never waits.
pub(crate) fn try_lock(fd: &Fd) -> IoResult<bool> {
    own(fd, OpKind::Lock)?;
    // SAFETY: the call takes no pointers, and the descriptor is borrowed.
    if unsafe { libc::flock(fd.raw(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    let refusal = last(OpKind::Lock, Stage::Completion);
    if refusal.errno() == libc::EWOULDBLOCK { Ok(false) } else { Err(refusal) }
}

/// Takes the lock off again.
pub(crate) fn unlock(fd: &Fd) -> IoResult<()> {
    // SAFETY: the call takes no pointers, and the descriptor is borrowed.
    if unsafe { libc::flock(fd.raw(), libc::LOCK_UN) } == 0 {
        Ok(())
    } else {
        Err(last(OpKind::Lock, Stage::Completion))
    }
}

/// Sends what can be sent at once: a count or `-errno`; none when nothing can.
///
/// # Safety
///
/// The memory is valid for reading during the call.
pub(crate) unsafe fn try_send(fd: &Fd, buf: RawSlice) -> Option<i32> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    loop {
        // SAFETY: the caller vouches for the memory; the descriptor is borrowed and open.
        let sent = unsafe { libc::send(fd.raw(), buf.ptr.cast(), buf.len as usize, flags) };
        if sent >= 0 {
            return Some(i32::try_from(sent).unwrap_or(i32::MAX));
        }
        match std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) {
            libc::EINTR => {}
            libc::EAGAIN => return None,
            errno => return Some(-errno),
        }
    }
}
