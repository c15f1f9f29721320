//! The database of `wo`: tables of typed records in memory, owned by one shard, called from any.
//!
//! A [`Record`] is a struct with a key; [`Db::builder`] declares the tables and opens the database; [`Table`] has the
//! verbs, [`Query`] says which rows, [`Db::transaction`] makes many changes one, [`Watch`] tells what changed. Programs
//! use it as `wo::db`.
//!
//! The parts, from the top floor down: `db.rs`, `table.rs`, `query.rs`, `transaction.rs` and `watch.rs` are what users
//! see; `owner/` is the one shard that holds the tables, and how others reach it; `store/` the tables in memory;
//! `schema/` what rows are as bytes, and how those of yesterday become those of today.

mod builder;
mod cursor;
mod db;
mod error;
// For the tools, and the tests of this crate.
#[doc(hidden)]
pub mod log;
mod owner;
mod query;
mod record;
mod row;
mod schema;
mod store;
mod table;
pub mod tools;
mod transaction;
mod watch;

pub use builder::Builder;
pub use cursor::Cursor;
pub use db::{Db, Stats, TableStats};
pub use error::{Error, ErrorKind, Result};
pub use log::copy::Backup;
pub use log::{LogStats, Recovery, Snapshot, TornTail};
pub use query::Query;
pub use record::{Automatic, Key, Prefixed, Record, Successive};
pub use row::Row;
pub use schema::evolve::OldRow;
pub use schema::field::Field;
pub use schema::value::Value;
pub use schema::wire::{Input, Output, Undecodable};
pub use store::index::{Index, Indexed, Unique};
pub use table::Table;
pub use transaction::{Tx, TxTable};
pub use watch::{Change, Watch};

/// Stored tables without their program: for tools.
pub mod stored {
    pub use crate::schema::catalogue::{Catalogue, Change, Column, Role, Schema};
    pub use crate::schema::types::{Naming, Type, Variant};
    pub use crate::schema::value::Value;
    pub use crate::schema::wire::Undecodable;
}

/// What the derives expand to. Not for direct use.
#[doc(hidden)]
pub mod __rt {
    pub use crate::error::{Error, Result};
    pub use crate::record::{Automatic, ColumnOf, Record, Upgrade, upgrade};
    pub use crate::schema::catalogue::Role;
    pub use crate::schema::evolve::{OldRow, Parts};
    pub use crate::schema::field::Field;
    pub use crate::schema::types::{Naming, Type};
    pub use crate::schema::wire::{Input, Output, Undecodable};
    pub use crate::store::index::{AnyIndex, Index, Unique, plain, unique};
}
