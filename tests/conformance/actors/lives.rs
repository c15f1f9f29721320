//! Lives: how an actor ends, who is told, and what becomes of what it has not handled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use wo::actor::{Addr, AskError, Exit, Options, Reply, TrySendError, counters, fail, this};

use super::{everywhere, simulated};

const MS: Duration = Duration::from_millis(1);

/// Notes what happens to it.
#[derive(Clone, Default)]
struct Log(Arc<Seen>);

#[derive(Default)]
struct Seen {
    started: AtomicU32,
    handled: AtomicU32,
    stopping: AtomicU32,
    dropped: AtomicU32,
}

impl Log {
    fn counts(&self) -> [u32; 4] {
        let Seen { started, handled, stopping, dropped } = &*self.0;
        [started, handled, stopping, dropped].map(|count| count.load(Ordering::SeqCst))
    }
}

enum Do {
    Step(Duration),
    Panic,
    Fail,
    StopYourself,
    Sleep(Reply<bool>),
}

struct Worker(Log);

#[wo::actor]
impl Worker {
    fn started(&mut self) {
        self.0.0.started.fetch_add(1, Ordering::SeqCst);
    }

    fn receive(&mut self, message: Do) -> Result<(), String> {
        self.0.0.handled.fetch_add(1, Ordering::SeqCst);
        match message {
            Do::Step(span) => {
                let _ = wo::sleep(span);
            }
            Do::Panic => panic!("as asked"),
            Do::Fail => return Err("as asked".to_owned()),
            Do::StopYourself => {
                this::<Do>().expect("inside the actor").stop();
            }
            Do::Sleep(reply) => _ = reply.send(wo::sleep(Duration::from_secs(3600)).is_ok()),
        }
        Ok(())
    }

    fn stopping(&mut self) {
        self.0.0.stopping.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a7_a_panic_ends_the_actor_alone() {
    everywhere(|| async {
        for shard in 0..3 {
            let options = Options::new().shard(shard);
            let (log, neighbours) = (Log::default(), Log::default());
            let worker = options.clone().spawn(Worker(log.clone()));
            let neighbour = options.spawn(Worker(neighbours.clone()));
            let ended = wo::spawn(move || worker.ended());
            wo::yield_now().await.expect("yield");
            let before = counters();
            for message in [Do::Step(MS), Do::Step(MS), Do::Panic, Do::Step(MS), Do::Step(MS)] {
                worker.send(message).await.expect("send");
            }
            assert_eq!(ended.join().await.expect("join"), Ok(Exit::Panicked("as asked".to_owned())));
            assert_eq!(log.counts(), [1, 3, 0, 1]);
            let after = counters();
            assert_eq!(after.handled - before.handled, 3);
            assert_eq!(after.dead_lettered - before.dead_lettered, 2);
            assert!(matches!(worker.try_send(Do::Panic), Err(TrySendError::Closed(Do::Panic))));
            neighbour.send(Do::Step(Duration::ZERO)).await.expect("send");
            neighbour.stop();
            neighbour.ended().await.expect("ended");
            assert_eq!(neighbours.counts(), [1, 1, 1, 1]);
        }
    });
}

/// An error that a handler answers ends the actor as a panic does.
#[test]
fn a_failure_ends_the_actor() {
    everywhere(|| async {
        let log = Log::default();
        let worker = wo::spawn(Worker(log.clone()));
        let ended = wo::spawn(move || worker.ended());
        wo::yield_now().await.expect("yield");
        worker.send(Do::Fail).await.expect("send");
        let exit = ended.join().await.expect("join").expect("told");
        assert_eq!(exit, Exit::Failed("as asked".to_owned()));
        assert!(exit.is_failure());
        assert_eq!(log.counts(), [1, 1, 0, 1]);
        assert!(!fail("outside an actor"));
        assert_eq!(this::<Do>(), None);
    });
}

#[test]
fn a7_askers_hear_at_once_why_there_is_no_answer() {
    struct Asked;
    #[wo::actor]
    impl Asked {
        #[message]
        fn panics(&mut self) -> u32 {
            wo::sleep(MS).expect("sleep");
            panic!("as asked")
        }

        #[message]
        fn answers(&mut self) -> u32 {
            1
        }
    }
    everywhere(|| async {
        for shard in 0..3 {
            let asked = Options::new().shard(shard).spawn(Asked);
            let first = wo::spawn(move || async move { asked.panics().await });
            wo::yield_now().await.expect("yield");
            let others: Vec<_> = (0..5).map(|_| wo::spawn(move || async move { asked.answers().await })).collect();
            assert_eq!(first.join().await.expect("join"), Err(AskError::Panicked));
            for other in others {
                let told = other.join().await.expect("join");
                assert!(matches!(told, Err(AskError::Stopped | AskError::Closed)), "{told:?}");
            }
        }
    });
}

#[test]
fn a10_stop_handles_what_is_queued() {
    everywhere(|| async {
        for shard in 0..3 {
            let log = Log::default();
            let worker = Options::new().shard(shard).spawn(Worker(log.clone()));
            let before = counters();
            for _ in 0..100 {
                worker.send(Do::Step(Duration::ZERO)).await.expect("send");
            }
            let ended = wo::spawn(move || worker.ended());
            wo::yield_now().await.expect("yield");
            assert!(worker.stop());
            assert!(matches!(worker.try_send(Do::Step(MS)), Err(TrySendError::Closed(Do::Step(_)))));
            let exit = ended.join().await.expect("join").expect("told");
            assert!(matches!(exit, Exit::Stopped | Exit::Gone), "{exit}");
            assert_eq!(log.counts(), [1, 100, 1, 1]);
            let after = counters();
            assert_eq!((after.sent - before.sent, after.handled - before.handled), (101, 100));
            assert_eq!(after.returned - before.returned, 1);
            assert_eq!(after.queued(), 0);
            assert!(!worker.stop(), "it has ended");
        }
    });
}

#[test]
fn a10_a_stop_with_a_deadline_handles_what_fits() {
    simulated(|| async {
        let log = Log::default();
        let worker = wo::spawn(Worker(log.clone()));
        for _ in 0..100 {
            worker.send(Do::Step(MS)).await.expect("send");
        }
        let start = wo::now();
        assert!(worker.stop_by(10 * MS));
        assert_eq!(worker.ended().await, Ok(Exit::Killed));
        assert_eq!(wo::now() - start, 10 * MS);
        let counters = counters();
        assert!((10..=11).contains(&counters.handled), "{counters:?}");
        assert_eq!(counters.handled + counters.dead_lettered, 100);
    });
    everywhere(|| async {
        for shard in 0..3 {
            let log = Log::default();
            let worker = Options::new().shard(shard).spawn(Worker(log.clone()));
            worker.send(Do::Step(MS)).await.expect("send");
            for _ in 0..10 {
                worker.send(Do::Step(Duration::from_secs(600))).await.expect("send");
            }
            // One that has not begun would be killed without a word.
            while log.counts()[0] == 0 {
                wo::yield_now().await.expect("yield");
            }
            assert!(worker.stop_by(20 * MS));
            worker.ended().await.expect("ended");
            assert_eq!(log.counts()[2..], [1, 1]);
            let handled = log.counts()[1];
            assert!(handled <= 2, "{handled} handled");
            // A stop that has time enough is a stop.
            let quick = Options::new().shard(shard).spawn(Worker(Log::default()));
            let ended = wo::spawn(move || quick.ended());
            wo::yield_now().await.expect("yield");
            assert!(quick.stop_by(Duration::from_secs(600)));
            assert!(matches!(ended.join().await.expect("join"), Ok(Exit::Stopped | Exit::Gone)));
        }
    });
}

#[test]
fn a_kill_ends_what_the_actor_waits_for() {
    everywhere(|| async {
        for shard in 0..3 {
            let log = Log::default();
            let worker = Options::new().shard(shard).spawn(Worker(log.clone()));
            let slept = wo::spawn(move || worker.ask(Do::Sleep));
            let queued = wo::spawn(move || worker.ask(Do::Sleep));
            while log.counts()[1] == 0 {
                wo::yield_now().await.expect("yield");
            }
            assert!(worker.kill());
            worker.ended().await.expect("ended");
            assert_eq!(slept.join().await.expect("join"), Ok(false));
            let told = queued.join().await.expect("join");
            assert!(matches!(told, Err(AskError::Stopped | AskError::Closed)), "{told:?}");
            assert_eq!(log.counts(), [1, 1, 1, 1]);
            // One that is killed before it began neither starts nor stops.
            let log = Log::default();
            let unborn = wo::spawn(Worker(log.clone()));
            unborn.kill();
            unborn.ended().await.expect("ended");
            let [started, handled, stopping, dropped] = log.counts();
            assert_eq!((started, handled, dropped), (stopping, 0, 1));
        }
    });
}

#[test]
fn an_actor_stops_itself() {
    everywhere(|| async {
        let log = Log::default();
        let worker = wo::spawn(Worker(log.clone()));
        for message in [Do::StopYourself, Do::Step(MS), Do::Step(MS)] {
            worker.send(message).await.expect("send");
        }
        worker.ended().await.expect("ended");
        let [started, handled, stopping, dropped] = log.counts();
        assert_eq!((started, stopping, dropped), (1, 1, 1));
        assert!((1..=3).contains(&handled), "those that were queued in time are handled");
    });
}

enum Watch {
    Ended(u32, Exit),
    Hold(wo::oneshot::Receiver<()>),
    Seen(Reply<Vec<(u32, Exit)>>),
}

#[derive(Default)]
struct Watcher(Vec<(u32, Exit)>);

#[wo::actor]
impl Watcher {
    fn receive(&mut self, message: Watch) {
        match message {
            Watch::Ended(which, exit) => self.0.push((which, exit)),
            Watch::Hold(until) => drop(until.recv()),
            Watch::Seen(reply) => drop(reply.send(self.0.clone())),
        }
    }
}

/// An end is told exactly once, to a full mailbox too.
#[test]
fn an_end_is_told_once_and_never_lost() {
    everywhere(|| async {
        for shard in 0..3 {
            let watcher: Addr<Watch> = Options::new().shard(shard).bound(1).spawn(Watcher::default());
            let (release, hold) = wo::oneshot();
            watcher.send(Watch::Hold(hold)).await.expect("send");
            let mut parked = Vec::new();
            for which in 0..20 {
                let worker = wo::spawn(Worker(Log::default()));
                worker.notify_end(watcher, move |exit| Watch::Ended(which, exit));
                parked.push(match which % 4 {
                    0 => worker.send(Do::Panic).await.is_ok(),
                    1 => worker.send(Do::Fail).await.is_ok(),
                    2 => worker.kill(),
                    _ => worker.stop(),
                });
                worker.ended().await.expect("ended");
            }
            // Told after the end: it is gone.
            let gone = wo::spawn(Worker(Log::default()));
            gone.kill();
            gone.ended().await.expect("ended");
            gone.notify_end(watcher, |exit| Watch::Ended(20, exit));
            release.send(()).expect("the watcher waits");
            let mut seen = watcher.ask(Watch::Seen).await.expect("seen");
            seen.sort_by_key(|(which, _)| *which);
            assert_eq!(seen.iter().map(|(which, _)| *which).collect::<Vec<_>>(), (0..=20).collect::<Vec<_>>());
            for (which, exit) in seen {
                let expected = match which {
                    20 => Exit::Gone,
                    which if which % 4 == 0 => Exit::Panicked("as asked".to_owned()),
                    which if which % 4 == 1 => Exit::Failed("as asked".to_owned()),
                    which if which % 4 == 2 => Exit::Killed,
                    _ => Exit::Stopped,
                };
                assert_eq!(exit, expected, "of {which}");
            }
        }
    });
}

/// Nobody waits for its own end.
#[test]
fn an_actor_that_waits_for_its_own_end_is_told() {
    struct Selfish;
    #[wo::actor]
    impl Selfish {
        #[message]
        fn wait(&mut self) -> String {
            let own = this::<SelfishMessage>().expect("inside the actor");
            own.stop();
            own.ended().expect_err("it would never come").to_string()
        }
    }
    everywhere(|| async {
        let selfish = wo::spawn(Selfish);
        let told = selfish.wait().await.expect("an answer");
        assert!(told.contains("its own end"), "{told}");
        selfish.ended().await.expect("ended");
    });
}

/// The end of the program is an end like others: what the actors hold is dropped, at home.
#[test]
fn the_end_of_the_program_ends_its_actors() {
    let log = Log::default();
    let all = log.clone();
    everywhere(move || {
        let log = log.clone();
        async move {
            let before = log.counts()[1];
            for _ in 0..10 {
                let worker = wo::spawn(Worker(log.clone()));
                worker.send(Do::Step(Duration::from_secs(3600))).await.expect("send");
                worker.send(Do::Step(Duration::from_secs(3600))).await.expect("send");
            }
            // Each has begun with its first message, and will not come to the second.
            while log.counts()[1] < before + 10 {
                wo::yield_now().await.expect("yield");
            }
        }
    });
    let dropped = all.counts()[3];
    assert!(dropped > 0 && dropped.is_multiple_of(10), "{dropped} of tens were dropped");
}
