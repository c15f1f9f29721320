//! Rows as readers get them: shared, and never changed.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A row of a table, as it was when it was read. It reads like the record it holds; clones share it, and it may be sent
/// to any shard.
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
///     cities.insert(City { name: "Oslo".to_owned(), people: 700_000 })?;
///     let oslo = cities.get("Oslo")?.expect("it was inserted");
///     assert_eq!(oslo.people, 700_000);
///     let City { name, .. } = oslo.into_record();
///     assert_eq!(name, "Oslo");
///     Ok(())
/// }
/// ```
pub struct Row<R>(pub(crate) Stored<R>);

/// A row in its table: the tables, the latest changes and every reader share it.
pub(crate) type Stored<R> = Arc<Held<R>>;

/// A record, and the transaction that wrote it. They lie together, so that an entry of a table's tree is one word.
pub(crate) struct Held<R> {
    pub(crate) sequence: u64,
    pub(crate) record: R,
}

impl<R> Row<R> {
    /// The record itself; a clone of it while the table or another reader shares it.
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
    /// let mut mine: Account = accounts.get(&1)?.expect("it was inserted").into_record();
    /// mine.balance = 0;
    /// assert_eq!(accounts.get(&1)?.map(|account| account.balance), Some(100));
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_record(self) -> R
    where
        R: Clone,
    {
        match Arc::try_unwrap(self.0) {
            Ok(held) => held.record,
            Err(shared) => shared.record.clone(),
        }
    }
}

impl<R> Deref for Row<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.0.record
    }
}

impl<R> AsRef<R> for Row<R> {
    fn as_ref(&self) -> &R {
        &self.0.record
    }
}

impl<R> Clone for Row<R> {
    fn clone(&self) -> Row<R> {
        Row(Arc::clone(&self.0))
    }
}

impl<R: fmt::Debug> fmt::Debug for Row<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.record.fmt(f)
    }
}

impl<R: PartialEq> PartialEq for Row<R> {
    fn eq(&self, other: &Row<R>) -> bool {
        self.0.record == other.0.record
    }
}

impl<R: PartialEq> PartialEq<R> for Row<R> {
    fn eq(&self, other: &R) -> bool {
        self.0.record == *other
    }
}

impl<R: Eq> Eq for Row<R> {}
