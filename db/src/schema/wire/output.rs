//! Where the bytes of a row are written to. What no reader could take back is refused, and said when all is written.

use super::DEPTH_MAX;

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
    /// # let dir = std::env::temp_dir().join(format!("wo-db-level-out-{}", std::process::id()));
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
    pub fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Bytes as they are.
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
    /// # let dir = std::env::temp_dir().join(format!("wo-db-colour-out-{}", std::process::id()));
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
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// An unsigned number.
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
    /// # let dir = std::env::temp_dir().join(format!("wo-db-metres-out-{}", std::process::id()));
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
    /// # let dir = std::env::temp_dir().join(format!("wo-db-steps-out-{}", std::process::id()));
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
    #[inline]
    pub fn count(&mut self, count: usize) {
        self.unsigned(count as u64);
    }

    /// Bytes with their length.
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
    /// # let dir = std::env::temp_dir().join(format!("wo-db-photo-out-{}", std::process::id()));
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
    pub fn sized(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.raw(bytes);
    }

    /// A value that holds others, and may hold its like.
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
    /// # let dir = std::env::temp_dir().join(format!("wo-db-folders-out-{}", std::process::id()));
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
