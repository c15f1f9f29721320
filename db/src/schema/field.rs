//! What a field of a record may be: how it is written, how it is read, and what the catalogue says of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::schema::types::{Naming, Type};
use crate::schema::wire::{Input, Output, Undecodable};

/// A value that can be stored in a field of a record.
///
/// Numbers, `bool`, `char`, `String`, `Option`, `Vec`, arrays, tuples, `Box`, `Duration`, sorted maps and sets are; a
/// struct or an enum of the program's own is when it has `#[derive(wo::Field)]`.
///
/// # Examples
///
/// ```
/// #[derive(wo::Field, Clone, Debug, PartialEq)]
/// enum Shape {
///     Point,
///     Circle { radius: f64 },
///     Polygon(Vec<(f64, f64)>),
/// }
///
/// #[derive(wo::Record)]
/// struct Drawing {
///     #[key]
///     name: String,
///     shapes: Vec<Shape>,
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored in a record",
    label = "a field of this type cannot be stored",
    note = "a struct or an enum of your own can be, with `#[derive(wo::Field)]`",
    note = "hash maps have no order: take a `BTreeMap`"
)]
pub trait Field: Sized {
    /// What the catalogue says of it.
    fn describe(naming: &mut Naming) -> Type;

    /// Writes it.
    fn encode(&self, output: &mut Output);

    /// Reads it.
    ///
    /// # Errors
    ///
    /// Bytes that are no such value.
    fn decode(input: &mut Input<'_>) -> Result<Self, Undecodable>;

    /// Whether it stands for no value, so that two of them do not conflict in a unique field.
    #[doc(hidden)]
    fn is_absent(&self) -> bool {
        false
    }

    /// What a list of it is.
    #[doc(hidden)]
    fn describe_list(naming: &mut Naming) -> Type {
        Type::List(Box::new(Self::describe(naming)))
    }

    /// Writes the elements of a list.
    #[doc(hidden)]
    fn encode_all(all: &[Self], output: &mut Output) {
        let before = output.len();
        for one in all {
            one.encode(output);
        }
        if output.len() - before < all.len() {
            output.refuse("a list of values that take no room, such as `Vec<()>`");
        }
    }

    /// Reads the elements of a list.
    #[doc(hidden)]
    fn decode_all(count: usize, input: &mut Input<'_>) -> Result<Vec<Self>, Undecodable> {
        // What takes a byte of input may take many of memory, so room is made as it is needed.
        let mut all = Vec::with_capacity(count.min(64));
        for _ in 0..count {
            all.push(Self::decode(input)?);
        }
        Ok(all)
    }
}

macro_rules! numbers {
    ($(
        $number:ty => $ty:ident, $wide:ty, |$output:ident, $value:ident| $encode:expr, |$input:ident| $decode:expr;
    )*) => {$(
        impl Field for $number {
            fn describe(_: &mut Naming) -> Type {
                Type::$ty
            }

            #[inline]
            fn encode(&self, $output: &mut Output) {
                let $value = *self as $wide;
                $encode;
            }

            #[inline]
            fn decode($input: &mut Input<'_>) -> Result<$number, Undecodable> {
                let wide: $wide = $decode;
                <$number>::try_from(wide).map_err(|_| {
                    Undecodable::new(concat!("a number too large for `", stringify!($number), "`"))
                })
            }
        }
    )*};
}

numbers! {
    u16 => U16, u64, |output, value| output.unsigned(value), |input| input.unsigned()?;
    u32 => U32, u64, |output, value| output.unsigned(value), |input| input.unsigned()?;
    u64 => U64, u64, |output, value| output.unsigned(value), |input| input.unsigned()?;
    usize => U64, u64, |output, value| output.unsigned(value), |input| input.unsigned()?;
    u128 => U128, u128, |output, value| output.wide(value), |input| input.wide()?;
    i16 => I16, i64, |output, value| output.unsigned(fold(value)), |input| unfold(input.unsigned()?);
    i32 => I32, i64, |output, value| output.unsigned(fold(value)), |input| unfold(input.unsigned()?);
    i64 => I64, i64, |output, value| output.unsigned(fold(value)), |input| unfold(input.unsigned()?);
    isize => I64, i64, |output, value| output.unsigned(fold(value)), |input| unfold(input.unsigned()?);
    i128 => I128, i128, |output, value| output.wide(fold_wide(value)), |input| unfold_wide(input.wide()?);
}

/// 0, -1, 1, -2, ... become 0, 1, 2, 3, ...
#[inline]
pub(crate) fn fold(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

/// The way back.
#[inline]
pub(crate) fn unfold(folded: u64) -> i64 {
    (folded >> 1) as i64 ^ -((folded & 1) as i64)
}

pub(crate) fn fold_wide(number: i128) -> u128 {
    ((number << 1) ^ (number >> 127)) as u128
}

pub(crate) fn unfold_wide(folded: u128) -> i128 {
    (folded >> 1) as i128 ^ -((folded & 1) as i128)
}

impl Field for u8 {
    fn describe(_: &mut Naming) -> Type {
        Type::U8
    }

    fn encode(&self, output: &mut Output) {
        output.byte(*self);
    }

    fn decode(input: &mut Input<'_>) -> Result<u8, Undecodable> {
        input.byte()
    }

    fn describe_list(_: &mut Naming) -> Type {
        Type::Bytes
    }

    fn encode_all(all: &[u8], output: &mut Output) {
        output.raw(all);
    }

    fn decode_all(count: usize, input: &mut Input<'_>) -> Result<Vec<u8>, Undecodable> {
        input.raw(count).map(<[u8]>::to_vec)
    }
}

impl Field for i8 {
    fn describe(_: &mut Naming) -> Type {
        Type::I8
    }

    fn encode(&self, output: &mut Output) {
        output.byte(self.cast_unsigned());
    }

    fn decode(input: &mut Input<'_>) -> Result<i8, Undecodable> {
        input.byte().map(u8::cast_signed)
    }
}

impl Field for bool {
    fn describe(_: &mut Naming) -> Type {
        Type::Bool
    }

    fn encode(&self, output: &mut Output) {
        output.byte(u8::from(*self));
    }

    fn decode(input: &mut Input<'_>) -> Result<bool, Undecodable> {
        match input.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Undecodable::new(format!("a `bool` of {other}"))),
        }
    }
}

impl Field for char {
    fn describe(_: &mut Naming) -> Type {
        Type::Char
    }

    fn encode(&self, output: &mut Output) {
        output.unsigned(u64::from(u32::from(*self)));
    }

    fn decode(input: &mut Input<'_>) -> Result<char, Undecodable> {
        let number = input.unsigned()?;
        u32::try_from(number)
            .ok()
            .and_then(char::from_u32)
            .ok_or_else(|| Undecodable::new(format!("a `char` of number {number}")))
    }
}

impl Field for f32 {
    fn describe(_: &mut Naming) -> Type {
        Type::F32
    }

    fn encode(&self, output: &mut Output) {
        output.raw(&self.to_le_bytes());
    }

    fn decode(input: &mut Input<'_>) -> Result<f32, Undecodable> {
        input.array().map(f32::from_le_bytes)
    }
}

impl Field for f64 {
    fn describe(_: &mut Naming) -> Type {
        Type::F64
    }

    fn encode(&self, output: &mut Output) {
        output.raw(&self.to_le_bytes());
    }

    fn decode(input: &mut Input<'_>) -> Result<f64, Undecodable> {
        input.array().map(f64::from_le_bytes)
    }
}

impl Field for String {
    fn describe(_: &mut Naming) -> Type {
        Type::Text
    }

    #[inline]
    fn encode(&self, output: &mut Output) {
        output.sized(self.as_bytes());
    }

    #[inline]
    fn decode(input: &mut Input<'_>) -> Result<String, Undecodable> {
        input.text().map(str::to_owned)
    }
}

impl Field for Box<str> {
    fn describe(_: &mut Naming) -> Type {
        Type::Text
    }

    fn encode(&self, output: &mut Output) {
        output.sized(self.as_bytes());
    }

    fn decode(input: &mut Input<'_>) -> Result<Box<str>, Undecodable> {
        input.text().map(Box::from)
    }
}

impl<T: Field> Field for Box<T> {
    fn describe(naming: &mut Naming) -> Type {
        T::describe(naming)
    }

    fn encode(&self, output: &mut Output) {
        (**self).encode(output);
    }

    fn decode(input: &mut Input<'_>) -> Result<Box<T>, Undecodable> {
        T::decode(input).map(Box::new)
    }

    fn is_absent(&self) -> bool {
        (**self).is_absent()
    }
}

impl<T: Field> Field for Option<T> {
    fn describe(naming: &mut Naming) -> Type {
        Type::Option(Box::new(T::describe(naming)))
    }

    fn encode(&self, output: &mut Output) {
        match self {
            None => output.byte(0),
            Some(value) => {
                output.byte(1);
                value.encode(output);
            }
        }
    }

    fn decode(input: &mut Input<'_>) -> Result<Option<T>, Undecodable> {
        match input.byte()? {
            0 => Ok(None),
            1 => T::decode(input).map(Some),
            other => Err(Undecodable::new(format!("an `Option` of {other}"))),
        }
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: Field> Field for Vec<T> {
    fn describe(naming: &mut Naming) -> Type {
        T::describe_list(naming)
    }

    fn encode(&self, output: &mut Output) {
        output.count(self.len());
        T::encode_all(self, output);
    }

    fn decode(input: &mut Input<'_>) -> Result<Vec<T>, Undecodable> {
        let count = input.count()?;
        T::decode_all(count, input)
    }
}

impl<T: Field, const N: usize> Field for [T; N] {
    fn describe(naming: &mut Naming) -> Type {
        Type::Array(Box::new(T::describe(naming)), N as u64)
    }

    fn encode(&self, output: &mut Output) {
        T::encode_all(self, output);
    }

    fn decode(input: &mut Input<'_>) -> Result<[T; N], Undecodable> {
        let all = T::decode_all(N, input)?;
        all.try_into().map_err(|_| Undecodable::new("an array of another length"))
    }
}

impl<K: Field + Ord, V: Field> Field for BTreeMap<K, V> {
    fn describe(naming: &mut Naming) -> Type {
        let key = K::describe(naming);
        Type::Map(Box::new(key), Box::new(V::describe(naming)))
    }

    fn encode(&self, output: &mut Output) {
        output.count(self.len());
        let before = output.len();
        for (key, value) in self {
            key.encode(output);
            value.encode(output);
        }
        if output.len() - before < self.len() {
            output.refuse("a map of entries that take no room");
        }
    }

    fn decode(input: &mut Input<'_>) -> Result<BTreeMap<K, V>, Undecodable> {
        let count = input.count()?;
        (0..count).map(|_| Ok((K::decode(input)?, V::decode(input)?))).collect()
    }
}

impl<T: Field + Ord> Field for BTreeSet<T> {
    fn describe(naming: &mut Naming) -> Type {
        Type::Set(Box::new(T::describe(naming)))
    }

    fn encode(&self, output: &mut Output) {
        output.count(self.len());
        let before = output.len();
        for value in self {
            value.encode(output);
        }
        if output.len() - before < self.len() {
            output.refuse("a set of values that take no room");
        }
    }

    fn decode(input: &mut Input<'_>) -> Result<BTreeSet<T>, Undecodable> {
        let count = input.count()?;
        (0..count).map(|_| T::decode(input)).collect()
    }
}

impl Field for Duration {
    fn describe(_: &mut Naming) -> Type {
        Type::Tuple(vec![Type::U64, Type::U32])
    }

    fn encode(&self, output: &mut Output) {
        self.as_secs().encode(output);
        self.subsec_nanos().encode(output);
    }

    fn decode(input: &mut Input<'_>) -> Result<Duration, Undecodable> {
        let (seconds, nanos) = <(u64, u32)>::decode(input)?;
        if nanos >= 1_000_000_000 {
            return Err(Undecodable::new("a `Duration` with a whole second of nanoseconds"));
        }
        Ok(Duration::new(seconds, nanos))
    }
}

macro_rules! tuples {
    ($(($($part:ident $at:tt),*))*) => {$(
        impl<$($part: Field),*> Field for ($($part,)*) {
            fn describe(naming: &mut Naming) -> Type {
                let _ = &naming;
                Type::Tuple(vec![$($part::describe(naming)),*])
            }

            fn encode(&self, output: &mut Output) {
                let _ = &output;
                $(self.$at.encode(output);)*
            }

            fn decode(input: &mut Input<'_>) -> Result<($($part,)*), Undecodable> {
                let _ = &input;
                Ok(($($part::decode(input)?,)*))
            }
        }
    )*};
}

tuples! {
    ()
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    fn comes_back<T: Field + PartialEq + Debug>(value: &T) -> usize {
        let mut output = Output::default();
        value.encode(&mut output);
        let bytes = output.finish().unwrap();
        let mut input = Input::new(&bytes);
        assert_eq!(&T::decode(&mut input).unwrap(), value);
        assert!(input.is_empty());
        for end in 0..bytes.len() {
            assert!(T::decode(&mut Input::new(&bytes[..end])).is_err(), "{value:?} out of {end} bytes");
        }
        bytes.len()
    }

    #[test]
    fn values_come_back() {
        for number in [i64::MIN, -300, -64, -1, 0, 1, 63, 64, 300, i64::MAX] {
            comes_back(&number);
            comes_back(&(i128::from(number) * 3));
            comes_back(&(number as i16));
        }
        assert_eq!(comes_back(&-64_i64), 1);
        assert_eq!(comes_back(&b"hello".to_vec()), 6);
        comes_back(&(u8::MAX, i8::MIN, true, 'ß', 1.5_f32, f64::MAX));
        comes_back(&vec![Some("a".to_owned()), None]);
        comes_back(&[1_u16, 2, 3]);
        comes_back(&BTreeMap::from([(1_u8, "one".to_owned()), (2, "two".to_owned())]));
        comes_back(&BTreeSet::from([Duration::from_millis(1500)]));
        comes_back(&Box::new(u128::MAX));
    }

    #[test]
    fn what_could_not_be_read_back_is_refused() {
        let mut output = Output::default();
        vec![(), ()].encode(&mut output);
        assert!(output.finish().is_err());
        assert!(u16::decode(&mut Input::new(&[0xff, 0xff, 0x7f])).is_err());
        assert!(bool::decode(&mut Input::new(&[2])).is_err());
        assert!(char::decode(&mut Input::new(&[0x80, 0xb0, 0x03])).is_err(), "a surrogate");
        assert!(String::decode(&mut Input::new(&[1, 0xff])).is_err());
    }
}
