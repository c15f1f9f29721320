//! The catalogue: every table by number, with its name, its version and its fields; and transactions read with it.
//!
//! A catalogue stands in the log before the first transaction that needs it, and holds until the next one. Its bytes,
//! and those of a transaction, are drawn in `FORMAT.md`.

use crate::schema::types::Type;
use crate::schema::value::Value;
use crate::schema::wire::{Input, Output, Undecodable};

/// The form of catalogues that is written, and the only one that is read.
const FORM: u64 = 1;

/// What a field is for, apart from holding a value.
///
/// # Examples
///
/// ```
/// # use wo::db::stored::Catalogue;
/// #
/// # // As `FORMAT.md` draws it: form 1, one table; its number, name and version; one field; its
/// # // name, that it is the key, a `u8`; no last key.
/// # let bytes = [&[1, 1, 1, 6][..], b"cities", &[1, 1, 2], b"id", &[1, 1, 0]].concat();
/// # let catalogue = Catalogue::decode(&bytes).unwrap();
/// let role = catalogue.tables[0].columns[0].role;
/// assert!(role.key && !role.unique);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// It is the key, or a part of it.
    pub key: bool,
    /// Keys are made for rows that have none.
    pub automatic: bool,
    /// No two rows have the same value.
    pub unique: bool,
    /// Rows are found by it.
    pub index: bool,
}

/// A field of a table.
///
/// # Examples
///
/// ```
/// # use wo::db::stored::Catalogue;
/// #
/// # // As `FORMAT.md` draws it: form 1, one table; its number, name and version; one field; its
/// # // name, that it is the key, a `u8`; no last key.
/// # let bytes = [&[1, 1, 1, 6][..], b"cities", &[1, 1, 2], b"id", &[1, 1, 0]].concat();
/// # let catalogue = Catalogue::decode(&bytes).unwrap();
/// use wo::db::stored::Type;
///
/// let id = &catalogue.tables[0].columns[0];
/// assert_eq!((id.name.as_str(), &id.ty), ("id", &Type::U8));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// What it is for.
    pub role: Role,
}

/// A table as it is stored.
///
/// # Examples
///
/// ```
/// # use wo::db::stored::Catalogue;
/// #
/// # // As `FORMAT.md` draws it: form 1, one table; its number, name and version; one field; its
/// # // name, that it is the key, a `u8`; no last key.
/// # let bytes = [&[1, 1, 1, 6][..], b"cities", &[1, 1, 2], b"id", &[1, 1, 0]].concat();
/// # let catalogue = Catalogue::decode(&bytes).unwrap();
/// let cities = &catalogue.tables[0];
/// assert_eq!((cities.table.as_str(), cities.version, cities.columns.len()), ("cities", 1, 1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Its number in transactions.
    pub number: u32,
    /// Its name.
    pub table: String,
    /// The version of its record.
    pub version: u32,
    /// Its fields, in the order rows have them.
    pub columns: Vec<Column>,
    /// The bytes of the last automatic key that was given; none when there was none.
    pub last_key: Option<Vec<u8>>,
}

/// Every table of a database.
///
/// # Examples
///
/// ```
/// use wo::db::stored::Catalogue;
///
/// // As `FORMAT.md` draws it: form 1, one table; its number, name and version; one field; its
/// // name, that it is the key, a `u8`; no last key.
/// let bytes = [&[1, 1, 1, 6][..], b"cities", &[1, 1, 2], b"id", &[1, 1, 0]].concat();
/// let catalogue = Catalogue::decode(&bytes).unwrap();
/// assert_eq!(catalogue.tables[0].table, "cities");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// The tables, by rising number.
    pub tables: Vec<Schema>,
}

/// One step of a transaction, as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    /// This row is there.
    Put(&'a [u8]),
    /// No row has this key.
    Delete(&'a [u8]),
    /// No row is there.
    Clear,
}

/// One step of a transaction, as tools show it.
///
/// # Examples
///
/// ```
/// # use wo::db::stored::Catalogue;
/// #
/// # // As `FORMAT.md` draws it: form 1, one table; its number, name and version; one field; its
/// # // name, that it is the key, a `u8`; no last key.
/// # let bytes = [&[1, 1, 1, 6][..], b"cities", &[1, 1, 2], b"id", &[1, 1, 0]].concat();
/// # let catalogue = Catalogue::decode(&bytes).unwrap();
/// use wo::db::stored::Change;
///
/// // Table 1, kind 1: a deletion; its key of one byte.
/// let changes = catalogue.changes(&[1, 1, 1, 7]).unwrap();
/// assert!(matches!(&changes[0].1, Change::Delete(key) if key.to_json() == "7"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// This row is there.
    Put(Value),
    /// No row has this key; the parts of a composite one are a list.
    Delete(Value),
    /// No row is there.
    Clear,
}

const PUT: u8 = 0;
const DELETE: u8 = 1;
const CLEAR: u8 = 2;

impl Step<'_> {
    /// Writes it behind the steps that are there.
    pub(crate) fn encode(self, number: u32, output: &mut Output) {
        output.unsigned(number.into());
        match self {
            Step::Put(row) => {
                output.byte(PUT);
                output.sized(row);
            }
            Step::Delete(key) => {
                output.byte(DELETE);
                output.sized(key);
            }
            Step::Clear => output.byte(CLEAR),
        }
    }
}

/// Reads the steps of a transaction, each with the number of its table.
pub(crate) fn steps(body: &[u8]) -> impl Iterator<Item = Result<(u32, Step<'_>), Undecodable>> {
    let mut input = Input::new(body);
    let mut failed = false;
    std::iter::from_fn(move || {
        if failed || input.is_empty() {
            return None;
        }
        let step = step(&mut input);
        failed = step.is_err();
        Some(step)
    })
}

fn step<'a>(input: &mut Input<'a>) -> Result<(u32, Step<'a>), Undecodable> {
    let number = input.unsigned()?;
    let number = u32::try_from(number).map_err(|_| Undecodable::new(format!("a table of number {number}")))?;
    let step = match input.byte()? {
        PUT => Step::Put(input.sized()?),
        DELETE => Step::Delete(input.sized()?),
        CLEAR => Step::Clear,
        other => return Err(Undecodable::new(format!("a step of kind {other}, which is unknown"))),
    };
    Ok((number, step))
}

impl Catalogue {
    /// Its bytes.
    ///
    /// # Errors
    ///
    /// A type that is nested too deep to be read back.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, &'static str> {
        let mut output = Output::default();
        output.unsigned(FORM);
        output.count(self.tables.len());
        for table in &self.tables {
            output.unsigned(table.number.into());
            output.sized(table.table.as_bytes());
            output.unsigned(table.version.into());
            output.count(table.columns.len());
            for column in &table.columns {
                let Role { key, automatic, unique, index } = column.role;
                output.sized(column.name.as_bytes());
                output.byte(u8::from(key) | u8::from(automatic) << 1 | u8::from(unique) << 2 | u8::from(index) << 3);
                column.ty.encode(&mut output);
            }
            match &table.last_key {
                None => output.byte(0),
                Some(key) => {
                    output.byte(1);
                    output.sized(key);
                }
            }
        }
        output.finish().map_err(|(_, why)| why)
    }

    /// Reads it.
    ///
    /// # Errors
    ///
    /// Bytes that are no catalogue, or one of a later form.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::db::stored::Catalogue;
    ///
    /// // As `FORMAT.md` draws it: form 1, one table; its number, name and version; one field; its
    /// // name, that it is the key, a `u8`; no last key.
    /// let bytes = [&[1, 1, 1, 6][..], b"cities", &[1, 1, 2], b"id", &[1, 1, 0]].concat();
    /// let catalogue = Catalogue::decode(&bytes).unwrap();
    /// assert_eq!(catalogue.tables.len(), 1);
    /// assert!(Catalogue::decode(&bytes[1..]).is_err());
    /// ```
    pub fn decode(bytes: &[u8]) -> Result<Catalogue, Undecodable> {
        let mut input = Input::new(bytes);
        let form = input.unsigned()?;
        if form != FORM {
            return Err(Undecodable::new(format!("a catalogue of form {form}; this version reads form {FORM}")));
        }
        let count = input.count()?;
        let tables = (0..count).map(|_| schema(&mut input)).collect::<Result<Vec<_>, _>>()?;
        input.end()?;
        if !tables.is_sorted_by(|one, next| one.number < next.number) {
            return Err(Undecodable::new("tables whose numbers do not rise"));
        }
        Ok(Catalogue { tables })
    }

    /// The table of this number.
    ///
    /// # Examples
    ///
    /// ```
    /// # use wo::db::stored::Catalogue;
    /// #
    /// # // As `FORMAT.md` draws it: form 1, one table; its number, name and version; one field; its
    /// # // name, that it is the key, a `u8`; no last key.
    /// # let bytes = [&[1, 1, 1, 6][..], b"cities", &[1, 1, 2], b"id", &[1, 1, 0]].concat();
    /// # let catalogue = Catalogue::decode(&bytes).unwrap();
    /// assert_eq!(catalogue.table(1).map(|table| table.table.as_str()), Some("cities"));
    /// assert!(catalogue.table(2).is_none());
    /// ```
    pub fn table(&self, number: u32) -> Option<&Schema> {
        self.tables.binary_search_by_key(&number, |table| table.number).ok().map(|at| &self.tables[at])
    }

    /// Reads a transaction: what happened to which table, in order.
    ///
    /// # Errors
    ///
    /// Bytes that are no transaction of these tables.
    ///
    /// # Examples
    ///
    /// ```
    /// # use wo::db::stored::Catalogue;
    /// #
    /// # // As `FORMAT.md` draws it: form 1, one table; its number, name and version; one field; its
    /// # // name, that it is the key, a `u8`; no last key.
    /// # let bytes = [&[1, 1, 1, 6][..], b"cities", &[1, 1, 2], b"id", &[1, 1, 0]].concat();
    /// # let catalogue = Catalogue::decode(&bytes).unwrap();
    /// // Table 1, kind 0: a row of one byte is there.
    /// let changes = catalogue.changes(&[1, 0, 1, 7]).unwrap();
    /// assert_eq!(changes[0].0.table, "cities");
    /// ```
    pub fn changes(&self, body: &[u8]) -> Result<Vec<(&Schema, Change)>, Undecodable> {
        let change = |step: Result<(u32, Step<'_>), Undecodable>| {
            let (number, step) = step?;
            let table = self.table(number).ok_or_else(|| {
                Undecodable::new(format!("a step for table number {number}, which the catalogue does not have"))
            })?;
            let change = match step {
                Step::Put(row) => Change::Put(table.row(row)?),
                Step::Delete(key) => Change::Delete(table.key(key)?),
                Step::Clear => Change::Clear,
            };
            Ok((table, change))
        };
        steps(body).map(change).collect()
    }
}

impl Schema {
    /// Reads a row.
    ///
    /// # Errors
    ///
    /// Bytes that are no row of this table.
    ///
    /// # Examples
    ///
    /// ```
    /// # use wo::db::stored::Catalogue;
    /// #
    /// # // As `FORMAT.md` draws it: form 1, one table; its number, name and version; one field; its
    /// # // name, that it is the key, a `u8`; no last key.
    /// # let bytes = [&[1, 1, 1, 6][..], b"cities", &[1, 1, 2], b"id", &[1, 1, 0]].concat();
    /// # let catalogue = Catalogue::decode(&bytes).unwrap();
    /// assert_eq!(catalogue.tables[0].row(&[7]).unwrap().to_json(), r#"{"id":7}"#);
    /// assert!(catalogue.tables[0].row(&[7, 8]).is_err());
    /// ```
    pub fn row(&self, bytes: &[u8]) -> Result<Value, Undecodable> {
        let mut input = Input::new(bytes);
        let value = |column: &Column| {
            let value = Value::decode(&column.ty, &mut input).map_err(|error| error.within(&column.name))?;
            Ok((column.name.clone(), value))
        };
        let fields = self.columns.iter().map(value).collect::<Result<_, Undecodable>>()?;
        input.end()?;
        Ok(Value::Fields(fields))
    }

    /// Reads a key.
    ///
    /// # Errors
    ///
    /// Bytes that are no key of this table.
    ///
    /// # Examples
    ///
    /// ```
    /// # use wo::db::stored::Catalogue;
    /// #
    /// # // As `FORMAT.md` draws it: form 1, one table; its number, name and version; one field; its
    /// # // name, that it is the key, a `u8`; no last key.
    /// # let bytes = [&[1, 1, 1, 6][..], b"cities", &[1, 1, 2], b"id", &[1, 1, 0]].concat();
    /// # let catalogue = Catalogue::decode(&bytes).unwrap();
    /// assert_eq!(catalogue.tables[0].key(&[7]).unwrap().to_json(), "7");
    /// ```
    pub fn key(&self, bytes: &[u8]) -> Result<Value, Undecodable> {
        let mut input = Input::new(bytes);
        let mut values = Vec::new();
        for column in self.columns.iter().filter(|column| column.role.key) {
            values.push(Value::decode(&column.ty, &mut input).map_err(|error| error.within(&column.name))?);
        }
        input.end()?;
        Ok(if values.len() == 1 { values.remove(0) } else { Value::List(values) })
    }
}

fn schema(input: &mut Input<'_>) -> Result<Schema, Undecodable> {
    let small = |input: &mut Input<'_>, what: &str| {
        let number = input.unsigned()?;
        u32::try_from(number).map_err(|_| Undecodable::new(format!("{what} {number}, which is too large")))
    };
    let number = small(input, "a table's number")?;
    let table = input.text()?.to_owned();
    let version = small(input, "a table's version")?;
    let count = input.count()?;
    let mut columns = Vec::new();
    for _ in 0..count {
        let name = input.text()?.to_owned();
        let bits = input.byte()?;
        let role = Role { key: bits & 1 != 0, automatic: bits & 2 != 0, unique: bits & 4 != 0, index: bits & 8 != 0 };
        columns.push(Column { name, ty: Type::decode(input)?, role });
    }
    let last_key = match input.byte()? {
        0 => None,
        _ => Some(input.sized()?.to_vec()),
    };
    Ok(Schema { number, table, version, columns, last_key })
}
