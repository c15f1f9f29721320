//! The data directory: there is one, it is ours alone, and its names are on the disk.
//!
//! The lock is on the directory itself, so no file that somebody removes or copies matters to it, and another way to
//! the same directory meets the same lock. It ends with the process at the latest.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use wo_runtime::error::{IoResult, errno};
use wo_runtime::fiber;
use wo_runtime::os::fs::{self, File, OpenOptions};

use crate::log::error::OpenError;

/// How long a lock that no process has is waited for. A process that was killed may leave ops with the kernel, and
/// until those have ended its files, and their locks, are still there.
const LINGERS: Duration = Duration::from_millis(500);
/// And how often it is looked for.
const LOOKS_AGAIN: Duration = Duration::from_millis(5);

/// A data directory that is ours, until the last share of it is gone.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    lock: Rc<Lock>,
}

/// The opening that is locked.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing would do, but not at once: an op that has just come back, or a child that was forked a moment ago,
        // still has a share of the opening, and whoever is told that the directory is free finds it locked. Where no
        // loop runs any more it is closed soon.
        let _ = self.0.unlock();
    }
}

impl Directory {
    /// Opens and locks a directory; makes it, and those above it, when there is none.
    pub(crate) async fn open(dir: &Path) -> Result<Directory, OpenError> {
        let file = match open(dir).await {
            Err(error) if error.errno() == errno::ENOENT => {
                make(dir).await?;
                open(dir).await
            }
            opened => opened,
        };
        let file = file.map_err(|error| OpenError::io(dir, error))?;
        let began = fiber::now();
        while !file.try_lock().map_err(|error| OpenError::io(dir, error))? {
            let pid = file.lock_holder().await;
            if pid.is_some() || fiber::now().since(began) >= LINGERS {
                return Err(OpenError::AlreadyOpen { dir: dir.to_owned(), pid });
            }
            fiber::sleep(LOOKS_AGAIN).await.map_err(|error| OpenError::io(dir, error))?;
        }
        Ok(Directory { lock: Rc::new(Lock(file)) })
    }

    /// Waits until the names in it are on the disk.
    pub(crate) async fn sync(&self) -> IoResult<()> {
        self.lock.0.sync_all().await
    }
}

async fn open(dir: &Path) -> IoResult<File> {
    OpenOptions::new().read(true).directory(true).open(dir).await
}

/// Makes a directory and those above it, each with its name on the disk.
pub(crate) async fn make(dir: &Path) -> Result<(), OpenError> {
    let mut missing: Vec<PathBuf> = Vec::new();
    let mut here = dir.to_owned();
    while !fs::exists(&here).await.map_err(|error| OpenError::io(&here, error))? {
        let above = above(&here);
        missing.push(std::mem::replace(&mut here, above));
    }
    for dir in missing.iter().rev() {
        match fs::create_dir(dir).await {
            Err(error) if error.errno() != errno::EEXIST => return Err(OpenError::io(dir, error)),
            _ => {}
        }
        let above = above(dir);
        fs::sync_dir(&above).await.map_err(|error| OpenError::io(&above, error))?;
    }
    Ok(())
}

/// The directory a path lies in.
pub(crate) fn above(path: &Path) -> PathBuf {
    match path.parent() {
        Some(above) if above.as_os_str().is_empty() && path != Path::new(".") => PathBuf::from("."),
        Some(above) if above.as_os_str().is_empty() => path.to_owned(),
        Some(above) => above.to_owned(),
        // The root, or `.`.
        None => path.to_owned(),
    }
}
