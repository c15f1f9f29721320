//! The network of this system as a capability.

use std::future::Future;
use std::net::{Shutdown, SocketAddr};

use wo_runtime::error::IoResult;
use wo_runtime::fiber::Call;
use wo_runtime::scope::capability::{ByteStream, Listener, Net};

use crate::{TcpListener, TcpStream};

/// TCP of this system, or of the simulated world.
///
/// # Examples
///
/// ```
/// use wo::capability::{ByteStream, Listener, LiveNet, Net};
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let listener = LiveNet.listen("127.0.0.1:0".parse().expect("an address"))?;
///     let at = Listener::local_addr(&listener)?;
///     let server = wo::spawn(|| {
///         let (stream, _) = Listener::accept(&listener)?;
///         ByteStream::write_all(&stream, b"hello")
///     });
///     let stream = LiveNet.connect(at)?;
///     let mut word = [0; 5];
///     let mut read = 0;
///     while read < word.len() {
///         read += ByteStream::read(&stream, &mut word[read..])?;
///     }
///     server.join().expect("it does not panic")?;
///     assert_eq!(&word, b"hello");
///     Ok(())
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveNet;

impl Net for LiveNet {
    type Stream = TcpStream;
    type Listener = TcpListener;

    fn listen(&self, at: SocketAddr) -> Call<impl Future<Output = IoResult<TcpListener>>> {
        TcpListener::bind(at)
    }

    fn connect(&self, to: SocketAddr) -> Call<impl Future<Output = IoResult<TcpStream>>> {
        TcpStream::connect(to)
    }
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    fn accept(&self) -> Call<impl Future<Output = IoResult<(TcpStream, SocketAddr)>>> {
        TcpListener::accept(self)
    }

    fn local_addr(&self) -> IoResult<SocketAddr> {
        Ok(TcpListener::local_addr(self))
    }
}

impl ByteStream for TcpStream {
    fn read(&self, into: &mut [u8]) -> Call<impl Future<Output = IoResult<usize>>> {
        TcpStream::read(self, into)
    }

    fn write_all(&self, bytes: &[u8]) -> Call<impl Future<Output = IoResult<()>>> {
        TcpStream::write_all(self, bytes)
    }

    fn finish(&self) -> Call<impl Future<Output = IoResult<()>>> {
        self.shutdown(Shutdown::Write)
    }
}
