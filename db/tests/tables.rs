//! Tables, queries, transactions, change feeds and the evolution of rows, as programs use them; and the cases of that
//! side that users of other databases found broken, each under its number.

#![cfg(target_os = "linux")]

#[path = "../../tests/support/backends.rs"]
mod backends;
#[path = "../fuzz/src/changes.rs"]
mod changes;
#[path = "support/files.rs"]
mod files;
#[path = "support/segment.rs"]
mod segment;

mod cases {
    pub mod rig;

    mod b1;
    mod bank;
    mod copies;
    mod crashes;
    mod evolution;
    mod feeds;
    mod hosts;
    mod kills;
    mod model;
    mod queries;
    mod recovering;
    mod refusals;
    mod shards;
    mod trouble;
    mod waits;
}
