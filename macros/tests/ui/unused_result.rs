//! A verb's answer that nobody looks at.
#![deny(unused_must_use)]

#[wo::fiber]
fn pause() {
    wo::yield_now();
}

fn main() {}
