//! Values without their types: what tools show of a row whose program they do not have.

use std::fmt::{self, Write as _};

use crate::schema::field::{unfold, unfold_wide};
use crate::schema::types::{Type, above, variant};
use crate::schema::wire::{Input, Undecodable};

/// A value of any type.
///
/// # Examples
///
/// ```
/// use wo::db::Value;
///
/// assert_eq!(Value::List(vec![Value::Bool(true), Value::Absent]).to_string(), "[true,null]");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// A `bool`.
    Bool(bool),
    /// A number that cannot be negative.
    Unsigned(u128),
    /// A number that can be.
    Signed(i128),
    /// A floating-point number.
    Float(f64),
    /// Text, or a `char`.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// `None`, or `()`.
    Absent,
    /// A list, an array, a set or a tuple.
    List(Vec<Value>),
    /// The entries of a map.
    Map(Vec<(Value, Value)>),
    /// The fields of a record or a struct, by name.
    Fields(Vec<(String, Value)>),
    /// A variant of an enum, with its fields.
    Variant(String, Vec<(String, Value)>),
}

impl Value {
    /// Reads a value of this type.
    pub(crate) fn decode(ty: &Type, input: &mut Input<'_>) -> Result<Value, Undecodable> {
        Reader { within: Vec::new() }.value(ty, input)
    }

    /// Writes it as JSON. Bytes become text of hexadecimal digits, numbers that are none text, a variant without fields
    /// its name, one with fields an object of that one member, a map of text an object, other maps a list of pairs.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::db::Value;
    ///
    /// let (id, name) = (Value::Unsigned(7), Value::Text("a\"b".to_owned()));
    /// let row = Value::Fields(vec![("id".to_owned(), id), ("name".to_owned(), name)]);
    /// assert_eq!(row.to_json(), r#"{"id":7,"name":"a\"b"}"#);
    /// ```
    pub fn to_json(&self) -> String {
        let mut json = String::new();
        self.write_json(&mut json).unwrap_or_else(|_| unreachable!("a string takes everything"));
        json
    }

    fn write_json(&self, json: &mut String) -> fmt::Result {
        match self {
            Value::Bool(value) => write!(json, "{value}"),
            Value::Unsigned(number) => write!(json, "{number}"),
            Value::Signed(number) => write!(json, "{number}"),
            Value::Float(number) if number.is_finite() => write!(json, "{number:?}"),
            Value::Float(number) => write!(json, "\"{number}\""),
            Value::Text(text) => write_text(json, text),
            Value::Bytes(bytes) => {
                json.push('"');
                bytes.iter().try_for_each(|byte| write!(json, "{byte:02x}"))?;
                json.push('"');
                Ok(())
            }
            Value::Absent => json.write_str("null"),
            Value::List(values) => write_all(json, ('[', ']'), values, |json, value| value.write_json(json)),
            Value::Map(entries) if entries.iter().all(|(key, _)| matches!(key, Value::Text(_))) => {
                write_all(json, ('{', '}'), entries, |json, (key, value)| {
                    key.write_json(json)?;
                    json.push(':');
                    value.write_json(json)
                })
            }
            Value::Map(entries) => write_all(json, ('[', ']'), entries, |json, (key, value)| {
                json.push('[');
                key.write_json(json)?;
                json.push(',');
                value.write_json(json)?;
                json.push(']');
                Ok(())
            }),
            Value::Fields(fields) => write_fields(json, fields),
            Value::Variant(name, fields) if fields.is_empty() => write_text(json, name),
            Value::Variant(name, fields) => {
                json.push('{');
                write_text(json, name)?;
                json.push(':');
                write_fields(json, fields)?;
                json.push('}');
                Ok(())
            }
        }
    }
}

/// As JSON.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

fn write_all<T>(
    json: &mut String,
    (open, close): (char, char),
    all: &[T],
    write: impl Fn(&mut String, &T) -> fmt::Result,
) -> fmt::Result {
    json.push(open);
    for (index, one) in all.iter().enumerate() {
        if index > 0 {
            json.push(',');
        }
        write(json, one)?;
    }
    json.push(close);
    Ok(())
}

fn write_fields(json: &mut String, fields: &[(String, Value)]) -> fmt::Result {
    write_all(json, ('{', '}'), fields, |json, (name, value)| {
        write_text(json, name)?;
        json.push(':');
        value.write_json(json)
    })
}

fn write_text(json: &mut String, text: &str) -> fmt::Result {
    json.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                json.push('\\');
                json.push(c);
            }
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            c if u32::from(c) < 0x20 => write!(json, "\\u{:04x}", u32::from(c))?,
            c => json.push(c),
        }
    }
    json.push('"');
    Ok(())
}

struct Reader<'t> {
    within: Vec<&'t Type>,
}

impl<'t> Reader<'t> {
    fn value(&mut self, ty: &'t Type, input: &mut Input<'_>) -> Result<Value, Undecodable> {
        Ok(match ty {
            Type::Bool => Value::Bool(input.byte()? != 0),
            Type::U8 => Value::Unsigned(input.byte()?.into()),
            Type::I8 => Value::Signed(input.byte()?.cast_signed().into()),
            Type::U16 | Type::U32 | Type::U64 => Value::Unsigned(input.unsigned()?.into()),
            Type::U128 => Value::Unsigned(input.wide()?),
            Type::I16 | Type::I32 | Type::I64 => Value::Signed(unfold(input.unsigned()?).into()),
            Type::I128 => Value::Signed(unfold_wide(input.wide()?)),
            Type::F32 => Value::Float(f32::from_le_bytes(input.array()?).into()),
            Type::F64 => Value::Float(f64::from_le_bytes(input.array()?)),
            Type::Char => {
                let number = input.unsigned()?;
                let c = u32::try_from(number).ok().and_then(char::from_u32);
                let c = c.ok_or_else(|| Undecodable::new(format!("a `char` of number {number}")))?;
                Value::Text(c.to_string())
            }
            Type::Text => Value::Text(input.text()?.to_owned()),
            Type::Bytes => Value::Bytes(input.sized()?.to_vec()),
            Type::Option(inner) => match input.byte()? {
                0 => Value::Absent,
                _ => self.value(inner, input)?,
            },
            Type::List(inner) | Type::Set(inner) => {
                let count = input.count()?;
                Value::List((0..count).map(|_| self.value(inner, input)).collect::<Result<_, _>>()?)
            }
            Type::Array(inner, length) => {
                let mut values = Vec::new();
                let before = input.rest().len();
                for _ in 0..*length {
                    values.push(self.value(inner, input)?);
                    if input.rest().len() == before {
                        // Elements that take no room are all alike.
                        break;
                    }
                }
                Value::List(values)
            }
            Type::Tuple(parts) if parts.is_empty() => Value::Absent,
            Type::Tuple(parts) => {
                Value::List(parts.iter().map(|part| self.value(part, input)).collect::<Result<_, _>>()?)
            }
            Type::Map(key, value) => {
                let count = input.count()?;
                let entries = (0..count).map(|_| Ok((self.value(key, input)?, self.value(value, input)?)));
                Value::Map(entries.collect::<Result<_, Undecodable>>()?)
            }
            Type::Struct(_, fields) => Value::Fields(self.fields(ty, fields, input)?),
            Type::Enum(_, variants) => {
                let (name, fields) = variant(variants, input)?;
                Value::Variant(name.clone(), self.fields(ty, fields, input)?)
            }
            Type::Above(levels) => {
                let (ty, kept) = above(&mut self.within, *levels)?;
                let value = self.value(ty, input);
                self.within.extend(kept);
                value?
            }
        })
    }

    fn fields(
        &mut self,
        ty: &'t Type,
        fields: &'t [(String, Type)],
        input: &mut Input<'_>,
    ) -> Result<Vec<(String, Value)>, Undecodable> {
        self.within.push(ty);
        let values = input.nested(|input| {
            let value = |(name, field): &'t (String, Type)| {
                self.value(field, input).map(|value| (name.clone(), value)).map_err(|error| error.within(name))
            };
            fields.iter().map(value).collect::<Result<_, _>>()
        });
        self.within.pop();
        values
    }
}
