#[wo::main]
async fn main() {}
