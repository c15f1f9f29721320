//! What the compiler says about common mistakes, and where it points: at the user's own code.
//!
//! The expected output stands next to each program. After a change that is meant to change it, run with
//! `TRYBUILD=overwrite` and read what it wrote.

#[test]
fn mistakes_are_reported_where_they_stand() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}

#[test]
fn a13_what_crosses_and_what_a_handler_takes() {
    trybuild::TestCases::new().compile_fail("tests/ui/actors/*.rs");
}
