#[wo::main(io = "kqueue")]
fn main() {}
