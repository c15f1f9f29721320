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
/// use wo_net::{UnixListener, UnixStream};
/// use wo_runtime::error::IoError;
/// use wo_runtime::shard::Builder;
///
/// # let path = std::env::temp_dir().join(format!("wo-net-example-{}", std::process::id()));
/// # let at = path.clone();
/// Builder::new().run(move || async move {
///     let listener = UnixListener::bind(&path).await?;
///     let client = UnixStream::connect(&path).await?;
///     let (server, _) = listener.accept().await?;
///     assert_eq!(server.peer(), "unix");
///     client.write_all(b"hello").await?;
///     let mut buf = [0; 5];
///     server.read_exact(&mut buf).await?;
///     assert_eq!(&buf, b"hello");
///     Ok::<_, IoError>(())
/// })??;
/// # std::fs::remove_file(at)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type UnixListener = Listener<Unix>;

/// A Unix stream.
///
/// # Examples
///
/// ```
/// use wo_net::UnixStream;
/// use wo_runtime::error::IoError;
/// use wo_runtime::shard::Builder;
///
/// Builder::new().run(|| async {
///     let (here, there) = UnixStream::pair()?;
///     here.write_all(b"hello").await?;
///     here.close().await?;
///     let mut buf = [0; 16];
///     assert_eq!(there.read(&mut buf).await?, 5);
///     assert_eq!(there.read(&mut buf).await?, 0, "the end of file");
///     Ok::<_, IoError>(())
/// })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type UnixStream = Stream<Unix>;

/// A Unix socket for datagrams.
///
/// # Examples
///
/// ```
/// use wo_net::UnixDatagram;
/// use wo_runtime::error::IoError;
/// use wo_runtime::shard::Builder;
///
/// Builder::new().run(|| async {
///     let (here, there) = UnixDatagram::pair()?;
///     here.send("one").await.0?;
///     here.send("two").await.0?;
///     let (received, buf) = there.recv(Vec::with_capacity(16)).await;
///     assert_eq!((received?, buf.as_slice()), (3, &b"one"[..]));
///     Ok::<_, IoError>(())
/// })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type UnixDatagram = DatagramSocket<Unix>;
