//! A panic anywhere in what users write ends the actor it belongs to, and nothing else.

use std::time::Duration;

use wo::actor::{Addr, AskError, Exit, Options, Reply};

use super::everywhere;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Where {
    Nowhere,
    Started,
    Receive,
    Stopping,
    OnCancel,
    State,
}

/// It begins when it is told to.
struct Fragile(Where, Option<wo::oneshot::Receiver<()>>);

enum Poke {
    Touch,
    /// A message whose destructor panics.
    Bomb(Bomb),
    Wait(#[allow(dead_code)] Reply<()>),
    /// An answer whose destructor panics.
    Explosive(Reply<Bomb>),
    Ready(Reply<()>),
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a destructor");
    }
}

#[wo::actor]
impl Fragile {
    fn started(&mut self) {
        if let Some(begin) = self.1.take() {
            let _ = begin.recv();
        }
        assert!(self.0 != Where::Started, "in started");
    }

    fn receive(&mut self, message: Poke) {
        match message {
            Poke::Touch => assert!(self.0 != Where::Receive, "in receive"),
            Poke::Bomb(bomb) => drop(bomb),
            Poke::Wait(_reply) => {
                let _ = wo::sleep(Duration::from_secs(3600));
            }
            Poke::Explosive(reply) => {
                let _ = wo::sleep(Duration::from_secs(3600));
                drop(reply.send(Bomb));
            }
            Poke::Ready(reply) => _ = reply.send(()),
        }
    }

    fn stopping(&mut self) {
        assert!(self.0 != Where::Stopping, "in stopping");
    }

    fn on_cancel(&mut self) {
        assert!(self.0 != Where::OnCancel, "in on_cancel");
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        assert!(self.0 != Where::State, "in the state's destructor");
    }
}

#[derive(Default)]
struct Witness(Vec<Exit>);

#[wo::actor]
impl Witness {
    fn receive(&mut self, exit: Exit) {
        self.0.push(exit);
    }

    #[message]
    fn seen(&mut self) -> Vec<Exit> {
        self.0.clone()
    }
}

/// How an actor that panics there ends, when `poke` pokes it; told once, and its neighbour lives on.
async fn ends<F: Future<Output = ()>>(at: Where, shard: usize, poke: impl FnOnce(Addr<Poke>) -> F) -> Exit {
    let options = Options::new().shard(shard);
    let neighbour = options.clone().spawn(Fragile(Where::Nowhere, None));
    let witness = wo::spawn(Witness::default());
    let (begin, may_begin) = wo::oneshot();
    let fragile = options.spawn(Fragile(at, Some(may_begin)));
    fragile.notify_end(witness, WitnessMessage::from);
    begin.send(()).expect("it waits");
    poke(fragile).await;
    fragile.stop();
    fragile.ended().await.expect("ended");
    assert_eq!(neighbour.ask(Poke::Ready).await, Ok(()), "the neighbour lives");
    let mut seen = witness.seen().await.expect("seen");
    assert_eq!(seen.len(), 1, "told once: {seen:?}");
    seen.remove(0)
}

/// Asks until the deadline of one ask finds its handler at work, which ends the actor. A deadline that passes before
/// the message is taken ends the message alone.
async fn ask_until_it_ends<T: Send + 'static>(fragile: Addr<Poke>, question: fn(Reply<T>) -> Poke) {
    let mut deadline = Duration::from_millis(5);
    loop {
        match fragile.ask_by(question, deadline).await {
            Err(AskError::Deadline) => deadline *= 2,
            Err(AskError::Stopped | AskError::Closed) => break,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("an answer"),
        }
    }
}

fn panicked(words: &str) -> Exit {
    Exit::Panicked(words.to_owned())
}

#[test]
fn a_panic_in_any_function_ends_the_actor_alone() {
    everywhere(|| async {
        for shard in 0..3 {
            assert_eq!(ends(Where::Nowhere, shard, async |_| ()).await, Exit::Stopped);
            assert_eq!(ends(Where::Started, shard, async |_| ()).await, panicked("in started"));
            let poke = async |fragile: Addr<Poke>| fragile.send(Poke::Touch).await.expect("send");
            assert_eq!(ends(Where::Receive, shard, poke).await, panicked("in receive"));
            assert_eq!(ends(Where::Stopping, shard, async |_| ()).await, panicked("in stopping"));
            assert_eq!(ends(Where::State, shard, async |_| ()).await, panicked("in the state's destructor"));
            let poke = async |fragile: Addr<Poke>| ask_until_it_ends(fragile, Poke::Wait).await;
            assert_eq!(ends(Where::OnCancel, shard, poke).await, panicked("in on_cancel"));
        }
    });
}

#[test]
fn a_panic_in_the_destructor_of_a_message_or_an_answer_ends_who_drops_it() {
    everywhere(|| async {
        for shard in 0..3 {
            // Dropped by the handler.
            let poke = async |fragile: Addr<Poke>| fragile.send(Poke::Bomb(Bomb)).await.expect("send");
            assert_eq!(ends(Where::Nowhere, shard, poke).await, panicked("a destructor"));
            // An answer to nobody, which comes back to the handler.
            let poke = async |fragile: Addr<Poke>| ask_until_it_ends(fragile, Poke::Explosive).await;
            assert_eq!(ends(Where::Nowhere, shard, poke).await, panicked("a destructor"));
            // Left when the actor ends: dropped, and reported.
            let poke = async |fragile: Addr<Poke>| {
                let waits = wo::spawn(move || fragile.ask(Poke::Wait));
                wo::yield_now().await.expect("yield");
                let queued = wo::spawn(move || fragile.ask(Poke::Ready));
                fragile.send(Poke::Bomb(Bomb)).await.expect("send");
                fragile.send(Poke::Bomb(Bomb)).await.expect("send");
                fragile.kill();
                let told = waits.join().await.expect("join");
                assert!(matches!(told, Err(AskError::Stopped | AskError::Closed)), "{told:?}");
                let told = queued.join().await.expect("join");
                assert!(matches!(told, Err(AskError::Stopped | AskError::Closed)), "{told:?}");
            };
            assert_eq!(ends(Where::Nowhere, shard, poke).await, Exit::Killed);
            // Sent to nobody: the sender goes on.
            let gone = Options::new().shard(shard).spawn(Fragile(Where::Nowhere, None));
            gone.kill();
            gone.ended().await.expect("ended");
            gone.send(Poke::Bomb(Bomb)).await.expect("to nobody, quietly");
        }
    });
}

/// The state's destructor panics after a panic of the handler: the first is how the actor ended.
#[test]
fn a_second_panic_is_reported_and_changes_nothing() {
    everywhere(|| async {
        let poke = async |fragile: Addr<Poke>| fragile.send(Poke::Bomb(Bomb)).await.expect("send");
        assert_eq!(ends(Where::State, 1, poke).await, panicked("a destructor"));
    });
}

/// What makes the state may panic as well, here or on another shard.
#[test]
fn a_panic_in_what_makes_the_state_is_an_end() {
    fn make() -> Fragile {
        panic!("while making it")
    }
    everywhere(|| async {
        for shard in 0..3 {
            let unmade = Options::new().shard(shard).spawn_with(make);
            let asked = unmade.ask(Poke::Ready).await;
            assert!(matches!(asked, Err(AskError::Closed | AskError::Stopped)), "{asked:?}");
            assert!(matches!(unmade.ended().await, Ok(Exit::Gone)));
        }
    });
}
