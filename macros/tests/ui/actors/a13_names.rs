//! Handlers whose names clash: with each other, with what an address does by itself, with a call that waits.

struct Twice;

#[wo::actor]
impl Twice {
    fn receive(&mut self, _number: u64) {}

    fn receive(&mut self, _text: String) {}
}

struct Names;

#[wo::actor]
impl Names {
    #[message]
    fn get(&mut self) -> u64 {
        1
    }

    #[message]
    fn get(&mut self, _name: String) -> u64 {
        2
    }

    #[message]
    fn get_by(&mut self) -> u64 {
        3
    }

    #[message]
    fn stop(&mut self) {}

    #[message(send)]
    fn from(&mut self, _number: u64) {}

    #[message]
    fn sum(&mut self) -> u64 {
        4
    }

    #[message]
    fn started(&mut self) {}
}

enum BothMessage {
    Add(u64),
}

struct Both;

#[wo::actor]
impl Both {
    fn receive(&mut self, BothMessage::Add(_): BothMessage) {}

    #[message]
    fn get(&mut self) -> u64 {
        5
    }
}

fn main() {}
