//! TCP: listening and connecting. What happens on a connection is the stream's.

use crate::family::Inet;
use crate::listener::Listener;
use crate::stream::Stream;

mod connect;
pub(crate) mod listen;

/// A TCP listener.
///
/// # Examples
///
/// ```
/// use wo::net::{TcpListener, TcpStream};
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let address = listener.local_addr();
///     wo::spawn(|| {
///         let (stream, _client) = listener.accept()?;
///         let (received, buf) = stream.recv(Vec::with_capacity(64));
///         received?;
///         stream.send_all(buf).0
///     });
///     let stream = TcpStream::connect(address)?;
///     stream.write_all(b"hello")?;
///     let mut buf = [0; 5];
///     stream.read_exact(&mut buf)?;
///     assert_eq!(&buf, b"hello");
///     Ok(())
/// }
/// ```
pub type TcpListener = Listener<Inet>;

/// A TCP connection. It is born with TCP_NODELAY, on both ends.
///
/// # Examples
///
/// A deadline answers a value, and loses no byte:
///
/// ```
/// use std::net::Shutdown;
/// use std::time::Duration;
/// use wo::net::{TcpListener, TcpStream};
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let client = TcpStream::connect(listener.local_addr())?;
///     let (server, _) = listener.accept()?;
///
///     let mut buf = [0; 16];
///     assert_eq!(server.read_by(&mut buf, Duration::from_millis(5))?, None);
///     client.write_all(b"late")?;
///     client.shutdown(Shutdown::Write)?;
///     assert_eq!(server.read(&mut buf)?, 4);
///     assert_eq!(server.read_by(&mut buf, Duration::from_secs(5))?, Some(0), "the end of file");
///     Ok(())
/// }
/// ```
pub type TcpStream = Stream<Inet>;
