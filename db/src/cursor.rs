//! Rows one after the other: fetched a page at a time, each page a state between two transactions.

use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use wo_runtime::fiber::Call;

use crate::error::Result;
use crate::owner;
use crate::query::{Scan, Source, sensible};
use crate::record::Record;
use crate::row::{Row, Stored};
use crate::store::Store;
use crate::store::table::{Contents, Sight};
use crate::table::{Table, over};

/// Rows that are fetched at once.
const PAGE_ROWS: usize = 256;

/// Rows one after the other; see [`Query::rows`](crate::Query::rows).
pub struct Cursor<R: Record> {
    on: Table<R>,
    scan: Arc<Scan<R>>,
    page: std::vec::IntoIter<Row<R>>,
    /// Rows that may still be fetched.
    left: usize,
    next: Next<R>,
}

/// What a cursor fetches next.
enum Next<R: Record> {
    First,
    Behind(R::Key),
    Nothing,
    Failed(crate::Error),
}

impl<R: Record> Clone for Next<R> {
    fn clone(&self) -> Next<R> {
        match self {
            Next::First => Next::First,
            Next::Behind(key) => Next::Behind(key.clone()),
            Next::Nothing => Next::Nothing,
            Next::Failed(error) => Next::Failed(error.clone()),
        }
    }
}

impl<R: Record> Cursor<R> {
    pub(crate) fn new(on: Table<R>, scan: Scan<R>) -> Cursor<R> {
        let left = scan.limit;
        Cursor { on, scan: Arc::new(scan), page: Vec::new().into_iter(), left, next: Next::First }
    }

    /// The next row; none behind the last one.
    ///
    /// Dropped half-way, nothing is lost: the next call asks again.
    ///
    /// # Errors
    ///
    /// As [`Query::all`](crate::Query::all). After an error every further call answers it again: rows that could not be
    /// read are never passed over in silence.
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
    /// let mut rows = accounts.range(4..).rows();
    /// assert_eq!(rows.next()?.map(|account| account.id), Some(4));
    /// assert_eq!(rows.next()?.map(|account| account.id), Some(5));
    /// assert!(rows.next()?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[expect(clippy::should_implement_trait, reason = "it parks, so it cannot be an iterator's")]
    pub fn next(&mut self) -> Call<impl Future<Output = Result<Option<Row<R>>>>> {
        Call::new(async move {
            loop {
                if let Some(row) = self.page.next() {
                    return Ok(Some(row));
                }
                match self.fetch().await {
                    Ok(true) => {}
                    Ok(false) => return Ok(None),
                    Err(error) => {
                        self.next = Next::Failed(error.clone());
                        return Err(error);
                    }
                }
            }
        })
    }

    /// Fetches a page; false when there is none.
    async fn fetch(&mut self) -> Result<bool> {
        let is_paged = self.scan.order.is_none() && matches!(self.scan.source, Source::Keys(_));
        let place = self.on.place();
        let rows = match self.next.clone() {
            Next::Nothing => return Ok(false),
            Next::Failed(error) => return Err(error),
            Next::First if !is_paged => {
                let scan = Arc::clone(&self.scan);
                self.next = Next::Nothing;
                let all = move |store: &Store, sight: &Sight| scan.all(store.table(place)?, sight);
                over::<R, _>(owner::read(self.on.owner, all)).await?
            }
            next => {
                let behind = if let Next::Behind(key) = next { Some(key) } else { None };
                let (scan, most) = (Arc::clone(&self.scan), self.left.min(PAGE_ROWS));
                let page =
                    move |store: &Store, sight: &Sight| scan.page(store.table(place)?, behind.as_ref(), most, sight);
                let rows = over::<R, _>(owner::read(self.on.owner, page)).await?;
                self.left -= rows.len();
                self.next = match rows.last() {
                    Some(last) if rows.len() == most && self.left > 0 => Next::Behind(last.key()),
                    _ => Next::Nothing,
                };
                rows
            }
        };
        self.page = rows.into_iter();
        Ok(self.page.len() > 0)
    }
}

impl<R: Record> Scan<R> {
    /// At most so many rows of a range of keys, behind this one.
    fn page(&self, table: &Contents<R>, behind: Option<&R::Key>, most: usize, sight: &Sight) -> Result<Vec<Row<R>>> {
        let Source::Keys((from, to)) = &self.source else { return self.all(table, sight) };
        let range = match behind {
            None => (from.as_ref(), to.as_ref()),
            Some(key) if self.is_reversed => (from.as_ref(), Bound::Excluded(key)),
            Some(key) => (Bound::Excluded(key), to.as_ref()),
        };
        let Some(range) = sensible::<R::Key>(&range) else { return Ok(Vec::new()) };
        let mut rows = Vec::new();
        if most == 0 {
            return Ok(rows);
        }
        table.see_gaps(sight);
        let mut skip = if behind.is_none() { self.skip } else { 0 };
        let mut visit = |stored: &Stored<R>| {
            sight.see(stored.sequence);
            if self.passes(&stored.record) {
                if skip > 0 {
                    skip -= 1;
                } else {
                    rows.push(Row(Arc::clone(stored)));
                }
            }
            if rows.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let mut stored = table.rows.range(range);
        let _stopped = if self.is_reversed {
            stored.rev().try_for_each(|(_, stored)| visit(stored))
        } else {
            stored.try_for_each(|(_, stored)| visit(stored))
        };
        Ok(rows)
    }
}

impl<R: Record> fmt::Debug for Cursor<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor").field("table", &R::TABLE).field("fetched", &self.page.len()).finish_non_exhaustive()
    }
}
