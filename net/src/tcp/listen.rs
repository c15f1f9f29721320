//! Binding a TCP listener.

use std::future::Future;
use std::net::SocketAddr;

use wo_runtime::error::IoResult;
use wo_runtime::fiber::Call;
use wo_runtime::plane::SocketAddress;
use wo_runtime::plane::backend::{SocketKind, SocketOption};

use crate::addr::{Target, ToAddrs};
use crate::explain;
use crate::family::Inet;
use crate::listener::{ListenOptions, Listener, bound};
use crate::option;
use crate::resolve::resolve;

impl Listener<Inet> {
    /// Listens on `addr`, with the default [`ListenOptions`]. Of several addresses the first that can be bound is
    /// taken; port 0 lets the kernel choose one.
    ///
    /// # Errors
    ///
    /// EADDRINUSE, EADDRNOTAVAIL, EACCES for a port that is the system's, each with the address and the remedy;
    /// EINVAL for text that is no address.
    pub fn bind<A: ToAddrs>(addr: A) -> Call<impl Future<Output = IoResult<Listener<Inet>>> + use<A>> {
        Listener::<Inet>::bind_with(addr, ListenOptions::default())
    }

    /// Listens on `addr`, as `options` say.
    ///
    /// # Errors
    ///
    /// As [`bind`](Listener::bind).
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::net::{ListenOptions, TcpListener};
    ///
    /// #[wo::main]
    /// fn main() -> wo::IoResult<()> {
    ///     let shared = ListenOptions { reuse_port: true, ..ListenOptions::default() };
    ///     let first = TcpListener::bind_with("127.0.0.1:0", shared)?;
    ///     let second = TcpListener::bind_with(first.local_addr(), shared)?;
    ///     assert_eq!(first.local_addr(), second.local_addr());
    ///     Ok(())
    /// }
    /// ```
    pub fn bind_with<A: ToAddrs>(
        addr: A,
        options: ListenOptions,
    ) -> Call<impl Future<Output = IoResult<Listener<Inet>>> + use<A>> {
        let target = addr.target();
        Call::new(async move { bind_first(target?, options).await })
    }
}

async fn bind_first(target: Target, options: ListenOptions) -> IoResult<Listener<Inet>> {
    let addresses = resolve(target).await?;
    let (last, others) = addresses.split_last().expect("a resolved target has an address");
    for address in others {
        if let Ok(listener) = listen(*address, options) {
            return Ok(listener);
        }
    }
    listen(*last, options)
}

pub(crate) fn listen(address: SocketAddr, options: ListenOptions) -> IoResult<Listener<Inet>> {
    let mut before = vec![SocketOption::ReuseAddress(options.reuse_address)];
    if options.reuse_port {
        before.push(SocketOption::ReusePort(true));
    }
    if address.is_ipv6() {
        before.push(SocketOption::OnlyV6(options.only_v6));
    }
    let address = SocketAddress::Ip(address);
    let fd = bound(&address, SocketKind::Stream, &before)?;
    // Once, here: accepted streams inherit it.
    option::set(&fd, SocketOption::NoDelay(options.nodelay))?;
    let mut listener = Listener::over(fd, options.backlog).map_err(|error| explain::bind(error, &address))?;
    listener.options = options;
    Ok(listener)
}
