//! The synchronous calls on sockets, through this thread's loop.

use wo_runtime::error::{IoError, IoResult, OpKind, Stage, errno};
use wo_runtime::plane::backend::{AnyBackend, Backend, SocketOption, SocketOptionName};
use wo_runtime::plane::{Fd, SocketAddress, current};

/// Uses this thread's kernel for one synchronous call.
pub(crate) fn with_kernel<R>(kind: OpKind, call: impl FnOnce(&mut AnyBackend) -> IoResult<R>) -> IoResult<R> {
    current::with_loop(kind, |event_loop| call(event_loop.backend()))
}

/// Sets an option.
pub(crate) fn set(fd: &Fd, option: SocketOption) -> IoResult<()> {
    with_kernel(OpKind::SocketOption, |kernel| kernel.set_socket_option(fd, option))
}

/// Reads an option; `value` takes it out of the kernel's answer.
pub(crate) fn get<R>(fd: &Fd, name: SocketOptionName, value: impl FnOnce(SocketOption) -> Option<R>) -> IoResult<R> {
    let option = with_kernel(OpKind::SocketOption, |kernel| kernel.socket_option(fd, name))?;
    value(option).ok_or_else(|| {
        IoError::new(errno::EINVAL, OpKind::SocketOption, Stage::Completion)
            .with_context(format!("asked for {name:?}, got {option:?}"))
    })
}

/// Takes the pending error of a socket, which belongs to `op`.
pub(crate) fn take_error(fd: &Fd, op: OpKind) -> IoResult<Option<IoError>> {
    get(fd, SocketOptionName::Error, |option| match option {
        SocketOption::Error(0) => Some(None),
        SocketOption::Error(errno) => Some(Some(IoError::new(errno, op, Stage::Completion))),
        _ => None,
    })
}

/// The address a socket is bound to.
pub(crate) fn local_address(fd: &Fd) -> IoResult<SocketAddress> {
    with_kernel(OpKind::SocketOption, |kernel| kernel.local_address(fd))
}

/// The address a socket is connected to.
pub(crate) fn peer_address(fd: &Fd) -> IoResult<SocketAddress> {
    with_kernel(OpKind::SocketOption, |kernel| kernel.peer_address(fd))
}
