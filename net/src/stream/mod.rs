//! Streams of bytes: TCP and Unix alike.
//!
//! A stream is a share of a descriptor and the peer's address; clones share the descriptor, and the last share to go
//! closes it. Reading and writing may go on at the same time, in different fibers. Two readers at once each get some
//! bytes, two writers at once may interleave theirs: agree on one of each.
//!
//! Three ways to transfer. Owned (`recv`, `send` and theirs) lend the buffer to the kernel and give it back with the
//! answer, without copying. Borrowed (`read`, `write`) go through a buffer of the runtime's, since the kernel may write
//! into what it was given even when the reader has gone. Those ending in `_by` have a deadline and answer "nothing by
//! then" as a value.

use std::fmt;
use std::future::Future;
use std::net::Shutdown as How;

use wo_runtime::error::{IoError, IoResult, OpKind};
use wo_runtime::fiber::{self, Call};
use wo_runtime::plane::Fd;
use wo_runtime::plane::ops::{Close, Shutdown};

use crate::explain;
use crate::family::Family;
use crate::option;

mod borrowed;
mod options;
mod owned;

pub(crate) use owned::{by_then, no_room};

/// A connected stream of bytes; see [`TcpStream`](crate::TcpStream) and [`UnixStream`](crate::UnixStream).
///
/// # Cancelling and dropping
///
/// A verb that is cancelled answers ECANCELED, or its result when that came first. A verb whose future is dropped
/// half-way leaves what it received to the next reader; of what it was sending, a part may have gone out.
pub struct Stream<F: Family> {
    pub(crate) fd: Fd,
    pub(crate) peer: F::Address,
}

impl<F: Family> Stream<F> {
    pub(crate) fn new(fd: Fd, peer: F::Address) -> Stream<F> {
        Stream { fd, peer }
    }

    /// Shuts one half of the connection down, or both. After the writing half the peer reads end of file; a read that
    /// waits on a reading half being shut ends with 0.
    ///
    /// # Errors
    ///
    /// ENOTCONN when the connection is gone already; shutting the same half twice is no error while it stands.
    pub fn shutdown(&self, how: How) -> Call<impl Future<Output = IoResult<()>>> {
        Call::new(async move {
            fiber::verb(Shutdown::new(&self.fd, how)).await.map_err(|error| explain::on(error, &self.peer))
        })
    }

    /// The peer's address, as it was when the connection was made.
    pub fn peer_addr(&self) -> F::Address {
        self.peer.clone()
    }

    /// The peer in a word, for logs: `ip:port` of a TCP stream, `unix` of a Unix stream, nothing when it is unknown.
    pub fn peer(&self) -> String {
        F::peer_text(&self.peer)
    }

    /// The address of this end.
    ///
    /// # Errors
    ///
    /// What the kernel answered, or ENXIO outside of a shard.
    pub fn local_addr(&self) -> IoResult<F::Address> {
        option::local_address(&self.fd).map(F::address).map_err(|error| explain::on(error, &self.peer))
    }

    /// Takes the pending error of the connection, if there is one.
    ///
    /// # Errors
    ///
    /// What the kernel answered, or ENXIO outside of a shard.
    pub fn take_error(&self) -> IoResult<Option<IoError>> {
        let pending = option::take_error(&self.fd, OpKind::SocketOption)?;
        Ok(pending.map(|error| explain::on(error, &self.peer)))
    }

    /// Closes this share of the stream. The last one to be closed or dropped closes the connection, once the verbs in
    /// flight on it have ended.
    ///
    /// Dropping the stream does the same; closing waits for the kernel and hears what it says.
    ///
    /// # Errors
    ///
    /// What the kernel said to the close; the descriptor is gone all the same.
    pub fn close(self) -> Call<impl Future<Output = IoResult<()>>> {
        Call::new(async move {
            match Close::new(self.fd) {
                Ok(close) => fiber::verb(close).await.map_err(|error| explain::on(error, &self.peer)),
                // Others use it still; the last of them closes it.
                Err(_shared) => Ok(()),
            }
        })
    }

    fn explain(&self, error: IoError) -> IoError {
        explain::on(error, &self.peer)
    }
}

/// Shares the descriptor.
impl<F: Family> Clone for Stream<F> {
    fn clone(&self) -> Stream<F> {
        Stream { fd: self.fd.clone(), peer: self.peer.clone() }
    }
}

impl<F: Family> fmt::Debug for Stream<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(F::NAMES[0]).field("peer", &self.peer).field("fd", &self.fd).finish()
    }
}
