//! Actors as a user sees them, before the attribute makes them comfortable.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use wo_runtime::actor::{self, Actor, AskError, Exit, Options, Overflow, Reply, Supervisor, Topic, TrySendError};
use wo_runtime::fiber::{self, oneshot};
use wo_runtime::plane::backend::Selection;
use wo_runtime::shard::{self, Builder};

enum Count {
    Add(u64),
    Get(Reply<u64>),
    Sleep(Duration, oneshot::Sender<()>, Reply<bool>),
    Hold(oneshot::Sender<()>, oneshot::Receiver<()>),
    Panic,
}

#[derive(Default)]
struct Counter {
    total: u64,
    cancels: u64,
    ended: Option<Arc<AtomicUsize>>,
}

impl Actor for Counter {
    type Message = Count;

    async fn receive(&mut self, message: Count) {
        match message {
            Count::Add(more) => self.total += more,
            Count::Get(reply) => drop(reply.send(self.total + self.cancels)),
            Count::Sleep(span, begun, reply) => {
                let _ = begun.send(());
                let slept = fiber::sleep(span).await;
                let _ = reply.send(slept.is_err());
            }
            Count::Hold(held, release) => {
                held.send(()).unwrap();
                release.recv().await.unwrap();
            }
            Count::Panic => panic!("as asked"),
        }
    }

    async fn stopping(&mut self) {
        if let Some(ended) = &self.ended {
            ended.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn on_cancel(&mut self) {
        self.cancels += 1000;
    }
}

fn each(test: impl Fn(Builder)) {
    for (io, shards) in [
        (Selection::Uring, 1),
        (Selection::Uring, 3),
        (Selection::Epoll, 1),
        (Selection::Epoll, 3),
        (Selection::Sim, 1),
    ] {
        eprintln!("on {io} with {shards} shards");
        test(Builder::new().io(io).shards(shards));
    }
}

#[test]
fn messages_are_counted_and_asks_answered_wherever_the_actor_lives() {
    each(|builder| {
        builder
            .run(|| async {
                for _ in 0..6 {
                    let counter = actor::spawn(Counter::default());
                    for n in 1..=1000 {
                        counter.send(Count::Add(n)).await.unwrap();
                    }
                    assert_eq!(counter.ask(Count::Get).await, Ok(500_500));
                }
            })
            .unwrap();
    });
}

#[test]
fn a_stopped_actor_handles_what_it_has_and_takes_no_more() {
    each(|builder| {
        builder
            .run(|| async {
                for _ in 0..3 {
                    let ended = Arc::new(AtomicUsize::new(0));
                    let counter = actor::spawn(Counter { ended: Some(Arc::clone(&ended)), ..Counter::default() });
                    for _ in 0..100 {
                        counter.send(Count::Add(1)).await.unwrap();
                    }
                    let last = counter.ask(Count::Get);
                    let exit = counter.ended();
                    let last = fiber::spawn(move || last);
                    fiber::yield_now().await.unwrap();
                    assert!(counter.stop());
                    assert!(matches!(counter.try_send(Count::Add(1)), Err(TrySendError::Closed(_))));
                    assert_eq!(last.join().await.unwrap(), Ok(100));
                    assert!(matches!(exit.await.unwrap(), Exit::Stopped | Exit::Gone));
                    assert_eq!(ended.load(Ordering::SeqCst), 1);
                    assert_eq!(counter.ask(Count::Get).await, Err(AskError::Closed));
                    assert!(!counter.stop());
                }
            })
            .unwrap();
    });
}

#[test]
fn a_panic_ends_the_actor_fails_its_askers_and_tells_its_monitors() {
    each(|builder| {
        builder
            .run(|| async {
                for _ in 0..3 {
                    let counter = actor::spawn(Counter::default());
                    let ended = fiber::spawn(move || counter.ended());
                    fiber::yield_now().await.unwrap();
                    counter.send(Count::Panic).await.unwrap();
                    let asked = counter.ask(Count::Get).await;
                    assert!(matches!(asked, Err(AskError::Stopped | AskError::Closed)), "{asked:?}");
                    assert_eq!(ended.join().await.unwrap().unwrap(), Exit::Panicked("as asked".to_owned()));
                }
            })
            .unwrap();
    });
}

#[test]
fn an_asks_deadline_cancels_the_handlers_own_verbs() {
    each(|builder| {
        builder
            .run(|| async {
                for _ in 0..3 {
                    let counter = actor::spawn(Counter::default());
                    let start = fiber::now();
                    let asked = counter
                        .ask_by(
                            |reply| Count::Sleep(Duration::from_secs(100), oneshot::oneshot().0, reply),
                            Duration::from_millis(50),
                        )
                        .await;
                    assert_eq!(asked, Err(AskError::Deadline));
                    assert!(fiber::now() - start < Duration::from_secs(50));
                    // The handler was cancelled once, and the next message is handled.
                    assert_eq!(counter.ask(Count::Get).await, Ok(1000));
                }
            })
            .unwrap();
    });
}

#[test]
fn a_kill_cancels_what_the_actor_waits_for() {
    each(|builder| {
        builder
            .run(|| async {
                for _ in 0..3 {
                    let counter = actor::spawn(Counter::default());
                    let (begun, has_begun) = oneshot::oneshot();
                    let asked = fiber::spawn(move || {
                        counter.ask(|reply| Count::Sleep(Duration::from_secs(1000), begun, reply))
                    });
                    let ended = fiber::spawn(move || counter.ended());
                    has_begun.recv().await.unwrap();
                    // The one who watches has to be heard before the kill, or it would hear of an end long past.
                    fiber::yield_now().await.unwrap();
                    assert!(counter.kill());
                    assert_eq!(asked.join().await.unwrap(), Ok(true));
                    assert_eq!(ended.join().await.unwrap().unwrap(), Exit::Killed);
                }
            })
            .unwrap();
    });
}

#[test]
fn a_full_mailbox_parks_its_senders_and_tells_who_tries() {
    each(|builder| {
        builder
            .run(|| async {
                for _ in 0..3 {
                    let counter = Options::new().bound(8).spawn(Counter::default());
                    let (held, is_held) = oneshot::oneshot();
                    let (release, released) = oneshot::oneshot();
                    counter.send(Count::Hold(held, released)).await.unwrap();
                    is_held.recv().await.unwrap();
                    for _ in 0..8 {
                        counter.try_send(Count::Add(1)).unwrap();
                    }
                    assert!(matches!(counter.try_send(Count::Add(5)), Err(TrySendError::Full(Count::Add(5)))));
                    let ninth = fiber::spawn(move || counter.send(Count::Add(1)));
                    let tenth = fiber::spawn(move || counter.send(Count::Add(1)));
                    fiber::yield_now().await.unwrap();
                    assert!(!ninth.is_finished());
                    release.send(()).unwrap();
                    ninth.join().await.unwrap().unwrap();
                    tenth.join().await.unwrap().unwrap();
                    assert_eq!(counter.ask(Count::Get).await, Ok(10));
                }
            })
            .unwrap();
    });
}

#[test]
fn an_actor_gets_on_whatever_the_budget() {
    for reductions in 1..=3 {
        each(|builder| {
            let total = builder
                .reductions(reductions)
                .run(|| async {
                    let counter = actor::spawn(Counter::default());
                    for n in 1..=10 {
                        counter.send(Count::Add(n)).await.unwrap();
                    }
                    counter.ask_by(Count::Get, Duration::from_secs(10)).await
                })
                .unwrap();
            assert_eq!(total, Ok(55), "with a budget of {reductions}");
        });
    }
}

#[test]
fn a_publisher_whose_message_panics_leaves_its_place_in_line() {
    /// Can be copied so often.
    struct Scarce(Arc<AtomicUsize>);
    impl Clone for Scarce {
        fn clone(&self) -> Scarce {
            assert!(self.0.fetch_sub(1, Ordering::SeqCst) > 0, "as asked");
            Scarce(Arc::clone(&self.0))
        }
    }
    fn scarce(copies: usize) -> Scarce {
        Scarce(Arc::new(AtomicUsize::new(copies)))
    }
    each(|builder| {
        builder
            .run(|| async {
                let topic: Topic<Scarce> = Topic::new();
                let mut full = topic.subscribe(1, Overflow::Park);
                let _others = [topic.subscribe(4, Overflow::DropOldest), topic.subscribe(4, Overflow::DropOldest)];
                topic.publish(scarce(2)).await.unwrap();
                let publisher = topic.clone();
                // The first copy waits for room, the second cannot be made.
                let failed = fiber::spawn(move || async move { publisher.publish(scarce(1)).await });
                assert!(failed.join().await.is_err());
                full.recv().await.unwrap();
                let published = fiber::timeout(Duration::from_secs(5), async || topic.publish(scarce(2)).await);
                assert_eq!(published.await.unwrap(), 3);
            })
            .unwrap();
    });
}

#[test]
fn a_subscription_full_of_messages_that_panic_when_dropped_is_dropped() {
    #[derive(Clone)]
    struct Bomb(#[allow(dead_code, reason = "its end is what counts")] Arc<Fuse>);
    struct Fuse(Arc<AtomicUsize>);
    impl Drop for Fuse {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
            panic!("as asked");
        }
    }
    each(|builder| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&dropped);
        builder
            .run(|| async move {
                let topic: Topic<Bomb> = Topic::new();
                let subscription = topic.subscribe(4, Overflow::Park);
                for _ in 0..3 {
                    topic.publish(Bomb(Arc::new(Fuse(Arc::clone(&counted))))).await.unwrap();
                }
                drop(subscription);
            })
            .unwrap();
        assert_eq!(dropped.load(Ordering::SeqCst), 3);
    });
}

#[test]
fn a_supervisor_that_is_stopped_while_the_program_stops_lets_its_children_handle_what_they_have() {
    struct Slow(Arc<AtomicUsize>);
    impl Actor for Slow {
        type Message = Option<Reply<()>>;
        async fn receive(&mut self, message: Option<Reply<()>>) {
            if let Some(reply) = message {
                let _ = reply.send(());
            }
            let _ = fiber::protect(async || fiber::sleep(Duration::from_millis(1)).await).await;
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    for patience in [Duration::from_secs(60), Duration::MAX] {
        each(|builder| {
            let handled = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&handled);
            let exit = builder.grace(Duration::from_secs(60)).run(|| async move {
                let mut supervisor = Supervisor::one_for_one().patience(patience);
                let slow = supervisor.child(move || Slow(Arc::clone(&counted)));
                let supervisor = supervisor.start();
                slow.ask(Some).await.unwrap();
                for _ in 0..4 {
                    slow.send(None).await.unwrap();
                }
                shard::stop();
                fiber::protect(async || {
                    supervisor.stop();
                    supervisor.ended().await
                })
                .await
            });
            assert_eq!(exit.unwrap().unwrap(), Exit::Stopped);
            assert_eq!(handled.load(Ordering::SeqCst), 5);
        });
    }
}

#[test]
fn an_address_may_be_used_where_a_panic_is_caught() {
    fn may_cross<T: std::panic::UnwindSafe + std::panic::RefUnwindSafe>(_: T) {}
    Builder::new()
        .run(|| async {
            let counter = actor::spawn(Counter::default());
            may_cross(counter);
            let caught = std::panic::catch_unwind(|| {
                counter.try_send(Count::Add(1)).unwrap_or_else(|_| unreachable!("it is open"));
                panic!("as planned");
            });
            assert!(caught.is_err());
            assert_eq!(counter.ask(Count::Get).await, Ok(1));
        })
        .unwrap();
}
