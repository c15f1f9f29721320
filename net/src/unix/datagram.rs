//! Unix datagram sockets.

use std::convert::identity;
use std::future::Future;

use wo_runtime::error::{IoResult, OpKind};
use wo_runtime::fiber::{self, Call};
use wo_runtime::plane::backend::{Backend, SocketKind};
use wo_runtime::plane::buf::{Bounce, BufResult, IoBuf};
use wo_runtime::plane::{Deadline, Instant, SocketAddress};

use crate::addr::ToUnixAddr;
use crate::datagram::DatagramSocket;
use crate::family::Unix;
use crate::option::with_kernel;
use crate::unix::bind::bind;

impl DatagramSocket<Unix> {
    /// A socket bound to `path`. A socket file that an earlier program left there is removed first; one that is in use
    /// is left alone, and so is anything that is no socket. The socket file stays when the socket is dropped.
    ///
    /// # Errors
    ///
    /// As [`UnixListener::bind`](crate::UnixListener).
    pub fn bind<A: ToUnixAddr>(path: A) -> Call<impl Future<Output = IoResult<DatagramSocket<Unix>>> + use<A>> {
        let address = path.unix_address();
        Call::new(async move { DatagramSocket::over(bind(&address?, SocketKind::Datagram).await?) })
    }

    /// A socket without an address, for sending. Nobody can answer it.
    ///
    /// # Errors
    ///
    /// EMFILE when the process has no descriptors left, or ENXIO outside of a shard.
    pub fn unbound() -> IoResult<DatagramSocket<Unix>> {
        let fd = with_kernel(OpKind::Socket, |kernel| kernel.socket(socket2::Domain::UNIX, SocketKind::Datagram))?;
        DatagramSocket::over(fd)
    }

    /// Two sockets connected to each other.
    ///
    /// # Errors
    ///
    /// EMFILE when the process has no descriptors left, or ENXIO outside of a shard.
    pub fn pair() -> IoResult<(DatagramSocket<Unix>, DatagramSocket<Unix>)> {
        let (a, b) = with_kernel(OpKind::Socket, |kernel| kernel.socket_pair(SocketKind::Datagram))?;
        let socket = |fd| DatagramSocket { fd, local: SocketAddress::Unnamed };
        Ok((socket(a), socket(b)))
    }

    /// Fixes the peer: [`send`](DatagramSocket::send) goes there, and only what comes from there is received.
    ///
    /// # Errors
    ///
    /// ENOENT when there is no such socket file, ECONNREFUSED when its socket has gone, EPROTOTYPE when a stream's is
    /// there, each with the path.
    pub fn connect<A: ToUnixAddr>(&self, path: A) -> Call<impl Future<Output = IoResult<()>> + use<'_, A>> {
        let address = path.unix_address();
        Call::new(async move { self.connect_address(address?).await })
    }

    /// Sends the bytes of `buf` as one datagram to the socket at `path`. Answers the count and the buffer. Parks while
    /// the receiver's queue is full: no datagram is lost on the way.
    ///
    /// # Errors
    ///
    /// ENOENT and ECONNREFUSED as [`connect`](DatagramSocket::connect), EMSGSIZE when the datagram is too long for the
    /// send buffer. ECANCELED when the fiber was cancelled.
    pub fn send_to<B: IoBuf, A: ToUnixAddr>(
        &self,
        buf: B,
        path: A,
    ) -> Call<impl Future<Output = BufResult<usize, B>> + use<'_, B, A>> {
        let address = path.unix_address();
        Call::new(self.send_to_address(buf, address, None, Option::unwrap_or_default))
    }

    /// As [`send_to`](DatagramSocket::send_to), with a deadline: none when the receiver's queue was full until then.
    pub fn send_to_by<B: IoBuf, A: ToUnixAddr, D: Into<Deadline>>(
        &self,
        buf: B,
        path: A,
        deadline: D,
    ) -> Call<impl Future<Output = BufResult<Option<usize>, B>> + use<'_, B, A, D>> {
        let address = path.unix_address();
        let at = deadline.into().instant(fiber::now());
        Call::new(self.send_to_address(buf, address, at, identity))
    }

    /// As [`send_to`](DatagramSocket::send_to), from borrowed memory.
    ///
    /// # Errors
    ///
    /// As [`send_to`](DatagramSocket::send_to).
    pub fn write_to<'a, A: ToUnixAddr>(
        &'a self,
        buf: &'a [u8],
        path: A,
    ) -> Call<impl Future<Output = IoResult<usize>> + use<'a, A>> {
        let address = path.unix_address();
        let copy = Bounce::holding(buf);
        Call::new(async move { self.send_to_address(copy, address, None, Option::unwrap_or_default).await.0 })
    }

    async fn send_to_address<B: IoBuf, T>(
        &self,
        buf: B,
        address: IoResult<SocketAddress>,
        at: Option<Instant>,
        answer: impl FnOnce(Option<usize>) -> T,
    ) -> BufResult<T, B> {
        match address {
            Ok(to) => self.send_datagram(buf, Some(to), at, answer).await,
            Err(error) => (Err(error), buf),
        }
    }
}
