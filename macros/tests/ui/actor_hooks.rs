//! Hooks take nothing but the actor.

struct Hooked;

#[wo::actor]
impl Hooked {
    fn receive(&mut self, _number: u64) {}

    fn started(&mut self, _number: u64) {}

    fn stopping() {}

    fn on_cancel(&mut self) -> bool {
        true
    }
}

struct Failing;

#[wo::actor]
impl Failing {
    fn receive(&mut self, _number: u64) -> Result<(), Vec<u8>> {
        Ok(())
    }

    fn started(&mut self) -> bool {
        true
    }
}

fn main() {}
