//! Connections, from whichever network.

use std::future::Future;
use std::net::SocketAddr;

use crate::error::IoResult;
use crate::scope::call::Call;

/// A network to listen on and to connect through.
///
/// # Examples
///
/// ```
/// use std::net::SocketAddr;
/// use wo::capability::{ByteStream, Listener, Net, SimNet, TestClock};
///
/// /// Asks whoever listens there, over any network.
/// #[wo::fiber]
/// fn greeting<N: Net>(net: &N, at: SocketAddr) -> wo::IoResult<String> {
///     let stream = net.connect(at)?;
///     stream.finish()?;
///     let mut text = Vec::new();
///     let mut piece = [0; 64];
///     loop {
///         match stream.read(&mut piece)? {
///             0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
///             count => text.extend_from_slice(&piece[..count]),
///         }
///     }
/// }
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let net = SimNet::new(TestClock::new());
///     let listener = net.listen("10.0.0.1:80".parse().expect("an address"))?;
///     let at = listener.local_addr()?;
///     wo::spawn(|| {
///         let (stream, _peer) = listener.accept()?;
///         stream.write_all(b"hello")
///     });
///     assert_eq!(greeting(&net, at)?, "hello");
///     Ok(())
/// }
/// ```
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
///
/// # Examples
///
/// ```
/// use wo::capability::{ByteStream, Listener};
///
/// /// Tells each client the same, on whatever network.
/// #[wo::fiber]
/// fn tell<L: Listener<Stream: ByteStream>>(listener: &L, word: &str) -> wo::IoResult<()> {
///     loop {
///         let (stream, _peer) = listener.accept()?;
///         stream.write_all(word.as_bytes())?;
///     }
/// }
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// #     use wo::capability::{LiveNet, Net};
/// #     let listener = LiveNet.listen("127.0.0.1:0".parse().expect("an address"))?;
/// #     let at = Listener::local_addr(&listener)?;
/// #     wo::spawn(|| tell(&listener, "hello"));
/// #     let stream = wo::net::TcpStream::connect(at)?;
/// #     stream.read_exact(&mut [0; 5])
/// # }
/// ```
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
///
/// # Examples
///
/// ```
/// use wo::capability::ByteStream;
///
/// /// Sends back what comes, over whatever connection.
/// #[wo::fiber]
/// fn echo(stream: &impl ByteStream) -> wo::IoResult<()> {
///     let mut piece = [0; 512];
///     loop {
///         match stream.read(&mut piece)? {
///             0 => return stream.finish(),
///             count => stream.write_all(&piece[..count])?,
///         }
///     }
/// }
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// #     use wo::capability::{Listener, LiveNet, Net};
/// #     let listener = LiveNet.listen("127.0.0.1:0".parse().expect("an address"))?;
/// #     let stream = LiveNet.connect(Listener::local_addr(&listener)?)?;
/// #     let (there, _) = Listener::accept(&listener)?;
/// #     stream.write_all(b"hello")?;
/// #     ByteStream::finish(&stream)?;
/// #     echo(&there)?;
/// #     stream.read_exact(&mut [0; 5])
/// # }
/// ```
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
