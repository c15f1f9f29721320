//! Types of fields, as the catalogue keeps them: enough to read any row without the program that wrote it.

use std::fmt;

use crate::schema::wire::{Input, Output, Undecodable};

/// The type of a field.
///
/// # Examples
///
/// ```
/// use wo::db::Field;
/// use wo::db::stored::{Naming, Type};
///
/// assert_eq!(<Vec<u32>>::describe(&mut Naming::default()), Type::List(Box::new(Type::U32)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Type {
    /// `bool`
    Bool,
    /// `u8`
    U8,
    /// `u16`
    U16,
    /// `u32`
    U32,
    /// `u64` and `usize`
    U64,
    /// `u128`
    U128,
    /// `i8`
    I8,
    /// `i16`
    I16,
    /// `i32`
    I32,
    /// `i64` and `isize`
    I64,
    /// `i128`
    I128,
    /// `f32`
    F32,
    /// `f64`
    F64,
    /// `char`
    Char,
    /// `String`
    Text,
    /// `Vec<u8>`
    Bytes,
    /// `Option`
    Option(Box<Type>),
    /// `Vec`
    List(Box<Type>),
    /// An array of that length.
    Array(Box<Type>, u64),
    /// A tuple; that of no parts is `()`.
    Tuple(Vec<Type>),
    /// `BTreeMap`
    Map(Box<Type>, Box<Type>),
    /// `BTreeSet`
    Set(Box<Type>),
    /// A struct of the program's, by name; unnamed fields are called by their number.
    Struct(String, Vec<(String, Type)>),
    /// An enum of the program's, by name; each variant with its fields.
    Enum(String, Vec<Variant>),
    /// The struct or enum that stands so many above, 0 being the one this stands in: a type that holds itself.
    Above(u64),
}

/// A variant of an enum: its name and its fields.
pub type Variant = (String, Vec<(String, Type)>);

/// The structs and enums that are being described, so that one which holds itself comes to an end.
///
/// # Examples
///
/// ```
/// use wo::db::Field;
/// use wo::db::stored::{Naming, Type};
///
/// assert_eq!(String::describe(&mut Naming::default()), Type::Text);
/// ```
#[derive(Debug, Default)]
pub struct Naming {
    within: Vec<&'static str>,
}

impl Naming {
    /// Describes a struct or an enum; `key` tells it from all others. It is what `#[derive(wo::Field)]` calls.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::db::stored::{Naming, Type};
    ///
    /// // A list that holds itself: `struct Chain(Option<Box<Chain>>)`.
    /// fn chain(naming: &mut Naming) -> Type {
    ///     naming.named("example::Chain", |naming| {
    ///         Type::Struct("Chain".to_owned(), vec![("0".to_owned(), Type::Option(Box::new(chain(naming))))])
    ///     })
    /// }
    /// let link = Type::Option(Box::new(Type::Above(0)));
    /// assert_eq!(chain(&mut Naming::default()), Type::Struct("Chain".to_owned(), vec![("0".to_owned(), link)]));
    /// ```
    pub fn named(&mut self, key: &'static str, describe: impl FnOnce(&mut Naming) -> Type) -> Type {
        if let Some(levels) = self.within.iter().rev().position(|other| *other == key) {
            return Type::Above(levels as u64);
        }
        self.within.push(key);
        let described = describe(self);
        self.within.pop();
        described
    }
}

impl Type {
    /// Whether rows of one type are rows of the other. What structs and enums are called does not matter, what their
    /// fields and variants are called does.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::db::Field;
    /// use wo::db::stored::Naming;
    ///
    /// #[derive(wo::Field)]
    /// struct Point {
    ///     x: i32,
    ///     y: i32,
    /// }
    /// #[derive(wo::Field)]
    /// struct Place {
    ///     x: i32,
    ///     y: i32,
    /// }
    /// #[derive(wo::Field)]
    /// struct Size {
    ///     width: i32,
    ///     height: i32,
    /// }
    ///
    /// let [point, place, size] = [Point::describe, Place::describe, Size::describe].map(|describe| {
    ///     let describe: fn(&mut Naming) -> _ = describe;
    ///     describe(&mut Naming::default())
    /// });
    /// assert!(point.is_same(&place) && point != place);
    /// assert!(!point.is_same(&size));
    /// ```
    pub fn is_same(&self, other: &Type) -> bool {
        let same = |these: &[(String, Type)], those: &[(String, Type)]| {
            these.len() == those.len()
                && these
                    .iter()
                    .zip(those)
                    .all(|((name, ty), (other_name, other))| name == other_name && ty.is_same(other))
        };
        match (self, other) {
            (Type::Option(this), Type::Option(that))
            | (Type::List(this), Type::List(that))
            | (Type::Set(this), Type::Set(that)) => this.is_same(that),
            (Type::Array(this, length), Type::Array(that, other)) => length == other && this.is_same(that),
            (Type::Tuple(these), Type::Tuple(those)) => {
                these.len() == those.len() && these.iter().zip(those).all(|(this, that)| this.is_same(that))
            }
            (Type::Map(key, value), Type::Map(other_key, other)) => key.is_same(other_key) && value.is_same(other),
            (Type::Struct(_, these), Type::Struct(_, those)) => same(these, those),
            (Type::Enum(_, these), Type::Enum(_, those)) => {
                these.len() == those.len()
                    && these
                        .iter()
                        .zip(those)
                        .all(|((name, fields), (other, others))| name == other && same(fields, others))
            }
            (this, that) => this == that,
        }
    }

    /// Steps over a value of this type.
    pub(crate) fn skip(&self, input: &mut Input<'_>) -> Result<(), Undecodable> {
        let mut walk = Skip { within: Vec::new() };
        walk.value(self, input)
    }

    pub(crate) fn encode(&self, output: &mut Output) {
        let fields = |fields: &[(String, Type)], output: &mut Output| {
            output.count(fields.len());
            for (name, ty) in fields {
                output.sized(name.as_bytes());
                ty.encode(output);
            }
        };
        output.byte(self.tag());
        output.nested(|output| match self {
            Type::Option(inner) | Type::List(inner) | Type::Set(inner) => inner.encode(output),
            Type::Array(inner, length) => {
                inner.encode(output);
                output.unsigned(*length);
            }
            Type::Tuple(parts) => {
                output.count(parts.len());
                parts.iter().for_each(|part| part.encode(output));
            }
            Type::Map(key, value) => {
                key.encode(output);
                value.encode(output);
            }
            Type::Struct(name, parts) => {
                output.sized(name.as_bytes());
                fields(parts, output);
            }
            Type::Enum(name, variants) => {
                output.sized(name.as_bytes());
                output.count(variants.len());
                for (name, parts) in variants {
                    output.sized(name.as_bytes());
                    fields(parts, output);
                }
            }
            Type::Above(levels) => output.unsigned(*levels),
            _ => {}
        });
    }

    pub(crate) fn decode(input: &mut Input<'_>) -> Result<Type, Undecodable> {
        fn name(input: &mut Input<'_>) -> Result<String, Undecodable> {
            input.text().map(str::to_owned)
        }
        fn fields(input: &mut Input<'_>) -> Result<Vec<(String, Type)>, Undecodable> {
            let count = input.count()?;
            (0..count).map(|_| Ok((name(input)?, Type::decode(input)?))).collect()
        }
        let boxed = |input: &mut Input<'_>| Type::decode(input).map(Box::new);
        let tag = input.byte()?;
        input.nested(|input| {
            Ok(match tag {
                0 => Type::Bool,
                1 => Type::U8,
                2 => Type::U16,
                3 => Type::U32,
                4 => Type::U64,
                5 => Type::U128,
                6 => Type::I8,
                7 => Type::I16,
                8 => Type::I32,
                9 => Type::I64,
                10 => Type::I128,
                11 => Type::F32,
                12 => Type::F64,
                13 => Type::Char,
                14 => Type::Text,
                15 => Type::Bytes,
                16 => Type::Option(boxed(input)?),
                17 => Type::List(boxed(input)?),
                18 => Type::Array(boxed(input)?, input.unsigned()?),
                19 => {
                    let count = input.count()?;
                    Type::Tuple((0..count).map(|_| Type::decode(input)).collect::<Result<_, _>>()?)
                }
                20 => Type::Map(boxed(input)?, boxed(input)?),
                21 => Type::Set(boxed(input)?),
                22 => Type::Struct(name(input)?, fields(input)?),
                23 => {
                    let own = name(input)?;
                    let count = input.count()?;
                    let variants = (0..count).map(|_| Ok((name(input)?, fields(input)?)));
                    Type::Enum(own, variants.collect::<Result<_, Undecodable>>()?)
                }
                24 => Type::Above(input.unsigned()?),
                other => return Err(Undecodable::new(format!("a type of number {other}, which is unknown"))),
            })
        })
    }

    /// Its number in the catalogue.
    fn tag(&self) -> u8 {
        match self {
            Type::Bool => 0,
            Type::U8 => 1,
            Type::U16 => 2,
            Type::U32 => 3,
            Type::U64 => 4,
            Type::U128 => 5,
            Type::I8 => 6,
            Type::I16 => 7,
            Type::I32 => 8,
            Type::I64 => 9,
            Type::I128 => 10,
            Type::F32 => 11,
            Type::F64 => 12,
            Type::Char => 13,
            Type::Text => 14,
            Type::Bytes => 15,
            Type::Option(_) => 16,
            Type::List(_) => 17,
            Type::Array(..) => 18,
            Type::Tuple(_) => 19,
            Type::Map(..) => 20,
            Type::Set(_) => 21,
            Type::Struct(..) => 22,
            Type::Enum(..) => 23,
            Type::Above(_) => 24,
        }
    }
}

/// As a program writes it.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = match self {
            Type::Bool => "bool",
            Type::U8 => "u8",
            Type::U16 => "u16",
            Type::U32 => "u32",
            Type::U64 => "u64",
            Type::U128 => "u128",
            Type::I8 => "i8",
            Type::I16 => "i16",
            Type::I32 => "i32",
            Type::I64 => "i64",
            Type::I128 => "i128",
            Type::F32 => "f32",
            Type::F64 => "f64",
            Type::Char => "char",
            Type::Text => "String",
            Type::Bytes => "Vec<u8>",
            Type::Above(_) => "itself",
            Type::Struct(name, _) | Type::Enum(name, _) => name,
            Type::Option(inner) => return write!(f, "Option<{inner}>"),
            Type::List(inner) => return write!(f, "Vec<{inner}>"),
            Type::Array(inner, length) => return write!(f, "[{inner}; {length}]"),
            Type::Map(key, value) => return write!(f, "BTreeMap<{key}, {value}>"),
            Type::Set(inner) => return write!(f, "BTreeSet<{inner}>"),
            Type::Tuple(parts) => {
                f.write_str("(")?;
                for (index, part) in parts.iter().enumerate() {
                    write!(f, "{}{part}", if index == 0 { "" } else { ", " })?;
                }
                return f.write_str(")");
            }
        };
        f.write_str(plain)
    }
}

/// A walk over a value that keeps nothing of it.
struct Skip<'t> {
    within: Vec<&'t Type>,
}

impl<'t> Skip<'t> {
    fn value(&mut self, ty: &'t Type, input: &mut Input<'_>) -> Result<(), Undecodable> {
        match ty {
            Type::Bool | Type::U8 | Type::I8 => input.byte().map(drop),
            Type::U16 | Type::U32 | Type::U64 | Type::I16 | Type::I32 | Type::I64 | Type::Char => {
                input.unsigned().map(drop)
            }
            Type::U128 | Type::I128 => input.wide().map(drop),
            Type::F32 => input.raw(4).map(drop),
            Type::F64 => input.raw(8).map(drop),
            Type::Text | Type::Bytes => input.sized().map(drop),
            Type::Option(inner) => match input.byte()? {
                0 => Ok(()),
                _ => self.value(inner, input),
            },
            Type::List(inner) | Type::Set(inner) => {
                let count = input.count()?;
                (0..count).try_for_each(|_| self.value(inner, input))
            }
            Type::Array(inner, length) => {
                let before = input.rest().len();
                for index in 0..*length {
                    self.value(inner, input)?;
                    if index == 0 && input.rest().len() == before {
                        // Elements that take no room need no steps.
                        break;
                    }
                }
                Ok(())
            }
            Type::Tuple(parts) => parts.iter().try_for_each(|part| self.value(part, input)),
            Type::Map(key, value) => {
                let count = input.count()?;
                (0..count).try_for_each(|_| {
                    self.value(key, input)?;
                    self.value(value, input)
                })
            }
            Type::Struct(_, fields) => self.fields(ty, fields, input),
            Type::Enum(_, variants) => {
                let (_, fields) = variant(variants, input)?;
                self.fields(ty, fields, input)
            }
            Type::Above(levels) => {
                let (ty, kept) = above(&mut self.within, *levels)?;
                let walked = self.value(ty, input);
                self.within.extend(kept);
                walked
            }
        }
    }

    fn fields(&mut self, ty: &'t Type, fields: &'t [(String, Type)], input: &mut Input<'_>) -> Result<(), Undecodable> {
        self.within.push(ty);
        input.nested(|input| fields.iter().try_for_each(|(_, field)| self.value(field, input)))?;
        self.within.pop();
        Ok(())
    }
}

/// The type so many levels above, taken out together with those between; those are given back to be put there again.
pub(crate) fn above<'t>(within: &mut Vec<&'t Type>, levels: u64) -> Result<(&'t Type, Vec<&'t Type>), Undecodable> {
    let at = (within.len() as u64)
        .checked_sub(levels.saturating_add(1))
        .ok_or_else(|| Undecodable::new("a type that names one above it where there is none"))?;
    let kept = within.split_off(at as usize);
    Ok((kept[0], kept))
}

/// The variant whose number comes next.
pub(crate) fn variant<'t>(variants: &'t [Variant], input: &mut Input<'_>) -> Result<&'t Variant, Undecodable> {
    let number = input.unsigned()?;
    usize::try_from(number)
        .ok()
        .and_then(|number| variants.get(number))
        .ok_or_else(|| Undecodable::new(format!("a variant of number {number}, of which there are {}", variants.len())))
}
