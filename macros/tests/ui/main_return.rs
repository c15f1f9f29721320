#[wo::main]
fn main() -> u32 {
    5
}
