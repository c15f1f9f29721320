//! Listening sockets, TCP and Unix alike.
//!
//! A listener is a queue of accepted connections in front of the kernel's own. Accepting takes from it; an accept that
//! is cancelled, late or dropped leaves what it would have taken to the next.

use std::fmt;
use std::future::Future;

use wo_runtime::error::{IoError, IoResult, OpKind};
use wo_runtime::fiber::{self, Call};
use wo_runtime::plane::accept::AcceptQueue;
use wo_runtime::plane::backend::{Backend, SocketKind, SocketOption};
use wo_runtime::plane::{Deadline, Fd, SocketAddress};

use crate::explain;
use crate::family::Family;
use crate::option::{self, with_kernel};
use crate::race;
use crate::stream::Stream;

/// How to listen.
///
/// # Examples
///
/// ```
/// use wo::net::ListenOptions;
///
/// let shared = ListenOptions { reuse_port: true, ..ListenOptions::default() };
/// assert_eq!(shared.backlog, 1024);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// Connections the kernel holds that have not been accepted; Linux cuts it to net.core.somaxconn. 1024 unless told
    /// otherwise.
    pub backlog: u32,
    /// Bind to an address whose last connections are still in TIME_WAIT (SO_REUSEADDR). On, as in std.
    pub reuse_address: bool,
    /// Let several listeners share the address; the kernel spreads connections over them (SO_REUSEPORT). Off.
    pub reuse_port: bool,
    /// An IPv6 listener takes no IPv4 (IPV6_V6ONLY). Off: `[::]` takes both, whatever the host's default, and shows an
    /// IPv4 peer as an IPv4-mapped address (`[::ffff:10.0.0.1]:80`).
    pub only_v6: bool,
    /// Accepted streams send small segments at once (TCP_NODELAY). On.
    pub nodelay: bool,
}

impl Default for ListenOptions {
    fn default() -> ListenOptions {
        ListenOptions { backlog: 1024, reuse_address: true, reuse_port: false, only_v6: false, nodelay: true }
    }
}

/// A listening socket; see [`TcpListener`](crate::TcpListener) and [`UnixListener`](crate::UnixListener).
///
/// Dropping it stops listening at once and closes the connections that were never accepted.
pub struct Listener<F: Family> {
    queue: AcceptQueue,
    local: F::Address,
    pub(crate) options: ListenOptions,
}

/// A client's stream, and its address.
type Accepted<F> = (Stream<F>, <F as Family>::Address);

impl<F: Family> Listener<F> {
    /// Listens on a socket that is bound.
    pub(crate) fn over(fd: Fd, backlog: u32) -> IoResult<Listener<F>> {
        let local = with_kernel(OpKind::Listen, |kernel| {
            kernel.listen(&fd, backlog)?;
            kernel.local_address(&fd)
        })?;
        let options = ListenOptions { backlog, ..ListenOptions::default() };
        Ok(Listener { queue: AcceptQueue::new(fd), local: F::address(local), options })
    }

    /// What makes another listener like this, to the same address, on whatever shard it is called.
    pub(crate) fn again(&self) -> impl FnOnce() -> IoResult<Listener<F>> + Send + 'static + use<F> {
        let (local, options) = (self.local.clone(), self.options);
        move || F::listen_again(&local, options)
    }

    /// Parks until a client connects. Answers the stream, and the client's address.
    ///
    /// A client that was gone again before it was accepted has no address any more; it shows as `0.0.0.0:0`.
    ///
    /// # Errors
    ///
    /// EMFILE when the process has no descriptor left: it is told once, and accepting goes on by itself when some are
    /// closed, so a loop of accepts may go on after any error but ECANCELED. ECANCELED when the fiber was cancelled.
    pub fn accept(&self) -> Call<impl Future<Output = IoResult<Accepted<F>>>> {
        Call::new(self.next())
    }

    /// As [`accept`](Listener::accept), with a deadline: none when nobody has connected by then.
    pub fn accept_by(
        &self,
        deadline: impl Into<Deadline>,
    ) -> Call<impl Future<Output = IoResult<Option<Accepted<F>>>>> {
        let at = deadline.into().instant(fiber::now());
        Call::new(race::by(at, self.next()))
    }

    async fn next(&self) -> IoResult<Accepted<F>> {
        let accepted = fiber::park(OpKind::Accept, |cx| self.queue.poll_accept(cx)).await;
        let fd = accepted.map_err(|error| explain::on(error, &self.local))?;
        let peer = F::address(option::peer_address(&fd).unwrap_or(SocketAddress::Unnamed));
        Ok((Stream::new(fd, peer.clone()), peer))
    }

    /// The address it listens on; with port 0 asked for, the port the kernel chose.
    pub fn local_addr(&self) -> F::Address {
        self.local.clone()
    }

    /// Takes the pending error of the socket, if there is one.
    ///
    /// # Errors
    ///
    /// What the kernel answered, or ENXIO outside of a shard.
    pub fn take_error(&self) -> IoResult<Option<IoError>> {
        let pending = option::take_error(self.queue.fd(), OpKind::Accept)?;
        Ok(pending.map(|error| explain::on(error, &self.local)))
    }

    /// Stops listening and closes the connections that were never accepted; the address is free at once. The same as
    /// dropping it.
    ///
    /// # Errors
    ///
    /// None.
    pub fn close(self) -> Call<impl Future<Output = IoResult<()>>> {
        Call::new(async move {
            drop(self);
            Ok(())
        })
    }
}

impl<F: Family> fmt::Debug for Listener<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(F::NAMES[1]).field("local", &self.local).field("fd", self.queue.fd()).finish()
    }
}

/// A bound socket, made with the options that come before binding.
pub(crate) fn bound(address: &SocketAddress, kind: SocketKind, options: &[SocketOption]) -> IoResult<Fd> {
    with_kernel(OpKind::Socket, |kernel| {
        let fd = kernel.socket(address.domain(), kind).map_err(|error| explain::on(error, address))?;
        for option in options {
            kernel.set_socket_option(&fd, *option)?;
        }
        kernel.bind(&fd, address).map_err(|error| explain::bind(error, address))?;
        Ok(fd)
    })
}
