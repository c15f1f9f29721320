//! Fuzzes segments of a log: `cargo +nightly fuzz run frames` in the folder `db`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wo_db_fuzz::frames(bytes));
