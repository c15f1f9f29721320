//! What can go wrong with a database on a disk, split by what was tried: opening it, and committing to it.
//!
//! Every error names the directory or file, what was found, and the remedy. An opening that is refused has changed
//! nothing on the disk. After a failed commit the error says which of three things is so: it is not there and never
//! will be, nobody knows, or the database takes no commits any more.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use wo_runtime::error::{IoError, errno};

/// Bytes that are whole, as their checksum shows, and make no sense to the program that opened the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecodable {
    /// The table they belong to, where that is known.
    pub table: Option<String>,
    /// The field, where that is known.
    pub field: Option<String>,
    /// What does not fit, and the remedy.
    pub reason: String,
}

impl Undecodable {
    /// Bytes of no table in particular.
    pub fn new(reason: impl Into<String>) -> Undecodable {
        Undecodable { table: None, field: None, reason: reason.into() }
    }

    /// The same, of a table.
    #[must_use]
    pub fn in_table(mut self, table: impl Into<String>) -> Undecodable {
        self.table = Some(table.into());
        self
    }

    /// The same, of a field.
    #[must_use]
    pub fn in_field(mut self, field: impl Into<String>) -> Undecodable {
        self.field = Some(field.into());
        self
    }
}

impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.table, &self.field) {
            (Some(table), Some(field)) => write!(f, "table {table}, field {field}: ")?,
            (Some(table), None) => write!(f, "table {table}: ")?,
            _ => {}
        }
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Undecodable {}

/// Why a data directory was not opened. Nothing in it was changed.
///
/// # Examples
///
/// ```
/// # #[derive(wo::Record, Clone)]
/// # struct City {
/// #     #[key]
/// #     name: String,
/// # }
/// # #[wo::main]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = std::env::temp_dir().join(format!("wo-db-openerror-{}", std::process::id()));
/// # let db = wo::db::Db::builder().table::<City>().open(dir.join("cities"))?;
/// # db.table::<City>()?.insert(City { name: "Rome".to_owned() })?;
/// # db.close()?;
/// # let cities = dir.join("cities");
///
/// use wo::db::tools::{self, OpenError};
///
/// std::fs::write(cities.join("log.1"), "my notes, which are longer than any header of a segment would have to be")?;
/// let refused = tools::verify(&cities, |_, _| ()).unwrap_err();
/// assert!(matches!(&refused, OpenError::Foreign { file, .. } if *file == cities.join("log.1")));
/// assert_eq!(refused.path(), cities.join("log.1"));
/// assert!(refused.remedy().contains("move it away"));
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// Somebody has it open: another process, or this one.
    AlreadyOpen {
        /// The data directory.
        dir: PathBuf,
        /// The process that has it, where the system tells.
        pid: Option<u32>,
    },
    /// A file that has the name of one of ours and was not written by this database.
    Foreign {
        /// The file.
        file: PathBuf,
        /// What is strange about it.
        reason: String,
    },
    /// A directory in which no file is a database's, for whoever only looks: opening it makes a new database there.
    NotDatabase {
        /// The directory.
        dir: PathBuf,
    },
    /// A file written by a newer version of this library.
    NewerFormat {
        /// The file.
        file: PathBuf,
        /// Its format's version.
        version: u32,
        /// The newest version known here.
        known: u32,
    },
    /// Bytes in the middle were changed after they had been written: what comes behind them is whole.
    CorruptMiddle {
        /// The file.
        file: PathBuf,
        /// Where the first broken frame begins, in bytes.
        offset: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A part of the log is missing that the rest builds upon.
    Missing {
        /// The data directory.
        dir: PathBuf,
        /// Which part.
        what: String,
    },
    /// Whole bytes that this program cannot make sense of: a matter of its types, not of the disk.
    Undecodable {
        /// The file.
        file: PathBuf,
        /// Where the frame begins, in bytes.
        offset: u64,
        /// The number of the transaction, or of the one before, for a catalogue.
        sequence: u64,
        /// What does not fit: the table, the field, and the remedy.
        cause: Undecodable,
    },
    /// A table was asked for that is not there.
    UnknownTable {
        /// The data directory.
        dir: PathBuf,
        /// The table.
        table: String,
        /// The tables that are there.
        known: Vec<String>,
    },
    /// The disk has no room for the first segment.
    NoSpace {
        /// The data directory.
        dir: PathBuf,
        /// What the system said.
        error: IoError,
    },
    /// The system refused something.
    Io {
        /// What it was tried on.
        path: PathBuf,
        /// What the system said.
        error: IoError,
    },
}

impl OpenError {
    pub(crate) fn io(path: &Path, error: IoError) -> OpenError {
        let path = path.to_owned();
        if is_full(&error) { OpenError::NoSpace { dir: path, error } } else { OpenError::Io { path, error } }
    }

    /// What to do about it.
    pub fn remedy(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            OpenError::AlreadyOpen { pid: Some(pid), .. } if *pid == std::process::id() => {
                "share its handle instead of opening it again"
            }
            OpenError::AlreadyOpen { .. } => "end it first, or choose another directory",
            OpenError::Foreign { .. } => "move it away, or choose another directory",
            OpenError::NotDatabase { .. } => "see that the path is right",
            OpenError::NewerFormat { .. } => "use a newer release",
            OpenError::CorruptMiddle { .. } => "restore a backup, or `wo-db salvage` it",
            OpenError::Missing { .. } => "restore a backup, or `wo-db salvage` what there is",
            OpenError::Undecodable { .. } => "open it with the program that wrote it, or a newer one",
            OpenError::UnknownTable { known, .. } => return Cow::Owned(format!("there are: {}", known.join(", "))),
            OpenError::NoSpace { .. } => "free some space, or use smaller segments",
            OpenError::Io { error, .. } => remedy_of(error),
        })
    }

    /// The file or directory it is about.
    pub fn path(&self) -> &Path {
        match self {
            OpenError::AlreadyOpen { dir, .. }
            | OpenError::NotDatabase { dir }
            | OpenError::Missing { dir, .. }
            | OpenError::UnknownTable { dir, .. }
            | OpenError::NoSpace { dir, .. } => dir,
            OpenError::Foreign { file, .. }
            | OpenError::NewerFormat { file, .. }
            | OpenError::CorruptMiddle { file, .. }
            | OpenError::Undecodable { file, .. } => file,
            OpenError::Io { path, .. } => path,
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The system's answer says it.
            OpenError::Io { path, error } if says(error, path) => {}
            _ => write!(f, "open {}: ", self.path().display())?,
        }
        match self {
            OpenError::AlreadyOpen { pid: Some(pid), .. } if *pid == std::process::id() => {
                f.write_str("this process has the database open already")
            }
            OpenError::AlreadyOpen { pid: Some(pid), .. } => write!(f, "process {pid} has the database open"),
            OpenError::AlreadyOpen { pid: None, .. } => f.write_str("another process has the database open"),
            OpenError::Foreign { reason, .. } => write!(f, "not a file of this database: {reason}"),
            OpenError::NotDatabase { .. } => f.write_str("no file of a database is there"),
            OpenError::NewerFormat { version, known, .. } => {
                write!(f, "it has format version {version}, and this program knows versions up to {known}")
            }
            OpenError::CorruptMiddle { offset, reason, .. } => {
                write!(f, "broken at byte {offset}, with whole data behind it: {reason}")
            }
            OpenError::Missing { what, .. } => f.write_str(what),
            OpenError::Undecodable { offset, sequence, cause, .. } => write!(
                f,
                "the frame at byte {offset} (transaction {sequence}) is whole, but this program cannot read it: {cause}"
            ),
            OpenError::UnknownTable { table, .. } => write!(f, "there is no table {table}"),
            OpenError::NoSpace { error, .. } => write!(f, "no room for the first segment of the log: {error}"),
            OpenError::Io { error, .. } => write!(f, "{error}"),
        }?;
        write!(f, "; {}", self.remedy())
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Undecodable { cause, .. } => Some(cause),
            OpenError::NoSpace { error, .. } | OpenError::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Why a transaction was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitError {
    /// The disk is full. The transaction is undone, on the disk and in memory; once there is room, commits work again.
    NoSpace {
        /// The data directory.
        dir: PathBuf,
        /// What the system said.
        error: IoError,
    },
    /// Writing or syncing failed, and nobody can tell whether the transaction is on the disk: after the next opening it
    /// is there whole, or not at all. This database takes no commits any more.
    CommitUnknown {
        /// The data directory.
        dir: PathBuf,
        /// What the system said.
        error: IoError,
    },
    /// An earlier write or sync failed, so this database takes no commits any more. This one was not written.
    Poisoned {
        /// The data directory.
        dir: PathBuf,
        /// What the system said then.
        error: IoError,
    },
    /// The transaction is larger than one may be. Nothing was written.
    TooLarge {
        /// The data directory.
        dir: PathBuf,
        /// Its size, in bytes.
        bytes: u64,
        /// The largest there may be, in bytes.
        bytes_max: u64,
    },
    /// The database is closed. Nothing was written.
    Closed {
        /// The data directory.
        dir: PathBuf,
    },
    /// The fiber that waited was cancelled. The commit goes on, and nobody hears how it ends.
    Cancelled,
}

impl CommitError {
    /// Whether it is certain that the transaction is not on the disk and never will be.
    pub const fn is_undone(&self) -> bool {
        !matches!(self, CommitError::CommitUnknown { .. } | CommitError::Cancelled)
    }
}

impl CommitError {
    /// The data directory; none for a wait that ended.
    pub fn path(&self) -> Option<&Path> {
        match self {
            CommitError::NoSpace { dir, .. }
            | CommitError::CommitUnknown { dir, .. }
            | CommitError::Poisoned { dir, .. }
            | CommitError::TooLarge { dir, .. }
            | CommitError::Closed { dir } => Some(dir),
            CommitError::Cancelled => None,
        }
    }

    /// What to do about it.
    pub fn remedy(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            CommitError::NoSpace { .. } => "free some space: then commits work again",
            CommitError::CommitUnknown { .. } => "look at the disk, then open the database anew to see",
            CommitError::Poisoned { .. } => "look at the disk, then open the database anew",
            CommitError::TooLarge { .. } => "split it, or allow more with `transaction_bytes_max`",
            CommitError::Closed { .. } => "open the database again",
            CommitError::Cancelled => "wrap what must be known in `wo::protect`",
        })
    }
}

impl fmt::Display for CommitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(dir) = self.path() {
            write!(f, "commit to {}: ", dir.display())?;
        }
        match self {
            CommitError::NoSpace { error, .. } => write!(f, "the disk is full and the transaction undone: {error}"),
            CommitError::CommitUnknown { error, .. } => write!(f, "it may be on the disk or not: {error}"),
            CommitError::Poisoned { error, .. } => write!(f, "refused since an earlier write failed: {error}"),
            CommitError::TooLarge { bytes, bytes_max, .. } => {
                write!(f, "a transaction of {bytes} bytes, and at most {bytes_max} fit")
            }
            CommitError::Closed { .. } => f.write_str("the database is closed"),
            CommitError::Cancelled => f.write_str("the wait for a commit was cancelled; the commit goes on"),
        }?;
        write!(f, "; {}", self.remedy())
    }
}

impl std::error::Error for CommitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CommitError::NoSpace { error, .. }
            | CommitError::CommitUnknown { error, .. }
            | CommitError::Poisoned { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Why a snapshot, a backup or another copy was not made. The database goes on, and what was there before still is.
///
/// # Examples
///
/// ```
/// # #[derive(wo::Record, Clone)]
/// # struct City {
/// #     #[key]
/// #     name: String,
/// # }
/// # #[wo::main]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = std::env::temp_dir().join(format!("wo-db-copyerror-{}", std::process::id()));
/// # let db = wo::db::Db::builder().table::<City>().open(dir.join("cities"))?;
/// # db.table::<City>()?.insert(City { name: "Rome".to_owned() })?;
/// # db.close()?;
/// # let cities = dir.join("cities");
///
/// use wo::db::tools::{self, CopyError};
///
/// let refused = tools::copy(&cities, &cities, |_, _| ()).unwrap_err();
/// assert!(matches!(refused, CopyError::NotEmpty { .. }));
/// assert_eq!(refused.path(), Some(cities.as_path()));
/// assert!(refused.remedy().contains("new directory"));
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyError {
    /// The system refused something.
    Io {
        /// What it was tried on.
        path: PathBuf,
        /// What the system said.
        error: IoError,
    },
    /// The log was opened anew meanwhile, so what was copied belongs to another life of it.
    OtherGeneration {
        /// The data directory.
        dir: PathBuf,
        /// The generation that made the copy.
        ours: u32,
        /// The generation found on the disk.
        found: u32,
    },
    /// Another one is being made.
    Busy {
        /// The data directory.
        dir: PathBuf,
    },
    /// The place for the copy is there already and not empty.
    NotEmpty {
        /// The directory.
        dir: PathBuf,
    },
    /// What would be copied cannot be opened.
    Source(OpenError),
    /// The state it would hold could not be committed.
    Commit(CommitError),
    /// It would not be what was asked for.
    Refused {
        /// The data directory.
        dir: PathBuf,
        /// Why not.
        reason: String,
        /// What to do about it.
        remedy: &'static str,
    },
}

impl CopyError {
    pub(crate) fn io(path: &Path, error: IoError) -> CopyError {
        CopyError::Io { path: path.to_owned(), error }
    }
}

impl CopyError {
    /// The file or directory it is about; none for a wait that ended.
    pub fn path(&self) -> Option<&Path> {
        match self {
            CopyError::Io { path, .. } => Some(path),
            CopyError::OtherGeneration { dir, .. }
            | CopyError::Busy { dir }
            | CopyError::NotEmpty { dir }
            | CopyError::Refused { dir, .. } => Some(dir),
            CopyError::Source(error) => Some(error.path()),
            CopyError::Commit(error) => error.path(),
        }
    }

    /// What to do about it.
    pub fn remedy(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            CopyError::Io { error, .. } if is_full(error) => "free some space, or choose another disk",
            CopyError::Io { error, .. } => remedy_of(error),
            CopyError::OtherGeneration { .. } => "leave it to its new owner, and close this handle",
            CopyError::Busy { .. } => "wait for it",
            CopyError::NotEmpty { .. } => "name a new directory",
            CopyError::Source(error) => return error.remedy(),
            CopyError::Commit(error) => return error.remedy(),
            CopyError::Refused { remedy, .. } => remedy,
        })
    }
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut at = |dir: &Path| write!(f, "{}: ", dir.display());
        match self {
            // These say all of it.
            CopyError::Io { path, error } if says(error, path) => {}
            CopyError::Source(error) => return write!(f, "{error}"),
            CopyError::Commit(error) => return write!(f, "{error}"),
            CopyError::Io { path: dir, .. }
            | CopyError::OtherGeneration { dir, .. }
            | CopyError::Busy { dir }
            | CopyError::NotEmpty { dir }
            | CopyError::Refused { dir, .. } => at(dir)?,
        }
        match self {
            CopyError::Io { error, .. } => write!(f, "{error}"),
            CopyError::OtherGeneration { ours, found, .. } => {
                write!(f, "opened anew meanwhile (generation {found}, this is {ours})")
            }
            CopyError::Busy { .. } => f.write_str("another copy is being made"),
            CopyError::NotEmpty { .. } => f.write_str("there is something already"),
            CopyError::Refused { reason, .. } => f.write_str(reason),
            CopyError::Source(_) | CopyError::Commit(_) => Ok(()),
        }?;
        write!(f, "; {}", self.remedy())
    }
}

impl std::error::Error for CopyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CopyError::Io { error, .. } => Some(error),
            CopyError::Source(error) => Some(error),
            CopyError::Commit(error) => Some(error),
            _ => None,
        }
    }
}

impl From<OpenError> for CopyError {
    fn from(error: OpenError) -> CopyError {
        CopyError::Source(error)
    }
}

impl From<CommitError> for CopyError {
    fn from(error: CommitError) -> CopyError {
        CopyError::Commit(error)
    }
}

/// Whether an answer of the system's names the path it is about.
fn says(error: &IoError, path: &Path) -> bool {
    path.to_str().is_some_and(|path| error.context().contains(path))
}

/// What to do about a refusal of the system's.
fn remedy_of(error: &IoError) -> &'static str {
    match error.errno() {
        errno::EACCES | errno::EPERM => "give this user the right to read and write there, or choose another directory",
        errno::EROFS => "mount the file system for writing, or choose another directory",
        errno::ENOTDIR | errno::EEXIST => "name a directory, or a place where one can be made",
        errno::ELOOP => "mend the symbolic links, which lead in a circle",
        errno::ENOENT => "see that the path is right, and that nobody removes it meanwhile",
        errno::ENAMETOOLONG => "choose a shorter path",
        errno::EMFILE | errno::ENFILE => "allow more open files, with `ulimit -n`",
        errno::EIO => "look at the disk; if it is broken, restore a backup on another",
        _ => "see what the system says of it",
    }
}

/// Whether the disk, the user's quota, or the allowed size of a file is used up: all mend themselves once there is
/// room.
pub(crate) fn is_full(error: &IoError) -> bool {
    matches!(error.errno(), errno::ENOSPC | errno::EDQUOT | errno::EFBIG)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wo_runtime::error::{OpKind, Stage};

    #[test]
    fn errors_name_the_place_and_the_remedy() {
        let io = IoError::new(errno::ENOSPC, OpKind::Write, Stage::Completion);
        assert!(matches!(OpenError::io(Path::new("/d"), io.clone()), OpenError::NoSpace { .. }));
        let words = [
            OpenError::AlreadyOpen { dir: "/d".into(), pid: Some(1) }.to_string(),
            OpenError::CorruptMiddle { file: "/d".into(), offset: 64, reason: "a checksum".into() }.to_string(),
            CommitError::NoSpace { dir: "/d".into(), error: io }.to_string(),
            CopyError::NotEmpty { dir: "/d".into() }.to_string(),
            OpenError::io(Path::new("/d"), IoError::new(errno::ELOOP, OpKind::Open, Stage::Completion)).to_string(),
        ];
        for (words, part) in words.iter().zip(["process 1", "byte 64", "undone", "new directory", "circle"]) {
            assert!(words.contains("/d") && words.contains(part), "{words}");
        }
        let nothing = Undecodable::new("a number").in_table("people").in_field("age");
        assert_eq!(nothing.to_string(), "table people, field age: a number");
    }
}
