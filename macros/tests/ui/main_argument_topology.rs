#[wo::main(topology = "stealing")]
fn main() {}
