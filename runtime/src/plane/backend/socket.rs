//! Kinds of sockets and their options, the same for every kernel.

use std::time::Duration;

/// What kind of socket to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SocketKind {
    /// A stream of bytes: TCP, or a Unix stream.
    Stream,
    /// Datagrams: UDP, or a Unix datagram socket.
    Datagram,
}

/// A socket option and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SocketOption {
    /// Send small segments at once (TCP_NODELAY).
    NoDelay(bool),
    /// Bind to an address in TIME_WAIT (SO_REUSEADDR).
    ReuseAddress(bool),
    /// Let several sockets bind to one address (SO_REUSEPORT).
    ReusePort(bool),
    /// Probe an idle peer after this long; none switches probing off (SO_KEEPALIVE).
    KeepAlive(Option<Duration>),
    /// Bytes the kernel may hold for reading (SO_RCVBUF); the kernel may choose another number.
    ReceiveBuffer(usize),
    /// Bytes the kernel may hold for sending (SO_SNDBUF); the kernel may choose another number.
    SendBuffer(usize),
    /// Hops an IPv4 packet may take (IP_TTL).
    TimeToLive(u32),
    /// Allow sending to broadcast addresses (SO_BROADCAST).
    Broadcast(bool),
    /// An IPv6 socket takes no IPv4 (IPV6_V6ONLY).
    OnlyV6(bool),
    /// How long close waits for unsent bytes; none lets the kernel go on in the background (SO_LINGER).
    Linger(Option<Duration>),
    /// The pending error, taken by asking for it (SO_ERROR): a positive `errno` or 0. Cannot be set.
    Error(i32),
}

/// Closing waits no longer for unsent bytes than this: more seconds the kernel's number does not hold.
pub(crate) const LINGER_MAX: Duration = Duration::from_secs(i32::MAX as u64);

/// A socket option to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SocketOptionName {
    /// See [`SocketOption::NoDelay`].
    NoDelay,
    /// See [`SocketOption::ReuseAddress`].
    ReuseAddress,
    /// See [`SocketOption::ReusePort`].
    ReusePort,
    /// See [`SocketOption::KeepAlive`].
    KeepAlive,
    /// See [`SocketOption::ReceiveBuffer`].
    ReceiveBuffer,
    /// See [`SocketOption::SendBuffer`].
    SendBuffer,
    /// See [`SocketOption::TimeToLive`].
    TimeToLive,
    /// See [`SocketOption::Broadcast`].
    Broadcast,
    /// See [`SocketOption::OnlyV6`].
    OnlyV6,
    /// See [`SocketOption::Linger`].
    Linger,
    /// See [`SocketOption::Error`].
    Error,
}
