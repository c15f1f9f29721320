//! Worlds in which nothing can happen any more say who waits for what.

use wo::actor::{Addr, AskError, Options};
use wo::net::UdpSocket;
use wo::sim::World;
use wo::{Builder, RunError, Selection};

#[wo::fiber]
fn wait_in_vain() -> wo::IoResult<usize> {
    wo::spawn_named("listener", || receive());
    let (sender, receiver) = wo::oneshot::oneshot::<usize>();
    let kept = sender;
    let got = receiver.recv();
    drop(kept);
    got
}

#[wo::fiber]
fn receive() -> wo::IoResult<usize> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let (count, _) = socket.recv(vec![0; 8]);
    count
}

/// Every fiber that waits is named, with what it waits in.
#[test]
fn m9_a_deadlock_names_every_fiber_and_its_wait() {
    let mut world = World::new(9);
    let (one, two) = (world.host("one"), world.host("two"));
    let first = world.start(&one, wait_in_vain());
    let second = world.start(&two, receive());
    let error = world.run().unwrap_err();
    assert_eq!(error.errno(), libc::EDEADLK);
    let words = error.to_string();
    for expected in [
        "quiescent",
        "one: fiber 0 (main) waits in receive",
        "one: fiber 1 (listener) waits in recv",
        "two: fiber 0 (main) waits in recv",
        "two: in flight: recv",
    ] {
        assert!(words.contains(expected), "{expected:?} is missing in {words}");
    }
    for program in [first, second] {
        let ended = program.take().unwrap();
        assert!(matches!(&ended, Err(RunError::Kernel(error)) if error.errno() == libc::EDEADLK), "{ended:?}");
    }
    // The same of a program alone, without a world to build.
    let alone = Builder::new().io(Selection::Sim).shards(2).run(wait_in_vain());
    let words = alone.unwrap_err().to_string();
    assert!(words.contains("shard 0, fiber 1 (listener) waits in recv"), "{words}");
}

/// A timer that is due some day is no deadlock; one that never is, is.
#[test]
fn m9_a_timer_that_never_comes_keeps_nobody_waiting() {
    let mut world = World::new(9);
    let host = world.host("sleeper");
    let never = world.start(&host, sleep_for_ever());
    assert!(matches!(world.finish(never), Err(RunError::Kernel(error)) if error.errno() == libc::EDEADLK));
}

#[wo::fiber]
fn sleep_for_ever() -> wo::IoResult<()> {
    wo::sleep(std::time::Duration::MAX)
}

/// Asks the other of its kind in the middle of being asked.
struct Asker {
    other: Option<Addr<AskerMessage>>,
}

#[wo::actor]
impl Asker {
    #[message(send)]
    fn meet(&mut self, other: Addr<AskerMessage>) {
        self.other = Some(other);
    }

    /// Asks in its own name: the runtime sees the circle.
    #[message]
    fn m1(&mut self) -> Result<u32, AskError> {
        self.other.expect("they have met").m2()?
    }

    #[message]
    fn m2(&mut self) -> Result<u32, AskError> {
        self.other.expect("they have met").m1()?
    }

    #[message]
    fn myself(&mut self) -> Result<u32, AskError> {
        let own = wo::actor::this::<AskerMessage>().expect("inside the actor");
        own.m2()?
    }

    /// Asks through a fiber of its own: nobody sees who waits for whom, until nothing can happen any more.
    #[message]
    fn hidden(&mut self) -> Result<u32, AskError> {
        let other = self.other.expect("they have met");
        let asks = wo::spawn(move || other.m2_hidden());
        asks.join().expect("it does not panic")?
    }

    #[message]
    fn m2_hidden(&mut self) -> Result<u32, AskError> {
        let other = self.other.expect("they have met");
        let asks = wo::spawn(move || other.hidden());
        asks.join().expect("it does not panic")?
    }
}

#[wo::fiber]
fn pair() -> [Addr<AskerMessage>; 2] {
    let a = Options::new().shard(0).spawn_named("a", Asker { other: None }).expect("the name is free");
    let b = Options::new().shard(1).spawn_named("b", Asker { other: None }).expect("the name is free");
    a.meet(b).expect("it lives");
    b.meet(a).expect("it lives");
    [a, b]
}

#[wo::fiber]
fn ask_around(which: fn(Addr<AskerMessage>) -> Kind) -> Result<u32, AskError> {
    let [a, b] = pair();
    let answer = match which(a) {
        Kind::Seen => a.m1(),
        Kind::Myself => b.myself(),
        Kind::Hidden => a.hidden(),
    };
    answer.and_then(|answer| answer)
}

enum Kind {
    Seen,
    Myself,
    Hidden,
}

/// Actors that ask each other in a circle: the one that closes it is told, and the world says who asked whom what.
#[test]
fn a11_a_circle_of_asks_is_written_down() {
    for shards in [1, 2] {
        let mut world = World::new(11);
        world.keep_trace();
        let host = world.host("actors");
        let builder = Builder::new().shards(shards);
        let around = world.start_with(&host, builder.clone(), ask_around(|_| Kind::Seen));
        assert_eq!(world.finish(around).unwrap(), Err(AskError::Deadlock));
        let itself = world.start_with(&host, builder, ask_around(|_| Kind::Myself));
        assert_eq!(world.finish(itself).unwrap(), Err(AskError::Deadlock));
        assert_eq!(world.deadlocks(), ["Deadlock[a.m1->b.m2->a.m1]", "Deadlock[b.m2->b.m2]"]);
        assert!(world.trace().contains(" Deadlock[a.m1->b.m2->a.m1]\n"));
    }
}

/// A circle that nobody sees, since fibers ask in the actors' stead, ends with the world: the report has the circle,
/// and both ask sites.
#[test]
fn a11_a_hidden_circle_of_asks_ends_the_world() {
    for shards in [1, 2] {
        let mut world = World::new(11);
        let host = world.host("actors");
        let around = world.start_with(&host, Builder::new().shards(shards), ask_around(|_| Kind::Hidden));
        let error = world.finish(around).unwrap_err();
        let words = error.to_string();
        assert!(matches!(&error, RunError::Kernel(error) if error.errno() == libc::EDEADLK), "{words}");
        for expected in [
            "actors: Deadlock[a.hidden->b.m2_hidden->a.hidden]",
            "fiber 0 (main) waits in ask a.hidden",
            ", actor a, waits for the end of fiber ",
            ", actor b, waits for the end of fiber ",
            " waits in ask b.m2_hidden",
            " waits in ask a.hidden",
        ] {
            assert!(words.contains(expected), "{expected:?} is missing in {words}");
        }
    }
}

#[wo::fiber]
fn leave_an_actor_idle() -> wo::IoResult<()> {
    let _idle = wo::spawn(Asker { other: None });
    let first = wo::Channel::<u32>::new(1);
    let second = first.clone();
    let waits = wo::spawn(move || second.take().map(drop));
    let joined = waits.join();
    drop(first);
    joined
        .expect("it does not panic")
        .map_err(|_| wo::IoError::new(libc::EPIPE, wo::OpKind::Receive, wo::Stage::Submit))
}

/// Actors without a message are named as such, and a join names whom it waits for.
#[test]
fn m9_an_idle_actor_waits_for_a_message() {
    let mut world = World::new(9);
    let host = world.host("one");
    let waits = world.start(&host, leave_an_actor_idle());
    let words = world.finish(waits).unwrap_err().to_string();
    for expected in [
        "one: fiber 0 (main) waits for the end of fiber 2",
        "one: fiber 1, actor Asker#1, waits for a message",
        "one: fiber 2 waits in receive",
    ] {
        assert!(words.contains(expected), "{expected:?} is missing in {words}");
    }
    assert!(!words.contains("Deadlock["), "{words}");
}
