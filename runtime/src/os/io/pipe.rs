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
/// # use wo_runtime::{plane::backend::Selection, shard::Builder};
/// # Builder::new().io(Selection::Sim).run(|| async {
/// let (reader, writer) = wo_runtime::os::io::pipe()?;
/// writer.write_all(b"through the pipe").await?;
/// writer.close().await?;
/// assert_eq!(reader.read_to_end().await?, b"through the pipe");
/// # Ok::<_, wo_runtime::error::IoError>(())
/// # }).unwrap().unwrap();
/// ```
pub fn pipe() -> IoResult<(File, File)> {
    let (reader, writer) = with_loop(OpKind::Open, |event_loop| event_loop.backend().pipe())?;
    Ok((File::stream(reader, "pipe"), File::stream(writer, "pipe")))
}
