//! The files of this system as a capability.

use std::future::Future;
use std::path::Path;

use crate::error::IoResult;
use crate::os::fs;
use crate::scope::Call;
use crate::scope::capability::Fs;

/// The files of this system, or the simulated world's.
///
/// # Examples
///
/// ```
/// use std::path::Path;
/// use wo::capability::{Fs, LiveFs};
///
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// LiveFs.create_dir_all(Path::new("/srv"))?;
/// LiveFs.write(Path::new("/srv/config"), b"port = 1")?;
/// assert_eq!(LiveFs.read(Path::new("/srv/config"))?, b"port = 1");
/// # Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveFs;

impl Fs for LiveFs {
    fn read(&self, path: &Path) -> Call<impl Future<Output = IoResult<Vec<u8>>>> {
        fs::read(path)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Call<impl Future<Output = IoResult<()>>> {
        let bytes = bytes.to_vec();
        Call::new(async move { fs::write(path, bytes).await })
    }

    fn rename(&self, from: &Path, to: &Path) -> Call<impl Future<Output = IoResult<()>>> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> Call<impl Future<Output = IoResult<()>>> {
        fs::remove_file(path)
    }

    fn create_dir_all(&self, path: &Path) -> Call<impl Future<Output = IoResult<()>>> {
        fs::create_dir_all(path)
    }

    fn names(&self, path: &Path) -> Call<impl Future<Output = IoResult<Vec<String>>>> {
        Call::new(async move {
            let entries = fs::read_dir(path).await?;
            Ok(entries.into_iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
        })
    }
}
