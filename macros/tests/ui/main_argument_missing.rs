#[wo::main(shards, io)]
fn main() {}
