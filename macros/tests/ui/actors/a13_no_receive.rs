//! WO-E221: what has no handler is no actor, and cannot be spawned.

struct Empty;

#[wo::actor]
impl Empty {}

struct Started;

#[wo::actor]
impl Started {
    fn started(&mut self) {}

    fn recieve(&mut self, _: u64) {}
}

#[wo::actor]
struct Marked;

struct Plain;

#[wo::fiber]
fn spawned() {
    let _plain = wo::spawn(Plain);
    let _plain = wo::spawn_with(|| Plain);
    let _number = wo::spawn(5);
}

fn main() {}
