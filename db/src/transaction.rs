//! Transactions: a closure that runs at the owner, and all of whose changes come about, or none.
//!
//! Statements take effect at once, within the transaction; each leaves what it takes to undo it. When the closure
//! returns `Ok`, all steps go into the log as one; when it returns an error, or panics, they are undone. A statement
//! that is refused has changed nothing, so a closure may go on after one.

use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::rc::Rc;

use crate::error::{Error, ErrorKind, Result};
use crate::owner::Owner;
use crate::query::{Query, Scan, Source};
use crate::record::{Prefixed, Record};
use crate::row::Row;
use crate::schema::catalogue::Step;
use crate::schema::field::Field;
use crate::schema::wire::Output;
use crate::store::Store;
use crate::store::index::{Indexed, Unique, walk};
use crate::store::table::{Contents, Put, Sight};

/// The owner's buffers are kept up to this size.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

/// A transaction that is under way, for its closure to work with. See [`Db::transaction`](crate::Db::transaction).
pub struct Tx {
    owner: Rc<Owner>,
    /// The sequence it will have.
    pub(crate) sequence: u64,
    pub(crate) sight: Sight,
    /// Its steps, where they are written to a log.
    steps: Option<RefCell<Vec<u8>>>,
    /// For a row on its way.
    scratch: Cell<Vec<u8>>,
    has_steps: Cell<bool>,
}

impl Tx {
    pub(crate) fn begin(owner: &Rc<Owner>) -> Tx {
        let log = owner.log();
        let sequence = log.as_ref().map_or_else(|| owner.store.borrow().last + 1, |log| log.next_sequence());
        let steps = log.map(|_| RefCell::new(owner.buffer.take()));
        Tx {
            owner: Rc::clone(owner),
            sequence,
            sight: Sight::of(sequence),
            steps,
            scratch: owner.scratch.take().into(),
            has_steps: Cell::new(false),
        }
    }

    /// Its steps; none where there is no log.
    pub(crate) fn steps(&self) -> Option<&RefCell<Vec<u8>>> {
        self.steps.as_ref()
    }

    pub(crate) fn has_steps(&self) -> bool {
        self.has_steps.get()
    }

    /// The table of a record.
    ///
    /// # Errors
    ///
    /// The database was opened without it.
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
    /// let there = db.transaction(|tx| tx.table::<Account>()?.range(..).count())?;
    /// assert_eq!(there, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn table<R: Record>(&self) -> Result<TxTable<'_, R>> {
        let place = self.store(|store| Ok(store.place::<R>()))?;
        place.map(|place| self.at(place)).ok_or_else(Store::undeclared::<R>)
    }

    pub(crate) fn at<R: Record>(&self, place: usize) -> TxTable<'_, R> {
        TxTable { tx: self, place, of: PhantomData }
    }

    /// The sequence of the last transaction before this one: what it reads is the outcome of everything up to there,
    /// and a watcher that begins there misses nothing of what comes after.
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
    /// // What is read, and from where on to watch what comes after.
    /// let (rows, from) = db.transaction(|tx| Ok((tx.table::<Account>()?.range(..).all()?, tx.sequence())))?;
    /// let mut changes = db.watch::<Account>(.., from)?;
    /// accounts.insert(account(2))?;
    /// assert_eq!((rows.len(), changes.next()?.key), (1, 2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn sequence(&self) -> u64 {
        self.owner.store.try_borrow().map_or(0, |store| store.last)
    }

    fn store<T>(&self, look: impl FnOnce(&Store) -> Result<T>) -> Result<T> {
        let store = self.owner.store.try_borrow().map_err(|_| Error::busy())?;
        look(&store)
    }

    /// Writes a step where steps are written.
    fn step(&self, number: u32, step: Step<'_>) {
        self.has_steps.set(true);
        if let Some(steps) = &self.steps {
            let mut output = Output::over(steps.take());
            step.encode(number, &mut output);
            steps.replace(output.finish().unwrap_or_else(|(bytes, _)| bytes));
        }
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        let keep = |place: &Cell<Vec<u8>>, mut bytes: Vec<u8>| {
            if bytes.capacity() <= BUFFER_BYTES_KEPT {
                bytes.clear();
                place.set(bytes);
            }
        };
        keep(&self.owner.scratch, self.scratch.take());
        if let Some(steps) = self.steps.take() {
            keep(&self.owner.buffer, steps.into_inner());
        }
    }
}

impl fmt::Debug for Tx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

/// A row on its way into its table, encoded where it came from.
pub(crate) struct Prepared<R: Record> {
    row: R,
    bytes: Option<Vec<u8>>,
}

impl<R: Record> Prepared<R> {
    /// A row that is encoded later, if at all.
    pub(crate) fn plain(row: R) -> Prepared<R> {
        Prepared { row, bytes: None }
    }

    /// A row with its bytes.
    ///
    /// # Errors
    ///
    /// It could not be read back.
    pub(crate) fn encoded(row: R) -> Result<Prepared<R>> {
        let bytes = encoded(&row, Vec::new())?;
        Ok(Prepared { row, bytes: Some(bytes) })
    }
}

fn encoded<R: Record>(row: &R, mut into: Vec<u8>) -> Result<Vec<u8>> {
    into.clear();
    let mut output = Output::over(into);
    row.encode(&mut output);
    output.finish().map_err(|(_, why)| {
        Error::new(ErrorKind::TooLarge, why)
            .in_table(R::TABLE)
            .remedy("store less deeply nested values, or such as take room")
    })
}

/// A table within a transaction. What it reads are the rows as the transaction has them so far.
pub struct TxTable<'t, R> {
    tx: &'t Tx,
    place: usize,
    of: PhantomData<fn() -> R>,
}

impl<R> Clone for TxTable<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for TxTable<'_, R> {}

impl<R: Record> fmt::Debug for TxTable<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TxTable").field("table", &R::TABLE).finish_non_exhaustive()
    }
}

impl<'t, R: Record> TxTable<'t, R> {
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Contents<R>, &Sight) -> Result<T>) -> Result<T> {
        self.tx.store(|store| look(store.table(self.place)?, &self.tx.sight))
    }

    fn change<T>(&self, change: impl FnOnce(&mut Contents<R>, &Sight) -> Result<T>) -> Result<T> {
        let mut store = self.tx.owner.store.try_borrow_mut().map_err(|_| Error::busy())?;
        change(store.table_mut(self.place)?, &self.tx.sight)
    }

    /// The row of this key.
    ///
    /// # Errors
    ///
    /// None but those of every call; see [`ErrorKind`].
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
    /// db.transaction(|tx| {
    ///     let accounts = tx.table::<Account>()?;
    ///     assert_eq!(accounts.get(&1)?.map(|account| account.balance), Some(100));
    ///     accounts.modify(&1, |account| account.balance = 7)?;
    ///     assert_eq!(accounts.get(&1)?.map(|account| account.balance), Some(7));
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn get<Q>(&self, key: &Q) -> Result<Option<Row<R>>>
    where
        R::Key: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.look(|table, sight| Ok(table.get(key, sight).cloned().map(Row)))
    }

    /// The row with this value in a unique field.
    ///
    /// # Errors
    ///
    /// None but those of every call; see [`ErrorKind`].
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
    /// db.transaction(|tx| {
    ///     let accounts = tx.table::<Account>()?;
    ///     let found = accounts.find(Account::EMAIL, "1@example.org")?;
    ///     assert_eq!(found.map(|account| account.id), Some(1));
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn find<V, Q>(&self, field: Unique<R, V>, value: &Q) -> Result<Option<Row<R>>>
    where
        V: crate::Key + Borrow<Q>,
        Q: ToOwned<Owned = V> + ?Sized,
    {
        let value = value.to_owned();
        self.look(|table, sight| found(table, sight, field, &value))
    }

    /// Adds a row, and answers its key, which is a new one when the key is automatic and the row's is 0.
    ///
    /// # Errors
    ///
    /// `DuplicateKey`, `UniqueConflict`; `KeysExhausted`; `TooLarge`.
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
    /// db.transaction(|tx| {
    ///     let accounts = tx.table::<Account>()?;
    ///     accounts.insert(account(2))?;
    ///     // A statement that is refused has changed nothing, and the closure may go on.
    ///     assert!(accounts.insert(account(1)).is_err());
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert(&self, row: R) -> Result<R::Key> {
        self.insert_prepared(Prepared::plain(row))
    }

    pub(crate) fn insert_prepared(&self, mut prepared: Prepared<R>) -> Result<R::Key> {
        if R::AUTOMATIC {
            self.change(|table, _| table.assign_key(&mut prepared.row))?;
            prepared.bytes = None;
        }
        let key = prepared.row.key();
        self.put(Put::Insert, key.clone(), prepared)?;
        Ok(key)
    }

    /// Replaces the row of the same key, and answers what was there.
    ///
    /// # Errors
    ///
    /// `NotFound` when no row has the key; `UniqueConflict`, `TooLarge`.
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
    /// db.transaction(|tx| {
    ///     let accounts = tx.table::<Account>()?;
    ///     let before = accounts.update(Account { balance: 70, ..account(1) })?;
    ///     assert_eq!(before.balance, 100);
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn update(&self, row: R) -> Result<Row<R>> {
        self.update_prepared(Prepared::plain(row))
    }

    pub(crate) fn update_prepared(&self, prepared: Prepared<R>) -> Result<Row<R>> {
        let key = prepared.row.key();
        let before = self.put(Put::Update, key, prepared)?;
        before.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "no row has the key").in_table(R::TABLE).remedy("`upsert` takes either")
        })
    }

    /// Adds a row, or replaces the one of the same key, and answers what was there.
    ///
    /// # Errors
    ///
    /// `UniqueConflict`, `KeysExhausted`, `TooLarge`.
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
    /// db.transaction(|tx| {
    ///     let accounts = tx.table::<Account>()?;
    ///     assert!(accounts.upsert(account(1))?.is_some());
    ///     assert!(accounts.upsert(account(2))?.is_none());
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn upsert(&self, row: R) -> Result<Option<Row<R>>> {
        self.upsert_prepared(Prepared::plain(row))
    }

    pub(crate) fn upsert_prepared(&self, mut prepared: Prepared<R>) -> Result<Option<Row<R>>> {
        if R::AUTOMATIC {
            self.change(|table, _| table.assign_key(&mut prepared.row))?;
            prepared.bytes = None;
        }
        let key = prepared.row.key();
        self.put(Put::Upsert, key, prepared)
    }

    fn put(&self, how: Put, key: R::Key, prepared: Prepared<R>) -> Result<Option<Row<R>>> {
        let Prepared { row, bytes } = prepared;
        // In memory too: what could not be read back is refused alike, and the size counts for those who watch.
        let bytes = match bytes {
            Some(bytes) => bytes,
            None => encoded(&row, self.tx.scratch.take())?,
        };
        let bytes_max = self.tx.store(|store| Ok(store.step_bytes_max))?;
        if bytes.len() > bytes_max {
            let what =
                format!("the row of key {key:?} has {} bytes, and a transaction at most {bytes_max}", bytes.len());
            return Err(Error::new(ErrorKind::TooLarge, what)
                .in_table(R::TABLE)
                .remedy("store it in parts, or allow more with `transaction_bytes_max`"));
        }
        let (before, number) = self.change(|table, sight| {
            Ok((table.put(how, self.tx.sequence, key, row, bytes.len(), sight)?, table.number))
        })?;
        self.tx.step(number, Step::Put(&bytes));
        self.tx.scratch.set(bytes);
        Ok(before.map(Row))
    }

    /// Changes the row of this key in place, and answers what it is then.
    ///
    /// # Errors
    ///
    /// `NotFound` when no row has the key; `KeyChanged` when the closure gave it another; `UniqueConflict`, `TooLarge`.
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
    /// db.transaction(|tx| {
    ///     let accounts = tx.table::<Account>()?;
    ///     let now = accounts.modify(&1, |account| account.balance -= 30)?;
    ///     assert_eq!(now.balance, 70);
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn modify<Q>(&self, key: &Q, change: impl FnOnce(&mut R)) -> Result<Row<R>>
    where
        R: Clone,
        R::Key: Borrow<Q>,
        Q: ToOwned<Owned = R::Key> + Ord + ?Sized,
    {
        let key: R::Key = key.to_owned();
        let there =
            self.look(|table, sight| table.get(key.borrow(), sight).cloned().ok_or_else(|| table.not_found(&key)))?;
        let mut row = R::clone(&there.record);
        change(&mut row);
        let new_key = row.key();
        if new_key != key {
            return Err(Error::new(
                ErrorKind::KeyChanged,
                format!("the row of key {key:?} was given the key {new_key:?}"),
            )
            .in_table(R::TABLE)
            .remedy("delete the row, and insert another"));
        }
        self.put(Put::Update, key.clone(), Prepared::plain(row))?;
        self.get(key.borrow())?.ok_or_else(|| Error::new(ErrorKind::NotFound, "the row has gone").in_table(R::TABLE))
    }

    /// Takes the row of this key away, and answers it.
    ///
    /// # Errors
    ///
    /// None but those of every call; see [`ErrorKind`].
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
    /// db.transaction(|tx| {
    ///     let accounts = tx.table::<Account>()?;
    ///     assert!(accounts.delete(&1)?.is_some());
    ///     assert!(accounts.delete(&1)?.is_none());
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete<Q>(&self, key: &Q) -> Result<Option<Row<R>>>
    where
        R::Key: Borrow<Q>,
        Q: ToOwned<Owned = R::Key> + ?Sized,
    {
        self.delete_key(&key.to_owned())
    }

    pub(crate) fn delete_key(&self, key: &R::Key) -> Result<Option<Row<R>>> {
        let (row, number) =
            self.change(|table, sight| Ok((table.delete(self.tx.sequence, key, sight), table.number)))?;
        if row.is_some() {
            let mut output = Output::default();
            if self.tx.steps.is_some() {
                key.encode(&mut output);
            }
            self.tx.step(number, Step::Delete(&output.finish().unwrap_or_default()));
        }
        Ok(row.map(Row))
    }

    /// Takes every row away, and answers how many there were.
    ///
    /// # Errors
    ///
    /// None but those of every call; see [`ErrorKind`].
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
    /// db.transaction(|tx| {
    ///     let accounts = tx.table::<Account>()?;
    ///     assert_eq!(accounts.clear()?, 1);
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn clear(&self) -> Result<usize> {
        let (count, number) = self.change(|table, sight| {
            table.see_all(sight);
            if table.rows.is_empty() {
                return Ok((0, table.number));
            }
            Ok((table.clear(self.tx.sequence), table.number))
        })?;
        if count > 0 {
            self.tx.step(number, Step::Clear);
        }
        Ok(count)
    }

    /// The rows of these keys: `..` is all of them.
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
    /// db.transaction(|tx| {
    ///     let accounts = tx.table::<Account>()?;
    ///     let poor = accounts.range(..).filter(|account| account.balance < 500).all()?;
    ///     for account in &poor {
    ///         accounts.modify(&account.id, |account| account.balance += 10)?;
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn range(&self, keys: impl RangeBounds<R::Key>) -> Query<R, TxTable<'t, R>> {
        Query::new(*self, Scan::new(Source::keys(keys)))
    }

    /// The rows whose key begins so.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[derive(wo::Record, Clone, Debug)]
    /// # struct Line {
    /// #     #[key]
    /// #     room: String,
    /// #     #[key]
    /// #     number: u64,
    /// # }
    /// # #[wo::main]
    /// # fn main() -> Result<(), wo::db::Error> {
    /// # let db = wo::db::Db::builder().table::<Line>().in_memory()?;
    /// # let lines = db.table::<Line>()?;
    /// lines.insert(Line { room: "hall".to_owned(), number: 1 })?;
    /// let there = db.transaction(|tx| tx.table::<Line>()?.prefix(&"hall".to_owned()).count())?;
    /// assert_eq!(there, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn prefix<P: ?Sized>(&self, prefix: &P) -> Query<R, TxTable<'t, R>>
    where
        R::Key: Prefixed<P>,
    {
        Query::new(*self, Scan::new(Source::prefix(prefix)))
    }

    /// The rows with this value in a field with an index.
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
    /// db.transaction(|tx| {
    ///     let accounts = tx.table::<Account>()?;
    ///     assert_eq!(accounts.by(Account::CITY, "Oslo").count()?, 1);
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn by<I, Q>(&self, index: I, value: &Q) -> Query<R, TxTable<'t, R>>
    where
        I: Indexed<R>,
        I::Value: Borrow<Q>,
        Q: ToOwned<Owned = I::Value> + ?Sized,
    {
        Query::new(*self, Scan::new(Source::value(index, value.to_owned())))
    }

    /// The rows with one of these values in a field with an index, in the order of the values.
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
    /// db.transaction(|tx| {
    ///     let accounts = tx.table::<Account>()?;
    ///     assert_eq!(accounts.by_range(Account::CITY, "A".to_owned().."P".to_owned()).count()?, 1);
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn by_range<I: Indexed<R>>(&self, index: I, values: impl RangeBounds<I::Value>) -> Query<R, TxTable<'t, R>> {
        Query::new(*self, Scan::new(Source::values(index, values)))
    }

    /// The rows whose value in a field with an index begins so, in the order of the values.
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
    /// db.transaction(|tx| {
    ///     let accounts = tx.table::<Account>()?;
    ///     assert_eq!(accounts.by_prefix(Account::CITY, "Os").count()?, 1);
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn by_prefix<I: Indexed<R>, P: ?Sized>(&self, index: I, prefix: &P) -> Query<R, TxTable<'t, R>>
    where
        I::Value: Prefixed<P>,
    {
        Query::new(*self, Scan::new(Source::value_prefix(index, prefix)))
    }
}

/// The row with this value in a unique field.
pub(crate) fn found<R: Record, V: crate::Key>(
    table: &Contents<R>,
    sight: &Sight,
    field: Unique<R, V>,
    value: &V,
) -> Result<Option<Row<R>>> {
    use std::ops::Bound::Included;
    let index = walk(&table.indexes, field).ok_or_else(Store::undeclared::<R>)?;
    match index.keys((Included(value), Included(value))).next() {
        Some(key) => Ok(table.get(key, sight).cloned().map(Row)),
        None => {
            // Its absence may be an update's work as well as a deletion's.
            table.see_all(sight);
            Ok(None)
        }
    }
}
