//! One table in memory: its rows by key, its indexes, what it takes to undo what is not certain yet, and its latest
//! changes.
//!
//! Every change names the sequence of its transaction and leaves what was there before in the undo list. Transactions
//! that do not come about, because their closure gave up or the disk did, are undone from the newest on; those that are
//! certain fall off the list's other end. A row carries the sequence that wrote it, so that whoever reads it knows
//! which acknowledgement to wait for.

use std::any::Any;
use std::borrow::Borrow;
use std::cell::Cell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::record::Record;
use crate::row::{Held, Stored};
use crate::schema::catalogue::{Schema, Step};
use crate::schema::evolve::{Plan, described};
use crate::schema::field::Field;
use crate::schema::wire::Output;
use crate::store::history::History;
use crate::store::index::{AnyIndex, rows_of};
use crate::store::load::Loading;

/// How a row is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// It must be new.
    Insert,
    /// It must be there.
    Update,
    /// Either.
    Upsert,
}

/// The newest transaction whose work a reader has seen, its own aside.
#[derive(Debug)]
pub(crate) struct Sight {
    newest: Cell<u64>,
    own: u64,
}

impl Sight {
    /// Of somebody who is no transaction.
    pub(crate) fn of_reader() -> Sight {
        Sight::of(u64::MAX)
    }

    /// Of the transaction of this sequence.
    pub(crate) fn of(own: u64) -> Sight {
        Sight { newest: Cell::new(0), own }
    }

    #[inline]
    pub(crate) fn see(&self, sequence: u64) {
        if sequence > self.newest.get() && sequence != self.own {
            self.newest.set(sequence);
        }
    }

    pub(crate) fn newest(&self) -> u64 {
        self.newest.get()
    }
}

enum Undo<R: Record> {
    Row { sequence: u64, key: R::Key, before: Option<Stored<R>> },
    Cleared { sequence: u64, rows: BTreeMap<R::Key, Stored<R>> },
}

impl<R: Record> Undo<R> {
    fn sequence(&self) -> u64 {
        match self {
            Undo::Row { sequence, .. } | Undo::Cleared { sequence, .. } => *sequence,
        }
    }
}

/// A table; see the module's text.
pub(crate) struct Contents<R: Record> {
    pub(crate) number: u32,
    pub(crate) rows: BTreeMap<R::Key, Stored<R>>,
    pub(crate) indexes: Vec<Box<dyn AnyIndex<R>>>,
    pub(crate) history: History<R>,
    pub(crate) loading: Loading<R>,
    undo: VecDeque<Undo<R>>,
    /// A change has begun and not ended: if it stays so, a comparison of the program's has panicked in it.
    is_changing: bool,
    last_key: Option<R::Key>,
    /// The newest transaction that changed anything, and the newest that took a row away.
    written: u64,
    erased: u64,
}

impl<R: Record> Contents<R> {
    pub(crate) fn new(history: usize) -> Contents<R> {
        Contents {
            number: 0,
            rows: BTreeMap::new(),
            indexes: R::indexes(),
            history: History::new(history),
            loading: Loading::default(),
            undo: VecDeque::new(),
            is_changing: false,
            last_key: None,
            written: 0,
            erased: 0,
        }
    }

    /// The row of this key.
    #[inline]
    pub(crate) fn get<Q>(&self, key: &Q, sight: &Sight) -> Option<&Stored<R>>
    where
        R::Key: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        match self.rows.get(key) {
            Some(stored) => {
                sight.see(stored.sequence);
                Some(stored)
            }
            None => {
                sight.see(self.erased);
                None
            }
        }
    }

    /// Whoever goes on has seen what the table says as a whole.
    pub(crate) fn see_all(&self, sight: &Sight) {
        sight.see(self.written);
    }

    /// Whoever goes on has seen that some rows are not there.
    pub(crate) fn see_gaps(&self, sight: &Sight) {
        sight.see(self.erased);
    }

    /// Gives the row a key if it wants one.
    pub(crate) fn assign_key(&mut self, row: &mut R) -> Result<()> {
        if row.assign_key(self.last_key.as_ref()) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::KeysExhausted, "there is no number behind the last automatic key")
            .in_table(R::TABLE)
            .remedy("take a wider type for the key"))
    }

    /// Puts a row, whose size in bytes is given, and answers the one it replaces. A refusal changes nothing.
    pub(crate) fn put(
        &mut self,
        how: Put,
        sequence: u64,
        key: R::Key,
        record: R,
        bytes: usize,
        sight: &Sight,
    ) -> Result<Option<Stored<R>>> {
        // One search for all of it: in a large table that is most of what a change costs.
        let entry = self.rows.entry(key.clone());
        let before = match (how, &entry) {
            (Put::Insert, Entry::Occupied(there)) => {
                sight.see(there.get().sequence);
                return Err(Error::new(
                    ErrorKind::DuplicateKey,
                    format!("there is a row with the key {key:?} already"),
                )
                .in_table(R::TABLE)
                .remedy("`update` replaces a row, `upsert` takes either"));
            }
            (Put::Update, Entry::Vacant(_)) => {
                sight.see(self.erased);
                return Err(self.not_found(&key));
            }
            (_, Entry::Occupied(there)) => Some(Arc::clone(there.get())),
            (_, Entry::Vacant(_)) => None,
        };
        for index in &self.indexes {
            if let Some(other) = index.conflict(&record, &key) {
                if let Some(there) = self.rows.get(other) {
                    sight.see(there.sequence);
                }
                return Err(Error::new(
                    ErrorKind::UniqueConflict,
                    format!("the row of key {key:?} would have the same value as that of key {other:?}"),
                )
                .in_table(R::TABLE)
                .in_field(index.field())
                .remedy("give it another value, or change the other row first"));
            }
        }
        self.undo.push_back(Undo::Row { sequence, key: key.clone(), before: before.clone() });
        self.is_changing = true;
        match &before {
            Some(before) => self.indexes.iter_mut().for_each(|index| index.replace(&before.record, &record, &key)),
            None => self.indexes.iter_mut().for_each(|index| index.add(&record, &key)),
        }
        let row = Arc::new(Held { sequence, record });
        match entry {
            Entry::Occupied(mut there) => drop(there.insert(Arc::clone(&row))),
            Entry::Vacant(place) => drop(place.insert(Arc::clone(&row))),
        }
        if R::AUTOMATIC && self.last_key.as_ref().is_none_or(|last| *last < key) {
            self.last_key = Some(key.clone());
        }
        self.history.push(sequence, key, Some(row), bytes);
        self.written = sequence;
        self.is_changing = false;
        Ok(before)
    }

    pub(crate) fn not_found<K: std::fmt::Debug + ?Sized>(&self, key: &K) -> Error {
        Error::new(ErrorKind::NotFound, format!("no row has the key {key:?}"))
            .in_table(R::TABLE)
            .remedy("`insert` makes a new row, `upsert` takes either")
    }

    /// Takes a row away, and answers it.
    pub(crate) fn delete(&mut self, sequence: u64, key: &R::Key, sight: &Sight) -> Option<Stored<R>> {
        let Some(stored) = self.rows.get(key).cloned() else {
            sight.see(self.erased);
            return None;
        };
        self.undo.push_back(Undo::Row { sequence, key: key.clone(), before: Some(stored.clone()) });
        self.is_changing = true;
        self.indexes.iter_mut().for_each(|index| index.remove(&stored.record, key));
        self.history.push(sequence, key.clone(), None, size_of::<R::Key>());
        self.written = sequence;
        self.erased = sequence;
        self.rows.remove(key);
        self.is_changing = false;
        Some(stored)
    }

    /// Takes every row away, and answers how many there were.
    pub(crate) fn clear(&mut self, sequence: u64) -> usize {
        for key in self.rows.keys() {
            self.history.push(sequence, key.clone(), None, size_of::<R::Key>());
        }
        let rows = std::mem::take(&mut self.rows);
        let count = rows.len();
        self.undo.push_back(Undo::Cleared { sequence, rows });
        self.indexes.iter_mut().for_each(|index| index.clear());
        self.written = sequence;
        self.erased = sequence;
        count
    }

    fn undo_one(&mut self, undo: Undo<R>) {
        match undo {
            Undo::Row { key, before, .. } => {
                if let Some(there) = self.rows.remove(&key) {
                    self.indexes.iter_mut().for_each(|index| index.remove(&there.record, &key));
                }
                if let Some(before) = before {
                    self.indexes.iter_mut().for_each(|index| index.add(&before.record, &key));
                    self.rows.insert(key, before);
                }
            }
            Undo::Cleared { rows, .. } => {
                self.rows = rows;
                self.index_anew();
            }
        }
    }

    fn index_anew(&mut self) {
        for index in &mut self.indexes {
            index.clear();
            for (key, stored) in &self.rows {
                index.add(&stored.record, key);
            }
        }
    }
}

/// A table whose rows' type is not known.
pub(crate) trait AnyTable {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Its number in transactions.
    fn number(&self) -> u32;

    /// Gives it that number.
    fn set_number(&mut self, number: u32);

    /// What the catalogue says of it.
    fn schema(&self) -> Schema;

    /// What follows was written with this catalogue entry; refused when no way leads from there to its record.
    fn read_as(&mut self, stored: &Schema) -> Result<()>;

    /// Takes in a step of a stored transaction.
    fn load(&mut self, sequence: u64, step: Step<'_>) -> Result<()>;

    /// What was loaded is the outcome of everything up to this sequence.
    fn loaded_snapshot(&mut self, as_of: u64);

    /// Everything is loaded: sorts the rows in, and builds the indexes.
    fn finish_loading(&mut self) -> Result<()>;

    /// Undoes every transaction from this sequence on; `before` is that of the last one before.
    fn rollback(&mut self, from: u64, before: u64);

    /// Every transaction up to this sequence is certain.
    fn settle(&mut self, durable: u64);

    /// Writes steps that put its rows, from the one after `after` on, until the output is about that long; false when
    /// there are no more.
    fn dump(&self, after: &mut Option<Box<dyn Any>>, output: &mut Output, bytes: usize) -> bool;

    /// How many rows it has.
    fn len(&self) -> usize;

    /// How many changes it keeps for watchers.
    fn changes_kept(&self) -> usize;

    /// Whether its indexes say what its rows say.
    fn is_consistent(&self) -> bool;

    fn as_any(&self) -> &dyn Any;

    fn as_any_mut(&mut self) -> &mut dyn Any;
}

impl<R: Record> AnyTable for Contents<R> {
    fn name(&self) -> &'static str {
        R::TABLE
    }

    fn number(&self) -> u32 {
        self.number
    }

    fn set_number(&mut self, number: u32) {
        self.number = number;
    }

    fn schema(&self) -> Schema {
        let columns = described::<R>();
        let is_automatic = columns.iter().any(|column| column.role.automatic);
        let last_key = self.last_key.as_ref().filter(|_| is_automatic).map(|key| {
            let mut output = Output::default();
            key.encode(&mut output);
            output.finish().unwrap_or_default()
        });
        Schema { number: self.number, table: R::TABLE.to_owned(), version: R::VERSION, columns, last_key }
    }

    fn read_as(&mut self, stored: &Schema) -> Result<()> {
        self.number = stored.number;
        let plan = Plan::between(stored)?;
        if let Some(last) = plan.last_key()?
            && self.last_key.as_ref().is_none_or(|known| *known < last)
        {
            self.last_key = Some(last);
        }
        self.loading.read_as(plan)
    }

    fn load(&mut self, sequence: u64, step: Step<'_>) -> Result<()> {
        self.loading.step(sequence, step, &mut self.history)
    }

    fn loaded_snapshot(&mut self, as_of: u64) {
        self.history.begin_at(as_of);
    }

    fn finish_loading(&mut self) -> Result<()> {
        let (rows, last_key) = std::mem::take(&mut self.loading).finish()?;
        self.rows = rows;
        self.last_key = self.last_key.take().max(last_key);
        for index in &mut self.indexes {
            index.fill(&mut rows_of(&self.rows)).map_err(|pair| {
                Error::new(
                    ErrorKind::UniqueConflict,
                    format!("the stored rows of keys {:?} and {:?} have the same value in it", pair.0, pair.1),
                )
                .in_table(R::TABLE)
                .in_field(index.field())
                .remedy("make the field `#[index]`, change one of the rows, then make it `#[unique]`")
            })?;
        }
        Ok(())
    }

    fn rollback(&mut self, from: u64, before: u64) {
        while self.undo.back().is_some_and(|undo| undo.sequence() >= from) {
            if let Some(undo) = self.undo.pop_back() {
                self.undo_one(undo);
            }
        }
        if std::mem::take(&mut self.is_changing) {
            self.index_anew();
        }
        self.history.rollback(from, before);
        self.written = self.written.min(before);
        self.erased = self.erased.min(before);
    }

    fn settle(&mut self, durable: u64) {
        while self.undo.front().is_some_and(|undo| undo.sequence() <= durable) {
            self.undo.pop_front();
        }
    }

    fn dump(&self, after: &mut Option<Box<dyn Any>>, output: &mut Output, bytes: usize) -> bool {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.as_ref().and_then(|key| key.downcast_ref::<R::Key>());
        let mut rows = self.rows.range((from.map_or(Unbounded, Excluded), Unbounded));
        let mut row = Vec::new();
        let mut last = None;
        while output.len() < bytes
            && let Some((key, stored)) = rows.next()
        {
            row.clear();
            let mut encoded = Output::over(row);
            stored.record.encode(&mut encoded);
            row = encoded.finish().unwrap_or_else(|(bytes, _)| bytes);
            Step::Put(&row).encode(self.number, output);
            last = Some(key);
        }
        if let Some(last) = last {
            *after = Some(Box::new(last.clone()));
        }
        rows.next().is_some()
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn changes_kept(&self) -> usize {
        self.history.len()
    }

    fn is_consistent(&self) -> bool {
        self.indexes.iter().all(|index| index.agrees(&mut rows_of(&self.rows)))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
