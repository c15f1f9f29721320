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
use crate::transaction::{Prepared, found};

/// A table of a database, whose rows are `R`s. Small and `Copy`; the same from every shard.
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
    pub fn modify<Q, F>(&self, key: &Q, change: F) -> Call<impl Future<Output = Result<Row<R>>> + use<R, Q, F>>
    where
        R: Clone,
        R::Key: Borrow<Q>,
        Q: ToOwned<Owned = R::Key> + Ord + ?Sized,
        F: FnOnce(&mut R) + Send + 'static,
    {
        let (this, key): (_, R::Key) = (*self, key.to_owned());
        Call::new(owner::write(this.owner, move |tx| tx.at::<R>(this.place()).modify::<R::Key>(&key, change)))
    }

    /// Takes the row of this key away, and answers it.
    ///
    /// # Errors
    ///
    /// Those of a commit.
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
    pub fn clear(&self) -> Call<impl Future<Output = Result<usize>> + use<R>> {
        let this = *self;
        Call::new(owner::write(this.owner, move |tx| tx.at::<R>(this.place()).clear()))
    }

    /// The rows of these keys: `..` is all of them.
    pub fn range(&self, keys: impl RangeBounds<R::Key>) -> Query<R> {
        Query::new(*self, Scan::new(Source::keys(keys)))
    }

    /// The rows whose key begins so: with this text, or with these first parts of a composite key.
    pub fn prefix<P: ?Sized>(&self, prefix: &P) -> Query<R>
    where
        R::Key: Prefixed<P>,
    {
        Query::new(*self, Scan::new(Source::prefix(prefix)))
    }

    /// The rows with this value in a field with an index.
    pub fn by<I, Q>(&self, index: I, value: &Q) -> Query<R>
    where
        I: Indexed<R>,
        I::Value: Borrow<Q>,
        Q: ToOwned<Owned = I::Value> + ?Sized,
    {
        Query::new(*self, Scan::new(Source::value(index, value.to_owned())))
    }

    /// The rows with one of these values in a field with an index, in the order of the values.
    pub fn by_range<I: Indexed<R>>(&self, index: I, values: impl RangeBounds<I::Value>) -> Query<R> {
        Query::new(*self, Scan::new(Source::values(index, values)))
    }

    /// The rows whose value in a field with an index begins so, in the order of the values.
    pub fn by_prefix<I: Indexed<R>, P: ?Sized>(&self, index: I, prefix: &P) -> Query<R>
    where
        I::Value: Prefixed<P>,
    {
        Query::new(*self, Scan::new(Source::value_prefix(index, prefix)))
    }
}
