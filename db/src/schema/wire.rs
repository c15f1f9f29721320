//! Bytes of rows: what they are written to, and what they are read from.
//!
//! Integers of more than a byte are variable in length, seven bits a byte, the low ones first, and a set high bit says
//! that there is more; signed ones are folded first, so that small numbers of either sign are short. Lengths and counts
//! are such integers. Nothing that is read is trusted: a count never leads to more memory than there are bytes left.

use std::borrow::Cow;
use std::fmt;

/// Values within values, at most: a reader that recurses must come to an end before its stack does.
pub(crate) const DEPTH_MAX: u32 = 64;

/// Where a row is written to.
///
/// # Examples
///
/// ```
/// use wo::db::stored::{Naming, Type};
/// use wo::db::{Field, Input, Output, Undecodable};
///
/// /// A share of a thousand.
/// #[derive(Debug, PartialEq)]
/// struct Permille(u16);
///
/// impl Field for Permille {
///     fn describe(naming: &mut Naming) -> Type {
///         u16::describe(naming)
///     }
///
///     fn encode(&self, output: &mut Output) {
///         output.unsigned(self.0.into());
///     }
///
///     fn decode(input: &mut Input<'_>) -> Result<Permille, Undecodable> {
///         match input.unsigned()? {
///             share @ 0..=1000 => Ok(Permille(share as u16)),
///             more => Err(Undecodable::new(format!("{more} of a thousand"))),
///         }
///     }
/// }
///
/// #[derive(wo::Record)]
/// struct Share {
///     #[key]
///     id: u64,
///     share: Permille,
/// }
/// ```
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    depth: u32,
    refused: Option<&'static str>,
}

impl Output {
    /// Writes behind what is there.
    pub(crate) fn over(bytes: Vec<u8>) -> Output {
        Output { bytes, depth: 0, refused: None }
    }

    /// The bytes, unless they could not be read back.
    pub(crate) fn finish(self) -> Result<Vec<u8>, (Vec<u8>, &'static str)> {
        match self.refused {
            None => Ok(self.bytes),
            Some(why) => Err((self.bytes, why)),
        }
    }

    /// How many bytes there are.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// What is written could not be read back.
    pub(crate) fn refuse(&mut self, why: &'static str) {
        self.refused.get_or_insert(why);
    }

    /// One byte.
    #[inline]
    pub fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Bytes as they are.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// An unsigned number.
    #[inline]
    pub fn unsigned(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// A wide one.
    pub(crate) fn wide(&mut self, mut number: u128) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// A length or a count.
    #[inline]
    pub fn count(&mut self, count: usize) {
        self.unsigned(count as u64);
    }

    /// Bytes with their length.
    #[inline]
    pub fn sized(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.raw(bytes);
    }

    /// A value that holds others, and may hold its like.
    pub fn nested(&mut self, write: impl FnOnce(&mut Output)) {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            self.refuse("values within values are nested deeper than 64");
        } else {
            write(self);
        }
        self.depth -= 1;
    }
}

/// Where a row is read from.
///
/// # Examples
///
/// ```
/// use wo::db::stored::{Naming, Type};
/// use wo::db::{Field, Input, Output, Undecodable};
///
/// /// A share of a thousand.
/// #[derive(Debug, PartialEq)]
/// struct Permille(u16);
///
/// impl Field for Permille {
///     fn describe(naming: &mut Naming) -> Type {
///         u16::describe(naming)
///     }
///
///     fn encode(&self, output: &mut Output) {
///         output.unsigned(self.0.into());
///     }
///
///     fn decode(input: &mut Input<'_>) -> Result<Permille, Undecodable> {
///         match input.unsigned()? {
///             share @ 0..=1000 => Ok(Permille(share as u16)),
///             more => Err(Undecodable::new(format!("{more} of a thousand"))),
///         }
///     }
/// }
///
/// #[derive(wo::Record)]
/// struct Share {
///     #[key]
///     id: u64,
///     share: Permille,
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Input<'a> {
    rest: &'a [u8],
    depth: u32,
}

impl<'a> Input<'a> {
    /// Reads these bytes.
    pub(crate) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { rest: bytes, depth: 0 }
    }

    /// What is not read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether everything is read.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Says that nothing is left.
    pub(crate) fn end(&self) -> Result<(), Undecodable> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(Undecodable::new(format!("{} bytes too many", self.rest.len())))
    }

    /// One byte.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Undecodable> {
        let (&first, rest) = self.rest.split_first().ok_or_else(Undecodable::short)?;
        self.rest = rest;
        Ok(first)
    }

    /// Bytes as they are.
    #[inline]
    pub fn raw(&mut self, length: usize) -> Result<&'a [u8], Undecodable> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(Undecodable::short)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Some bytes as they are.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Undecodable> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(Undecodable::short)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// An unsigned number.
    #[inline]
    pub fn unsigned(&mut self) -> Result<u64, Undecodable> {
        let mut number = 0;
        let mut shift = 0;
        loop {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift > 57 && bits >> (64 - shift.min(63)) != 0 || shift > 63 {
                return Err(Undecodable::new("a number of more than 64 bits"));
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
            shift += 7;
        }
    }

    /// A wide one.
    pub(crate) fn wide(&mut self) -> Result<u128, Undecodable> {
        let mut number = 0;
        let mut shift = 0;
        loop {
            let byte = self.byte()?;
            let bits = u128::from(byte & 0x7f);
            if shift > 121 && bits >> (128 - shift.min(127)) != 0 || shift > 127 {
                return Err(Undecodable::new("a number of more than 128 bits"));
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
            shift += 7;
        }
    }

    /// A count of things that take a byte each at least.
    pub fn count(&mut self) -> Result<usize, Undecodable> {
        let count = self.unsigned()?;
        if count > self.rest.len() as u64 {
            return Err(Undecodable::new(format!("a count of {count} where {} bytes are left", self.rest.len())));
        }
        Ok(count as usize)
    }

    /// Bytes with their length.
    #[inline]
    pub fn sized(&mut self) -> Result<&'a [u8], Undecodable> {
        let length = self.count()?;
        self.raw(length)
    }

    /// Text with its length.
    pub(crate) fn text(&mut self) -> Result<&'a str, Undecodable> {
        std::str::from_utf8(self.sized()?).map_err(|error| Undecodable::new(format!("text is no UTF-8: {error}")))
    }

    /// A value that holds others, and may hold its like.
    pub fn nested<T>(&mut self, read: impl FnOnce(&mut Input<'a>) -> Result<T, Undecodable>) -> Result<T, Undecodable> {
        if self.depth == DEPTH_MAX {
            return Err(Undecodable::new("values within values are nested deeper than 64"));
        }
        self.depth += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    /// A field of this name, read by this function.
    #[inline]
    pub fn field<T>(
        &mut self,
        name: &'static str,
        decode: impl FnOnce(&mut Input<'a>) -> Result<T, Undecodable>,
    ) -> Result<T, Undecodable> {
        decode(self).map_err(|error| error.within(name))
    }
}

/// Bytes that are not what they should be.
///
/// # Examples
///
/// ```
/// let wrong = wo::db::Undecodable::new("no number");
/// assert_eq!((wrong.what(), wrong.field()), ("no number", None));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecodable {
    what: Cow<'static, str>,
    /// The field it is in, with a point between one and the one around it.
    field: Option<String>,
}

impl Undecodable {
    /// Says what is wrong.
    pub fn new(what: impl Into<Cow<'static, str>>) -> Undecodable {
        Undecodable { what: what.into(), field: None }
    }

    fn short() -> Undecodable {
        Undecodable::new("it ends too early")
    }

    /// The same, in this field.
    #[must_use]
    pub(crate) fn within(mut self, field: &str) -> Undecodable {
        self.field = Some(match self.field {
            Some(inner) => format!("{field}.{inner}"),
            None => field.to_owned(),
        });
        self
    }

    /// The field it is in.
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// What is wrong.
    pub fn what(&self) -> &str {
        &self.what
    }
}

impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(f, "field `{field}`: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for Undecodable {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_overlong_ones_are_refused() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut output = Output::default();
            output.unsigned(number);
            output.wide(u128::from(number) << 60);
            let bytes = output.finish().unwrap();
            let mut input = Input::new(&bytes);
            assert_eq!(input.unsigned(), Ok(number));
            assert_eq!(input.wide(), Ok(u128::from(number) << 60));
            assert!(input.is_empty());
        }
        assert!(Input::new(&[0xff; 11]).unsigned().is_err());
        assert!(Input::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]).unsigned().is_err());
        assert!(Input::new(&[0xff; 20]).wide().is_err());
        assert!(Input::new(&[0x80]).unsigned().is_err());
    }

    #[test]
    fn a_count_is_not_trusted() {
        let mut output = Output::default();
        output.unsigned(u64::MAX);
        let bytes = output.finish().unwrap();
        assert!(Input::new(&bytes).count().is_err());
        assert!(Input::new(&bytes).sized().is_err());
    }
}
