//! Change feeds: what happened to the rows of a range, in order, from a sequence on.
//!
//! A watcher asks the owner for the changes behind its position, whole transactions at a time, and waits there when
//! there are none. Only what is certain is told. Its position is a sequence, good for going on after a restart; one
//! that is older than the changes that are kept is told where it may go on, and that it has to read the table anew.

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Bound, RangeBounds};

use wo_runtime::fiber::Call;

use crate::error::{Error, ErrorKind, Result};
use crate::owner::{self, Place};
use crate::record::Record;
use crate::row::Row;
use crate::table::Table;

/// Changes that are fetched at once, and more when a transaction has more.
const PAGE_CHANGES: usize = 256;

/// One change of one row.
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
/// let mut changes = db.watch::<Account>(.., db.sequence()?)?;
/// accounts.insert(account(1))?;
/// let change = changes.next()?;
/// assert_eq!((change.key, change.row.map(|row| row.balance)), (1, Some(100)));
/// # Ok(())
/// # }
/// ```
pub struct Change<R: Record> {
    /// The sequence of the transaction it was in.
    pub sequence: u64,
    /// The row's key.
    pub key: R::Key,
    /// The row as it was from then on; none when it had gone.
    pub row: Option<Row<R>>,
}

impl<R: Record> Clone for Change<R> {
    fn clone(&self) -> Change<R> {
        Change { sequence: self.sequence, key: self.key.clone(), row: self.row.clone() }
    }
}

impl<R: Record> fmt::Debug for Change<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change")
            .field("sequence", &self.sequence)
            .field("key", &self.key)
            .field("is_there", &self.row.is_some())
            .finish_non_exhaustive()
    }
}

/// A change feed of a table; see [`Db::watch`](crate::Db::watch).
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
/// let mut changes = db.watch::<Account>(.., db.sequence()?)?;
/// accounts.insert(account(1))?;
/// // Somewhere else: what happens to these keys, from then on.
/// assert_eq!(changes.next()?.key, 1);
/// # Ok(())
/// # }
/// ```
pub struct Watch<R: Record> {
    owner: Place,
    place: usize,
    number: u64,
    range: (Bound<R::Key>, Bound<R::Key>),
    /// Everything up to here has been fetched.
    fetched: u64,
    changes: VecDeque<Change<R>>,
    /// The transactions up to here have been handed out whole.
    sequence: u64,
}

struct Page<R: Record> {
    changes: Vec<Change<R>>,
    fetched: u64,
}

impl<R: Record> Watch<R> {
    pub(crate) async fn begin(table: Table<R>, range: impl RangeBounds<R::Key>, from: u64) -> Result<Watch<R>> {
        let range = (range.start_bound().cloned(), range.end_bound().cloned());
        let (owner, place) = (table.owner, table.place());
        let number = owner::ask(owner, move |owner, sender| {
            let checked =
                owner.store.borrow().table::<R>(place).and_then(|table| lag::<R>(table.history.floor(), from));
            let number = checked.map(|()| owner.watchers.borrow_mut().add(from));
            owner::answer(sender, number);
        })
        .await?;
        Ok(Watch { owner, place, number, range, fetched: from, changes: VecDeque::new(), sequence: from })
    }

    /// The next change. Parks until there is one.
    ///
    /// Dropped half-way, nothing is lost: the next call goes on at the same place.
    ///
    /// # Errors
    ///
    /// `Lagged` when changes behind this watcher's position are no longer kept, from then on always: read the table,
    /// and begin a new watch at the sequence the error names, or at that of the reading. `Closed`, `Cancelled`.
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
    /// let mut changes = db.watch::<Account>(.., db.sequence()?)?;
    /// accounts.insert(account(1))?;
    /// accounts.delete(&1)?;
    /// assert!(changes.next()?.row.is_some());
    /// assert!(changes.next()?.row.is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[expect(clippy::should_implement_trait, reason = "it parks, so it cannot be an iterator's")]
    pub fn next(&mut self) -> Call<impl Future<Output = Result<Change<R>>>> {
        Call::new(async move {
            loop {
                if let Some(change) = self.changes.pop_front() {
                    let is_whole = self.changes.front().is_none_or(|next| next.sequence != change.sequence);
                    self.sequence = if is_whole { change.sequence } else { change.sequence - 1 };
                    return Ok(change);
                }
                self.sequence = self.fetched;
                let page = self.fetch().await?;
                self.fetched = page.fetched;
                self.changes = page.changes.into();
            }
        })
    }

    /// The sequence to go on from, later and elsewhere: every transaction up to it has been handed out whole.
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
    /// let mut changes = db.watch::<Account>(.., db.sequence()?)?;
    /// accounts.insert(account(1))?;
    /// changes.next()?;
    /// let kept = changes.sequence();
    /// drop(changes);
    ///
    /// accounts.insert(account(2))?;
    /// let mut later = db.watch::<Account>(.., kept)?;
    /// assert_eq!(later.next()?.key, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    async fn fetch(&self) -> Result<Page<R>> {
        let (place, number, range, mut after) = (self.place, self.number, self.range.clone(), self.fetched);
        owner::ask(self.owner, move |owner, sender| {
            let mut sender = Some(sender);
            owner.question(
                number,
                Box::new(move |owner| {
                    if sender.as_ref().is_none_or(|sender| sender.is_closed()) {
                        return (after, true);
                    }
                    let page = match owner.changes::<R>(place, &range, after) {
                        Ok(page) if page.changes.is_empty() => {
                            after = page.fetched;
                            return (after, false);
                        }
                        page => page,
                    };
                    let seen = page.as_ref().map_or(after, |page| page.fetched);
                    if let Some(sender) = sender.take() {
                        owner::answer(sender, page);
                    }
                    (seen, true)
                }),
            );
        })
        .await
    }
}

fn lag<R: Record>(floor: u64, from: u64) -> Result<()> {
    if from >= floor {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Lagged { resume: floor },
        format!("the changes behind sequence {from} are no longer kept; those behind {floor} are"),
    )
    .in_table(R::TABLE)
    .remedy("read the table, then watch from the sequence of that reading; or have more kept, with `changes_kept`"))
}

impl owner::Owner {
    fn changes<R: Record>(&self, place: usize, range: &(Bound<R::Key>, Bound<R::Key>), after: u64) -> Result<Page<R>> {
        let store = self.store.borrow();
        let history = &store.table::<R>(place)?.history;
        lag::<R>(history.floor(), after)?;
        let mut page = Page { changes: Vec::new(), fetched: store.durable.max(after) };
        for event in history.after(after) {
            if event.sequence > store.durable {
                break;
            }
            let is_next = page.changes.last().is_some_and(|last: &Change<R>| last.sequence != event.sequence);
            if page.changes.len() >= PAGE_CHANGES && is_next {
                page.fetched = event.sequence - 1;
                break;
            }
            if range.contains(&event.key) {
                let (key, row) = (event.key.clone(), event.row.clone().map(Row));
                page.changes.push(Change { sequence: event.sequence, key, row });
            }
        }
        Ok(page)
    }
}

impl<R: Record> Drop for Watch<R> {
    fn drop(&mut self) {
        let number = self.number;
        owner::tell(self.owner, move |owner| owner.watchers.borrow_mut().remove(number));
    }
}

impl<R: Record> fmt::Debug for Watch<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("table", &R::TABLE).field("sequence", &self.sequence).finish_non_exhaustive()
    }
}
