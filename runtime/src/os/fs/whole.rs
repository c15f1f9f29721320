//! Whole files in one call.

use std::path::Path;

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::fiber::Call;
use crate::os::fs::explain::explain;
use crate::os::fs::file::File;

/// Reads a whole file. All of it is in memory.
///
/// # Errors
///
/// As [`File::open`] and [`File::read_to_end`], naming the path.
///
/// # Examples
///
/// ```
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// wo::fs::write("/tmp/numbers", [1, 2, 3])?;
/// assert_eq!(wo::fs::read("/tmp/numbers")?, [1, 2, 3]);
/// # Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
pub fn read<P: AsRef<Path>>(path: P) -> Call<impl Future<Output = IoResult<Vec<u8>>>> {
    Call::new(async move { File::open(path).await?.read_to_end().await })
}

/// Reads a whole file as text.
///
/// # Errors
///
/// `EILSEQ` when it is not UTF-8, saying from which byte on; else as [`read`].
///
/// # Examples
///
/// ```
/// use wo::fs;
///
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// fs::write("/note", "grüß dich")?;
/// assert_eq!(fs::read_to_string("/note")?, "grüß dich");
/// fs::write("/note", [b'a', 0xff])?;
/// assert!(fs::read_to_string("/note").unwrap_err().to_string().contains("byte 1"));
/// # Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
pub fn read_to_string<P: AsRef<Path>>(path: P) -> Call<impl Future<Output = IoResult<String>>> {
    Call::new(async move {
        let path = path.as_ref();
        String::from_utf8(read(path).await?).map_err(|error| {
            let byte = error.utf8_error().valid_up_to();
            let refused = IoError::new(errno::EILSEQ, OpKind::Read, Stage::Completion);
            explain(refused, &format!("{}: not UTF-8 from byte {byte} on", path.display()))
        })
    })
}

/// Makes `contents` the whole of a file: makes it, or replaces what it held. Whoever reads it in between, or after a
/// crash, may see a part; to avoid that, write another file, sync it, and [`rename`](crate::os::fs::rename) it.
///
/// # Errors
///
/// As [`File::create`] and [`File::write_all`], and what closing the file reports, naming the path.
///
/// # Examples
///
/// ```
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// wo::fs::write("/tmp/greeting", "hello")?;
/// assert_eq!(wo::fs::read_to_string("/tmp/greeting")?, "hello");
/// # Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
pub fn write<P: AsRef<Path>, C: AsRef<[u8]>>(path: P, contents: C) -> Call<impl Future<Output = IoResult<()>>> {
    Call::new(async move {
        let file = File::create(path).await?;
        file.write_all(contents.as_ref()).await?;
        file.close().await
    })
}
