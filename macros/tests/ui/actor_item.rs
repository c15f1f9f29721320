//! Where the attribute goes, what it takes, and what its mark inside takes.

trait Receives {
    fn receive(&mut self, number: u64);
}

struct Counter;

#[wo::actor]
impl Receives for Counter {
    fn receive(&mut self, _number: u64) {}
}

#[wo::actor]
fn receive(_number: u64) {}

struct Lender<'a>(&'a str);

#[wo::actor]
impl<'a> Lender<'a> {
    fn receive(&mut self, _number: u64) {}
}

#[wo::actor(bound = 4)]
impl Counter {
    #[message(quickly)]
    fn get(&mut self) -> u64 {
        1
    }

    #[message]
    #[message]
    fn put(&mut self) {}
}

struct Quiet;

#[wo::actor(message = QuietMessage)]
impl Quiet {
    fn receive(&mut self, _number: u64) {}
}

#[wo::actor(message)]
struct Named;

fn main() {}
