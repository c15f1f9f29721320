#[wo::main]
fn main<T>() {}
