//! Waiting for descriptors that somebody else reads and writes: a library's socket, a device, an event descriptor.
//!
//! Readiness is a report, not a promise: by the time the fiber runs, another reader may have been there. So the
//! descriptor should be non-blocking.

use std::os::fd::{AsFd, AsRawFd};

use crate::error::{IoError, IoResult, OpKind};
use crate::fiber::{Call, verb};
use crate::plane::backend::Backend;
use crate::plane::current::with_loop;
use crate::plane::op::Readiness;
use crate::plane::ops::Poll;

/// Waits until reading from `fd` will not wait: there are bytes or a connection, the other end has gone, or the
/// descriptor is broken. Answers which.
///
/// The descriptor is borrowed, or owned, until then, and stays open for as long. Dropping the call takes nothing
/// from it.
///
/// # Errors
///
/// `EPERM` for what is always ready, such as a regular file, on backends that wait by epoll; `EBADF` in a
/// simulated world, which has no descriptors of the system's.
///
/// # Examples
///
/// ```no_run
/// use std::io::{ErrorKind, Read};
/// use std::net::TcpStream;
/// use wo::io::readable;
///
/// /// Reads from a stream of std's without blocking the shard.
/// #[wo::fiber]
/// fn read(mut stream: &TcpStream, into: &mut [u8]) -> std::io::Result<usize> {
///     stream.set_nonblocking(true)?;
///     loop {
///         match stream.read(into) {
///             Err(error) if error.kind() == ErrorKind::WouldBlock => readable(stream)?,
///             done => return done,
///         };
///     }
/// }
/// ```
pub fn readable<F: AsFd>(fd: F) -> Call<impl Future<Output = IoResult<Readiness>>> {
    Call::new(wait(fd, Readiness::READABLE))
}

/// Waits until writing to `fd` will not wait: there is room, the other end has gone, or the descriptor is broken.
/// Answers which. For the rest see [`readable`].
///
/// # Errors
///
/// As [`readable`].
///
/// # Examples
///
/// ```
/// use std::os::unix::net::UnixStream;
///
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let (here, _there) = UnixStream::pair()?;
/// wo::io::writable(&here)?; // it has room
/// # Ok(())
/// # }
/// ```
pub fn writable<F: AsFd>(fd: F) -> Call<impl Future<Output = IoResult<Readiness>>> {
    Call::new(wait(fd, Readiness::WRITABLE))
}

async fn wait(fd: impl AsFd, wanted: Readiness) -> IoResult<Readiness> {
    let raw = fd.as_fd().as_raw_fd();
    let named = |error: IoError| match error.context() {
        "" => error.with_context(format!("descriptor {raw}")),
        _ => error,
    };
    let foreign = with_loop(OpKind::Poll, |event_loop| event_loop.backend().foreign(raw)).map_err(named)?;
    let ready = verb(Poll::new(&foreign, wanted)).await.map_err(named);
    // Whoever owns it keeps it open until the wait is over.
    drop(fd);
    ready
}
