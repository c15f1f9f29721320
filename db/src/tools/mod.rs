//! What the command `wo-db` does, for programs: looking at data directories without their program, and mending them.
//!
//! All but [`compact`] only reads, and all but that and [`salvage`] works beside a program that has the directory open:
//! what is looked at then is the state of some moment, and its end may be on its way. The tables are known from the
//! catalogue in the directory itself.

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
/// What keeps it from being opened, or that no file of a database is there; see [`OpenError`]. A torn tail and a broken
/// snapshot that is not needed are no errors: they are in the [`Contents`].
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
///
/// # Examples
///
/// ```
/// # #[derive(wo::Record, Clone, Debug)]
/// # struct Account {
/// #     #[key]
/// #     id: u64,
/// #     #[unique]
/// #     email: String,
/// #     #[index]
/// #     city: String,
/// #     balance: i64,
/// # }
/// # fn account(id: u64) -> Account {
/// #     Account { id, email: format!("{id}@example.org"), city: "Oslo".to_owned(), balance: 100 }
/// # }
/// # #[wo::main]
/// # fn main() -> Result<(), wo::db::Error> {
/// # let dir = std::env::temp_dir().join(format!("wo-db-tstats-{}", std::process::id()));
/// # let dir = dir.as_path();
/// # let db = wo::db::Db::builder().table::<Account>().open(dir)?;
/// # let accounts = db.table::<Account>()?;
/// # accounts.insert(account(1))?;
/// # db.close()?;
/// let stats = wo::db::tools::stats(dir, |_, _| ()).unwrap();
/// assert_eq!((stats.tables[0].table.as_str(), stats.tables[0].rows), ("account", 1));
/// # std::fs::remove_dir_all(dir).unwrap();
/// # Ok(())
/// # }
/// ```
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
///
/// # Examples
///
/// ```
/// # #[derive(wo::Record, Clone, Debug)]
/// # struct Account {
/// #     #[key]
/// #     id: u64,
/// #     #[unique]
/// #     email: String,
/// #     #[index]
/// #     city: String,
/// #     balance: i64,
/// # }
/// # fn account(id: u64) -> Account {
/// #     Account { id, email: format!("{id}@example.org"), city: "Oslo".to_owned(), balance: 100 }
/// # }
/// # #[wo::main]
/// # fn main() -> Result<(), wo::db::Error> {
/// # let dir = std::env::temp_dir().join(format!("wo-db-tdump-{}", std::process::id()));
/// # let dir = dir.as_path();
/// # let db = wo::db::Db::builder().table::<Account>().open(dir)?;
/// # let accounts = db.table::<Account>()?;
/// # accounts.insert(account(1))?;
/// # db.close()?;
/// let mut lines = Vec::new();
/// let line = |line: &str| {
///     lines.push(line.to_owned());
///     true
/// };
/// wo::db::tools::dump(dir, Some("account"), line).unwrap();
/// assert!(lines[0].starts_with(r#"{"table":"account","row":{"id":1,"#));
/// # std::fs::remove_dir_all(dir).unwrap();
/// # Ok(())
/// # }
/// ```
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
///
/// # Examples
///
/// ```
/// # #[derive(wo::Record, Clone, Debug)]
/// # struct Account {
/// #     #[key]
/// #     id: u64,
/// #     #[unique]
/// #     email: String,
/// #     #[index]
/// #     city: String,
/// #     balance: i64,
/// # }
/// # fn account(id: u64) -> Account {
/// #     Account { id, email: format!("{id}@example.org"), city: "Oslo".to_owned(), balance: 100 }
/// # }
/// # #[wo::main]
/// # fn main() -> Result<(), wo::db::Error> {
/// # let dir = std::env::temp_dir().join(format!("wo-db-tlog-{}", std::process::id()));
/// # let dir = dir.as_path();
/// # let db = wo::db::Db::builder().table::<Account>().open(dir)?;
/// # let accounts = db.table::<Account>()?;
/// # accounts.insert(account(1))?;
/// # db.close()?;
/// let mut count = 0;
/// let line = |_: &str| {
///     count += 1;
///     true
/// };
/// wo::db::tools::transactions(dir, 0, line).unwrap();
/// assert_eq!(count, 1);
/// # std::fs::remove_dir_all(dir).unwrap();
/// # Ok(())
/// # }
/// ```
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
///
/// # Examples
///
/// ```
/// # #[derive(wo::Record, Clone, Debug)]
/// # struct Account {
/// #     #[key]
/// #     id: u64,
/// #     #[unique]
/// #     email: String,
/// #     #[index]
/// #     city: String,
/// #     balance: i64,
/// # }
/// # fn account(id: u64) -> Account {
/// #     Account { id, email: format!("{id}@example.org"), city: "Oslo".to_owned(), balance: 100 }
/// # }
/// # #[wo::main]
/// # fn main() -> Result<(), wo::db::Error> {
/// # let dir = std::env::temp_dir().join(format!("wo-db-tcompact-{}", std::process::id()));
/// # let dir = dir.as_path();
/// # let db = wo::db::Db::builder().table::<Account>().open(dir)?;
/// # let accounts = db.table::<Account>()?;
/// # accounts.insert(account(1))?;
/// # db.close()?;
/// let made = wo::db::tools::compact(dir).unwrap();
/// assert_eq!(made.rows, 1);
/// # std::fs::remove_dir_all(dir).unwrap();
/// # Ok(())
/// # }
/// ```
pub fn compact<P: AsRef<Path>>(dir: P) -> Call<impl Future<Output = Result<Compacted, CopyError>>> {
    Call::new(async move { compact::compact(dir.as_ref()).await })
}

/// Copies a data directory, or a backup, to a new directory. The one that is copied may be in use, here or elsewhere.
///
/// # Errors
///
/// As [`verify`] for what is copied; when the new directory is there and not empty; and what the system refuses.
/// Nothing is left then.
///
/// # Examples
///
/// ```
/// # #[derive(wo::Record, Clone, Debug)]
/// # struct Account {
/// #     #[key]
/// #     id: u64,
/// #     #[unique]
/// #     email: String,
/// #     #[index]
/// #     city: String,
/// #     balance: i64,
/// # }
/// # fn account(id: u64) -> Account {
/// #     Account { id, email: format!("{id}@example.org"), city: "Oslo".to_owned(), balance: 100 }
/// # }
/// # #[wo::main]
/// # fn main() -> Result<(), wo::db::Error> {
/// # let dir = std::env::temp_dir().join(format!("wo-db-tcopy-{}", std::process::id()));
/// # let dir = dir.as_path();
/// # let db = wo::db::Db::builder().table::<Account>().open(dir)?;
/// # let accounts = db.table::<Account>()?;
/// # accounts.insert(account(1))?;
/// # db.close()?;
/// # let to = dir.with_extension("copy");
/// let made = wo::db::tools::copy(dir, &to, |_, _| ()).unwrap();
/// assert_eq!(made.dir, to);
/// # std::fs::remove_dir_all(&to).unwrap();
/// # std::fs::remove_dir_all(dir).unwrap();
/// # Ok(())
/// # }
/// ```
pub fn copy<P: AsRef<Path>, Q: AsRef<Path>>(
    from: P,
    to: Q,
    mut progress: impl FnMut(u64, u64),
) -> Call<impl Future<Output = Result<Backup, CopyError>>> {
    Call::new(async move {
        let from = from.as_ref();
        look::is_database(from).await?;
        crate::log::copy::copy(from, to.as_ref(), &mut progress).await
    })
}

/// Takes what is whole out of a broken data directory, into a new one, and says what was lost. The old one is only
/// read, and nobody may have it open: what is still being written is no loss.
///
/// # Errors
///
/// `AlreadyOpen`; when there is nothing of a database in it, and as [`copy`] for the new directory.
///
/// # Examples
///
/// ```
/// # #[derive(wo::Record, Clone, Debug)]
/// # struct Account {
/// #     #[key]
/// #     id: u64,
/// #     #[unique]
/// #     email: String,
/// #     #[index]
/// #     city: String,
/// #     balance: i64,
/// # }
/// # fn account(id: u64) -> Account {
/// #     Account { id, email: format!("{id}@example.org"), city: "Oslo".to_owned(), balance: 100 }
/// # }
/// # #[wo::main]
/// # fn main() -> Result<(), wo::db::Error> {
/// # let dir = std::env::temp_dir().join(format!("wo-db-tsalvage-{}", std::process::id()));
/// # let dir = dir.as_path();
/// # let db = wo::db::Db::builder().table::<Account>().open(dir)?;
/// # let accounts = db.table::<Account>()?;
/// # accounts.insert(account(1))?;
/// # db.close()?;
/// # let to = dir.with_extension("salvaged");
/// let made = wo::db::tools::salvage(dir, &to, |_, _| ()).unwrap();
/// assert!(made.gaps.is_empty(), "it was whole");
/// # std::fs::remove_dir_all(&to).unwrap();
/// # std::fs::remove_dir_all(dir).unwrap();
/// # Ok(())
/// # }
/// ```
pub fn salvage<P: AsRef<Path>, Q: AsRef<Path>>(
    from: P,
    to: Q,
    mut progress: impl FnMut(u64, u64),
) -> Call<impl Future<Output = Result<Salvaged, CopyError>>> {
    Call::new(async move {
        let from = from.as_ref();
        look::is_database(from).await?;
        if let Some(pid) = look::holder(from).await? {
            return Err(OpenError::AlreadyOpen { dir: from.to_owned(), pid: Some(pid) }.into());
        }
        crate::log::salvage::salvage(from, to.as_ref(), &mut progress).await
    })
}

/// A progress nobody looks at.
fn unseen() -> impl FnMut(u64, u64) {
    |_, _| ()
}

/// Told as the log tells it.
type Told<'a> = Progress<'a>;
