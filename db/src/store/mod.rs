//! All tables in memory, and the sequences they have reached. Only the owner's thread ever touches them.

pub mod history;
pub mod index;
pub mod load;
pub mod table;

use std::any::{Any, TypeId};

use crate::error::{Error, ErrorKind, Result};
use crate::record::Record;
use crate::schema::catalogue::{Catalogue, Step, steps};
use crate::schema::wire::{Output, Undecodable};
use crate::store::table::{AnyTable, Contents};

/// The tables, in the order the program declared them.
pub(crate) struct Store {
    tables: Vec<(TypeId, Box<dyn AnyTable>)>,
    /// Tables that are stored and that the program gives up, by name.
    dropped: Vec<String>,
    /// While loading: the place of each table number of the catalogue in force; none for dropped ones.
    numbered: Vec<(u32, Option<usize>)>,
    /// The catalogue in force, without last keys: those follow from the rows behind it.
    catalogue: Option<Catalogue>,
    /// The newest transaction, and the newest that is certain.
    pub(crate) last: u64,
    pub(crate) durable: u64,
    /// The longest step there may be.
    pub(crate) step_bytes_max: usize,
    /// While loading: the table whose rows are being made, by functions of the program's too.
    pub(crate) loading: Option<&'static str>,
}

impl Store {
    pub(crate) fn new(dropped: Vec<String>, step_bytes_max: usize) -> Store {
        let (tables, numbered) = (Vec::new(), Vec::new());
        Store { tables, dropped, numbered, catalogue: None, last: 0, durable: 0, step_bytes_max, loading: None }
    }

    /// Adds a table.
    ///
    /// # Errors
    ///
    /// Its name is taken.
    pub(crate) fn declare<R: Record>(&mut self, history: usize) -> Result<()> {
        if self.tables.iter().any(|(_, table)| table.name() == R::TABLE) {
            return Err(Error::new(ErrorKind::Schema, "two records have this table's name, or one is declared twice")
                .in_table(R::TABLE)
                .remedy("give one of them another with `#[record(table = \"..\")]`"));
        }
        self.tables.push((TypeId::of::<R>(), Box::new(Contents::<R>::new(history))));
        Ok(())
    }

    /// The place of a record's table.
    pub(crate) fn place<R: Record>(&self) -> Option<usize> {
        let id = TypeId::of::<R>();
        self.tables.iter().position(|(other, _)| *other == id)
    }

    /// The table at this place, if it is an `R`'s.
    #[inline]
    pub(crate) fn table<R: Record>(&self, place: usize) -> Result<&Contents<R>> {
        let table = self.tables.get(place).and_then(|(_, table)| table.as_any().downcast_ref());
        table.ok_or_else(Store::undeclared::<R>)
    }

    #[inline]
    pub(crate) fn table_mut<R: Record>(&mut self, place: usize) -> Result<&mut Contents<R>> {
        let table = self.tables.get_mut(place).and_then(|(_, table)| table.as_any_mut().downcast_mut());
        table.ok_or_else(Store::undeclared::<R>)
    }

    pub(crate) fn undeclared<R: Record>() -> Error {
        Error::new(ErrorKind::UnknownTable, "the database was opened without this table")
            .in_table(R::TABLE)
            .remedy("name its record when opening: `Db::builder().table::<..>()`")
    }

    /// Each table.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &dyn AnyTable> {
        self.tables.iter().map(|(_, table)| table.as_ref())
    }

    /// What follows was written with this catalogue.
    pub(crate) fn load_catalogue(&mut self, bytes: &[u8]) -> Result<()> {
        let stored = Catalogue::decode(bytes).map_err(|error| undecodable("the catalogue", &error))?;
        self.numbered.clear();
        for schema in &stored.tables {
            let place = self.tables.iter().position(|(_, table)| table.name() == schema.table);
            match place {
                Some(place) => self.tables[place].1.read_as(schema)?,
                None if self.dropped.contains(&schema.table) => {}
                None => {
                    return Err(Error::new(ErrorKind::Schema, "it is stored, and not declared")
                        .in_table(schema.table.clone())
                        .remedy("declare its record when opening, or give its rows up with `drop_table`"));
                }
            }
            self.numbered.push((schema.number, place));
        }
        self.catalogue = Some(without_last_keys(stored));
        Ok(())
    }

    /// Takes a stored transaction in.
    pub(crate) fn load_transaction(&mut self, sequence: u64, body: &[u8]) -> Result<()> {
        for step in steps(body) {
            let (number, step): (u32, Step<'_>) = step.map_err(|error| undecodable("a transaction", &error))?;
            let at = self.numbered.binary_search_by_key(&number, |(number, _)| *number).map_err(|_| {
                Error::new(
                    ErrorKind::Undecodable,
                    format!("transaction {sequence} has a step for table number {number}, which no catalogue names"),
                )
            })?;
            if let (_, Some(place)) = self.numbered[at] {
                let table = &mut self.tables[place].1;
                self.loading = Some(table.name());
                table.load(sequence, step)?;
            }
        }
        self.last = self.last.max(sequence);
        Ok(())
    }

    pub(crate) fn loaded_snapshot(&mut self, as_of: u64) {
        self.tables.iter_mut().for_each(|(_, table)| table.loaded_snapshot(as_of));
        self.last = self.last.max(as_of);
    }

    /// Everything is loaded; answers whether the catalogue is to be written, because the stored one is another, and
    /// whether there was one.
    pub(crate) fn finish_loading(&mut self) -> Result<Loaded> {
        self.durable = self.last;
        let mut next = self.numbered.last().map_or(1, |(number, _)| number + 1);
        for (_, table) in &mut self.tables {
            self.loading = Some(table.name());
            table.finish_loading()?;
            if table.number() == 0 {
                table.set_number(next);
                next += 1;
            }
        }
        self.numbered.clear();
        let stored = self.catalogue.take();
        let is_same = stored.as_ref() == Some(&without_last_keys(self.described()));
        Ok(Loaded { is_same, is_new: stored.is_none() })
    }

    fn described(&self) -> Catalogue {
        let mut tables: Vec<_> = self.tables().map(AnyTable::schema).collect();
        tables.sort_by_key(|table| table.number);
        Catalogue { tables }
    }

    /// The catalogue of these tables.
    pub(crate) fn catalogue(&self) -> Result<Vec<u8>> {
        self.described().encode().map_err(|why| {
            Error::new(ErrorKind::Schema, format!("the catalogue could not be read back: {why}"))
                .remedy("a field's type is too deep: give its parts names with `#[derive(wo::Field)]`")
        })
    }

    /// Undoes every transaction from this sequence on, which leaves none behind the one before.
    pub(crate) fn rollback(&mut self, from: u64) {
        self.last = self.last.min(from.saturating_sub(1));
        self.tables.iter_mut().for_each(|(_, table)| table.rollback(from, self.last));
    }

    /// Every transaction up to this sequence is certain.
    pub(crate) fn settle(&mut self, durable: u64) {
        self.durable = durable;
        self.tables.iter_mut().for_each(|(_, table)| table.settle(durable));
    }

    /// Writes the next page of a snapshot; false when there are no more.
    pub(crate) fn dump(&self, cursor: &mut Cursor, output: &mut Output, bytes: usize) -> bool {
        while let Some((_, table)) = self.tables.get(cursor.table) {
            if table.dump(&mut cursor.after, output, bytes) {
                return true;
            }
            cursor.table += 1;
            cursor.after = None;
        }
        output.len() > 0
    }
}

/// What loading found of a catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loaded {
    /// The stored one is the program's.
    pub(crate) is_same: bool,
    /// None was stored.
    pub(crate) is_new: bool,
}

fn without_last_keys(mut catalogue: Catalogue) -> Catalogue {
    catalogue.tables.iter_mut().for_each(|table| table.last_key = None);
    catalogue
}

/// How far a snapshot has come.
#[derive(Default)]
pub(crate) struct Cursor {
    table: usize,
    after: Option<Box<dyn Any>>,
}

fn undecodable(what: &str, error: &Undecodable) -> Error {
    Error::new(ErrorKind::Undecodable, format!("{what} cannot be read: {error}"))
        .remedy("its bytes are whole: it was written by another version of this library")
}
