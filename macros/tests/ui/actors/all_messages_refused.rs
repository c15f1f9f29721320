//! An actor all of whose messages are refused: who spawns it is not blamed, too.

struct Lender;

#[wo::actor]
impl Lender {
    fn started(&mut self) {}

    #[message]
    fn lend(&mut self, word: &str) -> usize {
        word.len()
    }
}

#[wo::main]
fn main() {
    wo::spawn(Lender);
}
