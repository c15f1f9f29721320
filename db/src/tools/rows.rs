//! The rows of a data directory as bytes, by the catalogue that stands in it.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::log::Replay;
use crate::log::error::Undecodable as Refused;
use crate::schema::catalogue::{Catalogue, Schema, Step, steps};
use crate::schema::value::Value;
use crate::schema::wire::{Input, Undecodable};

/// A row and the catalogue it was written under.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) catalogue: Rc<Catalogue>,
    pub(crate) bytes: Box<[u8]>,
}

/// Every row, by the number of its table and the bytes of its key.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// The catalogue in force.
    pub(crate) catalogue: Option<Rc<Catalogue>>,
    pub(crate) tables: BTreeMap<u32, BTreeMap<Box<[u8]>, Stored>>,
    /// The largest key there ever was, of tables that make keys.
    pub(crate) last_keys: BTreeMap<u32, (Value, Box<[u8]>)>,
    /// Tables have changed, so rows of several forms may be here.
    pub(crate) has_changed: bool,
}

/// What the log calls these bytes.
pub(crate) fn undecodable(error: &Undecodable, table: Option<&str>) -> Refused {
    let mut told = Refused::new(error.what());
    if let Some(table) = table {
        told = told.in_table(table);
    }
    if let Some(field) = error.field() {
        told = told.in_field(field);
    }
    told
}

/// Reads a catalogue.
pub(crate) fn read_catalogue(bytes: &[u8]) -> Result<Rc<Catalogue>, Refused> {
    Catalogue::decode(bytes).map(Rc::new).map_err(|error| undecodable(&error, None))
}

/// The table a step is about.
pub(crate) fn table_of(catalogue: &Catalogue, number: u32) -> Result<&Schema, Refused> {
    catalogue.table(number).ok_or_else(|| {
        let what = format!("a step for table number {number}, which the catalogue does not have");
        Refused::new(what)
    })
}

/// The catalogue, which must have come before the first transaction.
pub(crate) fn known(catalogue: Option<&Rc<Catalogue>>) -> Result<Rc<Catalogue>, Refused> {
    let missing = || Refused::new("a transaction before any catalogue");
    catalogue.map(Rc::clone).ok_or_else(missing)
}

/// The bytes of a row's key: those of its key fields, one behind the other.
fn key_of(table: &Schema, row: &[u8]) -> Result<Box<[u8]>, Undecodable> {
    let mut input = Input::new(row);
    let mut key = Vec::new();
    for column in &table.columns {
        let before = input.rest();
        Value::decode(&column.ty, &mut input).map_err(|error| error.within(&column.name))?;
        if column.role.key {
            key.extend_from_slice(&before[..before.len() - input.rest().len()]);
        }
    }
    input.end()?;
    Ok(key.into())
}

impl Rows {
    fn note_key(&mut self, table: &Schema, key: &[u8]) -> Result<(), Undecodable> {
        if table.columns.iter().any(|column| column.role.automatic) {
            let value = table.key(key)?;
            let last = self.last_keys.get(&table.number);
            if last.is_none_or(|(last, _)| compare(last, &value) == Ordering::Less) {
                self.last_keys.insert(table.number, (value, key.into()));
            }
        }
        Ok(())
    }

    /// The number of rows.
    pub(crate) fn count(&self) -> u64 {
        self.tables.values().map(|rows| rows.len() as u64).sum()
    }
}

impl Replay for Rows {
    fn catalogue(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        let next = read_catalogue(bytes)?;
        if let Some(before) = &self.catalogue {
            self.has_changed |= !same_tables(before, &next);
        }
        for table in &next.tables {
            if let Some(key) = &table.last_key {
                self.note_key(table, key).map_err(|error| undecodable(&error, Some(&table.table)))?;
            }
        }
        self.catalogue = Some(next);
        Ok(())
    }

    fn snapshot_end(&mut self, _as_of: u64) -> Result<(), Refused> {
        Ok(())
    }

    fn transaction(&mut self, _sequence: u64, body: &[u8]) -> Result<(), Refused> {
        let catalogue = known(self.catalogue.as_ref())?;
        for step in steps(body) {
            let (number, step) = step.map_err(|error| undecodable(&error, None))?;
            let table = table_of(&catalogue, number)?;
            let refused = |error: Undecodable| undecodable(&error, Some(&table.table));
            match step {
                Step::Put(row) => {
                    let key = key_of(table, row).map_err(refused)?;
                    self.note_key(table, &key).map_err(refused)?;
                    let stored = Stored { catalogue: Rc::clone(&catalogue), bytes: row.into() };
                    self.tables.entry(number).or_default().insert(key, stored);
                }
                Step::Delete(key) => {
                    table.key(key).map_err(refused)?;
                    if let Some(rows) = self.tables.get_mut(&number) {
                        rows.remove(key);
                    }
                }
                Step::Clear => drop(self.tables.remove(&number)),
            }
        }
        Ok(())
    }
}

/// Whether two catalogues describe the same tables, whatever keys were given last.
fn same_tables(one: &Catalogue, other: &Catalogue) -> bool {
    let plain = |table: &Schema| Schema { last_key: None, ..table.clone() };
    one.tables.iter().map(plain).eq(other.tables.iter().map(plain))
}

/// An order of values of one type: numbers by size, text by its bytes, the rest as far as it goes.
pub(crate) fn compare(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        (Value::Unsigned(one), Value::Unsigned(other)) => one.cmp(other),
        (Value::Signed(one), Value::Signed(other)) => one.cmp(other),
        (Value::Float(one), Value::Float(other)) => one.total_cmp(other),
        (Value::Text(one), Value::Text(other)) => one.cmp(other),
        (Value::Bytes(one), Value::Bytes(other)) => one.cmp(other),
        (Value::Absent, Value::Absent) => Ordering::Equal,
        (Value::Absent, _) => Ordering::Less,
        (_, Value::Absent) => Ordering::Greater,
        (Value::List(one), Value::List(other)) => {
            let parts = one.iter().zip(other).map(|(one, other)| compare(one, other));
            parts.fold(Ordering::Equal, Ordering::then).then(one.len().cmp(&other.len()))
        }
        (Value::Fields(one), Value::Fields(other)) => {
            let parts = one.iter().zip(other).map(|((_, one), (_, other))| compare(one, other));
            parts.fold(Ordering::Equal, Ordering::then)
        }
        (Value::Variant(one, fields), Value::Variant(other, others)) => one.cmp(other).then_with(|| {
            let parts = fields.iter().zip(others).map(|((_, one), (_, other))| compare(one, other));
            parts.fold(Ordering::Equal, Ordering::then)
        }),
        _ => Ordering::Equal,
    }
}
