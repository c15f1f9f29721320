//! Connecting, to one address or to the first of several that answers.
//!
//! Several addresses are tried in turn with staggered starts: the next begins when the last has failed, or has been
//! silent for a while. The first to succeed wins; the others are dropped, which cancels them and closes their sockets.
//! The shape is RFC 8305's, "happy eyeballs".

use std::fmt::Write as _;
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use wo_runtime::error::{IoError, IoResult, OpKind};
use wo_runtime::fiber::{self, Call};
use wo_runtime::plane::backend::{Backend, SocketKind, SocketOption};
use wo_runtime::plane::ops::Connect;
use wo_runtime::plane::{Deadline, SocketAddress};

use crate::addr::{Target, ToAddrs};
use crate::explain;
use crate::family::Inet;
use crate::option::with_kernel;
use crate::race;
use crate::resolve::resolve;
use crate::stream::Stream;

/// How long an attempt may be silent before the next one starts: RFC 8305's recommendation.
const STAGGER: Duration = Duration::from_millis(250);

impl Stream<Inet> {
    /// Connects to `addr`. Of several addresses each is tried in turn, the next one when the last has failed or has
    /// been silent for 250 ms, and the first that answers is taken.
    ///
    /// Dropped half-way, it leaves no socket behind.
    ///
    /// # Errors
    ///
    /// ECONNREFUSED, EHOSTUNREACH, ETIMEDOUT and others, with the address; when several were tried, the first one's
    /// error, telling the others'. EINVAL for text that is no address, an error without errno for a name that cannot
    /// be looked up.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::net::{TcpListener, TcpStream};
    ///
    /// #[wo::main]
    /// fn main() -> wo::IoResult<()> {
    ///     let gone = TcpListener::bind("127.0.0.1:0")?.local_addr();
    ///     let listener = TcpListener::bind("127.0.0.1:0")?;
    ///     let stream = TcpStream::connect([gone, listener.local_addr()])?;
    ///     assert_eq!(stream.peer_addr(), listener.local_addr());
    ///
    ///     let error = TcpStream::connect("localhost").unwrap_err();
    ///     assert!(error.to_string().contains("the port is missing"));
    ///     Ok(())
    /// }
    /// ```
    pub fn connect<A: ToAddrs>(addr: A) -> Call<impl Future<Output = IoResult<Stream<Inet>>> + use<A>> {
        let target = addr.target();
        Call::new(async move { connect_first(target?).await })
    }

    /// As [`connect`](Stream::connect), with a deadline for the whole, looking the name up included: none when there
    /// is no connection by then.
    pub fn connect_by<A: ToAddrs, D: Into<Deadline>>(
        addr: A,
        deadline: D,
    ) -> Call<impl Future<Output = IoResult<Option<Stream<Inet>>>> + use<A, D>> {
        let target = addr.target();
        let at = deadline.into().instant(fiber::now());
        Call::new(async move { race::by(at, connect_first(target?)).await })
    }
}

async fn connect_first(target: Target) -> IoResult<Stream<Inet>> {
    let addresses = resolve(target).await?;
    if let [address] = addresses[..] {
        return connect_to(address).await;
    }
    let attempts = addresses.iter().map(|address| connect_to(*address));
    race::first_success(attempts, STAGGER).await.map_err(all_failed)
}

async fn connect_to(address: SocketAddr) -> IoResult<Stream<Inet>> {
    let to = SocketAddress::Ip(address);
    let fd = with_kernel(OpKind::Socket, |kernel| {
        let fd = kernel.socket(to.domain(), SocketKind::Stream)?;
        kernel.set_socket_option(&fd, SocketOption::NoDelay(true))?;
        Ok(fd)
    })
    .map_err(|error| explain::on(error, address))?;
    fiber::verb(Connect::new(&fd, &to)?).await.map_err(|error| explain::connect(error, &to))?;
    Ok(Stream::new(fd, address))
}

/// The first address's error, telling those of the others.
fn all_failed(errors: Vec<IoError>) -> IoError {
    let mut errors = errors.into_iter();
    let first = errors.next().expect("several addresses were tried");
    let mut context = first.context().to_owned();
    for other in errors {
        write!(context, "; then {other}").expect("writing to a string");
    }
    first.with_context(context)
}
