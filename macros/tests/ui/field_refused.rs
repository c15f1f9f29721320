//! What can stand in a record's field.

#[derive(wo::Field)]
enum Never {}

#[derive(wo::Field)]
union Either {
    one: u64,
    other: f64,
}

#[derive(wo::Field)]
struct Holds {
    number: u64,
    shared: std::rc::Rc<str>,
}

fn main() {}
