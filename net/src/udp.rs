//! UDP sockets.

use std::convert::identity;
use std::future::Future;
use std::net::SocketAddr;

use wo_runtime::error::IoResult;
use wo_runtime::fiber::{self, Call};
use wo_runtime::plane::backend::{SocketKind, SocketOption, SocketOptionName};
use wo_runtime::plane::buf::{Bounce, BufResult, IoBuf};
use wo_runtime::plane::{Deadline, Instant, SocketAddress};

use crate::addr::{Target, ToAddrs};
use crate::datagram::DatagramSocket;
use crate::family::Inet;
use crate::listener::bound;
use crate::option;
use crate::resolve::resolve;

/// A UDP socket.
///
/// # Examples
///
/// ```
/// use wo::net::UdpSocket;
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let here = UdpSocket::bind("127.0.0.1:0")?;
///     let there = UdpSocket::bind("127.0.0.1:0")?;
///     here.send_to("ping", there.local_addr()?).0?;
///     let (received, buf) = there.recv_from(Vec::with_capacity(1500));
///     assert_eq!(received?, (4, here.local_addr()?));
///     assert_eq!(buf, b"ping");
///     Ok(())
/// }
/// ```
pub type UdpSocket = DatagramSocket<Inet>;

impl DatagramSocket<Inet> {
    /// A socket bound to `addr`; of several addresses the first that can be bound is taken, and port 0 lets the kernel
    /// choose one. An IPv6 socket takes IPv4 too, and shows its senders as IPv4-mapped addresses.
    ///
    /// # Errors
    ///
    /// EADDRINUSE, EADDRNOTAVAIL, EACCES for a port that is the system's, each with the address and the remedy;
    /// EINVAL for text that is no address.
    pub fn bind<A: ToAddrs>(addr: A) -> Call<impl Future<Output = IoResult<DatagramSocket<Inet>>> + use<A>> {
        let target = addr.target();
        Call::new(async move { bind_first(target?).await })
    }

    /// Fixes the peer: [`send`](DatagramSocket::send) goes there, and only what comes from there is received. Of
    /// several addresses the first that can be connected to is taken.
    ///
    /// # Errors
    ///
    /// EINVAL for text that is no address, and what the kernel answered for the last of the addresses.
    pub fn connect<A: ToAddrs>(&self, addr: A) -> Call<impl Future<Output = IoResult<()>> + use<'_, A>> {
        let target = addr.target();
        Call::new(async move {
            let addresses = resolve(target?).await?;
            let (last, others) = addresses.split_last().expect("a resolved target has an address");
            for address in others {
                match self.connect_address(SocketAddress::Ip(*address)).await {
                    Err(error) if !error.is_cancelled() => {}
                    ended => return ended,
                }
            }
            self.connect_address(SocketAddress::Ip(*last)).await
        })
    }

    /// Sends the bytes of `buf` as one datagram to `addr`, the first address where it stands for several. Answers the
    /// count and the buffer.
    ///
    /// # Errors
    ///
    /// EMSGSIZE when the datagram is too long, ENETUNREACH without a route; EINVAL for text that is no address.
    /// ECANCELED when the fiber was cancelled.
    pub fn send_to<B: IoBuf, A: ToAddrs>(
        &self,
        buf: B,
        addr: A,
    ) -> Call<impl Future<Output = BufResult<usize, B>> + use<'_, B, A>> {
        let target = addr.target();
        Call::new(self.send_to_target(buf, target, None, Option::unwrap_or_default))
    }

    /// As [`send_to`](DatagramSocket::send_to), with a deadline: none when it could not be sent by then. Looking a name
    /// up is not cut short by it.
    pub fn send_to_by<B: IoBuf, A: ToAddrs, D: Into<Deadline>>(
        &self,
        buf: B,
        addr: A,
        deadline: D,
    ) -> Call<impl Future<Output = BufResult<Option<usize>, B>> + use<'_, B, A, D>> {
        let target = addr.target();
        let at = deadline.into().instant(fiber::now());
        Call::new(self.send_to_target(buf, target, at, identity))
    }

    /// As [`send_to`](DatagramSocket::send_to), from borrowed memory.
    ///
    /// # Errors
    ///
    /// As [`send_to`](DatagramSocket::send_to).
    pub fn write_to<'a, A: ToAddrs>(
        &'a self,
        buf: &'a [u8],
        addr: A,
    ) -> Call<impl Future<Output = IoResult<usize>> + use<'a, A>> {
        let target = addr.target();
        let copy = Bounce::holding(buf);
        Call::new(async move { self.send_to_target(copy, target, None, Option::unwrap_or_default).await.0 })
    }

    async fn send_to_target<B: IoBuf, T>(
        &self,
        buf: B,
        target: IoResult<Target>,
        at: Option<Instant>,
        answer: impl FnOnce(Option<usize>) -> T,
    ) -> BufResult<T, B> {
        let to = match target {
            Ok(Target::One(address)) => Ok(address),
            Ok(target) => resolve(target).await.map(|addresses| self.within_reach(&addresses)),
            Err(error) => Err(error),
        };
        match to {
            Ok(to) => self.send_datagram(buf, Some(SocketAddress::Ip(to)), at, answer).await,
            Err(error) => (Err(error), buf),
        }
    }

    /// The first of a peer's addresses that is of this socket's family. Where none is, the kernel says so of the first.
    fn within_reach(&self, addresses: &[SocketAddr]) -> SocketAddr {
        let is_ipv4 = self.local_addr().is_ok_and(|own| own.is_ipv4());
        *addresses.iter().find(|address| address.is_ipv4() == is_ipv4).unwrap_or(&addresses[0])
    }

    /// Allows sending to broadcast addresses (SO_BROADCAST), or forbids it, as it is at first.
    ///
    /// # Errors
    ///
    /// What the kernel answered, or ENXIO outside of a shard.
    pub fn set_broadcast(&self, on: bool) -> IoResult<()> {
        self.set(SocketOption::Broadcast(on))
    }

    /// Whether sending to broadcast addresses is allowed.
    ///
    /// # Errors
    ///
    /// What the kernel answered, or ENXIO outside of a shard.
    pub fn broadcast(&self) -> IoResult<bool> {
        option::get(&self.fd, SocketOptionName::Broadcast, |option| match option {
            SocketOption::Broadcast(on) => Some(on),
            _ => None,
        })
    }

    /// Sets how many hops an IPv4 packet may take (IP_TTL).
    ///
    /// # Errors
    ///
    /// What the kernel answered, or ENXIO outside of a shard.
    pub fn set_ttl(&self, hops: u32) -> IoResult<()> {
        self.set(SocketOption::TimeToLive(hops))
    }
}

async fn bind_first(target: Target) -> IoResult<DatagramSocket<Inet>> {
    let addresses = resolve(target).await?;
    let (last, others) = addresses.split_last().expect("a resolved target has an address");
    for address in others {
        if let Ok(socket) = bind_to(*address) {
            return Ok(socket);
        }
    }
    bind_to(*last)
}

fn bind_to(address: SocketAddr) -> IoResult<DatagramSocket<Inet>> {
    let both_families = [SocketOption::OnlyV6(false)];
    let options = if address.is_ipv6() { &both_families[..] } else { &[] };
    DatagramSocket::over(bound(&SocketAddress::Ip(address), SocketKind::Datagram, options)?)
}
