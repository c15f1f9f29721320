//! Binding to a path that an earlier program may have left its socket at.
//!
//! A socket file outlives the program that made it, and binding there is refused. So when a path is taken, somebody
//! has to knock: a socket that answers is another server's and stays; one that refuses is a left-over and is removed;
//! what is no socket is never touched. Between two programs that start at the same moment on the same path this
//! decides nothing for certain: the later one may take a path whose owner has bound it and does not listen yet.

use std::path::Path;
use std::time::Duration;

use wo_runtime::error::{IoError, IoResult, OpKind, Stage, errno};
use wo_runtime::fiber;
use wo_runtime::plane::backend::operand::{FileKind, Path as PathOperand};
use wo_runtime::plane::backend::{Backend, SocketKind};
use wo_runtime::plane::ops::{Connect, Stat, Unlink};
use wo_runtime::plane::{Fd, SocketAddress};

use crate::listener::bound;
use crate::option::with_kernel;

/// A server whose backlog is full does not answer the knock; it is alive nevertheless.
const KNOCK: Duration = Duration::from_millis(500);

/// A socket bound to `address`, where a left-over socket file may have to go first.
pub(crate) async fn bind(address: &SocketAddress, kind: SocketKind) -> IoResult<Fd> {
    match (bound(address, kind, &[]), address.as_path()) {
        (Err(error), Some(path)) if error.errno() == errno::EADDRINUSE => {
            make_way(address, path).await?;
            bound(address, kind, &[])
        }
        (result, _) => result,
    }
}

/// Removes what lies at `path` if it is a socket nobody listens at.
async fn make_way(address: &SocketAddress, path: &Path) -> IoResult<()> {
    let stat = match fiber::verb(Stat::at(PathOperand::new(path, OpKind::Stat)?, false)).await {
        Err(error) if error.errno() == errno::ENOENT => return Ok(()),
        stat => stat?,
    };
    if stat.kind() != FileKind::Socket {
        return Err(taken(format!(
            "{address}: {} is there, no socket, and stays untouched; move it away or choose another path",
            described(stat.kind())
        )));
    }
    let knocker = with_kernel(OpKind::Socket, |kernel| kernel.socket(address.domain(), SocketKind::Stream))?;
    let (knocked, late) = fiber::verb(Connect::new(&knocker, address)?).by(Some(fiber::now() + KNOCK)).await;
    match knocked {
        Err(error) if error.errno() == errno::ECONNREFUSED => {}
        Err(error) if error.errno() == errno::ENOENT => return Ok(()),
        Err(error) if error.is_cancelled() && !late => return Err(error),
        Err(error) if matches!(error.errno(), errno::EACCES | errno::EPERM) => {
            return Err(taken(format!(
                "{address}: a socket is there, and whether a server listens cannot be asked: {error}"
            )));
        }
        // It answered, or was too busy to, or takes datagrams.
        _ => {
            return Err(taken(format!("{address}: another server is there; end it or choose another path")));
        }
    }
    match fiber::verb(Unlink::file(PathOperand::new(path, OpKind::Unlink)?)).await {
        Err(error) if error.errno() != errno::ENOENT => Err(error),
        _ => Ok(()),
    }
}

fn taken(context: String) -> IoError {
    IoError::new(errno::EADDRINUSE, OpKind::Bind, Stage::Completion).with_context(context)
}

fn described(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "a file",
        FileKind::Directory => "a directory",
        FileKind::Symlink => "a symbolic link",
        FileKind::Fifo => "a FIFO",
        FileKind::CharDevice | FileKind::BlockDevice => "a device",
        _ => "something",
    }
}
