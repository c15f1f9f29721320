//! Unix sockets: between processes of one host, at paths of the file system.

use crate::datagram::DatagramSocket;
use crate::family::Unix;
use crate::listener::Listener;
use crate::stream::Stream;

mod bind;
mod datagram;
mod listen;
mod stream;

/// A Unix listener.
///
/// # Examples
///
/// ```
/// use wo::net::{UnixListener, UnixStream};
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let path = std::env::temp_dir().join(format!("wo-example-{}", std::process::id()));
///     let listener = UnixListener::bind(&path)?;
///     let client = UnixStream::connect(&path)?;
///     let (server, _) = listener.accept()?;
///     assert_eq!(server.peer(), "unix");
///     client.write_all(b"hello")?;
///     let mut buf = [0; 5];
///     server.read_exact(&mut buf)?;
///     assert_eq!(&buf, b"hello");
///     wo::fs::remove_file(&path)
/// }
/// ```
pub type UnixListener = Listener<Unix>;

/// A Unix stream.
///
/// # Examples
///
/// ```
/// use wo::net::UnixStream;
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let (here, there) = UnixStream::pair()?;
///     here.write_all(b"hello")?;
///     here.close()?;
///     let mut buf = [0; 16];
///     assert_eq!(there.read(&mut buf)?, 5);
///     assert_eq!(there.read(&mut buf)?, 0, "the end of file");
///     Ok(())
/// }
/// ```
pub type UnixStream = Stream<Unix>;

/// A Unix socket for datagrams.
///
/// # Examples
///
/// ```
/// use wo::net::UnixDatagram;
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let (here, there) = UnixDatagram::pair()?;
///     here.send("one").0?;
///     here.send("two").0?;
///     let (received, buf) = there.recv(Vec::with_capacity(16));
///     assert_eq!((received?, buf.as_slice()), (3, &b"one"[..]));
///     Ok(())
/// }
/// ```
pub type UnixDatagram = DatagramSocket<Unix>;
