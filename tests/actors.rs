//! Actors as a program writes them.

use std::time::Duration;

use wo::actor::{Addr, AskError, Reply};
use wo::{Builder, Selection};

struct Counter {
    n: u64,
    kept: Vec<Reply<u64>>,
}

#[wo::actor]
impl Counter {
    fn receive(&mut self, more: u64) {
        self.n += more;
    }

    /// The count.
    #[message]
    fn get(&mut self, name: String) -> u64 {
        wo::sleep(Duration::from_millis(1)).unwrap();
        self.n + name.len() as u64
    }

    #[message(send)]
    fn add(&mut self, n: u64) {
        self.n += n;
    }

    #[message]
    fn later(&mut self, deadline: u64, reply: Reply<u64>) {
        self.n += deadline;
        self.kept.push(reply);
    }

    #[message]
    fn release(&mut self) {
        for reply in self.kept.drain(..) {
            let _ = reply.send(self.n);
        }
    }
}

struct Stack<T>(Vec<T>);

#[wo::actor]
impl<T: Send + Clone + 'static> Stack<T> {
    #[message(send)]
    fn push(&mut self, value: T) {
        self.0.push(value);
    }

    #[message]
    fn pop(&mut self) -> Option<T> {
        self.0.pop()
    }
}

#[wo::fiber]
fn program() {
    let c: Addr<CounterMessage> = wo::spawn(Counter { n: 0, kept: vec![] });
    c.send(5.into()).unwrap();
    c.add(1).unwrap();
    assert_eq!(c.get("abc".to_owned()), Ok(9));
    assert_eq!(c.get_by("abc".to_owned(), Duration::from_secs(5)), Ok(9));
    let waiting = wo::spawn(move || c.later(4));
    assert_eq!(c.later_by(4, Duration::from_millis(1)), Err(AskError::Deadline));
    c.release().unwrap();
    assert_eq!(waiting.join().unwrap(), Ok(14));
    let s = wo::spawn(Stack(vec![1]));
    s.push(2).unwrap();
    assert_eq!(s.pop(), Ok(Some(2)));
    c.send(CounterMessage::add(4)).unwrap();
}

#[test]
fn each() {
    Builder::new().io(Selection::Epoll).shards(2).run(program).unwrap();
}
