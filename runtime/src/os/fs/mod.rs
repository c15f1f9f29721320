//! Files and directories. Every verb parks its fiber, never its thread.
//!
//! The calls have the names of `std::fs`. What they are given is kept by them until the kernel is done with it, so
//! dropping a call half-way is always safe; a call that changes something has then been done, or not. Errors name the
//! path, and the remedy where one is known.
//!
//! # Examples
//!
//! ```
//! use wo::fs;
//!
//! #[wo::fiber]
//! fn count_words(path: &str) -> wo::IoResult<usize> {
//!     let text = fs::read_to_string(path)?;
//!     Ok(text.split_whitespace().count())
//! }
//! # #[wo::fiber]
//! # fn example() -> wo::IoResult<()> {
//! #     fs::write("/tmp/words", "three short words")?;
//! #     assert_eq!(count_words("/tmp/words")?, 3);
//! #     Ok(())
//! # }
//! # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
//! ```

mod dir;
mod explain;
pub(super) mod file;
mod live;
mod names;
mod options;
mod positional;
mod session;
mod streaming;
mod whole;

pub use crate::plane::backend::operand::{FileKind, FileStat as Metadata};

pub use dir::{DirEntry, create_dir, create_dir_all, read_dir, remove_dir, sync_dir};
pub use file::File;
pub use live::LiveFs;
pub use names::{exists, metadata, remove_file, rename, rename_noreplace, symlink_metadata};
pub use options::OpenOptions;
pub use whole::{read, read_to_string, write};
