#[wo::main]
fn start() {}

struct Program;

impl Program {
    #[wo::main]
    fn main(&self) {}
}

fn main() {}
