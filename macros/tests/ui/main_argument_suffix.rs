#[wo::main(shards = 4u8)]
fn main() {}
