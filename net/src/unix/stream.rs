//! Connecting Unix streams.

use std::future::Future;

use wo_runtime::error::{IoResult, OpKind};
use wo_runtime::fiber::{self, Call};
use wo_runtime::plane::backend::{Backend, SocketKind};
use wo_runtime::plane::ops::Connect;
use wo_runtime::plane::{Deadline, SocketAddress};

use crate::addr::ToUnixAddr;
use crate::explain;
use crate::family::Unix;
use crate::option::with_kernel;
use crate::race;
use crate::stream::Stream;

impl Stream<Unix> {
    /// Connects to the listener at `path`. Dropped half-way, it leaves no socket behind.
    ///
    /// # Errors
    ///
    /// ENOENT when there is no such socket file, ECONNREFUSED when nobody listens at it any more, EACCES when it is
    /// not writable, each with the path.
    pub fn connect<A: ToUnixAddr>(path: A) -> Call<impl Future<Output = IoResult<Stream<Unix>>> + use<A>> {
        let address = path.unix_address();
        Call::new(async move { connect_to(address?).await })
    }

    /// As [`connect`](Stream::connect), with a deadline: none when there is no connection by then, as when the
    /// server's backlog stays full.
    pub fn connect_by<A: ToUnixAddr, D: Into<Deadline>>(
        path: A,
        deadline: D,
    ) -> Call<impl Future<Output = IoResult<Option<Stream<Unix>>>> + use<A, D>> {
        let address = path.unix_address();
        let at = deadline.into().instant(fiber::now());
        Call::new(async move { race::by(at, connect_to(address?)).await })
    }

    /// Two streams connected to each other.
    ///
    /// # Errors
    ///
    /// EMFILE when the process has no descriptors left, or ENXIO outside of a shard.
    pub fn pair() -> IoResult<(Stream<Unix>, Stream<Unix>)> {
        let (a, b) = with_kernel(OpKind::Socket, |kernel| kernel.socket_pair(SocketKind::Stream))?;
        Ok((Stream::new(a, SocketAddress::Unnamed), Stream::new(b, SocketAddress::Unnamed)))
    }
}

async fn connect_to(address: SocketAddress) -> IoResult<Stream<Unix>> {
    let fd = with_kernel(OpKind::Socket, |kernel| kernel.socket(address.domain(), SocketKind::Stream))
        .map_err(|error| explain::on(error, &address))?;
    fiber::verb(Connect::new(&fd, &address)?).await.map_err(|error| explain::connect(error, &address))?;
    Ok(Stream::new(fd, address))
}
