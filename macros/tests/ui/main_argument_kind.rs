#[wo::main(shards = "two", io = 3, seed = 1.5, reductions = -1)]
fn main() {}
