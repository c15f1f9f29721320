//! What travels between simulated sockets.
//!
//! IP packets take time and arrive as events; between Unix sockets a segment is handed over at once. Packets of one
//! connection and direction arrive in the order they were sent. A connection is made by three packets, as TCP makes
//! it: dial, welcome, confirm.

use std::net::SocketAddr;

use crate::plane::backend::sim::world::ObjectId;

/// Something on the wire. Addresses are canonical: an IPv4 address is never in its IPv6 form.
#[derive(Clone, Debug)]
pub(crate) enum Packet {
    /// Asks whoever listens at `target` for a connection.
    Dial { from: ObjectId, source: SocketAddr, target: SocketAddr, window: usize },
    /// Nobody listens at `source`.
    Refuse { to: ObjectId, source: SocketAddr },
    /// The listener at `source` has made its end.
    Welcome { from: ObjectId, to: ObjectId, source: SocketAddr, window: usize },
    /// The dialler has seen the welcome: the connection may be accepted.
    Confirm { from: ObjectId, to: ObjectId },
    /// Part of a connection's life.
    Segment { from: ObjectId, to: ObjectId, segment: Segment },
    /// A datagram.
    Datagram { from: ObjectId, source: SocketAddr, target: SocketAddr, bytes: Vec<u8> },
    /// Nobody was there for a datagram.
    Unreachable { to: ObjectId },
}

/// What one end of a connection tells the other.
#[derive(Clone, Debug)]
pub(crate) enum Segment {
    /// Bytes of the stream.
    Data(Vec<u8>),
    /// So many bytes were read: there is room again.
    Read(usize),
    /// No bytes will follow.
    Finish,
    /// The connection is no more.
    Reset,
    /// A Unix socket will read no more.
    Deaf,
    /// A Unix socket was closed, perhaps with bytes unread.
    Gone { unread: bool },
}
