//! The wrong attribute on `main`.

#[wo::fiber]
fn main() {}
