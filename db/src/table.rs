//! A table as its users hold it: two numbers, to be copied and sent about, with the verbs on it.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use wo_runtime::fiber::Call;

use crate::error::Result;
use crate::owner::{self, Owner, Place};
use crate::query::{Query, Scan, Source};
use crate::record::{Key, Prefixed, Record};
use crate::row::Row;
use crate::store::index::{Indexed, Unique};
use crate::transaction::{Prepared, Tx, found};

/// A table of a database, whose rows are `R`s. Small and `Copy`; the same from every shard. Its rows by key are
/// [`range`](Table::range), all of them `range(..)`.
///
/// Every verb here is one transaction of its own: when it answers, it is done, and on the disk where there is one. See
/// [`Db`](crate::Db) for an example, and [`Db::transaction`](crate::Db::transaction) for several changes at once.
///
/// Every verb may also fail with `Closed`, `Cancelled`, `Busy` or `Panicked`; see [`ErrorKind`](crate::ErrorKind).
/// Dropped half-way, a verb is done or not done as a whole, and nobody is told which.
pub struct Table<R> {
    pub(crate) owner: Place,
    place: u32,
    of: PhantomData<fn() -> R>,
}

/// Names the table when a closure of the program's panics over its rows.
pub(crate) async fn over<R: Record, T>(asked: impl Future<Output = Result<T>>) -> Result<T> {
    asked.await.map_err(|error| error.panicked_over(R::TABLE))
}

impl<R> Clone for Table<R> {
    fn clone(&self) -> Table<R> {
        *self
    }
}

impl<R> Copy for Table<R> {}

impl<R: Record> fmt::Debug for Table<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("table", &R::TABLE).finish_non_exhaustive()
    }
}

impl<R: Record> Table<R> {
    pub(crate) fn new(owner: Place, place: u32) -> Table<R> {
        Table { owner, place, of: PhantomData }
    }

    #[inline]
    pub(crate) fn place(&self) -> usize {
        self.place as usize
    }

    /// A row on its way: encoded here, unless the owner has to give it a key, or is here too.
    fn prepared(&self, row: R) -> Result<Prepared<R>> {
        if self.owner.is_durable && !R::AUTOMATIC && Owner::here(self.owner).is_none() {
            return Prepared::encoded(row);
        }
        Ok(Prepared::plain(row))
    }

    /// The row of this key.
    ///
    /// # Errors
    ///
    /// None but those of every verb.
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
    /// let first = accounts.get(&1)?.expect("it was inserted");
    /// assert_eq!(first.balance, 100);
    /// assert!(accounts.get(&2)?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn get<'k, Q>(&self, key: &'k Q) -> Call<impl Future<Output = Result<Option<Row<R>>>> + use<'k, R, Q>>
    where
        R::Key: Borrow<Q>,
        Q: ToOwned<Owned = R::Key> + Ord + ?Sized,
    {
        let this = *self;
        Call::new(async move {
            if let Some(owner) = Owner::here(this.owner) {
                let (row, needs) =
                    owner.look(&|store, sight| Ok(store.table::<R>(this.place())?.get(key, sight).cloned().map(Row)));
                if needs <= owner.durable() {
                    return owner::passing(row).await;
                }
            }
            let key: R::Key = key.to_owned();
            owner::read(this.owner, move |store, sight| {
                Ok(store.table::<R>(this.place())?.get(key.borrow(), sight).cloned().map(Row))
            })
            .await
        })
    }

    /// Whether a row has this key.
    ///
    /// # Errors
    ///
    /// None but those of every verb.
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
    /// assert!(accounts.contains(&1)?);
    /// assert!(!accounts.contains(&2)?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn contains<'k, Q>(&self, key: &'k Q) -> Call<impl Future<Output = Result<bool>> + use<'k, R, Q>>
    where
        R::Key: Borrow<Q>,
        Q: ToOwned<Owned = R::Key> + Ord + ?Sized,
    {
        let get = self.get(key);
        Call::new(async move { Ok(get.await?.is_some()) })
    }

    /// The row with this value in a unique field.
    ///
    /// # Errors
    ///
    /// None but those of every verb.
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
    /// let found = accounts.find(Account::EMAIL, "1@example.org")?;
    /// assert_eq!(found.map(|account| account.id), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn find<V, Q>(
        &self,
        field: Unique<R, V>,
        value: &Q,
    ) -> Call<impl Future<Output = Result<Option<Row<R>>>> + use<R, V, Q>>
    where
        V: Key + Borrow<Q>,
        Q: ToOwned<Owned = V> + ?Sized,
    {
        let (this, value): (_, V) = (*self, value.to_owned());
        Call::new(owner::read(this.owner, move |store, sight| {
            found(store.table::<R>(this.place())?, sight, field, &value)
        }))
    }

    /// Adds a row, and answers its key, which is a new one when the key is automatic and the row's is 0.
    ///
    /// # Errors
    ///
    /// `DuplicateKey`, `UniqueConflict`, `KeysExhausted`, `TooLarge`, and those of a commit.
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
    /// assert_eq!(accounts.insert(account(1))?, 1);
    /// let refused = accounts.insert(account(1)).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::DuplicateKey);
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert(&self, row: R) -> Call<impl Future<Output = Result<R::Key>> + use<R>> {
        let this = *self;
        Call::new(async move {
            let row = this.prepared(row)?;
            owner::write(this.owner, move |tx| tx.at::<R>(this.place()).insert_prepared(row)).await
        })
    }

    /// Replaces the row of the same key, and answers what was there.
    ///
    /// # Errors
    ///
    /// `NotFound` when no row has the key; `UniqueConflict`, `TooLarge`, and those of a commit.
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
    /// let before = accounts.update(Account { balance: 70, ..account(1) })?;
    /// assert_eq!(before.balance, 100);
    /// assert!(accounts.update(account(2)).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn update(&self, row: R) -> Call<impl Future<Output = Result<Row<R>>> + use<R>> {
        let this = *self;
        Call::new(async move {
            let row = this.prepared(row)?;
            owner::write(this.owner, move |tx| tx.at::<R>(this.place()).update_prepared(row)).await
        })
    }

    /// Adds a row, or replaces the one of the same key, and answers what was there.
    ///
    /// # Errors
    ///
    /// `UniqueConflict`, `KeysExhausted`, `TooLarge`, and those of a commit.
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
    /// assert!(accounts.upsert(account(1))?.is_none());
    /// let before = accounts.upsert(Account { balance: 70, ..account(1) })?;
    /// assert_eq!(before.map(|account| account.balance), Some(100));
    /// # Ok(())
    /// # }
    /// ```
    pub fn upsert(&self, row: R) -> Call<impl Future<Output = Result<Option<Row<R>>>> + use<R>> {
        let this = *self;
        Call::new(async move {
            let row = this.prepared(row)?;
            owner::write(this.owner, move |tx| tx.at::<R>(this.place()).upsert_prepared(row)).await
        })
    }

    /// Changes the row of this key in place, at the owner, and answers what it is then.
    ///
    /// # Errors
    ///
    /// `NotFound` when no row has the key; `KeyChanged` when the closure gave it another; `UniqueConflict`, `TooLarge`,
    /// and those of a commit.
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
    /// let fee = 5;
    /// let now = accounts.modify(&1, move |account| account.balance -= fee)?;
    /// assert_eq!(now.balance, 95);
    /// # Ok(())
    /// # }
    /// ```
    pub fn modify<Q, F>(&self, key: &Q, change: F) -> Call<impl Future<Output = Result<Row<R>>> + use<R, Q, F>>
    where
        R: Clone,
        R::Key: Borrow<Q>,
        Q: ToOwned<Owned = R::Key> + Ord + ?Sized,
        F: FnOnce(&mut R) + Send + 'static,
    {
        let (this, key): (_, R::Key) = (*self, key.to_owned());
        let modify = move |tx: &Tx| tx.at::<R>(this.place()).modify::<R::Key>(&key, change);
        Call::new(over::<R, _>(owner::write(this.owner, modify)))
    }

    /// Takes the row of this key away, and answers it.
    ///
    /// # Errors
    ///
    /// Those of a commit.
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
    /// let gone = accounts.delete(&1)?.expect("it was there");
    /// assert_eq!(gone.balance, 100);
    /// assert!(accounts.delete(&1)?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete<Q>(&self, key: &Q) -> Call<impl Future<Output = Result<Option<Row<R>>>> + use<R, Q>>
    where
        R::Key: Borrow<Q>,
        Q: ToOwned<Owned = R::Key> + ?Sized,
    {
        let (this, key): (_, R::Key) = (*self, key.to_owned());
        Call::new(owner::write(this.owner, move |tx| tx.at::<R>(this.place()).delete_key(&key)))
    }

    /// Takes every row away, and answers how many there were.
    ///
    /// # Errors
    ///
    /// Those of a commit.
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
    /// accounts.insert(account(2))?;
    /// assert_eq!(accounts.clear()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn clear(&self) -> Call<impl Future<Output = Result<usize>> + use<R>> {
        let this = *self;
        Call::new(owner::write(this.owner, move |tx| tx.at::<R>(this.place()).clear()))
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
    /// for id in 1..=5 {
    ///     accounts.insert(account(id))?;
    /// }
    /// let some = accounts.range(2..4).all()?;
    /// assert_eq!(some.iter().map(|account| account.id).collect::<Vec<_>>(), [2, 3]);
    /// assert_eq!(accounts.range(..).count()?, 5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn range(&self, keys: impl RangeBounds<R::Key>) -> Query<R> {
        Query::new(*self, Scan::new(Source::keys(keys)))
    }

    /// The rows whose key begins so: with this text, or with these first parts of a composite key.
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
    /// for (room, number) in [("kitchen", 1), ("kitchen", 2), ("hall", 1)] {
    ///     lines.insert(Line { room: room.to_owned(), number })?;
    /// }
    /// assert_eq!(lines.prefix(&"kitchen".to_owned()).count()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn prefix<P: ?Sized>(&self, prefix: &P) -> Query<R>
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
    /// accounts.insert(Account { city: "Bergen".to_owned(), ..account(2) })?;
    /// assert_eq!(accounts.by(Account::CITY, "Bergen").count()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn by<I, Q>(&self, index: I, value: &Q) -> Query<R>
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
    /// accounts.insert(Account { city: "Bergen".to_owned(), ..account(2) })?;
    /// let up_to_m = accounts.by_range(Account::CITY, .."M".to_owned()).all()?;
    /// assert_eq!(up_to_m.iter().map(|account| account.id).collect::<Vec<_>>(), [2]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn by_range<I: Indexed<R>>(&self, index: I, values: impl RangeBounds<I::Value>) -> Query<R> {
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
    /// accounts.insert(account(2))?;
    /// assert_eq!(accounts.by_prefix(Account::EMAIL, "2@").count()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn by_prefix<I: Indexed<R>, P: ?Sized>(&self, index: I, prefix: &P) -> Query<R>
    where
        I::Value: Prefixed<P>,
    {
        Query::new(*self, Scan::new(Source::value_prefix(index, prefix)))
    }
}
