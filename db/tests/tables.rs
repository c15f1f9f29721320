//! Tables, queries, transactions, change feeds and the evolution of rows, as programs use them; and the cases of that
//! side that users of other databases found broken, each under its number.

#![cfg(target_os = "linux")]

mod cases {
    pub mod rig;

    mod bank;
    mod copies;
    mod crashes;
    mod evolution;
    mod feeds;
    mod model;
    mod queries;
    mod refusals;
    mod shards;
}
