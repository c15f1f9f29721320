//! What `#[derive(wo::Record)]` says of a type, and the properties of keys that queries and automatic keys stand on.

use std::fmt::Debug;

use crate::error::Result;
use crate::schema::catalogue::Role;
use crate::schema::evolve::{OldRow, Parts};
use crate::schema::field::Field;
use crate::schema::types::{Naming, Type};
use crate::schema::wire::{Input, Output, Undecodable};
use crate::store::index::AnyIndex;

/// A row of a table. `#[derive(wo::Record)]` implements it; its functions are for the database.
///
/// See the [derive](https://docs.rs/wo/latest/wo/derive.Record.html) for what can be said of a record, and
/// [`Db`](crate::Db) for an example.
///
/// # Examples
///
/// ```
/// use wo::db::Record;
///
/// #[derive(wo::Record)]
/// #[record(table = "accounts", version = 3)]
/// struct Account {
///     #[key]
///     id: u64,
///     balance: i64,
/// }
///
/// assert_eq!((Account::TABLE, Account::VERSION), ("accounts", 3));
/// assert_eq!(Account { id: 7, balance: 0 }.key(), 7);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the record of a table",
    label = "this is not a record",
    note = "give the struct `#[derive(wo::Record)]` and one of its fields `#[key]`"
)]
pub trait Record: Send + Sync + Sized + 'static {
    /// What finds it: the key field's type, or a tuple of those of all key fields.
    type Key: Key;

    /// The table's name.
    const TABLE: &'static str;

    /// Rows without a key are given one.
    #[doc(hidden)]
    const AUTOMATIC: bool = false;

    /// The record's version, 1 and up.
    const VERSION: u32 = 1;

    /// Its key.
    fn key(&self) -> Self::Key;

    /// Its fields, in order.
    #[doc(hidden)]
    fn columns() -> Vec<ColumnOf>;

    /// Writes it.
    #[doc(hidden)]
    fn encode(&self, output: &mut Output);

    /// Reads it as it is written now.
    #[doc(hidden)]
    fn decode(input: &mut Input<'_>) -> Result<Self, Undecodable>;

    /// Makes it of the parts of a row that was written otherwise.
    #[doc(hidden)]
    fn assemble(parts: &mut Parts<'_>) -> Result<Self, Undecodable>;

    /// Its indexes, empty, in the order of their fields.
    #[doc(hidden)]
    fn indexes() -> Vec<Box<dyn AnyIndex<Self>>> {
        Vec::new()
    }

    /// How rows of earlier versions become such ones.
    #[doc(hidden)]
    fn upgrades() -> Vec<(u32, Upgrade<Self>)> {
        Vec::new()
    }

    /// Gives it a key behind the last one if it has none; false when there is no more.
    #[doc(hidden)]
    fn assign_key(&mut self, _last: Option<&Self::Key>) -> bool {
        true
    }
}

/// Makes a record of a row of an earlier version.
#[doc(hidden)]
pub type Upgrade<R> = fn(&OldRow<'_>) -> Result<R>;

/// An upgrade and the version it is from. For the macros: a function of another type is refused where it is named.
#[doc(hidden)]
pub fn upgrade<R>(from: u32, with: Upgrade<R>) -> (u32, Upgrade<R>) {
    (from, with)
}

/// A field of a record, as its derive describes it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct ColumnOf {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub ty: fn(&mut Naming) -> Type,
    /// What it is for.
    pub role: Role,
    /// What it was called before.
    pub was: Option<&'static str>,
    /// It has a value where stored rows have none.
    pub has_default: bool,
}

/// What rows are found by. Every field that can be ordered is.
///
/// # Examples
///
/// ```
/// #[derive(wo::Field, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
/// enum Planet {
///     Earth,
///     Mars,
/// }
///
/// #[derive(wo::Record)]
/// struct Station {
///     #[key]
///     planet: Planet,
///     #[key]
///     number: u32,
/// }
/// ```
pub trait Key: Field + Ord + Clone + Debug + Send + Sync + 'static {}

impl<K: Field + Ord + Clone + Debug + Send + Sync + 'static> Key for K {}

/// Numbers that automatic keys are made of. 0 stands for none.
///
/// # Examples
///
/// ```
/// #[derive(wo::Record)]
/// struct Ticket {
///     #[key(auto)]
///     id: u64,
///     text: String,
/// }
///
/// #[wo::main]
/// fn main() -> Result<(), wo::db::Error> {
///     let db = wo::db::Db::builder().table::<Ticket>().in_memory()?;
///     let tickets = db.table::<Ticket>()?;
///     assert_eq!(tickets.insert(Ticket { id: 0, text: "first".to_owned() })?, 1);
///     assert_eq!(tickets.insert(Ticket { id: 0, text: "second".to_owned() })?, 2);
///     Ok(())
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an automatic key",
    label = "automatic keys are whole numbers",
    note = "take `u64`, or leave `auto` away and give each row its key"
)]
pub trait Automatic: Copy {
    /// Whether it stands for none.
    fn is_unset(&self) -> bool;

    /// The one behind; the first one when there is no last.
    fn behind(last: Option<&Self>) -> Option<Self>;
}

macro_rules! automatic {
    ($($number:ty)*) => {$(
        impl Automatic for $number {
            fn is_unset(&self) -> bool {
                *self == 0
            }

            fn behind(last: Option<&$number>) -> Option<$number> {
                last.copied().unwrap_or(0).max(0).checked_add(1)
            }
        }
    )*};
}

automatic!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128);

/// Values that have a least one and each a next one, so that a range can be drawn around all that begin alike.
///
/// # Examples
///
/// ```
/// use wo::db::Successive;
///
/// assert_eq!(u8::least(), 0);
/// assert_eq!(7_u8.next(), Some(8));
/// assert_eq!(u8::MAX.next(), None);
/// ```
pub trait Successive: Sized {
    /// The least.
    fn least() -> Self;

    /// The least that is greater; none behind the greatest.
    fn next(&self) -> Option<Self>;
}

macro_rules! successive_numbers {
    ($($number:ty)*) => {$(
        impl Successive for $number {
            fn least() -> $number {
                <$number>::MIN
            }

            fn next(&self) -> Option<$number> {
                self.checked_add(1)
            }
        }
    )*};
}

successive_numbers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

impl Successive for bool {
    fn least() -> bool {
        false
    }

    fn next(&self) -> Option<bool> {
        (!self).then_some(true)
    }
}

impl Successive for char {
    fn least() -> char {
        '\0'
    }

    fn next(&self) -> Option<char> {
        match *self {
            // The numbers behind it are no characters.
            '\u{d7ff}' => Some('\u{e000}'),
            c => char::from_u32(u32::from(c) + 1),
        }
    }
}

impl Successive for String {
    fn least() -> String {
        String::new()
    }

    fn next(&self) -> Option<String> {
        Some(format!("{self}\0"))
    }
}

impl Successive for Vec<u8> {
    fn least() -> Vec<u8> {
        Vec::new()
    }

    fn next(&self) -> Option<Vec<u8>> {
        let mut next = self.clone();
        next.push(0);
        Some(next)
    }
}

impl<T: Successive> Successive for Option<T> {
    fn least() -> Option<T> {
        None
    }

    fn next(&self) -> Option<Option<T>> {
        match self {
            None => Some(Some(T::least())),
            Some(value) => value.next().map(Some),
        }
    }
}

/// What keys that begin with a `P` have in common: a row of neighbours.
///
/// # Examples
///
/// ```
/// use wo::db::Prefixed;
///
/// assert_eq!(<String as Prefixed<str>>::first("ab"), "ab");
/// assert_eq!(<String as Prefixed<str>>::beyond("ab").as_deref(), Some("ac"));
/// ```
#[diagnostic::on_unimplemented(
    message = "a `{Self}` does not begin with a `{P}`",
    label = "no prefix of the key",
    note = "text begins with text, and a composite key with its first parts"
)]
pub trait Prefixed<P: ?Sized>: Sized {
    /// The least that begins so.
    fn first(prefix: &P) -> Self;

    /// The least that is greater than all that begin so; none when nothing is.
    fn beyond(prefix: &P) -> Option<Self>;
}

impl Prefixed<str> for String {
    fn first(prefix: &str) -> String {
        prefix.to_owned()
    }

    fn beyond(prefix: &str) -> Option<String> {
        let mut text = prefix.to_owned();
        while let Some(last) = text.pop() {
            if let Some(next) = last.next() {
                text.push(next);
                return Some(text);
            }
        }
        None
    }
}

impl Prefixed<[u8]> for Vec<u8> {
    fn first(prefix: &[u8]) -> Vec<u8> {
        prefix.to_vec()
    }

    fn beyond(prefix: &[u8]) -> Option<Vec<u8>> {
        let kept = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
        let mut bytes = prefix[..=kept].to_vec();
        bytes[kept] += 1;
        Some(bytes)
    }
}

impl<A: Successive + Clone, B: Successive> Prefixed<A> for (A, B) {
    fn first(prefix: &A) -> (A, B) {
        (prefix.clone(), B::least())
    }

    fn beyond(prefix: &A) -> Option<(A, B)> {
        Some((prefix.next()?, B::least()))
    }
}

impl<A: Successive + Clone, B: Successive, C: Successive> Prefixed<A> for (A, B, C) {
    fn first(prefix: &A) -> (A, B, C) {
        (prefix.clone(), B::least(), C::least())
    }

    fn beyond(prefix: &A) -> Option<(A, B, C)> {
        Some((prefix.next()?, B::least(), C::least()))
    }
}

impl<A: Successive + Clone, B: Successive + Clone, C: Successive> Prefixed<(A, B)> for (A, B, C) {
    fn first((a, b): &(A, B)) -> (A, B, C) {
        (a.clone(), b.clone(), C::least())
    }

    fn beyond((a, b): &(A, B)) -> Option<(A, B, C)> {
        match b.next() {
            Some(b) => Some((a.clone(), b, C::least())),
            None => Some((a.next()?, B::least(), C::least())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_enclose_what_begins_with_them() {
        assert_eq!(<String as Prefixed<str>>::beyond("ab"), Some("ac".to_owned()));
        assert_eq!(<String as Prefixed<str>>::beyond("a\u{10ffff}"), Some("b".to_owned()));
        assert_eq!(<String as Prefixed<str>>::beyond("\u{d7ff}"), Some("\u{e000}".to_owned()));
        assert_eq!(<String as Prefixed<str>>::beyond(""), None);
        assert_eq!(<Vec<u8> as Prefixed<[u8]>>::beyond(&[1, 255]), Some(vec![2]));
        assert_eq!(<Vec<u8> as Prefixed<[u8]>>::beyond(&[255]), None);
        assert_eq!(<(u8, String) as Prefixed<u8>>::beyond(&255), None);
        assert_eq!(<(u8, u8, u8) as Prefixed<(u8, u8)>>::beyond(&(1, 255)), Some((2, 0, 0)));
    }

    #[test]
    fn automatic_keys_begin_at_one_and_end() {
        assert_eq!(<u8 as Automatic>::behind(None), Some(1));
        assert_eq!(<u8 as Automatic>::behind(Some(&255)), None);
        assert_eq!(<i64 as Automatic>::behind(Some(&-5)), Some(1));
    }
}
