//! Fuzzes catalogues and transactions: `cargo +nightly fuzz run rows` in the folder `db`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wo_db_fuzz::rows(bytes));
