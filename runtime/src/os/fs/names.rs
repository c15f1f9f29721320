//! What is done to files by their names.

use std::path::Path;

use crate::error::{IoResult, OpKind, errno};
use crate::fiber::{Call, verb};
use crate::os::fs::Metadata;
use crate::os::fs::explain::with_remedy;
use crate::plane::backend::operand;
use crate::plane::ops::{Rename, Stat, Unlink};

/// The metadata of what `path` names, seen through symbolic links.
///
/// # Errors
///
/// `ENOENT` when there is nothing; else what the kernel says, naming the path.
///
/// # Examples
///
/// ```
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// wo::fs::write("/tmp/name", "wo")?;
/// let file = wo::fs::metadata("/tmp/name")?;
/// assert!((file.is_file(), file.len()) == (true, 2));
/// # Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
pub fn metadata<P: AsRef<Path>>(path: P) -> Call<impl Future<Output = IoResult<Metadata>>> {
    Call::new(async move { stat(path.as_ref(), true).await })
}

/// The metadata of what `path` names, which may be a symbolic link.
///
/// # Errors
///
/// As [`metadata`].
///
/// # Examples
///
/// ```
/// use wo::fs;
///
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// fs::write("/note", "wo")?;
/// assert!(!fs::symlink_metadata("/note")?.is_symlink());
/// # Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
pub fn symlink_metadata<P: AsRef<Path>>(path: P) -> Call<impl Future<Output = IoResult<Metadata>>> {
    Call::new(async move { stat(path.as_ref(), false).await })
}

/// Whether `path` names something, seen through symbolic links. It may be gone by the time this is answered.
///
/// # Errors
///
/// When that could not be found out; a missing directory above it is no error.
///
/// # Examples
///
/// ```
/// use wo::fs;
///
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// assert!(!fs::exists("/note")?);
/// fs::write("/note", "wo")?;
/// assert!(fs::exists("/note")?);
/// # Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
pub fn exists<P: AsRef<Path>>(path: P) -> Call<impl Future<Output = IoResult<bool>>> {
    Call::new(async move {
        match stat(path.as_ref(), true).await {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.errno(), errno::ENOENT | errno::ENOTDIR) => Ok(false),
            Err(error) => Err(error),
        }
    })
}

/// Renames a file or directory in one step, within one file system. A file with the new name is replaced, so is an
/// empty directory by a directory; whoever looks sees the old one or the new one.
///
/// The name is there for good once the directory is synced ([`sync_dir`](crate::os::fs::sync_dir)).
///
/// # Errors
///
/// `ENOENT`, `EXDEV` across file systems, `ENOTEMPTY`, naming both paths.
///
/// # Examples
///
/// ```
/// use wo::fs;
///
/// /// Replaces a file so that a crash leaves the old one or the new one, whole.
/// #[wo::fiber]
/// fn replace(dir: &str, name: &str, contents: &[u8]) -> wo::IoResult<()> {
///     let (new, old) = (format!("{dir}/{name}.new"), format!("{dir}/{name}"));
///     let file = fs::File::create(&new)?;
///     file.write_all(contents)?;
///     file.sync_all()?;
///     fs::rename(&new, &old)?;
///     fs::sync_dir(dir)
/// }
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// #     replace("/tmp", "state", b"one")?;
/// #     replace("/tmp", "state", b"two")?;
/// #     assert_eq!(fs::read("/tmp/state")?, b"two");
/// #     Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
pub fn rename<P: AsRef<Path>, Q: AsRef<Path>>(from: P, to: Q) -> Call<impl Future<Output = IoResult<()>>> {
    Call::new(async move {
        let (from, to) = operands(from.as_ref(), to.as_ref())?;
        verb(Rename::new(from, to)).await.map_err(with_remedy)
    })
}

/// As [`rename`], but never replaces anything.
///
/// # Errors
///
/// `EEXIST` when something has the new name, `EINVAL` on file systems that cannot do this; else as [`rename`].
///
/// # Examples
///
/// ```
/// use wo::error::errno;
/// use wo::fs;
///
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// fs::write("/new", "2")?;
/// fs::write("/old", "1")?;
/// assert_eq!(fs::rename_noreplace("/new", "/old").unwrap_err().errno(), errno::EEXIST);
/// fs::rename_noreplace("/new", "/newest")?;
/// assert_eq!(fs::read("/newest")?, b"2");
/// # Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
pub fn rename_noreplace<P: AsRef<Path>, Q: AsRef<Path>>(from: P, to: Q) -> Call<impl Future<Output = IoResult<()>>> {
    Call::new(async move {
        let (from, to) = operands(from.as_ref(), to.as_ref())?;
        verb(Rename::without_replacing(from, to)).await.map_err(with_remedy)
    })
}

/// Removes a name of a file, or a symbolic link. The file goes with its last name and its last descriptor.
///
/// # Errors
///
/// `ENOENT`, `EISDIR` for a directory, naming the path.
///
/// # Examples
///
/// ```
/// use wo::fs;
///
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// fs::write("/note", "wo")?;
/// fs::remove_file("/note")?;
/// assert!(!fs::exists("/note")?);
/// # Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
pub fn remove_file<P: AsRef<Path>>(path: P) -> Call<impl Future<Output = IoResult<()>>> {
    Call::new(async move {
        let path = operand::Path::new(path.as_ref(), OpKind::Unlink)?;
        verb(Unlink::file(path)).await.map_err(with_remedy)
    })
}

async fn stat(path: &Path, follow: bool) -> IoResult<Metadata> {
    verb(Stat::at(operand::Path::new(path, OpKind::Stat)?, follow)).await.map_err(with_remedy)
}

fn operands(from: &Path, to: &Path) -> IoResult<(operand::Path, operand::Path)> {
    Ok((operand::Path::new(from, OpKind::Rename)?, operand::Path::new(to, OpKind::Rename)?))
}
