//! Arguments and answers of messages move as messages do.

use std::rc::Rc;

struct Names(Vec<String>);

#[wo::actor]
impl Names {
    #[message(send)]
    fn add(&mut self, name: Rc<str>) {
        self.0.push(name.to_string());
    }

    #[message]
    fn all(&mut self) -> Rc<[String]> {
        self.0.as_slice().into()
    }
}

fn main() {}
