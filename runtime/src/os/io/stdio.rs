//! The standard streams.
//!
//! They are the system's, shared with whoever started this process, and never closed here. Each has one handle in the
//! process, so that what a dropped read brought in is there for the next reader, and writers do not mix their bytes.
//! Where they lead may be a terminal, a pipe, a socket or a file; all are asked for what comes next, at the position
//! they share with other processes.

use std::sync::OnceLock;

use crate::error::{IoResult, OpKind};
use crate::os::fs::file::File;
use crate::plane::backend::Backend;
use crate::plane::current::with_loop;
use crate::plane::fd::RawDescriptor;

static STREAMS: [OnceLock<File>; 3] = [const { OnceLock::new() }; 3];
const NAMES: [&str; 3] = ["standard input", "standard output", "standard error"];

/// What this process is given to read. Does not park.
///
/// # Errors
///
/// `ENXIO` outside of a shard; in a simulated world, which has no descriptors of the system's, what its kernel says.
/// When the process was started without it, reading answers `EBADF`.
///
/// # Examples
///
/// ```no_run
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// let input = wo::io::stdin()?.read_to_end()?;
/// wo::io::stdout()?.write_all(&input)?;
/// # Ok(())
/// # }
/// ```
pub fn stdin() -> IoResult<File> {
    stream(0)
}

/// Where this process writes what it was asked for. Nothing is buffered. Does not park.
///
/// # Errors
///
/// As [`stdin`].
///
/// # Examples
///
/// ```
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// wo::io::stdout()?.write_all(b"hello\n")?;
/// # Ok(())
/// # }
/// ```
pub fn stdout() -> IoResult<File> {
    stream(1)
}

/// Where this process writes what went wrong. Nothing is buffered. Does not park.
///
/// # Errors
///
/// As [`stdin`].
///
/// # Examples
///
/// ```
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// wo::io::stderr()?.write_all(b"something went wrong\n")?;
/// # Ok(())
/// # }
/// ```
pub fn stderr() -> IoResult<File> {
    stream(2)
}

fn stream(index: usize) -> IoResult<File> {
    // Each loop is asked: a simulated one must not be given a number of the system's.
    let fd = with_loop(OpKind::Open, |event_loop| event_loop.backend().foreign(index as RawDescriptor))
        .map_err(|error| if error.context().is_empty() { error.with_context(NAMES[index]) } else { error })?;
    Ok(STREAMS[index].get_or_init(|| File::stream(fd, NAMES[index])).clone())
}
