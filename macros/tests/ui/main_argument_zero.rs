#[wo::main(shards = 0, reductions = 0)]
fn main() {}
