#[wo::main(speed = 1, shards = 0, io = "x")]
fn main() {}
