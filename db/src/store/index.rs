//! Indexes: which keys the rows with a value have.
//!
//! An index belongs to its table and follows every change of it, so it never says anything else than the rows. A unique
//! one maps a value to the one key; a plain one is a sorted set of value and key. What stands for no value, `None`, is
//! in no unique index.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Bound;

use crate::record::{Key, Record};
use crate::row::Stored;

/// A field that rows are found by: the constant of that name that `#[index]` gives a record.
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
/// // The derive makes one for each field with `#[index]`, in capitals.
/// assert_eq!(accounts.by(Account::CITY, "Oslo").count()?, 1);
/// # Ok(())
/// # }
/// ```
pub struct Index<R, V> {
    at: usize,
    of: PhantomData<fn(&R) -> V>,
}

/// A field of which no two rows have the same value: the constant of that name that `#[unique]` gives a record.
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
/// // The derive makes one for each field with `#[unique]`, in capitals.
/// assert!(accounts.find(Account::EMAIL, "1@example.org")?.is_some());
/// # Ok(())
/// # }
/// ```
pub struct Unique<R, V> {
    at: usize,
    of: PhantomData<fn(&R) -> V>,
}

macro_rules! marker {
    ($name:ident) => {
        impl<R, V> $name<R, V> {
            /// The index at this place.
            #[doc(hidden)]
            pub const fn at(at: usize) -> $name<R, V> {
                $name { at, of: PhantomData }
            }
        }

        impl<R, V> Clone for $name<R, V> {
            fn clone(&self) -> $name<R, V> {
                *self
            }
        }

        impl<R, V> Copy for $name<R, V> {}

        impl<R, V> fmt::Debug for $name<R, V> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.at).finish()
            }
        }

        impl<R: Record, V: Key> Indexed<R> for $name<R, V> {
            type Value = V;

            fn place(&self) -> usize {
                self.at
            }
        }
    };
}

marker!(Index);
marker!(Unique);

/// An index of a record, unique or not: what queries by a field take.
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
/// use wo::db::{Indexed, Table};
///
/// /// How many rows there are of each of these values, whatever the index.
/// #[wo::fiber]
/// fn counts<I>(accounts: Table<Account>, index: I, values: Vec<I::Value>) -> wo::db::Result<Vec<usize>>
/// where
///     I: Indexed<Account>,
/// {
///     let mut counts = Vec::new();
///     for value in values {
///         counts.push(accounts.by(index, &value).count()?);
///     }
///     Ok(counts)
/// }
///
/// accounts.insert(account(1))?;
/// assert_eq!(counts(accounts, Account::CITY, vec!["Oslo".to_owned(), "Rome".to_owned()])?, [1, 0]);
/// # Ok(())
/// # }
/// ```
pub trait Indexed<R: Record>: Copy + Send + Sync + 'static {
    /// What the field holds.
    type Value: Key;

    /// Its place among the record's indexes.
    #[doc(hidden)]
    fn place(&self) -> usize;
}

/// The keys of two rows that have the same value where they may not.
#[doc(hidden)]
pub type Pair<R> = Box<(<R as Record>::Key, <R as Record>::Key)>;

/// An index whose values' type is not known.
#[doc(hidden)]
pub trait AnyIndex<R: Record> {
    /// The field it is of.
    fn field(&self) -> &'static str;

    /// The key of another row with this row's value, when there may be none.
    fn conflict(&self, row: &R, key: &R::Key) -> Option<&R::Key>;

    /// A row is there.
    fn add(&mut self, row: &R, key: &R::Key);

    /// A row has gone. It may not have been there.
    fn remove(&mut self, row: &R, key: &R::Key);

    /// A row has another in its place.
    fn replace(&mut self, old: &R, new: &R, key: &R::Key);

    /// No row is there.
    fn clear(&mut self);

    /// These rows are there; otherwise two keys whose rows have the same value where they may not.
    fn fill(&mut self, rows: &mut dyn Iterator<Item = (&R::Key, &R)>) -> Result<(), Pair<R>>;

    /// Whether it says what these rows say.
    fn agrees(&self, rows: &mut dyn Iterator<Item = (&R::Key, &R)>) -> bool;

    /// With its type.
    fn as_any(&self) -> &dyn Any;
}

/// Where a key stands among those of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Edge<K> {
    Before,
    At(K),
    After,
}

/// Sorted sets of values and keys that can be walked both ways.
pub(crate) trait Walk<R: Record, V> {
    /// The keys of the values in this range, by value, then by key.
    fn keys<'a>(&'a self, range: (Bound<&V>, Bound<&V>)) -> Box<dyn DoubleEndedIterator<Item = &'a R::Key> + 'a>;
}

#[doc(hidden)]
pub struct UniqueIndex<R: Record, V> {
    field: &'static str,
    of: fn(&R) -> &V,
    entries: BTreeMap<V, R::Key>,
}

#[doc(hidden)]
pub struct PlainIndex<R: Record, V> {
    field: &'static str,
    of: fn(&R) -> &V,
    entries: BTreeSet<(V, Edge<R::Key>)>,
}

/// An empty unique index. For the macros.
#[doc(hidden)]
pub fn unique<R: Record, V: Key>(field: &'static str, of: fn(&R) -> &V) -> Box<dyn AnyIndex<R>> {
    Box::new(UniqueIndex { field, of, entries: BTreeMap::new() })
}

/// An empty plain index. For the macros.
#[doc(hidden)]
pub fn plain<R: Record, V: Key>(field: &'static str, of: fn(&R) -> &V) -> Box<dyn AnyIndex<R>> {
    Box::new(PlainIndex { field, of, entries: BTreeSet::new() })
}

impl<R: Record, V: Key> AnyIndex<R> for UniqueIndex<R, V> {
    fn field(&self) -> &'static str {
        self.field
    }

    fn conflict(&self, row: &R, key: &R::Key) -> Option<&R::Key> {
        let value = (self.of)(row);
        if value.is_absent() {
            return None;
        }
        self.entries.get(value).filter(|other| *other != key)
    }

    fn add(&mut self, row: &R, key: &R::Key) {
        let value = (self.of)(row);
        if !value.is_absent() {
            self.entries.insert(value.clone(), key.clone());
        }
    }

    fn remove(&mut self, row: &R, key: &R::Key) {
        let value = (self.of)(row);
        if self.entries.get(value).is_some_and(|holder| holder == key) {
            self.entries.remove(value);
        }
    }

    fn replace(&mut self, old: &R, new: &R, key: &R::Key) {
        if (self.of)(old) != (self.of)(new) {
            self.remove(old, key);
            self.add(new, key);
        }
    }

    fn clear(&mut self) {
        self.entries = BTreeMap::new();
    }

    fn fill(&mut self, rows: &mut dyn Iterator<Item = (&R::Key, &R)>) -> Result<(), Pair<R>> {
        let of = self.of;
        let mut all: Vec<(V, R::Key)> =
            rows.filter(|(_, row)| !of(row).is_absent()).map(|(key, row)| (of(row).clone(), key.clone())).collect();
        all.sort();
        if let Some(pair) = all.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Box::new((pair[0].1.clone(), pair[1].1.clone())));
        }
        self.entries = all.into_iter().collect();
        Ok(())
    }

    fn agrees(&self, rows: &mut dyn Iterator<Item = (&R::Key, &R)>) -> bool {
        let mut count = 0;
        let found = rows.filter(|(_, row)| !(self.of)(row).is_absent()).all(|(key, row)| {
            count += 1;
            self.entries.get((self.of)(row)) == Some(key)
        });
        found && count == self.entries.len()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<R: Record, V: Key> AnyIndex<R> for PlainIndex<R, V> {
    fn field(&self) -> &'static str {
        self.field
    }

    fn conflict(&self, _: &R, _: &R::Key) -> Option<&R::Key> {
        None
    }

    fn add(&mut self, row: &R, key: &R::Key) {
        self.entries.insert(((self.of)(row).clone(), Edge::At(key.clone())));
    }

    fn remove(&mut self, row: &R, key: &R::Key) {
        self.entries.remove(&((self.of)(row).clone(), Edge::At(key.clone())));
    }

    fn replace(&mut self, old: &R, new: &R, key: &R::Key) {
        if (self.of)(old) != (self.of)(new) {
            self.remove(old, key);
            self.add(new, key);
        }
    }

    fn clear(&mut self) {
        self.entries = BTreeSet::new();
    }

    fn fill(&mut self, rows: &mut dyn Iterator<Item = (&R::Key, &R)>) -> Result<(), Pair<R>> {
        self.entries = rows.map(|(key, row)| ((self.of)(row).clone(), Edge::At(key.clone()))).collect();
        Ok(())
    }

    fn agrees(&self, rows: &mut dyn Iterator<Item = (&R::Key, &R)>) -> bool {
        let mut count = 0;
        let mut rows = rows;
        let found = Iterator::all(&mut rows, |(key, row)| {
            count += 1;
            self.entries.contains(&((self.of)(row).clone(), Edge::At(key.clone())))
        });
        found && count == self.entries.len()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<R: Record, V: Key> Walk<R, V> for UniqueIndex<R, V> {
    fn keys<'a>(&'a self, range: (Bound<&V>, Bound<&V>)) -> Box<dyn DoubleEndedIterator<Item = &'a R::Key> + 'a> {
        Box::new(self.entries.range::<V, _>(range).map(|(_, key)| key))
    }
}

impl<R: Record, V: Key> Walk<R, V> for PlainIndex<R, V> {
    fn keys<'a>(&'a self, range: (Bound<&V>, Bound<&V>)) -> Box<dyn DoubleEndedIterator<Item = &'a R::Key> + 'a> {
        let from = match range.0 {
            Bound::Included(value) => Bound::Included((value.clone(), Edge::Before)),
            Bound::Excluded(value) => Bound::Excluded((value.clone(), Edge::After)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let to = match range.1 {
            Bound::Included(value) => Bound::Excluded((value.clone(), Edge::After)),
            Bound::Excluded(value) => Bound::Excluded((value.clone(), Edge::Before)),
            Bound::Unbounded => Bound::Unbounded,
        };
        Box::new(self.entries.range((from, to)).filter_map(|(_, edge)| match edge {
            Edge::At(key) => Some(key),
            Edge::Before | Edge::After => None,
        }))
    }
}

/// The index of that marker.
pub(crate) fn walk<R: Record, I: Indexed<R>>(
    indexes: &[Box<dyn AnyIndex<R>>],
    index: I,
) -> Option<&dyn Walk<R, I::Value>> {
    let any = indexes.get(index.place())?.as_any();
    if let Some(unique) = any.downcast_ref::<UniqueIndex<R, I::Value>>() {
        return Some(unique);
    }
    any.downcast_ref::<PlainIndex<R, I::Value>>().map(|plain| plain as &dyn Walk<R, I::Value>)
}

/// The rows of a table, for an index to look at.
pub(crate) fn rows_of<R: Record>(rows: &BTreeMap<R::Key, Stored<R>>) -> impl Iterator<Item = (&R::Key, &R)> {
    rows.iter().map(|(key, stored)| (key, &stored.record))
}
