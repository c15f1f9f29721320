//! Connections, from whichever network.

use std::future::Future;
use std::net::SocketAddr;

use crate::error::IoResult;
use crate::scope::call::Call;

/// A network to listen on and to connect through.
pub trait Net {
    /// A connection of it.
    type Stream: ByteStream + 'static;
    /// A listener of it.
    type Listener: Listener<Stream = Self::Stream> + 'static;

    /// Listens at `at`; port 0 takes a free one.
    ///
    /// # Errors
    ///
    /// EADDRINUSE when somebody listens there, ECANCELED when the fiber was cancelled, and what else the network
    /// answers.
    fn listen(&self, at: SocketAddr) -> Call<impl Future<Output = IoResult<Self::Listener>>>;

    /// Connects to `to`.
    ///
    /// # Errors
    ///
    /// ECONNREFUSED when nobody listens there, ECANCELED when the fiber was cancelled, and what else the network
    /// answers.
    fn connect(&self, to: SocketAddr) -> Call<impl Future<Output = IoResult<Self::Stream>>>;
}

/// Accepts connections.
pub trait Listener {
    /// A connection.
    type Stream;

    /// The next connection, and who made it.
    ///
    /// # Errors
    ///
    /// ECANCELED when the fiber was cancelled, and what else the network answers.
    fn accept(&self) -> Call<impl Future<Output = IoResult<(Self::Stream, SocketAddr)>>>;

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// What the network answers.
    fn local_addr(&self) -> IoResult<SocketAddr>;
}

/// A connection: bytes in order, both ways.
pub trait ByteStream {
    /// Reads what has arrived, at most as much as fits; 0 is the end.
    ///
    /// # Errors
    ///
    /// ECONNRESET when the other side has gone, ECANCELED when the fiber was cancelled.
    fn read(&self, into: &mut [u8]) -> Call<impl Future<Output = IoResult<usize>>>;

    /// Writes all of it.
    ///
    /// # Errors
    ///
    /// EPIPE or ECONNRESET when the other side has gone, ECANCELED when the fiber was cancelled; a part may have been
    /// written.
    fn write_all(&self, bytes: &[u8]) -> Call<impl Future<Output = IoResult<()>>>;

    /// Ends the direction that goes out: the other side reads the end after what was written.
    ///
    /// # Errors
    ///
    /// What the network answers.
    fn finish(&self) -> Call<impl Future<Output = IoResult<()>>>;
}

impl<N: Net> Net for &N {
    type Stream = N::Stream;
    type Listener = N::Listener;

    fn listen(&self, at: SocketAddr) -> Call<impl Future<Output = IoResult<N::Listener>>> {
        N::listen(self, at)
    }

    fn connect(&self, to: SocketAddr) -> Call<impl Future<Output = IoResult<N::Stream>>> {
        N::connect(self, to)
    }
}
