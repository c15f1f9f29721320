//! The families of sockets: what an address is in each, and how it is shown.
//!
//! Streams, listeners and datagram sockets are written once over a family. A family is a name without values; it only
//! says what type an address has.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

use wo_runtime::error::IoResult;
use wo_runtime::plane::SocketAddress;

use crate::listener::{ListenOptions, Listener};
use crate::serve::one_listener_only;
use crate::tcp::listen::listen;

/// Internet sockets: TCP and UDP, over IPv4 and IPv6.
#[derive(Clone, Copy, Debug)]
pub enum Inet {}

/// Unix sockets: between processes of one host.
#[derive(Clone, Copy, Debug)]
pub enum Unix {}

/// A family of sockets: [`Inet`] or [`Unix`]. Code that serves both is generic over it.
pub trait Family: sealed::Sealed + fmt::Debug + 'static {
    /// What an address is in this family.
    type Address: Clone + PartialEq + fmt::Debug + fmt::Display + Send + Sync + 'static;

    /// The address as this family sees it.
    #[doc(hidden)]
    fn address(address: SocketAddress) -> Self::Address;

    /// What `peer()` says of a connected peer.
    #[doc(hidden)]
    fn peer_text(peer: &Self::Address) -> String;

    /// Listens to an address that a listener with these options is bound to, beside that.
    #[doc(hidden)]
    fn listen_again(address: &Self::Address, options: ListenOptions) -> IoResult<Listener<Self>>
    where
        Self: Sized;

    /// The names of a stream, a listener and a datagram socket.
    #[doc(hidden)]
    const NAMES: [&'static str; 3];
}

impl Family for Inet {
    type Address = SocketAddr;

    const NAMES: [&'static str; 3] = ["TcpStream", "TcpListener", "UdpSocket"];

    fn address(address: SocketAddress) -> SocketAddr {
        // An internet socket has no other kind of address; what the kernel could not say is unspecified.
        address.as_ip().unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))
    }

    fn listen_again(address: &SocketAddr, options: ListenOptions) -> IoResult<Listener<Inet>> {
        listen(*address, options)
    }

    fn peer_text(peer: &SocketAddr) -> String {
        if peer.port() == 0 { String::new() } else { peer.to_string() }
    }
}

impl Family for Unix {
    type Address = SocketAddress;

    const NAMES: [&'static str; 3] = ["UnixStream", "UnixListener", "UnixDatagram"];

    fn address(address: SocketAddress) -> SocketAddress {
        address
    }

    fn listen_again(_address: &SocketAddress, _options: ListenOptions) -> IoResult<Listener<Unix>> {
        Err(one_listener_only())
    }

    fn peer_text(_peer: &SocketAddress) -> String {
        "unix".to_owned()
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Inet {}
    impl Sealed for super::Unix {}
}
