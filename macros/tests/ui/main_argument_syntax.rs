#[wo::main(shards: 4)]
fn main() {}
