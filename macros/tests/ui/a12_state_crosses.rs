//! The state of an actor that is spawned by value moves to another shard; what cannot has to be made there.

use std::rc::Rc;

struct Cache {
    entries: Rc<Vec<String>>,
}

#[wo::actor]
impl Cache {
    fn receive(&mut self, line: String) {
        Rc::make_mut(&mut self.entries).push(line);
    }
}

#[wo::fiber]
fn moved() {
    let _cache = wo::spawn(Cache { entries: Rc::default() });
}

#[wo::fiber]
fn moved_with_options() {
    let _cache = wo::actor::Options::new().bound(8).spawn(Cache { entries: Rc::default() });
}

#[wo::fiber]
fn captured() {
    let entries = Rc::new(Vec::new());
    let _cache = wo::spawn_with(move || Cache { entries });
}

fn main() {}
