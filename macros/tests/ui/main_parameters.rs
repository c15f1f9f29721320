#[wo::main]
fn main(arguments: Vec<String>) {}
