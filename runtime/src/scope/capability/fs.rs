//! Files, wherever they lie.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, ready};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::scope::call::Call;
use crate::scope::now::{is_cancelled, why};

/// Files, whole ones.
///
/// # Examples
///
/// ```
/// use std::path::Path;
/// use wo::capability::{Fs, MemFs};
///
/// /// Replaces a file, wherever it lies.
/// #[wo::fiber]
/// fn save(fs: &impl Fs, bytes: &[u8]) -> wo::IoResult<()> {
///     fs.write(Path::new("/state.new"), bytes)?;
///     fs.rename(Path::new("/state.new"), Path::new("/state"))
/// }
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let fs = MemFs::new();
///     save(&fs, b"one")?;
///     save(&fs, b"two")?;
///     assert_eq!(fs.read(Path::new("/state"))?, b"two");
///     Ok(())
/// }
/// ```
pub trait Fs {
    /// All of a file.
    ///
    /// # Errors
    ///
    /// ENOENT without such a file, ECANCELED when the fiber was cancelled.
    fn read(&self, path: &Path) -> Call<impl Future<Output = IoResult<Vec<u8>>>>;

    /// Makes a file of these bytes, in the place of the one there was.
    ///
    /// # Errors
    ///
    /// ENOENT without its directory, ECANCELED when the fiber was cancelled.
    fn write(&self, path: &Path, bytes: &[u8]) -> Call<impl Future<Output = IoResult<()>>>;

    /// Gives a file another name, in the place of what had that name.
    ///
    /// # Errors
    ///
    /// ENOENT without such a file, ECANCELED when the fiber was cancelled.
    fn rename(&self, from: &Path, to: &Path) -> Call<impl Future<Output = IoResult<()>>>;

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// ENOENT without such a file, ECANCELED when the fiber was cancelled.
    fn remove_file(&self, path: &Path) -> Call<impl Future<Output = IoResult<()>>>;

    /// Makes a directory and those above it; one that is there already is fine.
    ///
    /// # Errors
    ///
    /// ENOTDIR where a file stands in the way, ECANCELED when the fiber was cancelled.
    fn create_dir_all(&self, path: &Path) -> Call<impl Future<Output = IoResult<()>>>;

    /// The names in a directory, in order.
    ///
    /// # Errors
    ///
    /// ENOENT without such a directory, ECANCELED when the fiber was cancelled.
    fn names(&self, path: &Path) -> Call<impl Future<Output = IoResult<Vec<String>>>>;
}

impl<F: Fs> Fs for &F {
    fn read(&self, path: &Path) -> Call<impl Future<Output = IoResult<Vec<u8>>>> {
        F::read(self, path)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Call<impl Future<Output = IoResult<()>>> {
        F::write(self, path, bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> Call<impl Future<Output = IoResult<()>>> {
        F::rename(self, from, to)
    }

    fn remove_file(&self, path: &Path) -> Call<impl Future<Output = IoResult<()>>> {
        F::remove_file(self, path)
    }

    fn create_dir_all(&self, path: &Path) -> Call<impl Future<Output = IoResult<()>>> {
        F::create_dir_all(self, path)
    }

    fn names(&self, path: &Path) -> Call<impl Future<Output = IoResult<Vec<String>>>> {
        F::names(self, path)
    }
}

/// Files in memory: the double of [`Fs`]. Clones are the same files.
///
/// # Examples
///
/// ```
/// use std::path::Path;
/// use wo::capability::{Fs, MemFs};
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let fs = MemFs::new();
///     fs.create_dir_all(Path::new("/etc/app"))?;
///     fs.write(Path::new("/etc/app/new"), b"port = 1")?;
///     fs.rename(Path::new("/etc/app/new"), Path::new("/etc/app/config"))?;
///     assert_eq!(fs.names(Path::new("/etc/app"))?, ["config"]);
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct MemFs(Rc<RefCell<BTreeMap<PathBuf, Option<Vec<u8>>>>>);

impl Default for MemFs {
    fn default() -> MemFs {
        MemFs::new()
    }
}

impl MemFs {
    /// An empty root directory.
    pub fn new() -> MemFs {
        MemFs(Rc::new(RefCell::new(BTreeMap::from([(PathBuf::from("/"), None)]))))
    }

    /// A checkpoint, then `look` at the entries: files have bytes, directories none.
    fn verb<R>(
        &self,
        kind: OpKind,
        path: &Path,
        look: impl FnOnce(&mut BTreeMap<PathBuf, Option<Vec<u8>>>, PathBuf) -> Result<R, i32>,
    ) -> Call<std::future::Ready<IoResult<R>>> {
        let done = if is_cancelled() {
            Err(IoError::new(errno::ECANCELED, kind, Stage::Submit).with_context(why()))
        } else {
            look(&mut self.0.borrow_mut(), absolute(path)).map_err(|number| {
                IoError::new(number, kind, Stage::Completion).with_context(path.display().to_string())
            })
        };
        Call::new(ready(done))
    }
}

/// What is not from the root is taken to be; `.` and `..` are resolved.
fn absolute(path: &Path) -> PathBuf {
    let mut absolute = PathBuf::from("/");
    for part in path.components() {
        match part {
            std::path::Component::Normal(name) => absolute.push(name),
            std::path::Component::ParentDir => {
                absolute.pop();
            }
            _ => {}
        }
    }
    absolute
}

type Entries = BTreeMap<PathBuf, Option<Vec<u8>>>;

fn has_dir_above(entries: &Entries, path: &Path) -> Result<(), i32> {
    match path.parent().map(|above| entries.get(above)) {
        Some(Some(None)) => Ok(()),
        Some(Some(Some(_))) => Err(errno::ENOTDIR),
        Some(None) => Err(errno::ENOENT),
        None => Err(errno::EISDIR),
    }
}

impl Fs for MemFs {
    fn read(&self, path: &Path) -> Call<impl Future<Output = IoResult<Vec<u8>>>> {
        self.verb(OpKind::Read, path, |entries, path| match entries.get(&path) {
            Some(Some(bytes)) => Ok(bytes.clone()),
            Some(None) => Err(errno::EISDIR),
            None => Err(errno::ENOENT),
        })
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Call<impl Future<Output = IoResult<()>>> {
        self.verb(OpKind::Write, path, |entries, path| {
            has_dir_above(entries, &path)?;
            match entries.get(&path) {
                Some(None) => Err(errno::EISDIR),
                _ => {
                    entries.insert(path, Some(bytes.to_vec()));
                    Ok(())
                }
            }
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> Call<impl Future<Output = IoResult<()>>> {
        let to = absolute(to);
        self.verb(OpKind::Rename, from, |entries, from| {
            has_dir_above(entries, &to)?;
            match (entries.get(&from), entries.get(&to)) {
                (None, _) => Err(errno::ENOENT),
                (Some(Some(_)), Some(None)) | (Some(None), _) => Err(errno::EISDIR),
                (Some(Some(_)), _) => {
                    let bytes = entries.remove(&from).flatten();
                    entries.insert(to, bytes);
                    Ok(())
                }
            }
        })
    }

    fn remove_file(&self, path: &Path) -> Call<impl Future<Output = IoResult<()>>> {
        self.verb(OpKind::Unlink, path, |entries, path| match entries.get(&path) {
            Some(Some(_)) => {
                entries.remove(&path);
                Ok(())
            }
            Some(None) => Err(errno::EISDIR),
            None => Err(errno::ENOENT),
        })
    }

    fn create_dir_all(&self, path: &Path) -> Call<impl Future<Output = IoResult<()>>> {
        self.verb(OpKind::Mkdir, path, |entries, path| {
            let dirs: Vec<&Path> = path.ancestors().collect();
            if dirs.iter().any(|dir| matches!(entries.get(*dir), Some(Some(_)))) {
                return Err(errno::ENOTDIR);
            }
            for dir in dirs {
                entries.insert(dir.to_owned(), None);
            }
            Ok(())
        })
    }

    fn names(&self, path: &Path) -> Call<impl Future<Output = IoResult<Vec<String>>>> {
        self.verb(OpKind::ReadDir, path, |entries, path| match entries.get(&path) {
            Some(None) => Ok(entries
                .keys()
                .filter(|entry| entry.parent() == Some(&*path))
                .filter_map(|entry| Some(entry.file_name()?.to_string_lossy().into_owned()))
                .collect()),
            Some(Some(_)) => Err(errno::ENOTDIR),
            None => Err(errno::ENOENT),
        })
    }
}
