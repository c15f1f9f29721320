#[wo::main]
struct Program;

fn main() {}
