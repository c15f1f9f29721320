//! Queries: which rows, in which order, how many.
//!
//! A query is described where it is asked, and run by the owner in one go, on its typed rows: it sees the tables as
//! they are between two transactions. Filters and orders are the program's own closures; they go along.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Bound, ControlFlow, RangeBounds};
use std::sync::Arc;

use wo_runtime::fiber::Call;

use crate::cursor::Cursor;
use crate::error::Result;
use crate::owner;
use crate::record::{Prefixed, Record};
use crate::row::{Row, Stored};
use crate::store::Store;
use crate::store::index::{Indexed, walk};
use crate::store::table::{Contents, Sight};
use crate::table::{Table, over};
use crate::transaction::{Tx, TxTable};

type Filter<R> = Box<dyn Fn(&R) -> bool + Send + Sync>;
type Order<R> = Box<dyn Fn(&R, &R) -> Ordering + Send + Sync>;
type Range<K> = (Bound<K>, Bound<K>);

/// Where rows come from.
pub(crate) enum Source<R: Record> {
    Keys(Range<R::Key>),
    /// No key is in the range.
    Nothing,
    Index(Box<dyn ByIndex<R>>),
}

/// A walk along an index whose values' type is not known.
pub(crate) trait ByIndex<R: Record>: Send + Sync {
    fn keys<'a>(&'a self, table: &'a Contents<R>) -> Result<Box<dyn DoubleEndedIterator<Item = &'a R::Key> + 'a>>;
}

struct Values<R: Record, I: Indexed<R>> {
    index: I,
    range: Option<Range<I::Value>>,
    of: std::marker::PhantomData<fn() -> R>,
}

impl<R: Record, I: Indexed<R>> ByIndex<R> for Values<R, I> {
    fn keys<'a>(&'a self, table: &'a Contents<R>) -> Result<Box<dyn DoubleEndedIterator<Item = &'a R::Key> + 'a>> {
        let index = walk(&table.indexes, self.index).ok_or_else(Store::undeclared::<R>)?;
        Ok(match &self.range {
            Some((from, to)) => index.keys((from.as_ref(), to.as_ref())),
            None => Box::new(std::iter::empty()),
        })
    }
}

/// The range, unless nothing can be in it: the standard library's trees panic at such ones.
pub(crate) fn sensible<T: Ord + Clone>(range: &impl RangeBounds<T>) -> Option<Range<T>> {
    let (from, to) = (range.start_bound(), range.end_bound());
    let is_empty = match (from, to) {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from), Bound::Excluded(to))
        | (Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => from >= to,
        _ => false,
    };
    (!is_empty).then(|| (from.cloned(), to.cloned()))
}

fn prefixed<T: Prefixed<P>, P: ?Sized>(prefix: &P) -> Range<T> {
    (Bound::Included(T::first(prefix)), T::beyond(prefix).map_or(Bound::Unbounded, Bound::Excluded))
}

impl<R: Record> Source<R> {
    pub(crate) fn keys(range: impl RangeBounds<R::Key>) -> Source<R> {
        sensible(&range).map_or(Source::Nothing, Source::Keys)
    }

    pub(crate) fn prefix<P: ?Sized>(prefix: &P) -> Source<R>
    where
        R::Key: Prefixed<P>,
    {
        Source::Keys(prefixed(prefix))
    }

    fn index<I: Indexed<R>>(index: I, range: Option<Range<I::Value>>) -> Source<R> {
        Source::Index(Box::new(Values { index, range, of: std::marker::PhantomData }))
    }

    pub(crate) fn value<I: Indexed<R>>(index: I, value: I::Value) -> Source<R> {
        Source::index(index, Some((Bound::Included(value.clone()), Bound::Included(value))))
    }

    pub(crate) fn values<I: Indexed<R>>(index: I, values: impl RangeBounds<I::Value>) -> Source<R> {
        Source::index(index, sensible(&values))
    }

    pub(crate) fn value_prefix<I: Indexed<R>, P: ?Sized>(index: I, prefix: &P) -> Source<R>
    where
        I::Value: Prefixed<P>,
    {
        Source::index(index, Some(prefixed(prefix)))
    }
}

/// A query's description.
pub(crate) struct Scan<R: Record> {
    pub(crate) source: Source<R>,
    filters: Vec<Filter<R>>,
    pub(crate) order: Option<Order<R>>,
    pub(crate) is_reversed: bool,
    pub(crate) skip: usize,
    pub(crate) limit: usize,
}

impl<R: Record> Scan<R> {
    pub(crate) fn new(source: Source<R>) -> Scan<R> {
        Scan { source, filters: Vec::new(), order: None, is_reversed: false, skip: 0, limit: usize::MAX }
    }

    pub(crate) fn passes(&self, row: &R) -> bool {
        self.filters.iter().all(|filter| filter(row))
    }

    /// Visits the rows of the source that pass, in the source's order or the other way around.
    fn each<'a>(
        &'a self,
        table: &'a Contents<R>,
        sight: &Sight,
        mut visit: impl FnMut(&'a Stored<R>) -> ControlFlow<()>,
    ) -> Result<()> {
        match &self.source {
            Source::Nothing => {}
            Source::Keys(range) => {
                table.see_gaps(sight);
                let rows = table.rows.range((range.0.as_ref(), range.1.as_ref()));
                let mut visit = |stored: &'a Stored<R>| {
                    sight.see(stored.sequence);
                    if self.passes(&stored.record) { visit(stored) } else { ControlFlow::Continue(()) }
                };
                let _stopped = if self.is_reversed && self.order.is_none() {
                    rows.rev().try_for_each(|(_, stored)| visit(stored))
                } else {
                    { rows }.try_for_each(|(_, stored)| visit(stored))
                };
            }
            Source::Index(index) => {
                // What is missing here may stand elsewhere in the index.
                table.see_all(sight);
                let keys = index.keys(table)?;
                let mut visit = |key: &R::Key| match table.rows.get(key) {
                    Some(stored) if self.passes(&stored.record) => visit(stored),
                    _ => ControlFlow::Continue(()),
                };
                let _stopped = if self.is_reversed && self.order.is_none() {
                    { keys }.rev().try_for_each(&mut visit)
                } else {
                    { keys }.try_for_each(&mut visit)
                };
            }
        }
        Ok(())
    }

    /// The rows.
    pub(crate) fn all(&self, table: &Contents<R>, sight: &Sight) -> Result<Vec<Row<R>>> {
        let mut rows: Vec<Row<R>> = Vec::new();
        if let Some(order) = &self.order {
            self.each(table, sight, |row| {
                rows.push(Row(Arc::clone(row)));
                ControlFlow::Continue(())
            })?;
            if self.is_reversed {
                rows.sort_by(|one, other| order(other, one));
            } else {
                rows.sort_by(|one, other| order(one, other));
            }
            rows.drain(..self.skip.min(rows.len()));
            rows.truncate(self.limit);
            return Ok(rows);
        }
        if self.limit == 0 {
            return Ok(rows);
        }
        let mut skip = self.skip;
        self.each(table, sight, |row| {
            if skip > 0 {
                skip -= 1;
                return ControlFlow::Continue(());
            }
            rows.push(Row(Arc::clone(row)));
            if rows.len() == self.limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(rows)
    }

    fn count(&self, table: &Contents<R>, sight: &Sight) -> Result<usize> {
        let mut count = 0;
        if self.filters.is_empty() && matches!(&self.source, Source::Keys((Bound::Unbounded, Bound::Unbounded))) {
            table.see_all(sight);
            count = table.rows.len();
        } else {
            self.each(table, sight, |_| {
                count += 1;
                ControlFlow::Continue(())
            })?;
        }
        Ok(count.saturating_sub(self.skip).min(self.limit))
    }
}

/// Rows to be read: [`Table`] begins one, the methods here say more of it, and the last one, [`all`](Query::all),
/// [`first`](Query::first), [`count`](Query::count), [`delete`](Query::delete) or [`rows`](Query::rows), asks the
/// owner.
///
/// # Examples
///
/// ```
/// #[derive(wo::Record)]
/// struct City {
///     #[key]
///     name: String,
///     #[index]
///     country: String,
///     people: u64,
/// }
///
/// #[wo::main]
/// fn main() -> Result<(), wo::db::Error> {
///     let db = wo::db::Db::builder().table::<City>().in_memory()?;
///     let cities = db.table::<City>()?;
///     let all = [("Oslo", "no", 700), ("Bergen", "no", 290), ("Bern", "ch", 140), ("Basel", "ch", 170)];
///     for (name, country, people) in all {
///         cities.insert(City { name: name.to_owned(), country: country.to_owned(), people })?;
///     }
///     let named = cities.prefix("Be").all()?;
///     assert_eq!(named.iter().map(|city| city.name.as_str()).collect::<Vec<_>>(), ["Bergen", "Bern"]);
///
///     let largest = cities.range(..).order_by(|city| city.people).reverse().limit(2).all()?;
///     assert_eq!(largest.iter().map(|city| city.people).collect::<Vec<_>>(), [700, 290]);
///
///     let few = 150;
///     assert_eq!(cities.by(City::COUNTRY, "ch").filter(move |city| city.people > few).count()?, 1);
///     Ok(())
/// }
/// ```
#[must_use = "a query asks nobody until its last word: `all`, `first`, `count`, `delete` or `rows`"]
pub struct Query<R: Record, T = Table<R>> {
    on: T,
    scan: Scan<R>,
}

impl<R: Record, T> Query<R, T> {
    pub(crate) fn new(on: T, scan: Scan<R>) -> Query<R, T> {
        Query { on, scan }
    }

    /// Only rows that pass this test, and every other one given. It runs on the owner.
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
    ///     accounts.insert(Account { balance: id as i64 * 10, ..account(id) })?;
    /// }
    /// let least = 30;
    /// let rich = accounts.range(..).filter(move |account| account.balance >= least);
    /// assert_eq!(rich.filter(|account| account.id != 4).count()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn filter(mut self, passes: impl Fn(&R) -> bool + Send + Sync + 'static) -> Query<R, T> {
        self.scan.filters.push(Box::new(passes));
        self
    }

    /// In the order of what `by` makes of a row; rows for which it is equal stay in the order they were in. A later
    /// order replaces an earlier one.
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
    ///     accounts.insert(Account { balance: id as i64 * 10, ..account(id) })?;
    /// }
    /// let first = accounts.range(..).order_by(|account| -account.balance).first()?;
    /// assert_eq!(first.map(|account| account.id), Some(5));
    /// # Ok(())
    /// # }
    /// ```
    pub fn order_by<O: Ord>(mut self, by: impl Fn(&R) -> O + Send + Sync + 'static) -> Query<R, T> {
        self.scan.order = Some(Box::new(move |one, other| by(one).cmp(&by(other))));
        self
    }

    /// The other way around.
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
    ///     accounts.insert(Account { balance: id as i64 * 10, ..account(id) })?;
    /// }
    /// let last = accounts.range(..).reverse().first()?;
    /// assert_eq!(last.map(|account| account.id), Some(5));
    /// # Ok(())
    /// # }
    /// ```
    pub fn reverse(mut self) -> Query<R, T> {
        self.scan.is_reversed = !self.scan.is_reversed;
        self
    }

    /// Without the first `rows`.
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
    ///     accounts.insert(Account { balance: id as i64 * 10, ..account(id) })?;
    /// }
    /// let page = accounts.range(..).skip(2).limit(2).all()?;
    /// assert_eq!(page.iter().map(|account| account.id).collect::<Vec<_>>(), [3, 4]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn skip(mut self, rows: usize) -> Query<R, T> {
        self.scan.skip = self.scan.skip.saturating_add(rows);
        self
    }

    /// At most so many `rows`.
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
    ///     accounts.insert(Account { balance: id as i64 * 10, ..account(id) })?;
    /// }
    /// assert_eq!(accounts.range(..).limit(2).all()?.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn limit(mut self, rows: usize) -> Query<R, T> {
        self.scan.limit = rows;
        self
    }
}

impl<R: Record> Query<R> {
    /// Every row, in order, as they are between two transactions.
    ///
    /// # Errors
    ///
    /// `Panicked` when a filter or an order did; see [`ErrorKind`](crate::ErrorKind) for those of every call.
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
    ///     accounts.insert(Account { balance: id as i64 * 10, ..account(id) })?;
    /// }
    /// let all = accounts.range(..).all()?;
    /// assert_eq!(all.iter().map(|account| account.balance).sum::<i64>(), 150);
    /// # Ok(())
    /// # }
    /// ```
    pub fn all(self) -> Call<impl Future<Output = Result<Vec<Row<R>>>>> {
        let Query { on, scan } = self;
        Call::new(over::<R, _>(owner::read(on.owner, move |store, sight| scan.all(store.table(on.place())?, sight))))
    }

    /// The first row.
    ///
    /// # Errors
    ///
    /// As [`all`](Query::all).
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
    ///     accounts.insert(Account { balance: id as i64 * 10, ..account(id) })?;
    /// }
    /// let first = accounts.range(3..).first()?;
    /// assert_eq!(first.map(|account| account.id), Some(3));
    /// assert!(accounts.range(9..).first()?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn first(self) -> Call<impl Future<Output = Result<Option<Row<R>>>>> {
        let limit = self.scan.limit.min(1);
        let Query { on, scan } = self.limit(limit);
        let first = move |store: &Store, sight: &Sight| Ok(scan.all(store.table(on.place())?, sight)?.pop());
        Call::new(over::<R, _>(owner::read(on.owner, first)))
    }

    /// How many rows there are.
    ///
    /// # Errors
    ///
    /// As [`all`](Query::all).
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
    ///     accounts.insert(Account { balance: id as i64 * 10, ..account(id) })?;
    /// }
    /// assert_eq!(accounts.range(2..).count()?, 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn count(self) -> Call<impl Future<Output = Result<usize>>> {
        let Query { on, scan } = self;
        Call::new(over::<R, _>(owner::read(on.owner, move |store, sight| scan.count(store.table(on.place())?, sight))))
    }

    /// Takes the rows away, all of them in one transaction, and answers how many there were.
    ///
    /// # Errors
    ///
    /// As [`all`](Query::all), and those of a commit.
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
    ///     accounts.insert(Account { balance: id as i64 * 10, ..account(id) })?;
    /// }
    /// let gone = accounts.range(..).filter(|account| account.balance < 30).delete()?;
    /// assert_eq!((gone, accounts.range(..).count()?), (2, 3));
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete(self) -> Call<impl Future<Output = Result<usize>>> {
        let Query { on, scan } = self;
        let delete = move |tx: &Tx| Query { on: tx.at::<R>(on.place()), scan }.delete();
        Call::new(over::<R, _>(owner::write(on.owner, delete)))
    }

    /// The rows one after the other, fetched a page at a time. Each page shows the table between two transactions, a
    /// later page a later state: for one state, and rows by an index or in an order of your own, everything is fetched
    /// with the first page.
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
    ///     accounts.insert(Account { balance: id as i64 * 10, ..account(id) })?;
    /// }
    /// let mut rows = accounts.range(..).rows();
    /// let mut sum = 0;
    /// while let Some(account) = rows.next()? {
    ///     sum += account.balance;
    /// }
    /// assert_eq!(sum, 150);
    /// # Ok(())
    /// # }
    /// ```
    pub fn rows(self) -> Cursor<R> {
        Cursor::new(self.on, self.scan)
    }
}

impl<R: Record> Query<R, TxTable<'_, R>> {
    /// Every row, in order, as the transaction has them by now.
    ///
    /// # Errors
    ///
    /// None but those of every call; see [`ErrorKind`](crate::ErrorKind).
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
    ///     assert_eq!(accounts.range(..).all()?.len(), 1);
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn all(self) -> Result<Vec<Row<R>>> {
        self.on.look(|table, sight| self.scan.all(table, sight))
    }

    /// The first row.
    ///
    /// # Errors
    ///
    /// As [`all`](Query::all).
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
    ///     assert_eq!(accounts.range(..).first()?.map(|account| account.id), Some(1));
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn first(self) -> Result<Option<Row<R>>> {
        let limit = self.scan.limit.min(1);
        Ok(self.limit(limit).all()?.pop())
    }

    /// How many rows there are.
    ///
    /// # Errors
    ///
    /// As [`all`](Query::all).
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
    ///     assert_eq!(accounts.range(..).count()?, 1);
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn count(self) -> Result<usize> {
        self.on.look(|table, sight| self.scan.count(table, sight))
    }

    /// Takes the rows away, and answers how many there were.
    ///
    /// # Errors
    ///
    /// As [`all`](Query::all).
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
    ///     assert_eq!(accounts.range(..).delete()?, 1);
    ///     assert_eq!(accounts.range(..).count()?, 0);
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete(self) -> Result<usize> {
        let on = self.on;
        let rows = self.all()?;
        for row in &rows {
            on.delete_key(&row.key())?;
        }
        Ok(rows.len())
    }
}

impl<R: Record, T> fmt::Debug for Query<R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query")
            .field("table", &R::TABLE)
            .field("filters", &self.scan.filters.len())
            .field("reversed", &self.scan.is_reversed)
            .field("skip", &self.scan.skip)
            .field("limit", &self.scan.limit)
            .finish_non_exhaustive()
    }
}
