//! Pipes.

use crate::error::{IoResult, OpKind};
use crate::os::fs::file::File;
use crate::plane::backend::Backend;
use crate::plane::current::with_loop;

/// Makes a pipe: the end to read from, then the end to write to, both close-on-exec. What is written to the one is
/// read from the other, in order; when the last writer is closed, the reader finds the end of file.
///
/// Does not park.
///
/// # Errors
///
/// `EMFILE` when the process has too many files open; `ENXIO` outside of a shard.
///
/// # Examples
///
/// ```
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// let (reader, writer) = wo::io::pipe()?;
/// writer.write_all(b"through the pipe")?;
/// writer.close()?;
/// assert_eq!(reader.read_to_end()?, b"through the pipe");
/// # Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
pub fn pipe() -> IoResult<(File, File)> {
    let (reader, writer) = with_loop(OpKind::Open, |event_loop| event_loop.backend().pipe())?;
    Ok((File::stream(reader, "pipe"), File::stream(writer, "pipe")))
}
