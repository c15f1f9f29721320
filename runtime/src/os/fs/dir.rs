//! Directories.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{IoResult, OpKind, errno};
use crate::fiber::{Call, verb};
use crate::os::fs::explain::with_remedy;
use crate::os::fs::{FileKind, metadata, options};
use crate::plane::backend::operand::{self, OpenHow};
use crate::plane::ops::{Mkdir, ReadDir, Unlink};

/// The mode of a new directory, before the umask.
const MODE: u32 = 0o777;

/// What a directory holds under one name.
///
/// # Examples
///
/// ```
/// use std::path::Path;
/// use wo::fs::{self, FileKind};
///
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// fs::create_dir_all("/srv/data")?;
/// let entries = fs::read_dir("/srv")?;
/// assert_eq!((entries[0].file_name(), entries[0].kind()), ("data".as_ref(), FileKind::Directory));
/// assert_eq!(entries[0].path(), Path::new("/srv/data"));
/// # Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    dir: Arc<Path>,
    name: OsString,
    kind: FileKind,
}

impl DirEntry {
    /// The name within the directory.
    pub fn file_name(&self) -> &OsStr {
        &self.name
    }

    /// The directory's path, as it was given, with the name.
    pub fn path(&self) -> PathBuf {
        self.dir.join(&self.name)
    }

    /// What it is; a symbolic link is not followed.
    pub fn kind(&self) -> FileKind {
        self.kind
    }
}

/// Lists a directory, sorted by name, byte by byte, without `.` and `..`. The whole list is in memory. What is made
/// or removed in the meantime may be in it or not.
///
/// # Errors
///
/// `ENOENT`, `ENOTDIR`, `EACCES`, naming the path.
///
/// # Examples
///
/// ```
/// use wo::fs;
///
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// fs::create_dir_all("/tmp/tree/branch")?;
/// fs::write("/tmp/tree/a leaf", "green")?;
/// let entries = fs::read_dir("/tmp/tree")?;
/// let names: Vec<_> = entries.iter().map(|entry| entry.file_name()).collect();
/// assert_eq!(names, ["a leaf", "branch"]);
/// # Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
pub fn read_dir<P: AsRef<Path>>(path: P) -> Call<impl Future<Output = IoResult<Vec<DirEntry>>>> {
    Call::new(async move {
        let dir: Arc<Path> = path.as_ref().into();
        let listing = verb(ReadDir::new(operand::Path::new(&dir, OpKind::ReadDir)?)).await.map_err(with_remedy)?;
        Ok(listing.into_iter().map(|(name, kind)| DirEntry { dir: Arc::clone(&dir), name, kind }).collect())
    })
}

/// Makes a directory.
///
/// # Errors
///
/// `EEXIST` when something has the name, `ENOENT` when the directory above is missing, naming the path.
///
/// # Examples
///
/// ```
/// use wo::error::errno;
/// use wo::fs;
///
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// fs::create_dir("/srv")?;
/// assert_eq!(fs::create_dir("/srv").unwrap_err().errno(), errno::EEXIST);
/// assert_eq!(fs::create_dir("/nowhere/at/all").unwrap_err().errno(), errno::ENOENT);
/// # Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
pub fn create_dir<P: AsRef<Path>>(path: P) -> Call<impl Future<Output = IoResult<()>>> {
    Call::new(async move { make(path.as_ref()).await })
}

/// Makes a directory, and those above it that are missing. One that exists already is no error, whoever made it.
/// What was made before an error stays.
///
/// # Errors
///
/// `EEXIST` or `ENOTDIR` when something on the way is no directory, naming it.
///
/// # Examples
///
/// ```
/// use wo::fs;
///
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// fs::create_dir_all("/srv/data/today")?;
/// fs::create_dir_all("/srv/data")?; // it is there: fine
/// assert!(fs::exists("/srv/data/today")?);
/// # Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
pub fn create_dir_all<P: AsRef<Path>>(path: P) -> Call<impl Future<Output = IoResult<()>>> {
    Call::new(async move { make_all(path.as_ref()).await })
}

/// Removes an empty directory.
///
/// # Errors
///
/// `ENOENT`, `ENOTDIR`, `ENOTEMPTY`, naming the path.
///
/// # Examples
///
/// ```
/// use wo::error::errno;
/// use wo::fs;
///
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// fs::create_dir_all("/srv/data")?;
/// assert_eq!(fs::remove_dir("/srv").unwrap_err().errno(), errno::ENOTEMPTY);
/// fs::remove_dir("/srv/data")?;
/// fs::remove_dir("/srv")?;
/// # Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
pub fn remove_dir<P: AsRef<Path>>(path: P) -> Call<impl Future<Output = IoResult<()>>> {
    Call::new(async move {
        let path = operand::Path::new(path.as_ref(), OpKind::Unlink)?;
        verb(Unlink::directory(path)).await.map_err(with_remedy)
    })
}

/// Waits until the names in a directory are on the disk: files made there, renamed to there, removed from there.
/// Without it a crash may take back a new file's name, though not what [`sync_all`](crate::os::fs::File::sync_all)
/// wrote into it.
///
/// # Errors
///
/// `ENOENT`, `ENOTDIR`, and `EIO` when the names could not be written, naming the path.
///
/// # Examples
///
/// ```
/// use wo::fs::{self, File};
///
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// let file = File::create("/log")?;
/// file.write_all(b"begun\n")?;
/// file.sync_all()?; // the bytes
/// fs::sync_dir("/")?; // and the name
/// # Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
pub fn sync_dir<P: AsRef<Path>>(path: P) -> Call<impl Future<Output = IoResult<()>>> {
    Call::new(async move {
        let how = OpenHow {
            read: true,
            write: false,
            append: false,
            create: false,
            create_new: false,
            truncate: false,
            directory: true,
            no_follow: false,
            direct: false,
            mode: 0,
        };
        options::open(path.as_ref(), how).await?.sync_all().await
    })
}

async fn make(path: &Path) -> IoResult<()> {
    verb(Mkdir::new(operand::Path::new(path, OpKind::Mkdir)?, MODE)).await.map_err(with_remedy)
}

/// Climbs until there is a directory to make or one that exists, then makes the ones below it on the way back.
async fn make_all(path: &Path) -> IoResult<()> {
    let mut below: Vec<&Path> = Vec::new();
    let mut here = path;
    let mut climbing = true;
    loop {
        if let Err(error) = make(here).await {
            let above = here.parent().filter(|above| !above.as_os_str().is_empty());
            match above {
                Some(above) if climbing && error.errno() == errno::ENOENT => {
                    below.push(here);
                    here = above;
                    continue;
                }
                _ if error.errno() != errno::ENOENT && is_dir(here).await => {}
                _ => return Err(error),
            }
        }
        climbing = false;
        match below.pop() {
            Some(next) => here = next,
            None => return Ok(()),
        }
    }
}

async fn is_dir(path: &Path) -> bool {
    metadata(path).await.is_ok_and(|stat| stat.is_dir())
}
