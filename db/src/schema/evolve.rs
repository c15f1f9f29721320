//! Rows of yesterday as records of today: what may change without a word, what with one, and what is refused.
//!
//! A table is known by its name, its rows' form by a version the program counts up. Within a version fields may only
//! change their places. From one version to a later one, fields may go; may come, with a default; may change their
//! names, saying the former one; anything else is an upgrade function's. Whatever is refused is refused before anything
//! is written.

use crate::error::{Error, ErrorKind, Result};
use crate::record::{ColumnOf, Record, Upgrade};
use crate::schema::catalogue::{Column, Schema};
use crate::schema::field::Field;
use crate::schema::types::{Naming, Type};
use crate::schema::wire::{Input, Undecodable};

/// How the rows of a stored table become records.
pub(crate) struct Plan<R> {
    stored: Schema,
    way: Way<R>,
    /// The stored key is not the record's: a row's old key says nothing about its new one.
    pub(crate) is_rekeyed: bool,
}

enum Way<R> {
    /// They are such records.
    Same,
    /// Their fields stand elsewhere: for each stored one, the record's, if it still has it.
    Assemble(Vec<Option<usize>>),
    /// A function of the program's makes them.
    Upgrade(Upgrade<R>),
}

/// A record's columns, described.
pub(crate) fn described<R: Record>() -> Vec<Column> {
    let describe = |column: &ColumnOf| Column {
        name: column.name.to_owned(),
        ty: (column.ty)(&mut Naming::default()),
        role: column.role,
    };
    R::columns().iter().map(describe).collect()
}

impl<R: Record> Plan<R> {
    /// Finds the way, or says why there is none.
    pub(crate) fn between(stored: &Schema) -> Result<Plan<R>> {
        let plan = |way, is_rekeyed| Ok(Plan { stored: stored.clone(), way, is_rekeyed });
        let refuse =
            |what: String, remedy: String| Err(Error::new(ErrorKind::Schema, what).in_table(R::TABLE).remedy(remedy));
        let versions = format!("stored in version {}, declared in version {}", stored.version, R::VERSION);
        if stored.version > R::VERSION {
            return Err(Error::new(ErrorKind::NewerVersion, versions)
                .in_table(R::TABLE)
                .remedy("open it with the newer program; an older one would lose what it does not know"));
        }
        let (declared, of) = (described::<R>(), R::columns());
        if let Some((_, upgrade)) = R::upgrades().into_iter().find(|(version, _)| *version == stored.version) {
            let is_rekeyed = !same_keys(&stored.columns, &declared, &of);
            return plan(Way::Upgrade(upgrade), is_rekeyed);
        }
        let bump = |why: String| {
            let next = stored.version + 1;
            if stored.version == R::VERSION {
                refuse(
                    format!("{why}, and both are version {}", R::VERSION),
                    format!("give the record `#[record(version = {next})]`"),
                )
            } else {
                refuse(
                    format!("{why}; {versions}"),
                    format!("give the record `#[record(upgrade({} = a_function))]`", stored.version),
                )
            }
        };
        let mut places = Vec::new();
        let mut found = vec![false; declared.len()];
        for column in &stored.columns {
            let place = place_of(column, &of);
            if let Some(place) = place {
                found[place] = true;
                let now = &declared[place];
                if !now.ty.is_same(&column.ty) {
                    return bump(change(column, now)).map_err(|error: Error| error.in_field(now.name.clone()));
                }
            } else if stored.version == R::VERSION {
                return bump(format!("the stored field `{}` is not declared", column.name))
                    .map_err(|error: Error| error.in_field(column.name.clone()));
            }
            places.push(place);
        }
        for (place, column) in of.iter().enumerate().filter(|(place, _)| !found[*place]) {
            let field = |error: Error| error.in_field(column.name);
            if stored.version == R::VERSION {
                return bump("it is declared and not stored".to_owned()).map_err(field);
            }
            if !column.has_default {
                return refuse(
                    format!("stored rows do not have it ({versions})"),
                    format!(
                        "give the field `#[default]` or `#[renamed(\"its former name\")]`, or the record an upgrade \
                         from {}",
                        stored.version
                    ),
                )
                .map_err(field);
            }
            let _ = place;
        }
        if !same_keys(&stored.columns, &declared, &of) {
            return bump("the key has other fields, or others first".to_owned());
        }
        let in_place =
            places.iter().enumerate().all(|(at, place)| *place == Some(at)) && places.len() == declared.len();
        plan(if in_place { Way::Same } else { Way::Assemble(places) }, false)
    }

    /// Reads a row.
    ///
    /// # Errors
    ///
    /// Bytes that are no row, or an upgrade function's refusal.
    pub(crate) fn row(&self, bytes: &[u8]) -> Result<R> {
        match &self.way {
            Way::Same => {
                let mut input = Input::new(bytes);
                let row = R::decode(&mut input).and_then(|row| input.end().map(|()| row));
                row.map_err(|error| self.undecodable(&error))
            }
            Way::Assemble(places) => {
                let slices = self.slices(bytes).map_err(|error| self.undecodable(&error))?;
                let mut parts = Parts { slices: vec![None; R::columns().len()] };
                for (place, slice) in places.iter().zip(slices) {
                    if let Some(place) = place {
                        parts.slices[*place] = Some(slice);
                    }
                }
                R::assemble(&mut parts).map_err(|error| self.undecodable(&error))
            }
            Way::Upgrade(upgrade) => {
                let slices = self.slices(bytes).map_err(|error| self.undecodable(&error))?;
                upgrade(&OldRow { schema: &self.stored, slices }).map_err(|error| match error.kind() {
                    ErrorKind::Undecodable | ErrorKind::Schema => error,
                    _ => Error::new(
                        ErrorKind::Schema,
                        format!("the upgrade from version {} to {} refused a row", self.stored.version, R::VERSION),
                    )
                    .in_table(R::TABLE)
                    .because(error),
                })
            }
        }
    }

    /// Reads a key.
    pub(crate) fn key(&self, bytes: &[u8]) -> Result<R::Key> {
        let mut input = Input::new(bytes);
        let key = R::Key::decode(&mut input).and_then(|key| input.end().map(|()| key));
        key.map_err(|error| self.undecodable(&error))
    }

    /// The bytes of a stored row's key.
    pub(crate) fn stored_key(&self, row: &[u8]) -> Result<Vec<u8>> {
        let slices = self.slices(row).map_err(|error| self.undecodable(&error))?;
        let parts = self.stored.columns.iter().zip(slices);
        Ok(parts.filter(|(column, _)| column.role.key).flat_map(|(_, slice)| slice).copied().collect())
    }

    /// The last automatic key.
    pub(crate) fn last_key(&self) -> Result<Option<R::Key>> {
        match &self.stored.last_key {
            Some(bytes) if !self.is_rekeyed => self.key(bytes).map(Some),
            _ => Ok(None),
        }
    }

    /// Whether rows are written as they are read.
    pub(crate) fn is_same(&self) -> bool {
        matches!(self.way, Way::Same)
    }

    /// Whether the keys of the rows it reads are those of the other's.
    pub(crate) fn has_keys_of(&self, other: &Plan<R>) -> bool {
        let keys = |plan: &Plan<R>| -> Vec<Type> {
            plan.stored.columns.iter().filter(|column| column.role.key).map(|column| column.ty.clone()).collect()
        };
        let (these, those) = (keys(self), keys(other));
        these.len() == those.len() && these.iter().zip(&those).all(|(this, that)| this.is_same(that))
    }

    /// The version it reads.
    pub(crate) fn version(&self) -> u32 {
        self.stored.version
    }

    fn slices<'a>(&self, bytes: &'a [u8]) -> Result<Vec<&'a [u8]>, Undecodable> {
        let mut input = Input::new(bytes);
        let mut slices = Vec::with_capacity(self.stored.columns.len());
        for column in &self.stored.columns {
            let before = input.rest();
            column.ty.skip(&mut input).map_err(|error| error.within(&column.name))?;
            slices.push(&before[..before.len() - input.rest().len()]);
        }
        input.end()?;
        Ok(slices)
    }

    fn undecodable(&self, error: &Undecodable) -> Error {
        let told = Error::new(
            ErrorKind::Undecodable,
            format!("a stored row of version {} cannot be read: {}", self.stored.version, error.what()),
        )
        .in_table(R::TABLE)
        .remedy("its bytes are whole, so the program that wrote it took another type for the field than this one");
        match error.field() {
            Some(field) => told.in_field(field.to_owned()),
            None => told,
        }
    }
}

/// Where a stored column went.
fn place_of(column: &Column, of: &[ColumnOf]) -> Option<usize> {
    let by_name = of.iter().position(|now| now.name == column.name);
    by_name.or_else(|| of.iter().position(|now| now.was == Some(column.name.as_str())))
}

fn same_keys(stored: &[Column], declared: &[Column], of: &[ColumnOf]) -> bool {
    let stored: Vec<_> =
        stored.iter().filter(|column| column.role.key).map(|column| (place_of(column, of), &column.ty)).collect();
    let declared: Vec<_> = declared.iter().enumerate().filter(|(_, column)| column.role.key).collect();
    stored.len() == declared.len()
        && stored.iter().zip(declared).all(|((place, ty), (at, now))| *place == Some(at) && now.ty.is_same(ty))
}

fn change(stored: &Column, now: &Column) -> String {
    if stored.ty.to_string() == now.ty.to_string() {
        format!("the inside of its type `{}` has changed", now.ty)
    } else {
        format!("its type was `{}` and is `{}`", stored.ty, now.ty)
    }
}

/// The parts of a stored row, each where the record has it now.
#[doc(hidden)]
#[derive(Debug)]
pub struct Parts<'a> {
    slices: Vec<Option<&'a [u8]>>,
}

impl<'a> Parts<'a> {
    /// The field at this place, read by this function.
    pub fn take<T>(
        &mut self,
        at: usize,
        name: &'static str,
        decode: impl FnOnce(&mut Input<'a>) -> Result<T, Undecodable>,
    ) -> Result<T, Undecodable> {
        match self.slices.get(at).copied().flatten() {
            Some(slice) => Input::new(slice).field(name, decode),
            None => Err(Undecodable::new("stored rows do not have it").within(name)),
        }
    }

    /// The field at this place, or its default.
    pub fn take_or<T>(
        &mut self,
        at: usize,
        name: &'static str,
        decode: impl FnOnce(&mut Input<'a>) -> Result<T, Undecodable>,
        default: impl FnOnce() -> T,
    ) -> Result<T, Undecodable> {
        match self.slices.get(at).copied().flatten() {
            Some(slice) => Input::new(slice).field(name, decode),
            None => Ok(default()),
        }
    }
}

/// A row as an earlier version of the program wrote it, for an upgrade function to make a record of.
///
/// # Examples
///
/// Version 1 had one name; version 2 has two.
///
/// ```
/// use wo::db::OldRow;
///
/// #[derive(wo::Record)]
/// #[record(version = 2, upgrade(1 = split))]
/// struct Person {
///     #[key]
///     id: u64,
///     first: String,
///     last: String,
/// }
///
/// fn split(old: &OldRow<'_>) -> Result<Person, wo::db::Error> {
///     let name: String = old.get("name")?;
///     let (first, last) = name.split_once(' ').unwrap_or((&name, ""));
///     Ok(Person { id: old.get("id")?, first: first.to_owned(), last: last.to_owned() })
/// }
/// ```
#[derive(Debug)]
pub struct OldRow<'a> {
    schema: &'a Schema,
    slices: Vec<&'a [u8]>,
}

impl OldRow<'_> {
    /// The version it was written by.
    ///
    /// # Examples
    ///
    /// ```
    /// mod before {
    ///     #[derive(wo::Record)]
    ///     #[record(table = "people")]
    ///     pub struct Person {
    ///         #[key]
    ///         pub id: u64,
    ///         pub age: u8,
    ///     }
    /// }
    ///
    /// #[derive(wo::Record)]
    /// #[record(table = "people", version = 2, upgrade(1 = from_1))]
    /// struct Person {
    ///     #[key]
    ///     id: u64,
    ///     born: u16,
    /// }
    ///
    /// fn from_1(old: &wo::db::OldRow<'_>) -> wo::db::Result<Person> {
    ///     assert_eq!(old.version(), 1);
    ///     Ok(Person { id: old.get("id")?, born: 2026 - old.get::<u8>("age")? as u16 })
    /// }
    ///
    /// # #[wo::main]
    /// # fn main() -> Result<(), wo::db::Error> {
    /// # let dir = std::env::temp_dir().join(format!("wo-db-oldv-{}", std::process::id()));
    /// # let dir = dir.as_path();
    /// # let db = wo::db::Db::builder().table::<before::Person>().open(dir)?;
    /// # db.table::<before::Person>()?.insert(before::Person { id: 1, age: 40 })?;
    /// # db.close()?;
    /// # let db = wo::db::Db::builder().table::<Person>().open(dir)?;
    /// # assert_eq!(db.table::<Person>()?.get(&1)?.map(|person| person.born), Some(1986));
    /// # db.close()?;
    /// # std::fs::remove_dir_all(dir).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    pub fn version(&self) -> u32 {
        self.schema.version
    }

    /// The value of this field.
    ///
    /// # Errors
    ///
    /// A field that was not there, or had another type than `T`.
    ///
    /// # Examples
    ///
    /// ```
    /// mod before {
    ///     #[derive(wo::Record)]
    ///     #[record(table = "people")]
    ///     pub struct Person {
    ///         #[key]
    ///         pub id: u64,
    ///         pub age: u8,
    ///     }
    /// }
    ///
    /// #[derive(wo::Record)]
    /// #[record(table = "people", version = 2, upgrade(1 = from_1))]
    /// struct Person {
    ///     #[key]
    ///     id: u64,
    ///     born: u16,
    /// }
    ///
    /// fn from_1(old: &wo::db::OldRow<'_>) -> wo::db::Result<Person> {
    ///     // A wrong name or type is an error that says what the row has.
    ///     assert!(old.get::<u64>("age").is_err() && old.get::<u8>("aeg").is_err());
    ///     Ok(Person { id: old.get("id")?, born: 2026 - old.get::<u8>("age")? as u16 })
    /// }
    ///
    /// # #[wo::main]
    /// # fn main() -> Result<(), wo::db::Error> {
    /// # let dir = std::env::temp_dir().join(format!("wo-db-oldg-{}", std::process::id()));
    /// # let dir = dir.as_path();
    /// # let db = wo::db::Db::builder().table::<before::Person>().open(dir)?;
    /// # db.table::<before::Person>()?.insert(before::Person { id: 1, age: 40 })?;
    /// # db.close()?;
    /// # let db = wo::db::Db::builder().table::<Person>().open(dir)?;
    /// # assert_eq!(db.table::<Person>()?.get(&1)?.map(|person| person.born), Some(1986));
    /// # db.close()?;
    /// # std::fs::remove_dir_all(dir).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    pub fn get<T: Field>(&self, field: &str) -> Result<T> {
        let refuse = |what: String| {
            Error::new(ErrorKind::Schema, what).in_table(self.schema.table.clone()).in_field(field.to_owned())
        };
        let version = self.schema.version;
        let Some(at) = self.schema.columns.iter().position(|column| column.name == field) else {
            let names: Vec<&str> = self.schema.columns.iter().map(|column| column.name.as_str()).collect();
            return Err(
                refuse(format!("version {version} has no such field")).remedy(format!("it has: {}", names.join(", ")))
            );
        };
        let stored = &self.schema.columns[at].ty;
        let asked: Type = T::describe(&mut Naming::default());
        if !asked.is_same(stored) {
            return Err(refuse(format!("it was a `{stored}` in version {version}, not a `{asked}`"))
                .remedy(format!("ask for a `{stored}`")));
        }
        T::decode(&mut Input::new(self.slices[at])).map_err(|error| refuse(error.to_string()))
    }
}
