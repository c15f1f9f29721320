//! What cannot be an argument of a message, or an answer: what is lent, and what has no one type.

use std::borrow::Cow;

struct Names(Vec<String>);

#[wo::actor]
impl Names {
    #[message]
    fn fill(&mut self, names: &mut Vec<String>) {
        names.append(&mut self.0);
    }

    #[message]
    fn has(&mut self, name: &str) -> bool {
        self.0.iter().any(|own| own == name)
    }

    #[message]
    fn has_one(&mut self, names: Vec<&str>) -> bool {
        self.0.iter().any(|own| names.contains(&own.as_str()))
    }

    #[message]
    fn has_cow(&mut self, name: Cow<'_, str>) -> bool {
        self.0.iter().any(|own| *own == name)
    }

    #[message(send)]
    fn add(&mut self, name: impl Into<String>) {
        self.0.push(name.into());
    }

    #[message(send)]
    fn extend<N: Into<String>>(&mut self, name: N) {
        self.0.push(name.into());
    }

    #[message]
    fn first(&mut self) -> Option<&String> {
        self.0.first()
    }

    #[message]
    fn all(&mut self) -> impl Iterator<Item = String> {
        self.0.clone().into_iter()
    }

    #[message]
    fn stay(&mut self) -> ! {
        panic!()
    }

    #[message]
    fn count(self) -> usize {
        self.0.len()
    }

    #[message]
    fn limit() -> usize {
        10
    }

    #[message]
    unsafe fn grow(&mut self) {}

    #[message]
    async fn shrink(&mut self) {}
}

fn main() {}
