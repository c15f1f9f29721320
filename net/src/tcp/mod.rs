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
/// use wo_net::{TcpListener, TcpStream};
/// use wo_runtime::error::IoError;
/// use wo_runtime::fiber;
/// use wo_runtime::shard::Builder;
///
/// let echoed = Builder::new().run(|| async {
///     let listener = TcpListener::bind("127.0.0.1:0").await?;
///     let address = listener.local_addr();
///     let _ = fiber::spawn(move || async move {
///         let (stream, _client) = listener.accept().await?;
///         let (received, buf) = stream.recv(Vec::with_capacity(64)).await;
///         received?;
///         stream.send_all(buf).await.0
///     });
///     let stream = TcpStream::connect(address).await?;
///     stream.write_all(b"hello").await?;
///     let mut buf = [0; 5];
///     stream.read_exact(&mut buf).await?;
///     Ok::<_, IoError>(buf)
/// })??;
/// assert_eq!(&echoed, b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
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
/// use wo_net::{TcpListener, TcpStream};
/// use wo_runtime::error::IoError;
/// use wo_runtime::shard::Builder;
///
/// Builder::new().run(|| async {
///     let listener = TcpListener::bind("127.0.0.1:0").await?;
///     let client = TcpStream::connect(listener.local_addr()).await?;
///     let (server, _) = listener.accept().await?;
///
///     let mut buf = [0; 16];
///     assert_eq!(server.read_by(&mut buf, Duration::from_millis(5)).await?, None);
///     client.write_all(b"late").await?;
///     client.shutdown(Shutdown::Write).await?;
///     assert_eq!(server.read(&mut buf).await?, 4);
///     assert_eq!(server.read_by(&mut buf, Duration::from_secs(5)).await?, Some(0), "the end of file");
///     Ok::<_, IoError>(())
/// })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type TcpStream = Stream<Inet>;
