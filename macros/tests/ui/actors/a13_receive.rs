//! What `receive` cannot look like, each with words of its own.

struct Nothing;

#[wo::actor]
impl Nothing {
    fn receive(&mut self) {}
}

struct Two;

#[wo::actor]
impl Two {
    fn receive(&mut self, _number: u64, _text: String) {}
}

struct Lent;

#[wo::actor]
impl Lent {
    fn receive(&mut self, _text: &str) {}
}

struct Mutable;

#[wo::actor]
impl Mutable {
    fn receive(&mut self, _text: &mut String) {}
}

struct Async;

#[wo::actor]
impl Async {
    async fn receive(&mut self, _number: u64) {}
}

struct NoSelf;

#[wo::actor]
impl NoSelf {
    fn receive(_number: u64) {}
}

struct Consumed;

#[wo::actor]
impl Consumed {
    fn receive(self, _number: u64) {}
}

struct Generic;

#[wo::actor]
impl Generic {
    fn receive<T: Send + 'static>(&mut self, _value: T) {}
}

struct Open;

#[wo::actor]
impl Open {
    fn receive(&mut self, _value: impl Send + 'static) {}
}

struct Answers;

#[wo::actor]
impl Answers {
    fn receive(&mut self, number: u64) -> u64 {
        number
    }
}

struct Conditional;

#[wo::actor]
impl Conditional {
    #[cfg(unix)]
    fn receive(&mut self, _number: u64) {}
}

fn main() {}
