//! What is stored, in bytes: fields, types, tables, transactions; with their types, and for tools without them.

pub mod catalogue;
pub mod evolve;
pub mod field;
pub mod types;
pub mod value;
pub mod wire;
