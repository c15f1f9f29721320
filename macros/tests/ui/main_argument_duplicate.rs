#[wo::main(shards = 1, shards = 2)]
fn main() {}
