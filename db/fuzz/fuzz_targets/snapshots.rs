//! Fuzzes snapshots: `cargo +nightly fuzz run snapshots` in the folder `db`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wo_db_fuzz::snapshots(bytes));
