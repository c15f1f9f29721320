//! Arguments that `#[wo::fiber]` does not know, or does not know so.

#[wo::fiber(quick)]
fn unknown() {}

#[wo::fiber(boxed, boxed)]
fn twice() {}

#[wo::fiber(boxed = true)]
fn valued() {}

#[wo::fiber("boxed")]
fn literal() {}

fn main() {}
