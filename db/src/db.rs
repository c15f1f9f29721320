//! The database's handle, and how one is opened.

use std::fmt;
use std::ops::RangeBounds;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wo_runtime::fiber::Call;

use crate::error::{Error, ErrorKind, Result};
use crate::log::copy::Backup;
use crate::log::error::{OpenError, Undecodable};
use crate::log::{Entry, Log, LogOptions, LogStats, Recovery, Replay, Snapshot};
use crate::owner::{self, Owner, Place};
use crate::record::Record;
use crate::store::{Loaded, Store};
use crate::table::Table;
use crate::transaction::Tx;
use crate::watch::Watch;

/// Changes a table keeps for those who watch it, unless told otherwise.
const CHANGES_KEPT: usize = 16_384;

/// Bytes the log grows by before a snapshot is made, unless told otherwise.
const SNAPSHOT_AFTER_BYTES: u64 = 64 << 20;

/// A database: a word to copy and to send about, which any shard calls alike.
///
/// The shard that opens it owns it; its tables are there and nowhere else. A call from another shard parks until its
/// answer comes. It is closed with the program, or by [`close`](Db::close).
///
/// # Examples
///
/// ```
/// use wo::db::Db;
///
/// #[derive(wo::Record, Clone, Debug)]
/// struct Account {
///     #[key]
///     id: u64,
///     #[unique]
///     email: String,
///     balance: i64,
/// }
///
/// #[wo::main]
/// fn main() -> Result<(), wo::db::Error> {
///     let db = Db::builder().table::<Account>().open_env()?; // where WO_DATA says, or in memory
///     let accounts = db.table::<Account>()?;
///     accounts.insert(Account { id: 1, email: "ada@example.org".to_owned(), balance: 100 })?;
///     accounts.insert(Account { id: 2, email: "bob@example.org".to_owned(), balance: 0 })?;
///
///     db.transaction(|tx| {
///         let accounts = tx.table::<Account>()?;
///         accounts.modify(&1, |ada| ada.balance -= 30)?;
///         accounts.modify(&2, |bob| bob.balance += 30)?;
///         Ok(())
///     })?;
///
///     let bob = accounts.find(Account::EMAIL, "bob@example.org")?.expect("he has an account");
///     assert_eq!(bob.balance, 30);
///     assert_eq!(accounts.range(..).filter(|account| account.balance > 50).count()?, 1);
///     Ok(())
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Db {
    owner: Place,
}

impl Db {
    /// Begins to open a database.
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
    /// let db = wo::db::Db::builder().table::<Account>().in_memory()?;
    /// assert_eq!(db.table::<Account>()?.range(..).count()?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> Builder {
        Builder {
            tables: Vec::new(),
            dropped: Vec::new(),
            changes_kept: CHANGES_KEPT,
            snapshot_after: SNAPSHOT_AFTER_BYTES,
            log: LogOptions::default(),
        }
    }

    /// The table of a record.
    ///
    /// # Errors
    ///
    /// `UnknownTable` when the database was opened without it.
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
    /// let accounts = db.table::<Account>()?;
    /// accounts.insert(account(1))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn table<R: Record>(&self) -> Call<impl Future<Output = Result<Table<R>>> + use<R>> {
        let owner = self.owner;
        Call::new(async move {
            let place = owner::read(owner, |store, _| Ok(store.place::<R>())).await?;
            let place = place.and_then(|place| u32::try_from(place).ok()).ok_or_else(Store::undeclared::<R>)?;
            Ok(Table::new(owner, place))
        })
    }

    /// Runs a closure at the owner, as one transaction: when it returns `Ok`, all its changes come about together, and
    /// nothing else happens in between; when it returns an error, or panics, none does.
    ///
    /// The closure is a plain function that never parks. It owns what it captures, and moves to the owner; so does its
    /// value, back. The answer comes when the changes are on the disk, and what the closure has read is certain.
    ///
    /// Dropped half-way, the transaction is done or not done as a whole, and nobody is told which.
    ///
    /// # Errors
    ///
    /// The closure's own error, such as [`Error::abort`](crate::Error::abort); `Panicked`; `TooLarge`, and those of a
    /// commit: `NoSpace`, `CommitUnknown`, `Poisoned`; and those of every call.
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
    /// accounts.insert(account(1))?;
    /// accounts.insert(account(2))?;
    /// let move_over = |amount: i64| {
    ///     db.transaction(move |tx| {
    ///         let accounts = tx.table::<Account>()?;
    ///         if accounts.modify(&1, |from| from.balance -= amount)?.balance < 0 {
    ///             return Err(Error::abort(std::fmt::Error));
    ///         }
    ///         Ok(accounts.modify(&2, |to| to.balance += amount)?.balance)
    ///     })
    /// };
    /// assert_eq!(wo::wait(move_over(30))?, 130);
    /// // Not enough: nothing of it stays.
    /// assert!(wo::wait(move_over(1000)).is_err());
    /// assert_eq!(accounts.get(&1)?.map(|account| account.balance), Some(70));
    /// # Ok(())
    /// # }
    /// ```
    pub fn transaction<T, F>(&self, work: F) -> Call<impl Future<Output = Result<T>> + use<T, F>>
    where
        T: Send + 'static,
        F: FnOnce(&Tx) -> Result<T> + Send + 'static,
    {
        Call::new(owner::write(self.owner, work))
    }

    /// Watches the rows of these keys: every change behind the sequence `from`, in order, without a gap.
    ///
    /// A table keeps its latest changes, across openings too, as far as they are in the log. 0 is the beginning;
    /// [`sequence`](Db::sequence) is now; [`Tx::sequence`] tells where a reading stood.
    ///
    /// # Errors
    ///
    /// `Lagged` when the changes behind `from` are no longer kept; `UnknownTable`.
    ///
    /// # Examples
    ///
    /// ```
    /// #[derive(wo::Record, Clone)]
    /// struct City {
    ///     #[key]
    ///     name: String,
    ///     people: u64,
    /// }
    ///
    /// #[wo::main]
    /// fn main() -> Result<(), wo::db::Error> {
    ///     let db = wo::db::Db::builder().table::<City>().in_memory()?;
    ///     let cities = db.table::<City>()?;
    ///     let mut changes = db.watch::<City>(.., db.sequence()?)?;
    ///     cities.insert(City { name: "Oslo".to_owned(), people: 700 })?;
    ///     cities.delete("Oslo")?;
    ///     assert_eq!(changes.next()?.row.expect("it was inserted").people, 700);
    ///     assert!(changes.next()?.row.is_none());
    ///     Ok(())
    /// }
    /// ```
    pub fn watch<R: Record>(
        &self,
        keys: impl RangeBounds<R::Key>,
        from: u64,
    ) -> Call<impl Future<Output = Result<Watch<R>>>> {
        let (table, keys) = (self.table::<R>(), (keys.start_bound().cloned(), keys.end_bound().cloned()));
        Call::new(async move { Watch::begin(table.await?, keys, from).await })
    }

    /// The sequence of the newest transaction that is certain.
    ///
    /// # Errors
    ///
    /// None but those of every call.
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
    /// let before = db.sequence()?;
    /// accounts.insert(account(1))?;
    /// assert!(db.sequence()? > before);
    /// # Ok(())
    /// # }
    /// ```
    pub fn sequence(&self) -> Call<impl Future<Output = Result<u64>> + use<>> {
        Call::new(owner::read(self.owner, |store, _| Ok(store.durable)))
    }

    /// Figures of the database as it is now.
    ///
    /// # Errors
    ///
    /// None but those of every call.
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
    /// let stats = db.stats()?;
    /// assert_eq!((stats.tables[0].table, stats.tables[0].rows), ("account", 1));
    /// assert!(stats.log.is_none(), "it is in memory");
    /// # Ok(())
    /// # }
    /// ```
    pub fn stats(&self) -> Call<impl Future<Output = Result<Stats>> + use<>> {
        Call::new(owner::ask(self.owner, |owner, sender| {
            let store = owner.store.borrow();
            let (watchers, slowest_watcher) = owner.watchers.borrow().count_and_slowest();
            let table = |table: &dyn crate::store::table::AnyTable| TableStats {
                table: table.name(),
                rows: table.len(),
                changes_kept: table.changes_kept(),
            };
            let stats = Stats {
                sequence: store.last,
                durable_sequence: store.durable,
                watchers,
                slowest_watcher,
                tables: store.tables().map(table).collect(),
                log: owner.log().map(|log| log.stats()),
                snapshot_error: owner.snapshots.trouble.borrow().clone(),
            };
            drop(store);
            owner::answer(sender, Ok(stats));
        }))
    }

    /// Looks whether every index says what the rows say, which it always should: for tests, and for those who suspect
    /// that a record's `Ord` contradicts itself.
    ///
    /// # Errors
    ///
    /// None but those of every call.
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
    /// assert!(db.is_consistent()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_consistent(&self) -> Call<impl Future<Output = Result<bool>> + use<>> {
        Call::new(owner::read(self.owner, |store, _| Ok(store.tables().all(|table| table.is_consistent()))))
    }

    /// Writes a snapshot of every table, while the database goes on, and removes what it makes needless of the log.
    /// That happens by itself, too, whenever the log has grown enough; see [`Builder::snapshot_after`].
    ///
    /// # Errors
    ///
    /// `NotDurable` in memory; `NoSpace`, `CopyBusy`, `Io`: the database goes on, with the snapshot it had.
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
    /// # let dir = std::env::temp_dir().join(format!("wo-db-snapshot-{}", std::process::id()));
    /// # let dir = dir.as_path();
    /// # let db = wo::db::Db::builder().table::<Account>().open(dir)?;
    /// # let accounts = db.table::<Account>()?;
    /// accounts.insert(account(1))?;
    /// let made = db.snapshot()?;
    /// assert!(made.bytes > 0 && made.file.starts_with(dir));
    /// # db.close()?;
    /// # std::fs::remove_dir_all(dir).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot(&self) -> Call<impl Future<Output = Result<Snapshot>> + use<>> {
        Call::new(owner::ask(self.owner, |owner, sender| match owner.log() {
            Some(log) => owner.snapshot(log, move |made| owner::answer(sender, made)),
            None => owner::answer(sender, Err(not_durable())),
        }))
    }

    /// Copies the database to a new directory, while it goes on. The copy holds every transaction that was acknowledged
    /// before this was called, and maybe later ones, each whole; opening it is opening any database.
    ///
    /// # Errors
    ///
    /// `NotDurable` in memory; `NoSpace`, `CopyBusy`, `Io`: what has the copy's name is whole, so there is none then.
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
    /// # let dir = std::env::temp_dir().join(format!("wo-db-backup-{}", std::process::id()));
    /// # let dir = dir.as_path();
    /// # let db = wo::db::Db::builder().table::<Account>().open(dir)?;
    /// # let accounts = db.table::<Account>()?;
    /// # let to = dir.with_extension("copy");
    /// accounts.insert(account(1))?;
    /// let made = db.backup(&to)?;
    /// db.close()?;
    ///
    /// let copy = wo::db::Db::builder().table::<Account>().open(&made.dir)?;
    /// assert_eq!(copy.table::<Account>()?.range(..).count()?, 1);
    /// # copy.close()?;
    /// # std::fs::remove_dir_all(&to).unwrap();
    /// # std::fs::remove_dir_all(dir).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    pub fn backup(&self, to: impl AsRef<Path>) -> Call<impl Future<Output = Result<Backup>>> {
        let to = to.as_ref().to_owned();
        Call::new(owner::ask(self.owner, |owner, sender| match owner.log() {
            Some(log) => owner.backup(log, to, move |made| owner::answer(sender, made)),
            None => owner::answer(sender, Err(not_durable())),
        }))
    }

    /// What opening the database found and did; none in memory.
    ///
    /// # Errors
    ///
    /// None but those of every call.
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
    /// # let dir = std::env::temp_dir().join(format!("wo-db-recovery-{}", std::process::id()));
    /// # let dir = dir.as_path();
    /// # let db = wo::db::Db::builder().table::<Account>().open(dir)?;
    /// # let accounts = db.table::<Account>()?;
    /// let found = db.recovery()?.expect("it is on a disk");
    /// assert!(found.created && found.torn_tail_bytes == 0);
    /// # accounts.clear()?;
    /// # db.close()?;
    /// # std::fs::remove_dir_all(dir).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    pub fn recovery(&self) -> Call<impl Future<Output = Result<Option<Recovery>>> + use<>> {
        Call::new(owner::ask(self.owner, |owner, sender| owner::answer(sender, Ok(owner.recovery.clone()))))
    }

    /// Closes the database: what was called before is answered, what is called after is `Closed`. When it answers, the
    /// directory may be opened again.
    ///
    /// # Errors
    ///
    /// `CommitUnknown` or `Poisoned` when the last commits came to that.
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
    /// db.close()?;
    /// let refused = accounts.insert(account(1)).unwrap_err();
    /// assert_eq!(refused.kind(), wo::db::ErrorKind::Closed);
    /// # Ok(())
    /// # }
    /// ```
    pub fn close(self) -> Call<impl Future<Output = Result<()>> + use<>> {
        Call::new(owner::ask(self.owner, |owner, sender| owner.close(move |ended| owner::answer(sender, ended))))
    }
}

fn not_durable() -> Error {
    Error::new(ErrorKind::NotDurable, "a database in memory has nothing to write to")
        .remedy("open it in a directory: `open(dir)`, or `open_env()` with WO_DATA set")
}

/// Figures of a database; see [`Db::stats`].
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
/// let stats = db.stats()?;
/// assert_eq!((stats.sequence, stats.durable_sequence, stats.watchers), (0, 0, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// The sequence of the newest transaction.
    pub sequence: u64,
    /// The sequence of the newest transaction that is certain.
    pub durable_sequence: u64,
    /// How many watch.
    pub watchers: usize,
    /// The sequence that the slowest of those who do not wait for changes has come to; none when all of them wait.
    pub slowest_watcher: Option<u64>,
    /// Each table, in the order they were declared.
    pub tables: Vec<TableStats>,
    /// Figures of the log; none in memory.
    pub log: Option<LogStats>,
    /// Why the last snapshot was not made; none when it was.
    pub snapshot_error: Option<Error>,
}

/// Figures of a table.
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
/// let table = &db.stats()?.tables[0];
/// assert_eq!((table.rows, table.changes_kept), (1, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStats {
    /// Its name.
    pub table: &'static str,
    /// How many rows it has.
    pub rows: usize,
    /// How many changes it keeps for those who watch it.
    pub changes_kept: usize,
}

type Declare = Arc<dyn Fn(&mut Store, usize) -> Result<()> + Send + Sync>;

/// What a database is opened with.
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
/// let db = wo::db::Db::builder().table::<Account>().changes_kept(1000).in_memory()?;
/// assert_eq!(db.table::<Account>()?.range(..).count()?, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "nothing is opened until one of its `open` functions is called"]
pub struct Builder {
    tables: Vec<Declare>,
    dropped: Vec<String>,
    changes_kept: usize,
    snapshot_after: u64,
    log: LogOptions,
}

impl Builder {
    /// With the table of this record.
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
    /// let db = wo::db::Db::builder().table::<Account>().in_memory()?;
    /// db.table::<Account>()?.insert(account(1))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn table<R: Record>(mut self) -> Builder {
        self.tables.push(Arc::new(|store, changes_kept| store.declare::<R>(changes_kept)));
        self
    }

    /// Without this stored table: its rows are given up. A stored one that is neither declared nor dropped is refused.
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
    /// # let dir = std::env::temp_dir().join(format!("wo-db-drop-{}", std::process::id()));
    /// # let dir = dir.as_path();
    /// # let db = wo::db::Db::builder().table::<Account>().open(dir)?;
    /// # let accounts = db.table::<Account>()?;
    /// # db.close()?;
    /// // Without `drop_table` a stored table that is not declared would be refused.
    /// let db = wo::db::Db::builder().drop_table("account").open(dir)?;
    /// assert!(db.table::<Account>().is_err());
    /// # let _ = accounts;
    /// # db.close()?;
    /// # std::fs::remove_dir_all(dir).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    pub fn drop_table(mut self, name: impl Into<String>) -> Builder {
        self.dropped.push(name.into());
        self
    }

    /// Keeps so many of each table's latest changes for those who watch it; 16,384 unless told. What falls behind that
    /// is told so.
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
    /// let db = wo::db::Db::builder().table::<Account>().changes_kept(2).in_memory()?;
    /// let accounts = db.table::<Account>()?;
    /// for id in 1..=5 {
    ///     accounts.insert(account(id))?;
    /// }
    /// assert!(db.watch::<Account>(.., 0).is_err(), "the first changes are no longer kept");
    /// # Ok(())
    /// # }
    /// ```
    pub fn changes_kept(mut self, changes: usize) -> Builder {
        self.changes_kept = changes;
        self
    }

    /// Makes a snapshot whenever the log has grown by so many bytes, and by as much as the last snapshot had; 64 MiB
    /// unless told.
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
    /// # let dir = std::env::temp_dir().join(format!("wo-db-after-{}", std::process::id()));
    /// # let dir = dir.as_path();
    /// let db = wo::db::Db::builder().table::<Account>().snapshot_after(1 << 20).open(dir)?;
    /// # db.close()?;
    /// # std::fs::remove_dir_all(dir).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot_after(mut self, bytes: u64) -> Builder {
        self.snapshot_after = bytes;
        self
    }

    /// The size of the files the log is kept in, in bytes, rounded up to a multiple of 4096; 16 MiB unless told. A log
    /// has two of them at least.
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
    /// # let dir = std::env::temp_dir().join(format!("wo-db-segments-{}", std::process::id()));
    /// # let dir = dir.as_path();
    /// // For a small disk.
    /// let db = wo::db::Db::builder().table::<Account>().segment_bytes(256 << 10).open(dir)?;
    /// # db.close()?;
    /// # std::fs::remove_dir_all(dir).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    pub fn segment_bytes(mut self, bytes: u64) -> Builder {
        self.log.segment_bytes = bytes.clamp(4096, 1 << 40).next_multiple_of(4096);
        self
    }

    /// The size of the largest transaction there may be, in bytes as they are stored; 64 MiB unless told, 512 MiB at
    /// most. One that is larger is refused as `TooLarge`, in memory too where one row of it is larger.
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
    /// let db = wo::db::Db::builder().table::<Account>().transaction_bytes_max(4096).in_memory()?;
    /// let refused = db.table::<Account>()?.insert(Account { city: "x".repeat(5000), ..account(1) }).unwrap_err();
    /// assert_eq!((refused.kind(), refused.table()), (wo::db::ErrorKind::TooLarge, Some("account")));
    /// # Ok(())
    /// # }
    /// ```
    pub fn transaction_bytes_max(mut self, bytes: u32) -> Builder {
        self.log.entry_bytes_max = bytes.min(512 << 20);
        self
    }

    fn store(&self) -> Result<Store> {
        let mut store = Store::new(self.dropped.clone(), self.log.entry_bytes_max as usize);
        self.tables.iter().try_for_each(|declare| declare(&mut store, self.changes_kept))?;
        Ok(store)
    }

    /// Opens a database in memory alone: it is gone when it is closed.
    ///
    /// # Errors
    ///
    /// `Schema` when two records have the same table; `Closed` where no shard runs.
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
    /// let db = wo::db::Db::builder().table::<Account>().in_memory()?;
    /// db.table::<Account>()?.insert(account(1))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn in_memory(self) -> Call<impl Future<Output = Result<Db>> + use<>> {
        Call::new(async move {
            let mut store = self.store()?;
            store.finish_loading()?;
            Ok(Db { owner: Owner::open(store, None, None, 0)? })
        })
    }

    /// Opens the database in this directory, or makes one there.
    ///
    /// It answers when every stored transaction is taken in: nobody is served from less. A refusal has changed nothing
    /// on the disk. When the stored rows were of earlier versions, they are written anew before it answers.
    ///
    /// # Errors
    ///
    /// `AlreadyOpen`; `Schema`, `NewerVersion`, `Undecodable`, `UniqueConflict` when what is stored and what is
    /// declared do not fit; `Foreign`, `NewerFormat`, `CorruptMiddle`, `Missing` when files are not what they should
    /// be; `NoSpace`, `Io`; `Closed` where no shard runs.
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
    /// # let dir = std::env::temp_dir().join(format!("wo-db-open-{}", std::process::id()));
    /// # let dir = dir.as_path();
    /// let db = wo::db::Db::builder().table::<Account>().open(dir)?;
    /// db.table::<Account>()?.insert(account(1))?;
    /// db.close()?;
    ///
    /// let db = wo::db::Db::builder().table::<Account>().open(dir)?;
    /// assert_eq!(db.table::<Account>()?.range(..).count()?, 1);
    /// # db.close()?;
    /// # std::fs::remove_dir_all(dir).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    pub fn open(self, dir: impl AsRef<Path>) -> Call<impl Future<Output = Result<Db>>> {
        let dir = dir.as_ref().to_owned();
        Call::new(self.open_in(dir))
    }

    async fn open_in(self, dir: PathBuf) -> Result<Db> {
        let mut stored = Stored { store: self.store()?, loaded: None, refused: None };
        let opened = Log::open(&dir, &self.log, &mut stored).await;
        let (log, recovery) = match (opened, stored.refused) {
            (Ok(opened), _) => opened,
            (Err(OpenError::Undecodable { file, .. }), Some(refused)) => return Err(refused.at(&file)),
            (Err(error), _) => return Err(error.into()),
        };
        let mut store = stored.store;
        let loaded = stored.loaded.unwrap_or(Loaded { is_same: false, is_new: true });
        if !loaded.is_same {
            let sequence = log.append(Entry::Catalogue, &store.catalogue()?)?;
            log.durable(sequence).await?;
        }
        store.settle(log.durable_sequence());
        let owner = Owner::open(store, Some(log), Some(recovery), self.snapshot_after)?;
        if !loaded.is_same && !loaded.is_new {
            // Rows of earlier versions are read by functions that the program may do without one day. If this does not
            // succeed now they are still read as before, and the figures say why.
            let made = owner::ask(owner, |owner, sender| match owner.log() {
                Some(log) => owner.snapshot(log, move |made| owner::answer(sender, made.map(drop))),
                None => owner::answer(sender, Ok(())),
            });
            drop(made.await);
        }
        Ok(Db { owner })
    }

    /// Opens the database in the directory that `WO_DATA` names, or one in memory where it is not set.
    ///
    /// # Errors
    ///
    /// As [`in_memory`](Builder::in_memory) and [`open`](Builder::open); `Io` when `WO_DATA` is set and empty.
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
    /// // `WO_DATA=some/dir program` keeps its rows, `program` forgets them.
    /// let db = wo::db::Db::builder().table::<Account>().open_env()?;
    /// # db.table::<Account>()?.clear()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_env(self) -> Call<impl Future<Output = Result<Db>> + use<>> {
        Call::new(async move {
            match std::env::var_os("WO_DATA") {
                None => self.in_memory().await,
                Some(dir) if dir.is_empty() => Err(Error::new(ErrorKind::Io, "WO_DATA is set to nothing")
                    .remedy("set it to the directory to keep data in, or unset it to keep them in memory")),
                Some(dir) => self.open_in(dir.into()).await,
            }
        })
    }
}

/// Takes in what is stored, and keeps the reason for a refusal as it was said.
struct Stored {
    store: Store,
    loaded: Option<Loaded>,
    refused: Option<Error>,
}

impl Stored {
    fn take<T>(&mut self, take: impl FnOnce(&mut Store) -> Result<T>) -> std::result::Result<T, Undecodable> {
        // What panics here is an upgrade function, or an order of the program's.
        let taken = catch_unwind(AssertUnwindSafe(|| take(&mut self.store)));
        let panicked = |payload| match (owner::panicked(payload), self.store.loading) {
            (error, Some(table)) => error.panicked_over(table),
            (error, None) => error,
        };
        taken.unwrap_or_else(|payload| Err(panicked(payload))).map_err(|error| {
            let told = Undecodable::new(error.to_string());
            self.refused = Some(error);
            told
        })
    }
}

impl Replay for Stored {
    fn catalogue(&mut self, bytes: &[u8]) -> std::result::Result<(), Undecodable> {
        self.take(|store| store.load_catalogue(bytes))
    }

    fn snapshot_end(&mut self, as_of: u64) -> std::result::Result<(), Undecodable> {
        self.take(|store| {
            store.loaded_snapshot(as_of);
            Ok(())
        })
    }

    fn transaction(&mut self, sequence: u64, body: &[u8]) -> std::result::Result<(), Undecodable> {
        self.take(|store| store.load_transaction(sequence, body))
    }

    fn end(&mut self) -> std::result::Result<(), Undecodable> {
        let loaded = self.take(Store::finish_loading)?;
        self.loaded = Some(loaded);
        Ok(())
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("tables", &self.tables.len())
            .field("dropped", &self.dropped)
            .field("changes_kept", &self.changes_kept)
            .finish()
    }
}
