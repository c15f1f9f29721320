//! What goes wrong in a database: of which kind, in which table and field, at which place on the disk, and what to do.
//!
//! One type for every verb. The kind is what a program decides by; the text is for people, and names the table, the
//! field, the file and the remedy wherever there are some.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wo_runtime::error::{IoError, errno};

use crate::log::error::{CommitError, CopyError, OpenError, is_full};

/// The result of a verb of the database.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of trouble it is.
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
/// # let db = wo::db::Db::builder().table::<Account>().in_memory()?;
/// # let accounts = db.table::<Account>()?;
/// use wo::db::ErrorKind;
///
/// match accounts.update(account(1)) {
///     Err(error) if error.kind() == ErrorKind::NotFound => accounts.insert(account(1)).map(drop)?,
///     done => done.map(drop)?,
/// }
/// assert!(accounts.contains(&1)?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A row with this key is there already.
    DuplicateKey,
    /// Another row has this value in a unique field.
    UniqueConflict,
    /// No row has this key.
    NotFound,
    /// A table has used up the numbers its automatic keys are made of.
    KeysExhausted,
    /// A row was given another key where it must keep its own.
    KeyChanged,
    /// A row or a transaction is larger than the log takes, or nested deeper.
    TooLarge,
    /// The database was opened without this table.
    UnknownTable,
    /// What is stored and what the program declares do not fit together.
    Schema,
    /// A table was written by a newer version of the program.
    NewerVersion,
    /// Stored bytes that are whole, and yet no row of their table.
    Undecodable,
    /// The closure of a transaction gave up; see [`Error::reason`].
    Aborted,
    /// A closure of the program's, run by the owner, panicked.
    Panicked,
    /// A closure that the owner runs used the database itself.
    Busy,
    /// A watcher is further behind than changes are kept. It reads the table anew, and watches from `resume`.
    Lagged {
        /// The sequence to watch from.
        resume: u64,
    },
    /// The database is closed, or its program has ended.
    Closed,
    /// The caller was cancelled. A write may be done all the same.
    Cancelled,
    /// The disk has no room. Nothing of the transaction stays.
    NoSpace,
    /// The system did not say whether the transaction reached the disk.
    CommitUnknown,
    /// An earlier commit is unknown: nothing is written any more until the database is opened again.
    Poisoned,
    /// The directory is open already, in another process or in this one.
    AlreadyOpen {
        /// The process that has it, where the system tells.
        pid: Option<u32>,
    },
    /// A file stands where one of the database's should, and is none.
    Foreign,
    /// A file was written by a newer version of this library.
    NewerFormat,
    /// Bytes in the middle of a file were changed behind its back.
    CorruptMiddle {
        /// Where, in bytes from the file's beginning.
        offset: u64,
    },
    /// A part of the log is missing.
    Missing,
    /// The database is in memory alone.
    NotDurable,
    /// Another snapshot or backup is being made.
    CopyBusy,
    /// The system refused something else.
    Io,
}

/// What went wrong.
///
/// # Examples
///
/// ```
/// use wo::db::{Db, ErrorKind};
///
/// #[derive(wo::Record)]
/// struct Account {
///     #[key]
///     id: u64,
///     #[unique]
///     email: String,
/// }
///
/// #[wo::main]
/// fn main() -> Result<(), wo::db::Error> {
///     let db = Db::builder().table::<Account>().in_memory()?;
///     let accounts = db.table::<Account>()?;
///     accounts.insert(Account { id: 1, email: "ada@example.org".to_owned() })?;
///     let refused = accounts.insert(Account { id: 2, email: "ada@example.org".to_owned() }).unwrap_err();
///     assert_eq!(refused.kind(), ErrorKind::UniqueConflict);
///     assert_eq!((refused.table(), refused.field()), (Some("account"), Some("email")));
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Error(Arc<Told>);

#[derive(Clone)]
struct Told {
    kind: ErrorKind,
    table: Option<Cow<'static, str>>,
    field: Option<Cow<'static, str>>,
    path: Option<PathBuf>,
    what: Cow<'static, str>,
    remedy: Cow<'static, str>,
    cause: Option<Arc<dyn StdError + Send + Sync>>,
    /// The cause's own words name the place and the remedy.
    is_told_by_cause: bool,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, what: impl Into<Cow<'static, str>>) -> Error {
        Error(Arc::new(Told {
            kind,
            table: None,
            field: None,
            path: None,
            what: what.into(),
            remedy: Cow::Borrowed(""),
            cause: None,
            is_told_by_cause: false,
        }))
    }

    fn with(mut self, set: impl FnOnce(&mut Told)) -> Error {
        set(Arc::make_mut(&mut self.0));
        self
    }

    pub(crate) fn in_table(self, table: impl Into<Cow<'static, str>>) -> Error {
        self.with(|told| told.table = Some(table.into()))
    }

    /// A panic of the program's own, in a closure about this table.
    pub(crate) fn panicked_over(self, table: &'static str) -> Error {
        if self.0.kind == ErrorKind::Panicked { self.in_table(table) } else { self }
    }

    pub(crate) fn in_field(self, field: impl Into<Cow<'static, str>>) -> Error {
        self.with(|told| told.field = Some(field.into()))
    }

    pub(crate) fn at(self, path: &Path) -> Error {
        self.with(|told| told.path = Some(path.to_owned()))
    }

    pub(crate) fn remedy(self, remedy: impl Into<Cow<'static, str>>) -> Error {
        self.with(|told| told.remedy = remedy.into())
    }

    pub(crate) fn because(self, cause: impl StdError + Send + Sync + 'static) -> Error {
        self.with(|told| told.cause = Some(Arc::new(cause)))
    }

    /// Gives a transaction up for a reason of the program's own: returned by its closure, the transaction is undone
    /// and answers this error.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::db::{Db, Error, ErrorKind};
    ///
    /// #[wo::main]
    /// fn main() -> Result<(), Error> {
    ///     let db = Db::builder().in_memory()?;
    ///     let refused = db.transaction(|_| {
    ///         let number: u8 = "not today".parse().map_err(Error::abort)?;
    ///         Ok(number)
    ///     });
    ///     let refused = refused.unwrap_err();
    ///     assert_eq!(refused.kind(), ErrorKind::Aborted);
    ///     assert!(refused.reason::<std::num::ParseIntError>().is_some());
    ///     Ok(())
    /// }
    /// ```
    pub fn abort(reason: impl StdError + Send + Sync + 'static) -> Error {
        Error::new(ErrorKind::Aborted, "the transaction was given up by the program").because(reason)
    }

    /// Its kind.
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
    /// # let db = wo::db::Db::builder().table::<Account>().in_memory()?;
    /// # let accounts = db.table::<Account>()?;
    /// accounts.insert(account(1))?;
    /// let refused = accounts.insert(account(1)).unwrap_err();
    /// assert_eq!(refused.kind(), wo::db::ErrorKind::DuplicateKey);
    /// # Ok(())
    /// # }
    /// ```
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The table it is about.
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
    /// # let db = wo::db::Db::builder().table::<Account>().in_memory()?;
    /// # let accounts = db.table::<Account>()?;
    /// accounts.insert(account(1))?;
    /// let refused = accounts.insert(account(1)).unwrap_err();
    /// assert_eq!(refused.table(), Some("account"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn table(&self) -> Option<&str> {
        self.0.table.as_deref()
    }

    /// The field it is about.
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
    /// # let db = wo::db::Db::builder().table::<Account>().in_memory()?;
    /// # let accounts = db.table::<Account>()?;
    /// accounts.insert(account(1))?;
    /// let refused = accounts.insert(Account { id: 2, ..account(1) }).unwrap_err();
    /// assert_eq!(refused.field(), Some("email"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }

    /// The file or directory it is about.
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
    /// let refused = wo::db::Db::builder().table::<Account>().open("/dev/null").unwrap_err();
    /// assert_eq!(refused.path(), Some(std::path::Path::new("/dev/null")));
    /// # Ok(())
    /// # }
    /// ```
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// What to do about it; empty where nothing can be said.
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
    /// # let db = wo::db::Db::builder().table::<Account>().in_memory()?;
    /// # let accounts = db.table::<Account>()?;
    /// accounts.insert(account(1))?;
    /// let refused = accounts.insert(account(1)).unwrap_err();
    /// assert!(refused.what_to_do().contains("upsert"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn what_to_do(&self) -> &str {
        &self.0.remedy
    }

    /// The reason the program gave to [`abort`](Error::abort), or what else lies under it, if it is an `E`.
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
    /// # let db = wo::db::Db::builder().table::<Account>().in_memory()?;
    /// # let accounts = db.table::<Account>()?;
    /// use wo::db::Error;
    ///
    /// let refused = db.transaction(|_| Err::<(), _>(Error::abort(std::fmt::Error))).unwrap_err();
    /// assert!(refused.reason::<std::fmt::Error>().is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn reason<E: StdError + 'static>(&self) -> Option<&E> {
        self.0.cause.as_deref().and_then(|cause| (cause as &(dyn StdError + 'static)).downcast_ref())
    }

    /// Whether the caller was cancelled, or the program is stopping.
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
    /// # let db = wo::db::Db::builder().table::<Account>().in_memory()?;
    /// # let accounts = db.table::<Account>()?;
    /// accounts.insert(account(1))?;
    /// let refused = accounts.insert(account(1)).unwrap_err();
    /// assert!(!refused.is_cancelled(), "the database refused it, and nobody else");
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_cancelled(&self) -> bool {
        self.0.kind == ErrorKind::Cancelled
    }

    pub(crate) fn closed() -> Error {
        Error::new(ErrorKind::Closed, "the database is closed, or its program has ended")
            .remedy("use a handle only while the program that opened it runs, and before `close`")
    }

    /// The answer of a wait that ended early.
    pub(crate) fn from_wait(error: IoError) -> Error {
        if error.errno() == errno::ECANCELED {
            Error::new(ErrorKind::Cancelled, "the caller was cancelled; a write may be done all the same")
                .remedy("wrap what must be known in `wo::protect`")
                .because(error)
        } else {
            Error::closed().because(error)
        }
    }

    pub(crate) fn busy() -> Error {
        Error::new(ErrorKind::Busy, "a closure that the database's owner runs used the database itself")
            .remedy("in a transaction use what its argument offers; filters and orders look at their row alone")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = &*self.0;
        if let Some(path) = told.path.as_ref().filter(|_| !told.is_told_by_cause) {
            write!(f, "{}: ", path.display())?;
        }
        match (&told.table, &told.field) {
            (Some(table), Some(field)) => write!(f, "table `{table}`, field `{field}`: ")?,
            (Some(table), None) => write!(f, "table `{table}`: ")?,
            (None, Some(field)) => write!(f, "field `{field}`: ")?,
            (None, None) => {}
        }
        f.write_str(&told.what)?;
        if let Some(cause) = &told.cause {
            write!(f, ": {cause}")?;
        }
        if !told.remedy.is_empty() && !told.is_told_by_cause {
            write!(f, "; {}", told.remedy)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self})", self.0.kind)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.cause.as_deref().map(|cause| cause as &(dyn StdError + 'static))
    }
}

/// The log's errors say everything in their own words, the place and the remedy too.
fn told(
    kind: ErrorKind,
    path: Option<PathBuf>,
    remedy: Cow<'static, str>,
    cause: impl StdError + Send + Sync + 'static,
    what: &'static str,
) -> Error {
    Error::new(kind, what).because(cause).with(|told| {
        told.path = path;
        told.remedy = remedy;
        told.is_told_by_cause = true;
    })
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Error {
        let kind = match &error {
            OpenError::AlreadyOpen { pid, .. } => ErrorKind::AlreadyOpen { pid: *pid },
            OpenError::Foreign { .. } | OpenError::NotDatabase { .. } => ErrorKind::Foreign,
            OpenError::NewerFormat { .. } => ErrorKind::NewerFormat,
            OpenError::CorruptMiddle { offset, .. } => ErrorKind::CorruptMiddle { offset: *offset },
            OpenError::Missing { .. } => ErrorKind::Missing,
            OpenError::Undecodable { .. } => ErrorKind::Undecodable,
            OpenError::UnknownTable { .. } => ErrorKind::UnknownTable,
            OpenError::NoSpace { .. } => ErrorKind::NoSpace,
            OpenError::Io { .. } => ErrorKind::Io,
        };
        told(kind, Some(error.path().to_owned()), error.remedy(), error, "the database was not opened")
    }
}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Error {
        let (kind, what) = match &error {
            CommitError::NoSpace { .. } => (ErrorKind::NoSpace, "the transaction is undone"),
            CommitError::CommitUnknown { .. } => {
                (ErrorKind::CommitUnknown, "nobody knows whether the transaction is stored")
            }
            CommitError::Poisoned { .. } => (ErrorKind::Poisoned, "the transaction is undone"),
            CommitError::TooLarge { .. } => (ErrorKind::TooLarge, "the transaction is undone"),
            CommitError::Closed { .. } => return Error::closed().because(error),
            CommitError::Cancelled => (ErrorKind::Cancelled, "the wait ended"),
        };
        told(kind, error.path().map(Path::to_owned), error.remedy(), error, what)
    }
}

impl From<CopyError> for Error {
    fn from(error: CopyError) -> Error {
        let kind = match error {
            CopyError::Commit(error) => return error.into(),
            CopyError::Source(error) => return error.into(),
            CopyError::Busy { .. } => ErrorKind::CopyBusy,
            CopyError::Io { error: ref cause, .. } if is_full(cause) => ErrorKind::NoSpace,
            _ => ErrorKind::Io,
        };
        told(kind, error.path().map(Path::to_owned), error.remedy(), error, "nothing was copied")
    }
}
