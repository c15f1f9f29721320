#[wo::main(reductions = 5_000_000_000, seed = 99999999999999999999)]
fn main() {}
