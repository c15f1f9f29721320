//! How a database is opened: what with, and what becomes of what is stored.
//!
//! Everything that is stored is taken in before anything is changed: whatever does not fit refuses the opening with the
//! bytes untouched. Only then is the new catalogue written, and the owner begins.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wo_runtime::fiber::Call;

use crate::db::Db;
use crate::error::{Error, ErrorKind, Result};
use crate::log::error::{OpenError, Undecodable};
use crate::log::{Entry, Log, LogOptions, Replay};
use crate::owner::{self, Owner};
use crate::record::Record;
use crate::store::{Loaded, Store};

/// Changes a table keeps for those who watch it, unless told otherwise.
const CHANGES_KEPT: usize = 16_384;

/// Bytes the log grows by before a snapshot is made, unless told otherwise.
const SNAPSHOT_AFTER_BYTES: u64 = 64 << 20;

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
    pub(crate) fn new() -> Builder {
        Builder {
            tables: Vec::new(),
            dropped: Vec::new(),
            changes_kept: CHANGES_KEPT,
            snapshot_after: SNAPSHOT_AFTER_BYTES,
            log: LogOptions::default(),
        }
    }

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
