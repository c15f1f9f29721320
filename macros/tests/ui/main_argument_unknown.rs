#[wo::main(speed = 3)]
fn main() {}
