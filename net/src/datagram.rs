//! Datagram sockets, UDP and Unix alike.
//!
//! A datagram goes and comes whole. Receiving always asks for the sender too, so that a datagram whose receiver has
//! gone can be kept, whole and in order, for the next; see the op.

use std::convert::identity;
use std::fmt;
use std::future::Future;

use wo_runtime::error::{IoError, IoResult, OpKind, errno};
use wo_runtime::fiber::{self, Call};
use wo_runtime::plane::backend::{SocketOption, SocketOptionName};
use wo_runtime::plane::buf::{Bounce, BufResult, IoBuf, IoBufMut};
use wo_runtime::plane::ops::{Close, Connect, Received, RecvFrom, SendTo};
use wo_runtime::plane::{Deadline, Fd, Instant, SocketAddress};

use crate::explain;
use crate::family::Family;
use crate::option;
use crate::stream::{by_then, no_room};

/// A socket for datagrams; see [`UdpSocket`](crate::UdpSocket) and [`UnixDatagram`](crate::UnixDatagram).
///
/// Clones share the descriptor, and the last one to go closes it. Sending and receiving may go on at the same time, in
/// any number of fibers.
///
/// # Cancelling and dropping
///
/// A receive that is cancelled, late or dropped half-way loses no datagram: what still comes for it is kept for the
/// next receive.
pub struct DatagramSocket<F: Family> {
    pub(crate) fd: Fd,
    pub(crate) local: F::Address,
}

/// The count of bytes, and the sender.
type Told<F> = (usize, <F as Family>::Address);

impl<F: Family> DatagramSocket<F> {
    /// A socket over `fd`, which is bound, or not.
    pub(crate) fn over(fd: Fd) -> IoResult<DatagramSocket<F>> {
        let local = F::address(option::local_address(&fd)?);
        Ok(DatagramSocket { fd, local })
    }

    /// Receives one datagram into `buf`, from its first byte up to its capacity; the end of a longer one is cut off, as
    /// datagram sockets do. Answers the count and the sender, and the buffer, whose length is the count where it has a
    /// length of its own.
    ///
    /// # Errors
    ///
    /// On a connected socket ECONNREFUSED, when the peer's host said that nobody takes what was sent there. EINVAL for
    /// a buffer without room, ECANCELED when the fiber was cancelled.
    pub fn recv_from<B: IoBufMut>(&self, buf: B) -> Call<impl Future<Output = BufResult<Told<F>, B>>> {
        Call::new(self.receive(buf, None, certain))
    }

    /// As [`recv_from`](DatagramSocket::recv_from), with a deadline: none when nothing has come by then.
    pub fn recv_from_by<B: IoBufMut>(
        &self,
        buf: B,
        deadline: impl Into<Deadline>,
    ) -> Call<impl Future<Output = BufResult<Option<Told<F>>, B>>> {
        let at = deadline.into().instant(fiber::now());
        Call::new(self.receive(buf, at, identity))
    }

    /// Receives one datagram, when the sender is known or of no interest. Answers the count, and the buffer.
    ///
    /// # Errors
    ///
    /// As [`recv_from`](DatagramSocket::recv_from).
    pub fn recv<B: IoBufMut>(&self, buf: B) -> Call<impl Future<Output = BufResult<usize, B>>> {
        Call::new(self.receive(buf, None, |told| certain(told).0))
    }

    /// As [`recv`](DatagramSocket::recv), with a deadline: none when nothing has come by then.
    pub fn recv_by<B: IoBufMut>(
        &self,
        buf: B,
        deadline: impl Into<Deadline>,
    ) -> Call<impl Future<Output = BufResult<Option<usize>, B>>> {
        let at = deadline.into().instant(fiber::now());
        Call::new(self.receive(buf, at, |told| told.map(|(count, _)| count)))
    }

    async fn receive<B: IoBufMut, T>(
        &self,
        buf: B,
        at: Option<Instant>,
        answer: impl FnOnce(Option<Told<F>>) -> T,
    ) -> BufResult<T, B> {
        if buf.capacity() == 0 {
            return (Err(self.explain(no_room(OpKind::RecvFrom))), buf);
        }
        let ((result, buf), late) = fiber::verb(RecvFrom::new(&self.fd, buf)).by(at).await;
        let received = by_then(result, late).map_err(|error| self.explain(error));
        (received.map(|received| answer(received.map(told::<F>))), buf)
    }

    /// As [`recv_from`](DatagramSocket::recv_from), into borrowed memory.
    ///
    /// # Errors
    ///
    /// As [`recv_from`](DatagramSocket::recv_from).
    pub fn read_from(&self, buf: &mut [u8]) -> Call<impl Future<Output = IoResult<Told<F>>>> {
        Call::new(self.receive_borrowed(buf, None, certain))
    }

    /// As [`read_from`](DatagramSocket::read_from), with a deadline: none when nothing has come by then.
    pub fn read_from_by(
        &self,
        buf: &mut [u8],
        deadline: impl Into<Deadline>,
    ) -> Call<impl Future<Output = IoResult<Option<Told<F>>>>> {
        let at = deadline.into().instant(fiber::now());
        Call::new(self.receive_borrowed(buf, at, identity))
    }

    async fn receive_borrowed<T>(
        &self,
        buf: &mut [u8],
        at: Option<Instant>,
        answer: impl FnOnce(Option<Told<F>>) -> T,
    ) -> IoResult<T> {
        let (result, bounce) = self.receive(Bounce::with_room(buf.len()), at, identity).await;
        let told = result?;
        if let Some((count, _)) = &told {
            buf[..*count].copy_from_slice(&bounce.as_bytes()[..*count]);
        }
        Ok(answer(told))
    }

    /// Sends the bytes of `buf` as one datagram to the connected peer. Answers the count and the buffer.
    ///
    /// # Errors
    ///
    /// EDESTADDRREQ or ENOTCONN when the socket is not connected, EMSGSIZE when the datagram is too long, ECONNREFUSED
    /// when the peer has gone. ECANCELED when the fiber was cancelled.
    pub fn send<B: IoBuf>(&self, buf: B) -> Call<impl Future<Output = BufResult<usize, B>>> {
        Call::new(self.send_datagram(buf, None, None, Option::unwrap_or_default))
    }

    /// As [`send`](DatagramSocket::send), with a deadline: none when it could not be sent by then.
    pub fn send_by<B: IoBuf>(
        &self,
        buf: B,
        deadline: impl Into<Deadline>,
    ) -> Call<impl Future<Output = BufResult<Option<usize>, B>>> {
        let at = deadline.into().instant(fiber::now());
        Call::new(self.send_datagram(buf, None, at, identity))
    }

    /// As [`send`](DatagramSocket::send), from borrowed memory.
    ///
    /// # Errors
    ///
    /// As [`send`](DatagramSocket::send).
    pub fn write(&self, buf: &[u8]) -> Call<impl Future<Output = IoResult<usize>>> {
        Call::new(
            async move { self.send_datagram(Bounce::holding(buf), None, None, Option::unwrap_or_default).await.0 },
        )
    }

    pub(crate) async fn send_datagram<B: IoBuf, T>(
        &self,
        buf: B,
        to: Option<SocketAddress>,
        at: Option<Instant>,
        answer: impl FnOnce(Option<usize>) -> T,
    ) -> BufResult<T, B> {
        let bytes = buf.len();
        let (result, buf) = match SendTo::new(&self.fd, buf, to.as_ref()) {
            Ok(op) => {
                let ((result, buf), late) = fiber::verb(op).by(at).await;
                (by_then(result, late), buf)
            }
            Err((error, buf)) => (Err(error), buf),
        };
        let result = result.map(answer).map_err(|error| explain::datagram(error, bytes, to.as_ref(), &self.local));
        (result, buf)
    }

    pub(crate) async fn connect_address(&self, to: SocketAddress) -> IoResult<()> {
        fiber::verb(Connect::new(&self.fd, &to)?).await.map_err(|error| explain::connect(error, &to))
    }

    /// The address it is bound to; for one that is not, the family's unspecified one.
    ///
    /// # Errors
    ///
    /// What the kernel answered, or ENXIO outside of a shard.
    pub fn local_addr(&self) -> IoResult<F::Address> {
        option::local_address(&self.fd).map(F::address)
    }

    /// The address it is connected to.
    ///
    /// # Errors
    ///
    /// ENOTCONN when it is not.
    pub fn peer_addr(&self) -> IoResult<F::Address> {
        option::peer_address(&self.fd).map(F::address).map_err(|error| match error.errno() {
            errno::ENOTCONN => self.explain(error.with_context("the socket has no peer: connect it first")),
            _ => self.explain(error),
        })
    }

    /// Takes the pending error of the socket, if there is one.
    ///
    /// # Errors
    ///
    /// What the kernel answered, or ENXIO outside of a shard.
    pub fn take_error(&self) -> IoResult<Option<IoError>> {
        Ok(option::take_error(&self.fd, OpKind::SocketOption)?.map(|error| self.explain(error)))
    }

    /// Sets how many bytes the kernel may hold for receiving. The kernel may choose another number: Linux doubles it.
    ///
    /// # Errors
    ///
    /// What the kernel answered, or ENXIO outside of a shard.
    pub fn set_recv_buffer_size(&self, bytes: usize) -> IoResult<()> {
        self.set(SocketOption::ReceiveBuffer(bytes))
    }

    /// How many bytes the kernel may hold for receiving.
    ///
    /// # Errors
    ///
    /// What the kernel answered, or ENXIO outside of a shard.
    pub fn recv_buffer_size(&self) -> IoResult<usize> {
        option::get(&self.fd, SocketOptionName::ReceiveBuffer, |option| match option {
            SocketOption::ReceiveBuffer(bytes) => Some(bytes),
            _ => None,
        })
    }

    pub(crate) fn set(&self, option: SocketOption) -> IoResult<()> {
        option::set(&self.fd, option).map_err(|error| explain::option(error, &self.local, option))
    }

    /// Closes this share of the socket. The last one to be closed or dropped closes it, once the verbs in flight on it
    /// have ended.
    ///
    /// # Errors
    ///
    /// What the kernel said to the close; the descriptor is gone all the same.
    pub fn close(self) -> Call<impl Future<Output = IoResult<()>>> {
        Call::new(async move {
            match Close::new(self.fd) {
                Ok(close) => fiber::verb(close).await.map_err(|error| explain::on(error, &self.local)),
                // Others use it still; the last of them closes it.
                Err(_shared) => Ok(()),
            }
        })
    }

    fn explain(&self, error: IoError) -> IoError {
        explain::on(error, &self.local)
    }
}

/// What a receive without a deadline was told: it waited for it.
fn certain<T>(told: Option<T>) -> T {
    told.expect("without a deadline a receive waits for a datagram")
}

fn told<F: Family>(received: Received) -> Told<F> {
    (received.bytes, F::address(received.sender))
}

/// Shares the descriptor.
impl<F: Family> Clone for DatagramSocket<F> {
    fn clone(&self) -> DatagramSocket<F> {
        DatagramSocket { fd: self.fd.clone(), local: self.local.clone() }
    }
}

impl<F: Family> fmt::Debug for DatagramSocket<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(F::NAMES[2]).field("local", &self.local).field("fd", &self.fd).finish()
    }
}
