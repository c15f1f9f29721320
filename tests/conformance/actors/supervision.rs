//! Supervision: what is restarted, in which order, how often, and what it keeps.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use wo::actor::{Addr, AskError, Exit, Options, Reply, Supervisor, back_off, counters};

use super::{everywhere, simulated};

const MS: Duration = Duration::from_millis(1);

/// What children do, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, what: String) {
        self.0.lock().expect("nobody panicked").push(what);
    }

    /// Waits until so much was noted since.
    async fn reaches(&self, count: usize) {
        while self.0.lock().expect("nobody panicked").len() < count {
            wo::yield_now().await.expect("yield");
        }
    }

    /// What was noted since.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("nobody panicked"))
    }
}

enum Do {
    Panic,
    /// Panics before it answers.
    PanicAsked(Reply<u32>),
    Fail,
    Count(Reply<u32>),
    Slow(Duration),
    /// Sleeps whatever is cancelled.
    Stubborn(Duration),
}

/// A child that counts its messages.
struct Child {
    name: &'static str,
    log: Log,
    handled: u32,
    start: Start,
}

#[derive(Clone, Copy, PartialEq)]
enum Start {
    Well,
    Fails,
}

#[wo::actor]
impl Child {
    fn started(&mut self) -> Result<(), &'static str> {
        self.log.note(format!("{} started", self.name));
        if self.start == Start::Fails { Err("a failed start") } else { Ok(()) }
    }

    fn receive(&mut self, message: Do) -> Result<(), &'static str> {
        self.handled += 1;
        match message {
            Do::Panic => panic!("as asked"),
            Do::PanicAsked(_reply) => panic!("as asked"),
            Do::Fail => return Err("as asked"),
            Do::Count(reply) => _ = reply.send(self.handled),
            Do::Slow(span) => {
                if wo::sleep(span).is_err() {
                    self.log.note(format!("{} hurried", self.name));
                }
            }
            Do::Stubborn(span) => {
                let until = wo::now() + span;
                while wo::now() < until {
                    // It does not heed that it is cancelled.
                    let _ = wo::yield_now();
                }
            }
        }
        Ok(())
    }

    fn stopping(&mut self) {
        self.log.note(format!("{} stopped", self.name));
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.log.note(format!("{} dropped", self.name));
    }
}

fn child(name: &'static str, log: &Log) -> impl FnMut() -> Child + Send + 'static {
    let log = log.clone();
    move || Child { name, log: log.clone(), handled: 0, start: Start::Well }
}

/// Three children under `supervisor`, each on a shard of its own where there are as many, all started.
async fn three(mut supervisor: Supervisor, log: &Log) -> (Addr<wo::actor::Supervision>, [Addr<Do>; 3]) {
    let children = [("a", 0), ("b", 1), ("c", 2)]
        .map(|(name, shard)| supervisor.child_with(Options::new().shard(shard), child(name, log)));
    let supervisor = supervisor.start();
    for child in children {
        assert_eq!(child.ask(Do::Count).await, Ok(1));
    }
    assert_eq!(log.take(), ["a started", "b started", "c started"]);
    (supervisor, children)
}

#[test]
fn a7_a_restarted_child_handles_what_waits() {
    everywhere(|| async {
        for shard in 0..3 {
            let log = Log::default();
            let mut supervisor = Supervisor::one_for_one();
            let options = Options::new().shard(shard);
            let child = supervisor.child_with(options.clone(), child("child", &log));
            let neighbour = options.spawn(Child { name: "n", log: Log::default(), handled: 0, start: Start::Well });
            let supervisor = supervisor.start();
            child.send(Do::Slow(MS)).await.expect("send");
            child.send(Do::Slow(MS)).await.expect("send");
            // Messages 3 to 5; the handler of 3 panics.
            let third = wo::spawn(move || child.ask(Do::PanicAsked));
            let fourth = wo::spawn(move || child.ask(Do::Count));
            let fifth = wo::spawn(move || child.ask(Do::Count));
            assert_eq!(third.join().await.expect("join"), Err(AskError::Panicked));
            assert_eq!(fourth.join().await.expect("join"), Ok(1), "handled by the new state");
            assert_eq!(fifth.join().await.expect("join"), Ok(2));
            assert_eq!(log.take(), ["child started", "child dropped", "child started"]);
            assert_eq!(neighbour.ask(Do::Count).await, Ok(1));
            supervisor.stop();
            assert_eq!(supervisor.ended().await, Ok(Exit::Stopped));
            assert_eq!(log.take(), ["child stopped", "child dropped"]);
            assert_eq!(child.ask(Do::Count).await, Err(AskError::Closed));
        }
    });
}

/// The request whose handler panicked hears of it; the address is the same one afterwards.
#[test]
fn a7_the_asker_of_a_failed_handler_is_told() {
    struct Answering;
    #[wo::actor]
    impl Answering {
        #[message]
        fn divide(&mut self, by: u32) -> u32 {
            100 / by
        }
    }
    everywhere(|| async {
        let mut supervisor = Supervisor::one_for_one();
        let answering = supervisor.child(|| Answering);
        supervisor.start();
        assert_eq!(answering.divide(5).await, Ok(20));
        assert_eq!(answering.divide(0).await, Err(AskError::Panicked));
        assert_eq!(answering.divide(4).await, Ok(25));
    });
}

#[test]
fn a8_too_many_restarts_stop_the_supervisor() {
    #[derive(Default)]
    struct Parent(Vec<Exit>);
    #[wo::actor]
    impl Parent {
        fn receive(&mut self, exit: Exit) {
            self.0.push(exit);
        }

        #[message]
        fn told(&mut self) -> Vec<Exit> {
            self.0.clone()
        }
    }
    simulated(|| async {
        let log = Log::default();
        let mut supervisor = Supervisor::one_for_one().limit(3, Duration::from_secs(10));
        let failing = supervisor.child(child("a", &log));
        let _sibling = supervisor.child(child("b", &log));
        let supervisor = supervisor.start();
        let parent = wo::spawn(Parent::default());
        supervisor.notify_end(parent, ParentMessage::from);
        for _ in 0..4 {
            wo::sleep(250 * MS).await.expect("sleep");
            failing.send(Do::Panic).await.expect("send");
        }
        let before = counters();
        for _ in 0..5 {
            failing.send(Do::Slow(MS)).await.expect("send");
        }
        supervisor.ended().await.expect("ended");
        assert_eq!(counters().dead_lettered - before.dead_lettered, 5);
        assert!(!failing.is_open());
        let told = parent.told().await.expect("told");
        assert_eq!(told.len(), 1, "{told:?}");
        match &told[0] {
            Exit::GaveUp(words) => assert!(words.contains("4 failures") && words.contains("as asked"), "{words}"),
            other => panic!("{other:?}"),
        }
        let mut expected = vec!["a started", "b started"];
        for _ in 0..3 {
            expected.extend(["a dropped", "a started"]);
        }
        expected.extend(["a dropped", "b stopped", "b dropped"]);
        assert_eq!(log.take(), expected);
        // Failures that lie further apart than the span never add up.
        let mut supervisor = Supervisor::one_for_one().limit(1, Duration::from_secs(1));
        let failing = supervisor.child(child("a", &log));
        let supervisor = supervisor.start();
        for _ in 0..10 {
            failing.send(Do::Fail).await.expect("send");
            wo::sleep(Duration::from_millis(1001)).await.expect("sleep");
        }
        assert_eq!(failing.ask(Do::Count).await, Ok(1));
        supervisor.stop();
    });
    everywhere(|| async {
        let log = Log::default();
        let mut supervisor = Supervisor::one_for_one().limit(3, Duration::from_secs(3600));
        let failing = supervisor.child(child("a", &log));
        let supervisor = supervisor.start();
        let ended = wo::spawn(move || supervisor.ended());
        wo::yield_now().await.expect("yield");
        let before = counters();
        for _ in 0..4 {
            failing.send(Do::Panic).await.expect("send");
        }
        for _ in 0..5 {
            failing.send(Do::Slow(MS)).await.expect("send");
        }
        assert!(matches!(ended.join().await.expect("join"), Ok(Exit::GaveUp(_))));
        let after = counters();
        assert_eq!(after.handled - before.handled, 4);
        assert_eq!(after.dead_lettered - before.dead_lettered, 5);
        assert_eq!(after.queued(), 0);
    });
}

#[test]
fn a9_one_for_all() {
    everywhere(|| async {
        let log = Log::default();
        let (supervisor, [a, b, c]) = three(Supervisor::one_for_all(), &log).await;
        b.send(Do::Panic).await.expect("send");
        log.reaches(8).await;
        for child in [c, b, a] {
            assert_eq!(child.ask(Do::Count).await, Ok(1), "a new state, the same address");
        }
        let expected =
            ["b dropped", "c stopped", "c dropped", "a stopped", "a dropped", "a started", "b started", "c started"];
        assert_eq!(log.take(), expected);
        supervisor.stop();
        supervisor.ended().await.expect("ended");
        let expected = ["c stopped", "c dropped", "b stopped", "b dropped", "a stopped", "a dropped"];
        assert_eq!(log.take(), expected);
    });
}

#[test]
fn a9_rest_for_one() {
    everywhere(|| async {
        let log = Log::default();
        let (supervisor, [a, b, c]) = three(Supervisor::rest_for_one(), &log).await;
        b.send(Do::Fail).await.expect("send");
        log.reaches(5).await;
        assert_eq!(c.ask(Do::Count).await, Ok(1));
        assert_eq!(b.ask(Do::Count).await, Ok(1));
        assert_eq!(a.ask(Do::Count).await, Ok(2), "it goes on");
        assert_eq!(log.take(), ["b dropped", "c stopped", "c dropped", "b started", "c started"]);
        supervisor.kill();
        supervisor.ended().await.expect("ended");
        let log = log.take();
        let stopped: Vec<&String> = log.iter().filter(|line| line.ends_with("dropped")).collect();
        assert_eq!(stopped, ["c dropped", "b dropped", "a dropped"]);
    });
}

/// What waits for a sibling that is taken down is handled by its next state.
#[test]
fn siblings_keep_their_messages() {
    everywhere(|| async {
        let log = Log::default();
        let (supervisor, [a, b, c]) = three(Supervisor::one_for_all(), &log).await;
        c.send(Do::Slow(20 * MS)).await.expect("send");
        let waits: Vec<_> = (0..3).map(|_| wo::spawn(move || c.ask(Do::Count))).collect();
        wo::yield_now().await.expect("yield");
        a.send(Do::Panic).await.expect("send");
        let mut answers = Vec::new();
        for waits in waits {
            answers.push(waits.join().await.expect("join").expect("answered"));
        }
        // By the new state; by the old one only what it came to before it was taken down.
        let expected = [[1, 2, 3], [2, 3, 4], [3, 1, 2], [3, 4, 1], [3, 4, 5]];
        assert!(expected.iter().any(|expected| answers == expected), "{answers:?}");
        assert!(b.is_open());
        supervisor.stop();
    });
}

#[test]
fn restarts_wait_as_the_back_off_says() {
    simulated(|| async {
        let log = Log::default();
        let mut supervisor = Supervisor::one_for_one()
            .limit(5, Duration::from_secs(60))
            .back_off(back_off::exponential(100 * MS, 300 * MS));
        let failing = supervisor.child(child("a", &log));
        let supervisor = supervisor.start();
        for expected in [100, 200, 300, 300] {
            let start = wo::now();
            failing.send(Do::Panic).await.expect("send");
            assert_eq!(failing.ask(Do::Count).await, Ok(1));
            assert_eq!(wo::now() - start, expected * MS);
        }
        // A stop does not wait for the back-off.
        failing.send(Do::Panic).await.expect("send");
        wo::sleep(MS).await.expect("sleep");
        let start = wo::now();
        supervisor.stop();
        supervisor.ended().await.expect("ended");
        assert_eq!(wo::now() - start, Duration::ZERO);
    });
}

/// A child that takes its time is hurried, then left behind; the others go on.
#[test]
fn a_child_that_does_not_go_down_is_hurried() {
    simulated(|| async {
        let log = Log::default();
        let (supervisor, [a, b, _c]) = three(Supervisor::one_for_all().patience(50 * MS), &log).await;
        b.send(Do::Slow(Duration::from_secs(3600))).await.expect("send");
        wo::sleep(MS).await.expect("sleep");
        let start = wo::now();
        a.send(Do::Panic).await.expect("send");
        assert_eq!(b.ask(Do::Count).await, Ok(1));
        assert_eq!(wo::now() - start, 50 * MS);
        assert!(log.take().contains(&"b hurried".to_owned()));
        supervisor.stop();
        supervisor.ended().await.expect("ended");
        log.take();
    });
    everywhere(|| async {
        let log = Log::default();
        let (supervisor, [a, b, c]) = three(Supervisor::one_for_all().patience(10 * MS), &log).await;
        b.send(Do::Stubborn(100 * MS)).await.expect("send");
        wo::yield_now().await.expect("yield");
        a.send(Do::Panic).await.expect("send");
        assert_eq!(a.ask(Do::Count).await, Ok(1));
        assert_eq!(c.ask(Do::Count).await, Ok(1));
        supervisor.stop();
        supervisor.ended().await.expect("ended");
        b.ended().await.expect("ended at last");
    });
}

/// A child that others stop or kill is not restarted; the rest go on.
#[test]
fn a_child_that_is_stopped_has_ended() {
    everywhere(|| async {
        let log = Log::default();
        let (supervisor, [a, b, c]) = three(Supervisor::one_for_all(), &log).await;
        a.stop();
        a.ended().await.expect("ended");
        b.kill();
        b.ended().await.expect("ended");
        assert_eq!(c.ask(Do::Count).await, Ok(2));
        c.send(Do::Panic).await.expect("send");
        assert_eq!(c.ask(Do::Count).await, Ok(1));
        assert!(!a.is_open() && !b.is_open());
        let started = log.take().iter().filter(|line| line.ends_with("started")).count();
        assert_eq!(started, 1, "c alone");
        supervisor.stop();
        assert_eq!(supervisor.ended().await, Ok(Exit::Stopped));
    });
}

#[test]
fn a_start_that_fails_counts_as_a_failure() {
    everywhere(|| async {
        let log = Log::default();
        let mut supervisor = Supervisor::one_for_one().limit(2, Duration::from_secs(3600));
        let noted = log.clone();
        let failing =
            supervisor.child(move || Child { name: "a", log: noted.clone(), handled: 0, start: Start::Fails });
        let never = supervisor.child(|| -> Child { panic!("while making it") });
        let supervisor = supervisor.start();
        let ended = wo::spawn(move || supervisor.ended());
        let asked = failing.ask(Do::Count).await;
        assert!(matches!(asked, Err(AskError::Stopped | AskError::Closed)), "{asked:?}");
        match ended.join().await.expect("join") {
            Ok(Exit::GaveUp(words)) => assert!(words.contains("3 failures"), "{words}"),
            other => panic!("{other:?}"),
        }
        never.ended().await.expect("ended");
    });
}

/// A supervisor under a supervisor: when it gives up, its own restarts it, children, addresses, messages and all.
#[test]
fn a_supervisor_is_restarted_by_its_own() {
    everywhere(|| async {
        let log = Log::default();
        let mut inner = Supervisor::one_for_one().limit(1, Duration::from_secs(3600));
        let a = inner.child(child("a", &log));
        let b = inner.child(child("b", &log));
        let mut outer = Supervisor::one_for_one().limit(1, Duration::from_secs(3600));
        let inner = outer.supervisor(inner);
        let outer = outer.start();
        let ended = wo::spawn(move || outer.ended());
        assert_eq!(b.ask(Do::Count).await, Ok(1));
        assert_eq!(log.take(), ["a started", "b started"]);
        for _ in 0..2 {
            a.send(Do::Panic).await.expect("send");
        }
        assert_eq!(a.ask(Do::Count).await, Ok(1));
        assert_eq!(b.ask(Do::Count).await, Ok(1));
        let expected = ["a dropped", "a started", "a dropped", "b stopped", "b dropped", "a started", "b started"];
        assert_eq!(log.take(), expected);
        assert!(inner.is_open());
        // Again, and once more: the outer one gives up too.
        for _ in 0..2 {
            a.send(Do::Panic).await.expect("send");
        }
        assert!(matches!(ended.join().await.expect("join"), Ok(Exit::GaveUp(_))));
        a.ended().await.expect("ended");
        b.ended().await.expect("ended");
        assert!(!inner.is_open());
    });
}

/// Children of a supervisor that is never started end.
#[test]
fn a_supervisor_that_never_starts_leaves_nothing_waiting() {
    everywhere(|| async {
        let log = Log::default();
        let mut supervisor = Supervisor::one_for_one();
        let forgotten = supervisor.child(child("a", &log));
        let asked = wo::spawn(move || forgotten.ask(Do::Count));
        wo::yield_now().await.expect("yield");
        drop(supervisor);
        let told = asked.join().await.expect("join");
        assert!(matches!(told, Err(AskError::Stopped | AskError::Closed)), "{told:?}");
        assert_eq!(log.take(), Vec::<String>::new());
    });
}
