//! What is said of a record and its fields is checked where it stands, all of it at once.

#[derive(wo::Record)]
#[record(tables = "people")]
struct UnknownArgument {
    #[key]
    id: u64,
}

#[derive(wo::Record)]
#[record(table = "", version = 0)]
struct Empty {
    #[key]
    id: u64,
}

#[derive(wo::Record)]
#[record(version = 2, upgrade(2 = from_2, 1 = from_1, 1 = from_1))]
struct Backwards {
    #[key(manual)]
    id: u64,
    #[renamed("id")]
    number: u64,
    #[renamed]
    title: String,
    #[index]
    #[index]
    city: String,
    #[unique = "yes"]
    code: u64,
}

#[derive(wo::Record)]
struct OnAField {
    #[key]
    id: u64,
    #[record(version = 2)]
    number: u64,
    #[record(default, default = 7)]
    twice: u64,
}

fn main() {}
