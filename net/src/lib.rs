//! Sockets for `wo`: TCP, UDP and Unix, streams and datagrams.
//!
//! Every verb that parks is an ordinary function answering a [`Call`](wo_runtime::fiber::Call): inside a fiber's body
//! it is called like any function, in async Rust it is awaited. Handles share a descriptor of the plane, so the same
//! program runs on io_uring, on epoll and on the simulated kernel.
//!
//! Three promises hold throughout. A partial transfer goes on where it stopped and never starts again. A verb that is
//! cancelled, runs into its deadline or is dropped half-way loses no received byte: what it took off the socket is
//! there for the next reader. And every error names what was tried, on which address, and what to do about it where
//! that is known.

mod addr;
mod datagram;
mod explain;
mod family;
mod listener;
mod live;
mod option;
mod race;
mod resolve;
mod serve;
mod stream;
mod tcp;
mod udp;
mod unix;

pub use addr::{ToAddrs, ToUnixAddr};
pub use datagram::DatagramSocket;
pub use family::{Family, Inet, Unix};
pub use listener::{ListenOptions, Listener};
pub use live::LiveNet;
pub use serve::{Acceptors, Limits, Next, Served, serve};
pub use stream::Stream;
pub use tcp::{TcpListener, TcpStream};
pub use udp::UdpSocket;
pub use unix::{UnixDatagram, UnixListener, UnixStream};
pub use wo_runtime::plane::Written;

pub use wo_runtime::plane::SocketAddress;
