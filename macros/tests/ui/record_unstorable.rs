//! A field that cannot be stored is told of once, at its type; and once more where somebody would open the table.

use std::collections::HashMap;

#[derive(wo::Record)]
struct Account {
    #[key]
    id: u64,
    scores: HashMap<String, u64>,
    #[default]
    handle: std::thread::Thread,
}

#[derive(wo::Field)]
struct Scores {
    all: HashMap<String, u64>,
}

#[derive(wo::Record)]
struct TextualAutomatic {
    #[key(auto)]
    id: String,
}

fn main() {
    let _ = wo::db::Db::builder().table::<Account>();
}
