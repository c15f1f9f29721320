//! What the command `wo-db` does, for programs: looking at data directories without their program, and mending them.
//!
//! All of it works on directories nobody has open in this program; all but [`compact`] only reads. The tables are known
//! from the catalogue in the directory itself.

mod compact;
mod look;
mod rows;

use std::path::Path;

use wo_runtime::fiber::Call;

pub use compact::Compacted;
pub use look::{Stats, TableStats};

use crate::Result;
use crate::log::Progress;
pub use crate::log::copy::Backup;
pub use crate::log::error::{CommitError, CopyError, OpenError};
pub use crate::log::examine::Contents;
pub use crate::log::salvage::{Gap, Salvaged};

/// Reads all of a data directory, every row of it, and says whether it is whole. Nothing is changed, and nothing is
/// locked: it may be in use. `progress` is told how many bytes are read, of how many.
///
/// # Errors
///
/// What keeps it from being opened; see [`OpenError`]. A torn tail and a broken snapshot that is not needed are no
/// errors: they are in the [`Contents`].
///
/// # Examples
///
/// ```
/// use wo::db::{Db, tools};
///
/// #[derive(wo::Record, Clone)]
/// struct City {
///     #[key]
///     name: String,
/// }
///
/// #[wo::main]
/// fn main() -> Result<(), wo::db::Error> {
/// #   let dir = std::env::temp_dir().join(format!("wo-db-verify-{}", std::process::id()));
/// #   let dir = dir.as_path();
///     let db = Db::builder().table::<City>().open(dir)?;
///     db.table::<City>()?.insert(City { name: "Rome".to_owned() })?;
///     db.close()?;
///     let contents = tools::verify(dir, |_, _| ())?;
///     assert!(contents.torn_tail.is_none() && contents.last_sequence > 0);
/// #   std::fs::remove_dir_all(dir).unwrap();
///     Ok(())
/// }
/// ```
pub fn verify<P: AsRef<Path>>(
    dir: P,
    mut progress: impl FnMut(u64, u64),
) -> Call<impl Future<Output = Result<Contents, OpenError>>> {
    Call::new(async move { look::verify(dir.as_ref(), &mut progress).await })
}

/// Counts what is in a data directory. Nothing is changed, and nothing is locked.
///
/// # Errors
///
/// As [`verify`].
pub fn stats<P: AsRef<Path>>(
    dir: P,
    mut progress: impl FnMut(u64, u64),
) -> Call<impl Future<Output = Result<Stats, OpenError>>> {
    Call::new(async move { look::stats(dir.as_ref(), &mut progress).await })
}

/// Gives every row of every table, or of one, to `line`, as a line of JSON with `table` and `row`: by table, and in the
/// order of keys. It ends early when `line` answers false. Nothing is changed, and nothing is locked.
///
/// # Errors
///
/// As [`verify`].
pub fn dump<P: AsRef<Path>>(
    dir: P,
    table: Option<&str>,
    mut line: impl FnMut(&str) -> bool,
) -> Call<impl Future<Output = Result<(), OpenError>>> {
    Call::new(async move { look::dump(dir.as_ref(), table, &mut line).await })
}

/// Gives every transaction of the log to `line` whose number is not below `from`, as a line of JSON with `sequence` and
/// `changes`. What a snapshot has swallowed is not there any more. Nothing is changed, and nothing is locked.
///
/// # Errors
///
/// As [`verify`].
pub fn transactions<P: AsRef<Path>>(
    dir: P,
    from: u64,
    mut line: impl FnMut(&str) -> bool,
) -> Call<impl Future<Output = Result<(), OpenError>>> {
    Call::new(async move { look::transactions(dir.as_ref(), from, &mut line).await })
}

/// Makes a snapshot of a data directory and gives the log's space back. It opens the directory, so nobody else may have
/// it open.
///
/// # Errors
///
/// As opening it; and when tables were changed since the last snapshot, which their program alone can make one of.
pub fn compact<P: AsRef<Path>>(dir: P) -> Call<impl Future<Output = Result<Compacted, CopyError>>> {
    Call::new(async move { compact::compact(dir.as_ref()).await })
}

/// Copies a data directory, or a backup, to a new directory. The one that is copied may be in use, here or elsewhere.
///
/// # Errors
///
/// As [`verify`] for what is copied; when the new directory is there and not empty; and what the system refuses.
/// Nothing is left then.
pub fn copy<P: AsRef<Path>, Q: AsRef<Path>>(
    from: P,
    to: Q,
    mut progress: impl FnMut(u64, u64),
) -> Call<impl Future<Output = Result<Backup, CopyError>>> {
    Call::new(async move { crate::log::copy::copy(from.as_ref(), to.as_ref(), &mut progress).await })
}

/// Takes what is whole out of a broken data directory, into a new one, and says what was lost. The old one is only
/// read.
///
/// # Errors
///
/// When there is nothing of a database in it, and as [`copy`] for the new directory.
pub fn salvage<P: AsRef<Path>, Q: AsRef<Path>>(
    from: P,
    to: Q,
    mut progress: impl FnMut(u64, u64),
) -> Call<impl Future<Output = Result<Salvaged, CopyError>>> {
    Call::new(async move { crate::log::salvage::salvage(from.as_ref(), to.as_ref(), &mut progress).await })
}

/// A progress nobody looks at.
fn unseen() -> impl FnMut(u64, u64) {
    |_, _| ()
}

/// Told as the log tells it.
type Told<'a> = Progress<'a>;
