//! Children on other shards.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use wo_runtime::error::{IoError, OpKind, Stage, errno};
use wo_runtime::fiber::{self, Scope};
use wo_runtime::os::io;
use wo_runtime::plane::backend::Selection;
use wo_runtime::scope::{self, First, Interrupt, Outcome, ScopeOptions};
use wo_runtime::shard::{self, Builder};

use crate::millis;

/// On every kernel at one, two and four shards.
fn everywhere(test: impl Fn(Builder, usize)) {
    for io in [Selection::Sim, Selection::Uring, Selection::Epoll] {
        for shards in [1, 2, 4] {
            eprintln!("on {io} with {shards} shards");
            test(Builder::new().io(io).shards(shards), shards);
        }
    }
}

#[test]
fn a_child_runs_where_it_was_sent_and_its_value_comes_back() {
    everywhere(|builder, shards| {
        builder
            .run(move || async move {
                let outcome: Outcome<Vec<Option<usize>>> = fiber::scope(async |s: Scope| {
                    let mut children = Vec::new();
                    for shard in 0..shards {
                        children.push(s.fork_on(shard, || async {
                            // What stays there need not be `Send`.
                            let here = Rc::new(RefCell::new(None));
                            fiber::yield_now().await?;
                            *here.borrow_mut() = shard::shard_index();
                            Ok(here.take())
                        }));
                    }
                    children.push(s.fork_on(shards, || async { Ok(shard::shard_index()) }));
                    let mut seen = Vec::new();
                    for child in children {
                        seen.push(child.join().await?);
                    }
                    Ok(seen)
                })
                .await;
                let mut expected: Vec<Option<usize>> = (0..shards).map(Some).collect();
                expected.push(Some(0));
                assert_eq!(outcome.unwrap(), expected);
            })
            .unwrap();
    });
}

/// A child on shard 1 that is cancelled twice over: in a read that never ends, and at the verb after it. What the two
/// errors said, and the reason; it then cleans up, which it is waited for.
async fn told(begun: fiber::oneshot::Sender<()>, notes: Notes) -> Result<(), &'static str> {
    let (reader, _writer) = io::pipe().map_err(|_| "a pipe")?;
    let _ = begun.send(());
    let (read, _buf) = reader.read(Vec::with_capacity(8)).await;
    let (in_flight, reason) = (read.unwrap_err(), scope::interrupt());
    let before = fiber::sleep(millis(1)).await.unwrap_err();
    fiber::protect(|| fiber::sleep(millis(2))).await.map_err(|_| "sheltered")?;
    *notes.lock().unwrap() = Some((in_flight, before, reason));
    Ok(())
}

type Notes = Arc<Mutex<Option<(IoError, IoError, Option<Interrupt>)>>>;

/// Each error names the verb (who), what it was on (where), and the reason (why).
fn assert_told(notes: &Notes, reason: Interrupt) {
    let (in_flight, before, seen) = notes.lock().unwrap().take().expect("the scope waited for the clean-up");
    assert_eq!(seen, Some(reason));
    for (error, op, on) in [(&in_flight, OpKind::Read, "pipe"), (&before, OpKind::Timer, "")] {
        let words = error.to_string();
        assert_eq!((error.errno(), error.op()), (errno::ECANCELED, op), "{words}");
        assert!(error.context().contains(on) && error.context().ends_with(&reason.to_string()), "{words}");
        assert!(words.starts_with(op.name()) && words.contains("Operation canceled"), "{words}");
    }
    assert_eq!((in_flight.stage(), before.stage()), (Stage::Completion, Stage::Submit));
}

#[test]
fn s12_a_cancel_from_home_arrives_with_its_reason_and_the_join_waits() {
    everywhere(|builder, _| {
        builder
            .run(|| async {
                for (options, reason) in [
                    (ScopeOptions::new(), Interrupt::Cancelled),
                    (ScopeOptions::new(), Interrupt::SiblingFailed),
                    (ScopeOptions::new().deadline(millis(5)), Interrupt::Deadline),
                ] {
                    let notes = Notes::default();
                    let seen = Arc::clone(&notes);
                    let (begun, has_begun) = fiber::oneshot::oneshot();
                    let outcome: Outcome<(), &str> = fiber::scope_with(options, async |s: Scope<&str>| {
                        s.spawn_on(1, move || told(begun, seen));
                        has_begun.recv().await.map_err(|_| "it has begun")?;
                        match reason {
                            Interrupt::Cancelled => s.cancel(),
                            Interrupt::SiblingFailed => s.fail("on purpose"),
                            _ => {}
                        }
                        Ok(())
                    })
                    .await;
                    assert_told(&notes, reason);
                    match reason {
                        Interrupt::Cancelled => outcome.unwrap(),
                        Interrupt::SiblingFailed => assert_eq!(outcome.unwrap_err().error(), Some(&"on purpose")),
                        _ => assert!(outcome.unwrap_err().is_timeout()),
                    }
                }
            })
            .unwrap();
    });
}

/// The same of reasons that come from further away: a race that is lost around its scope, and the program's end.
#[test]
fn s12_a_reason_from_around_the_scope_crosses_shards_too() {
    everywhere(|builder, _| {
        let (lost, stopped) = builder
            .grace(Duration::from_secs(60))
            .run(|| async {
                let away = async |notes: &Notes, has_begun: &fiber::Notify| {
                    let seen = Arc::clone(notes);
                    let outcome: Outcome<(), &str> = fiber::scope(async |s: Scope<&str>| {
                        let (begun, started) = fiber::oneshot::oneshot();
                        s.spawn_on(1, move || told(begun, seen));
                        started.recv().await.map_err(|_| "it has begun")?;
                        has_begun.notify_one();
                        Ok(())
                    })
                    .await;
                    outcome.map_err(|cause| cause.to_string())
                };
                let (lost, stopped) = (Notes::default(), Notes::default());
                let begun = fiber::Notify::new();
                let raced: Outcome<(), String> = fiber::race((
                    async || away(&lost, &begun).await,
                    async || begun.notified().await.map_err(|error| error.to_string()),
                ))
                .await;
                raced.unwrap();
                let joined: Outcome<((), ()), String> = fiber::join((
                    async || away(&stopped, &begun).await,
                    async || {
                        begun.notified().await.map_err(|error| error.to_string())?;
                        shard::stop();
                        Ok(())
                    },
                ))
                .await;
                // The scope's own body had ended before.
                drop(joined);
                (lost, stopped)
            })
            .unwrap();
        assert_told(&lost, Interrupt::RaceLost);
        assert_told(&stopped, Interrupt::Shutdown);
    });
}

/// Children here and there, interrupted, joined and left in an order that `seed` draws, whose scope is then cancelled:
/// none outlives it, and none is waited for in vain.
async fn cancel_and_end(seed: u64, shards: usize, alive: Arc<AtomicUsize>) {
    struct Alive(Arc<AtomicUsize>);
    impl Drop for Alive {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let ended: Outcome<()> = fiber::scope(async |s: Scope| {
        for number in 0..8_u64 {
            let chance = (seed * 31 + number * 7) % 5;
            alive.fetch_add(1, Ordering::SeqCst);
            let held = Alive(Arc::clone(&alive));
            let child = s.fork_on((seed + number) as usize % shards, move || async move {
                let _held = held;
                for _ in 0..chance {
                    fiber::yield_now().await?;
                }
                fiber::sleep(Duration::from_micros(50 * chance)).await
            });
            match (seed + number) % 3 {
                0 => child.interrupt(),
                1 => drop(child.join().await),
                _ => {}
            }
        }
        for _ in 0..seed % 7 {
            fiber::yield_now().await?;
        }
        s.cancel();
        Ok(())
    })
    .await;
    ended.unwrap();
    assert_eq!(alive.load(Ordering::SeqCst), 0, "a child outlived its scope, at seed {seed}");
}

#[test]
fn s12_cancels_and_ends_in_any_order_lose_no_child() {
    everywhere(|builder, shards| {
        let alive = Arc::new(AtomicUsize::new(0));
        let witness = Arc::clone(&alive);
        builder
            .run(move || async move {
                for seed in 0..60 {
                    cancel_and_end(seed, shards, Arc::clone(&witness)).await;
                }
            })
            .unwrap();
        assert_eq!(Arc::strong_count(&alive), 1);
    });
    // And the shards take their turns as the seed draws.
    for seed in 0..200 {
        let shards = 2 + (seed % 3) as usize;
        let builder = Builder::new().io(Selection::Sim).shards(shards).seed(seed);
        builder.run(move || cancel_and_end(seed, shards, Arc::default())).unwrap();
    }
}

#[test]
fn a_failure_and_a_panic_over_there_are_the_scopes_cause() {
    everywhere(|builder, _| {
        builder
            .run(|| async {
                let failed: Outcome<(), String> = fiber::scope(async |s: Scope<String>| {
                    s.spawn_on(1, || async { Err::<(), _>("over there".to_owned()) });
                    fiber::sleep(Duration::MAX).await.map_err(|_| "here".to_owned())
                })
                .await;
                let cause = failed.unwrap_err();
                assert_eq!((cause.error().map(String::as_str), cause.suppressed()), (Some("over there"), 0));
                let panicked: Outcome<()> = fiber::scope(async |s: Scope| {
                    s.spawn_away(|| async {
                        fiber::yield_now().await?;
                        assert_eq!(shard::shards(), 0, "as planned");
                        Ok::<_, IoError>(())
                    });
                })
                .await;
                match panicked.unwrap_err().into_first() {
                    First::Die(panic) => assert!(panic.message().contains("as planned")),
                    other => panic!("{other:?}"),
                }
            })
            .unwrap();
    });
}

#[test]
fn what_does_not_clean_up_over_there_is_dropped_at_its_home() {
    struct AtHome(Option<ThreadId>, Arc<AtomicUsize>);
    impl Drop for AtHome {
        fn drop(&mut self) {
            if let Some(home) = self.0 {
                assert_eq!(std::thread::current().id(), home);
            }
            self.1.fetch_add(1, Ordering::SeqCst);
        }
    }
    everywhere(|builder, _| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&dropped);
        builder
            .run(move || async move {
                let mut held = AtHome(None, count);
                let (begun, has_begun) = fiber::oneshot::oneshot();
                let outcome: Outcome<()> =
                    fiber::scope_with(ScopeOptions::new().cleanup(millis(2)), async |s: Scope| {
                        s.spawn_on(1, move || async move {
                            held.0 = Some(std::thread::current().id());
                            let _held = held;
                            let _ = begun.send(());
                            fiber::protect(|| fiber::sleep(Duration::MAX)).await
                        });
                        has_begun.recv().await?;
                        s.cancel();
                        Ok(())
                    })
                    .await;
                assert_eq!(outcome.unwrap_err().abandoned(), 1);
            })
            .unwrap();
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn main_may_return_while_children_are_everywhere() {
    everywhere(|builder, _| {
        let dropped = Arc::new(());
        let held = Arc::clone(&dropped);
        builder
            .run(move || async move {
                drop(fiber::spawn(move || async move {
                    let _: Outcome<()> = fiber::scope(async |s: Scope| {
                        for _ in 0..20 {
                            let held = Arc::clone(&held);
                            s.spawn_away(move || async move {
                                let _held = held;
                                fiber::sleep(Duration::MAX).await
                            });
                        }
                    })
                    .await;
                }));
                for _ in 0..3 {
                    fiber::yield_now().await.unwrap();
                }
            })
            .unwrap();
        assert_eq!(Arc::strong_count(&dropped), 1);
    });
}
