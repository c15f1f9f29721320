//! A record has named fields, a key, and one type.

#[derive(wo::Record)]
struct Keyless {
    id: u64,
    name: String,
}

#[derive(wo::Record)]
struct Unnamed(u64, String);

#[derive(wo::Record)]
enum State {
    Open,
    Closed,
}

#[derive(wo::Record)]
struct Generic<T> {
    #[key]
    id: T,
}

#[derive(wo::Record)]
struct TwoAutomatic {
    #[key(auto)]
    one: u64,
    #[key]
    two: u64,
}

#[derive(wo::Record)]
struct Redundant {
    #[key]
    #[unique]
    id: u64,
    #[unique]
    #[index]
    name: String,
}

fn main() {}
