//! Fuzzes scripts of operations, with crashes in between: `cargo +nightly fuzz run scripts` in the folder `db`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wo_db_fuzz::scripts(bytes));
