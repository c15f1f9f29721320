//! A message that may not cross shards: the type, and the part of it that cannot.

use std::rc::Rc;

struct Line {
    number: usize,
    text: Rc<str>,
}

struct Log(Vec<Line>);

#[wo::actor]
impl Log {
    fn receive(&mut self, line: Line) {
        self.0.push(line);
    }
}

fn main() {}
