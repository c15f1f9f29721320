//! What only types can tell: it is told of the field.

use std::collections::HashMap;

struct Plain;

#[derive(wo::Record)]
struct Unstorable {
    #[key]
    id: u64,
    scores: HashMap<String, u64>,
}

#[derive(wo::Record)]
struct FloatingKey {
    #[key]
    id: f64,
}

#[derive(wo::Record)]
struct TextualAutomatic {
    #[key(auto)]
    id: String,
}

#[derive(wo::Record)]
#[record(version = 2, upgrade(1 = from_1))]
struct Upgraded {
    #[key]
    id: u64,
}

fn from_1(old: u64) -> Upgraded {
    Upgraded { id: old }
}

fn main() {
    let _ = wo::db::Db::builder().table::<Plain>();
}
