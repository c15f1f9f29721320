//! Where the bytes of a row are read from. Each thing that is read says what is wrong with it, if it is.

use super::{DEPTH_MAX, Undecodable};

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
    ///
    /// # Errors
    ///
    /// Nothing is left.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::db::stored::{Naming, Type};
    /// use wo::db::{Field, Input, Output, Undecodable};
    ///
    /// #[derive(Debug, PartialEq)]
    /// struct Level(u8);
    ///
    /// impl Field for Level {
    ///     fn describe(naming: &mut Naming) -> Type {
    ///         u8::describe(naming)
    ///     }
    ///
    ///     fn encode(&self, output: &mut Output) {
    ///         output.byte(self.0);
    ///     }
    ///
    ///     fn decode(input: &mut Input<'_>) -> Result<Level, Undecodable> {
    ///         input.byte().map(Level)
    ///     }
    /// }
    /// # #[derive(wo::Record)]
    /// # struct Kept {
    /// #     #[key]
    /// #     id: u8,
    /// #     kept: Level,
    /// # }
    /// # #[wo::main]
    /// # fn main() -> Result<(), wo::db::Error> {
    /// # let dir = std::env::temp_dir().join(format!("wo-db-level-in-{}", std::process::id()));
    /// # let db = wo::db::Db::builder().table::<Kept>().open(&dir)?;
    /// # db.table::<Kept>()?.insert(Kept { id: 1, kept: Level(7) })?;
    /// # db.close()?;
    /// # let db = wo::db::Db::builder().table::<Kept>().open(&dir)?;
    /// # assert_eq!(db.table::<Kept>()?.get(&1)?.expect("it is kept").kept, Level(7));
    /// # db.close()?;
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Undecodable> {
        let (&first, rest) = self.rest.split_first().ok_or_else(Undecodable::short)?;
        self.rest = rest;
        Ok(first)
    }

    /// Bytes as they are.
    ///
    /// # Errors
    ///
    /// Fewer are left.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::db::stored::{Naming, Type};
    /// use wo::db::{Field, Input, Output, Undecodable};
    ///
    /// #[derive(Debug, PartialEq)]
    /// struct Colour([u8; 3]);
    ///
    /// impl Field for Colour {
    ///     fn describe(naming: &mut Naming) -> Type {
    ///         <[u8; 3]>::describe(naming)
    ///     }
    ///
    ///     fn encode(&self, output: &mut Output) {
    ///         output.raw(&self.0);
    ///     }
    ///
    ///     fn decode(input: &mut Input<'_>) -> Result<Colour, Undecodable> {
    ///         let bytes = input.raw(3)?;
    ///         Ok(Colour([bytes[0], bytes[1], bytes[2]]))
    ///     }
    /// }
    /// # #[derive(wo::Record)]
    /// # struct Kept {
    /// #     #[key]
    /// #     id: u8,
    /// #     kept: Colour,
    /// # }
    /// # #[wo::main]
    /// # fn main() -> Result<(), wo::db::Error> {
    /// # let dir = std::env::temp_dir().join(format!("wo-db-colour-in-{}", std::process::id()));
    /// # let db = wo::db::Db::builder().table::<Kept>().open(&dir)?;
    /// # db.table::<Kept>()?.insert(Kept { id: 1, kept: Colour([255, 128, 0]) })?;
    /// # db.close()?;
    /// # let db = wo::db::Db::builder().table::<Kept>().open(&dir)?;
    /// # assert_eq!(db.table::<Kept>()?.get(&1)?.expect("it is kept").kept, Colour([255, 128, 0]));
    /// # db.close()?;
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// # Errors
    ///
    /// It ends too early, or has more than 64 bits.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::db::stored::{Naming, Type};
    /// use wo::db::{Field, Input, Output, Undecodable};
    ///
    /// #[derive(Debug, PartialEq)]
    /// struct Metres(u64);
    ///
    /// impl Field for Metres {
    ///     fn describe(naming: &mut Naming) -> Type {
    ///         u64::describe(naming)
    ///     }
    ///
    ///     fn encode(&self, output: &mut Output) {
    ///         output.unsigned(self.0);
    ///     }
    ///
    ///     fn decode(input: &mut Input<'_>) -> Result<Metres, Undecodable> {
    ///         input.unsigned().map(Metres)
    ///     }
    /// }
    /// # #[derive(wo::Record)]
    /// # struct Kept {
    /// #     #[key]
    /// #     id: u8,
    /// #     kept: Metres,
    /// # }
    /// # #[wo::main]
    /// # fn main() -> Result<(), wo::db::Error> {
    /// # let dir = std::env::temp_dir().join(format!("wo-db-metres-in-{}", std::process::id()));
    /// # let db = wo::db::Db::builder().table::<Kept>().open(&dir)?;
    /// # db.table::<Kept>()?.insert(Kept { id: 1, kept: Metres(8848) })?;
    /// # db.close()?;
    /// # let db = wo::db::Db::builder().table::<Kept>().open(&dir)?;
    /// # assert_eq!(db.table::<Kept>()?.get(&1)?.expect("it is kept").kept, Metres(8848));
    /// # db.close()?;
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// # Errors
    ///
    /// It is more than there are bytes left.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::db::stored::{Naming, Type};
    /// use wo::db::{Field, Input, Output, Undecodable};
    ///
    /// #[derive(Debug, PartialEq)]
    /// struct Steps(Vec<u8>);
    ///
    /// impl Field for Steps {
    ///     fn describe(naming: &mut Naming) -> Type {
    ///         <Vec<u8>>::describe(naming)
    ///     }
    ///
    ///     fn encode(&self, output: &mut Output) {
    ///         output.count(self.0.len());
    ///         self.0.iter().for_each(|step| output.byte(*step));
    ///     }
    ///
    ///     fn decode(input: &mut Input<'_>) -> Result<Steps, Undecodable> {
    ///         let count = input.count()?;
    ///         (0..count).map(|_| input.byte()).collect::<Result<_, _>>().map(Steps)
    ///     }
    /// }
    /// # #[derive(wo::Record)]
    /// # struct Kept {
    /// #     #[key]
    /// #     id: u8,
    /// #     kept: Steps,
    /// # }
    /// # #[wo::main]
    /// # fn main() -> Result<(), wo::db::Error> {
    /// # let dir = std::env::temp_dir().join(format!("wo-db-steps-in-{}", std::process::id()));
    /// # let db = wo::db::Db::builder().table::<Kept>().open(&dir)?;
    /// # db.table::<Kept>()?.insert(Kept { id: 1, kept: Steps(vec![1, 2, 3]) })?;
    /// # db.close()?;
    /// # let db = wo::db::Db::builder().table::<Kept>().open(&dir)?;
    /// # assert_eq!(db.table::<Kept>()?.get(&1)?.expect("it is kept").kept, Steps(vec![1, 2, 3]));
    /// # db.close()?;
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    pub fn count(&mut self) -> Result<usize, Undecodable> {
        let count = self.unsigned()?;
        if count > self.rest.len() as u64 {
            return Err(Undecodable::new(format!("a count of {count} where {} bytes are left", self.rest.len())));
        }
        Ok(count as usize)
    }

    /// Bytes with their length.
    ///
    /// # Errors
    ///
    /// Fewer are left.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::db::stored::{Naming, Type};
    /// use wo::db::{Field, Input, Output, Undecodable};
    ///
    /// #[derive(Debug, PartialEq)]
    /// struct Photo(Vec<u8>);
    ///
    /// impl Field for Photo {
    ///     fn describe(naming: &mut Naming) -> Type {
    ///         <Vec<u8>>::describe(naming)
    ///     }
    ///
    ///     fn encode(&self, output: &mut Output) {
    ///         output.sized(&self.0);
    ///     }
    ///
    ///     fn decode(input: &mut Input<'_>) -> Result<Photo, Undecodable> {
    ///         input.sized().map(|bytes| Photo(bytes.to_vec()))
    ///     }
    /// }
    /// # #[derive(wo::Record)]
    /// # struct Kept {
    /// #     #[key]
    /// #     id: u8,
    /// #     kept: Photo,
    /// # }
    /// # #[wo::main]
    /// # fn main() -> Result<(), wo::db::Error> {
    /// # let dir = std::env::temp_dir().join(format!("wo-db-photo-in-{}", std::process::id()));
    /// # let db = wo::db::Db::builder().table::<Kept>().open(&dir)?;
    /// # db.table::<Kept>()?.insert(Kept { id: 1, kept: Photo(vec![0xff, 0xd8]) })?;
    /// # db.close()?;
    /// # let db = wo::db::Db::builder().table::<Kept>().open(&dir)?;
    /// # assert_eq!(db.table::<Kept>()?.get(&1)?.expect("it is kept").kept, Photo(vec![0xff, 0xd8]));
    /// # db.close()?;
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// # Errors
    ///
    /// Values lie in values more than 64 deep, or what `read` says.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::db::stored::{Naming, Type};
    /// use wo::db::{Field, Input, Output, Undecodable};
    ///
    /// #[derive(Debug, PartialEq)]
    /// struct Folders(Vec<String>);
    ///
    /// impl Field for Folders {
    ///     fn describe(naming: &mut Naming) -> Type {
    ///         <Vec<String>>::describe(naming)
    ///     }
    ///
    ///     fn encode(&self, output: &mut Output) {
    ///         output.count(self.0.len());
    ///         output.nested(|output| self.0.iter().for_each(|folder| folder.encode(output)));
    ///     }
    ///
    ///     fn decode(input: &mut Input<'_>) -> Result<Folders, Undecodable> {
    ///         let count = input.count()?;
    ///         input.nested(|input| (0..count).map(|_| String::decode(input)).collect::<Result<_, _>>().map(Folders))
    ///     }
    /// }
    /// # #[derive(wo::Record)]
    /// # struct Kept {
    /// #     #[key]
    /// #     id: u8,
    /// #     kept: Folders,
    /// # }
    /// # #[wo::main]
    /// # fn main() -> Result<(), wo::db::Error> {
    /// # let dir = std::env::temp_dir().join(format!("wo-db-folders-in-{}", std::process::id()));
    /// # let db = wo::db::Db::builder().table::<Kept>().open(&dir)?;
    /// # db.table::<Kept>()?.insert(Kept { id: 1, kept: Folders(vec!["home".to_owned()]) })?;
    /// # db.close()?;
    /// # let db = wo::db::Db::builder().table::<Kept>().open(&dir)?;
    /// # assert_eq!(db.table::<Kept>()?.get(&1)?.expect("it is kept").kept, Folders(vec!["home".to_owned()]));
    /// # db.close()?;
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// # Errors
    ///
    /// What `decode` says, naming the field.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::db::stored::{Naming, Type};
    /// use wo::db::{Field, Input, Output, Undecodable};
    ///
    /// #[derive(Debug, PartialEq)]
    /// struct Range((u8, u8));
    ///
    /// impl Field for Range {
    ///     fn describe(naming: &mut Naming) -> Type {
    ///         <(u8, u8)>::describe(naming)
    ///     }
    ///
    ///     fn encode(&self, output: &mut Output) {
    ///         output.byte(self.0.0);
    ///         output.byte(self.0.1);
    ///     }
    ///
    ///     fn decode(input: &mut Input<'_>) -> Result<Range, Undecodable> {
    ///         // What is wrong is told of `from` or `to`.
    ///         let from = input.field("from", u8::decode)?;
    ///         Ok(Range((from, input.field("to", u8::decode)?)))
    ///     }
    /// }
    /// # #[derive(wo::Record)]
    /// # struct Kept {
    /// #     #[key]
    /// #     id: u8,
    /// #     kept: Range,
    /// # }
    /// # #[wo::main]
    /// # fn main() -> Result<(), wo::db::Error> {
    /// # let dir = std::env::temp_dir().join(format!("wo-db-range-in-{}", std::process::id()));
    /// # let db = wo::db::Db::builder().table::<Kept>().open(&dir)?;
    /// # db.table::<Kept>()?.insert(Kept { id: 1, kept: Range((1, 9)) })?;
    /// # db.close()?;
    /// # let db = wo::db::Db::builder().table::<Kept>().open(&dir)?;
    /// # assert_eq!(db.table::<Kept>()?.get(&1)?.expect("it is kept").kept, Range((1, 9)));
    /// # db.close()?;
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn field<T>(
        &mut self,
        name: &'static str,
        decode: impl FnOnce(&mut Input<'a>) -> Result<T, Undecodable>,
    ) -> Result<T, Undecodable> {
        decode(self).map_err(|error| error.within(name))
    }
}
