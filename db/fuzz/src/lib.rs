//! The bodies of the fuzzers. Each takes any bytes, and panics when the database does what it must not.

mod changes;
mod directory;
mod forge;
mod rows;
mod scripts;

pub use directory::{frames, snapshots};
pub use rows::rows;
pub use scripts::scripts;
