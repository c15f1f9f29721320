//! Deriving `Message` has the compiler point at the field that cannot cross shards.

use std::cell::RefCell;
use std::rc::Rc;

#[derive(wo::Message)]
struct Line {
    number: usize,
    text: Rc<str>,
}

#[derive(wo::Message)]
enum Edit {
    Append(Line),
    Shared { cell: &'static RefCell<u8>, at: usize },
    Clear,
}

#[derive(wo::Message)]
struct Generic<T>(T);

fn main() {}
