//! The database's handle.

use std::ops::RangeBounds;
use std::path::Path;

use wo_runtime::fiber::{self, Call};

use crate::builder::Builder;
use crate::error::{Error, ErrorKind, Result};
use crate::log::copy::Backup;
use crate::log::{LogStats, Recovery, Snapshot};
use crate::owner::{self, Place};
use crate::record::Record;
use crate::store::Store;
use crate::table::Table;
use crate::transaction::Tx;
use crate::watch::Watch;

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
    pub(crate) owner: Place,
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
        Builder::new()
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
    /// assert_eq!(move_over(30)?, 130);
    /// // Not enough: nothing of it stays.
    /// assert!(move_over(1000).is_err());
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
    /// A database closes by itself when its program ends; this is for whoever wants to know how that went, or opens the
    /// directory again. It is a clean-up: a fiber that is cancelled or out of time closes it all the same, and is not
    /// interrupted in it.
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
        let place = self.owner;
        fiber::protect(move || {
            owner::ask(place, |owner, sender| owner.close(move |ended| owner::answer(sender, ended)))
        })
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
