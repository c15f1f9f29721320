//! Binding a Unix listener.

use std::future::Future;

use wo_runtime::error::IoResult;
use wo_runtime::fiber::Call;
use wo_runtime::plane::backend::SocketKind;

use crate::addr::ToUnixAddr;
use crate::explain;
use crate::family::Unix;
use crate::listener::{ListenOptions, Listener};
use crate::unix::bind::bind;

impl Listener<Unix> {
    /// Listens at `path`. A socket file that an earlier server left there is removed first; one a server still listens
    /// at is left alone, and so is anything that is no socket. The socket file stays when the listener is dropped.
    ///
    /// A live server there sees a connection that is closed at once: it is asked whether it lives.
    ///
    /// # Errors
    ///
    /// EADDRINUSE when the path is taken, saying by what; ENOENT when its directory does not exist, EACCES when it is
    /// not writable; ENAMETOOLONG for a path over 107 bytes.
    pub fn bind<A: ToUnixAddr>(path: A) -> Call<impl Future<Output = IoResult<Listener<Unix>>> + use<A>> {
        Listener::<Unix>::bind_with(path, ListenOptions::default())
    }

    /// As [`bind`](Listener::bind), with a backlog of its own; the other options are TCP's and mean nothing here.
    ///
    /// # Errors
    ///
    /// As [`bind`](Listener::bind).
    pub fn bind_with<A: ToUnixAddr>(
        path: A,
        options: ListenOptions,
    ) -> Call<impl Future<Output = IoResult<Listener<Unix>>> + use<A>> {
        let address = path.unix_address();
        Call::new(async move {
            let address = address?;
            let fd = bind(&address, SocketKind::Stream).await?;
            Listener::over(fd, options.backlog).map_err(|error| explain::bind(error, &address))
        })
    }
}
