//! The cases of scopes, as they are written: on every kernel, at one shard and at two, and to the instant where time
//! is virtual.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use wo_runtime::error::{IoError, IoResult};
use wo_runtime::fiber::{self, Scope};
use wo_runtime::plane::Instant;
use wo_runtime::plane::backend::{BackendKind, Selection};
use wo_runtime::scope::{self, Cause, First, Interrupt, Outcome};
use wo_runtime::shard::{Builder, backend};

use crate::{each, in_sim, millis, since};

/// Whether it took so long, and in virtual time no longer.
fn took(start: Instant, span: Duration) -> bool {
    let taken = since(start);
    let is_virtual = backend().is_some_and(|caps| caps.backend == BackendKind::Sim);
    taken >= span && (!is_virtual || taken < span + millis(1))
}

/// Who heard of its end, of what, and when.
type Heard = Rc<RefCell<Vec<(Option<Interrupt>, Instant)>>>;

/// A child that sleeps on until it hears of its end; what it heard, and when, goes into `heard`.
async fn sleep_on(heard: Heard) -> Result<(), &'static str> {
    let slept = fiber::sleep(Duration::MAX).await;
    heard.borrow_mut().push((scope::interrupt(), fiber::now()));
    slept.map_err(|_| "an interrupted child's own error is not its scope's")
}

#[test]
fn s1_first_failure_cancels_the_others_and_later_ones_are_counted() {
    each(|builder| {
        builder
            .run(|| async {
                for (failing, suppressed) in [(1, 0), (2, 1), (3, 2)] {
                    let (start, heard) = (fiber::now(), Heard::default());
                    let due = start + millis(10);
                    let outcome: Outcome<(), &str> = fiber::scope(async |s: Scope<&str>| {
                        let (one, other) = (Rc::clone(&heard), Rc::clone(&heard));
                        s.spawn(move || sleep_on(one));
                        for which in ["first", "second", "third"].into_iter().take(failing) {
                            // All in one tick.
                            s.spawn(move || async move {
                                fiber::sleep_until(due).await.map_err(|_| "cancelled before its time")?;
                                Err::<(), _>(which)
                            });
                        }
                        s.spawn(move || sleep_on(other));
                    })
                    .await;
                    assert!(took(start, millis(10)), "{:?}", since(start));
                    let heard = heard.take();
                    assert_eq!(heard.len(), 2);
                    for (why, at) in heard {
                        assert_eq!(why, Some(Interrupt::SiblingFailed));
                        assert!(at >= due && at <= fiber::now());
                    }
                    let cause = outcome.unwrap_err();
                    assert_eq!((cause.error(), cause.suppressed()), (Some(&"first"), suppressed));
                    let more = if suppressed > 0 { format!(" (and {suppressed} more)") } else { String::new() };
                    assert_eq!(cause.to_string(), format!("failed: first{more}"));
                }
            })
            .unwrap();
    });
}

#[test]
fn s2_a_scope_ends_with_its_last_child() {
    each(|builder| {
        builder
            .run(|| async {
                let (start, done) = (fiber::now(), Rc::new(Cell::new(false)));
                let flag = Rc::clone(&done);
                let outcome: Outcome<u8> = fiber::scope(async |s: Scope| {
                    s.spawn(|| async { Ok(()) });
                    s.spawn(move || async move {
                        fiber::sleep(Duration::from_secs(1)).await?;
                        flag.set(true);
                        Ok(())
                    });
                    Ok(7)
                })
                .await;
                assert_eq!((outcome.unwrap(), done.get()), (7, true));
                assert!(took(start, Duration::from_secs(1)), "{:?}", since(start));
            })
            .unwrap();
    });
}

#[test]
fn s3_daemons_are_interrupted_once_only_daemons_are_left() {
    each(|builder| {
        builder
            .run(|| async {
                // The last that is none may be the body, or a child that outlives it.
                for child_is_last in [false, true] {
                    let (start, heard) = (fiber::now(), Rc::new(RefCell::new(Vec::new())));
                    let outcome: Outcome<i32, IoError> = fiber::scope(async |s: Scope<IoError>| {
                        for _ in 0..2 {
                            let heard = Rc::clone(&heard);
                            s.spawn_daemon(move || async move {
                                let error = loop {
                                    if let Err(error) = fiber::sleep(millis(1)).await {
                                        break error;
                                    }
                                };
                                heard.borrow_mut().push((scope::interrupt(), fiber::now(), error.to_string()));
                                // A daemon's own words change nothing.
                                Err::<(), _>(error)
                            });
                        }
                        if child_is_last {
                            s.spawn(|| fiber::sleep(millis(20)));
                        } else {
                            fiber::sleep(millis(20)).await?;
                        }
                        Ok(5)
                    })
                    .await;
                    assert_eq!(outcome.unwrap(), 5);
                    assert!(took(start, millis(20)), "{:?}", since(start));
                    let heard = heard.take();
                    assert_eq!(heard.len(), 2);
                    for (why, at, words) in heard {
                        assert!(why == Some(Interrupt::Daemon) && at - start >= millis(20), "{why:?} {at:?}");
                        assert!(words.contains("only daemons were left"), "{words}");
                    }
                }
            })
            .unwrap();
    });
}

#[test]
fn s5_a_protected_clean_up_is_done_and_the_cancel_arrives_after_it() {
    each(|builder| {
        builder
            .run(|| async {
                let (log, start) = (Rc::new(RefCell::new(Vec::new())), fiber::now());
                let seen = Rc::clone(&log);
                let outcome: Outcome<(), IoError> = fiber::scope(async |s: Scope<IoError>| {
                    let inner = s.clone();
                    s.spawn(move || async move {
                        inner.cancel();
                        fiber::protect(async || {
                            assert_eq!(scope::interrupt(), None, "sheltered");
                            fiber::checkpoint()?;
                            fiber::sleep(millis(200)).await
                        })
                        .await
                        .unwrap();
                        assert!(took(start, millis(200)), "{:?}", since(start));
                        let late = fiber::sleep(Duration::ZERO).await.unwrap_err();
                        seen.borrow_mut().push((late.is_cancelled(), scope::interrupt()));
                    });
                })
                .await;
                // Cancelling asks work to stop and is no failure: the body's own value stands.
                outcome.unwrap();
                assert_eq!(*log.borrow(), [(true, Some(Interrupt::Cancelled))]);
                assert!(took(start, millis(200)), "{:?}", since(start));
            })
            .unwrap();
    });
}

#[test]
fn s9_a_child_cancelled_before_its_first_poll_never_starts() {
    each(|builder| {
        builder
            .run(|| async {
                let witness = Rc::new(());
                let started = Rc::new(Cell::new(0));
                let body = || {
                    let (held, count) = (Rc::clone(&witness), Rc::clone(&started));
                    move || async move {
                        count.set(count.get() + 1);
                        drop(held);
                    }
                };
                // The scope is cancelled, at once or by its failure; or the child alone.
                let outcome: Outcome<(), IoError> = fiber::scope(async |s: Scope<IoError>| {
                    s.spawn(body());
                    s.spawn_daemon(body());
                    drop(s.fork(body()));
                    s.cancel();
                    s.spawn(body());
                })
                .await;
                outcome.unwrap();
                let outcome: Outcome<(), &str> = fiber::scope(async |s: Scope<&str>| {
                    s.spawn(body());
                    s.fail("at once");
                })
                .await;
                assert_eq!(outcome.unwrap_err().to_string(), "failed: at once");
                let outcome: Outcome<()> = fiber::scope(async |s: Scope| {
                    let child = s.fork(body());
                    let ended: Outcome<()> = child.cancel().await;
                    assert_eq!(ended.unwrap_err().interrupt(), Some(Interrupt::Cancelled));
                    // Its sibling is not meant.
                    s.fork(fiber::yield_now).join().await.map_err(IoError::from)
                })
                .await;
                outcome.unwrap();
                assert_eq!((started.get(), Rc::strong_count(&witness)), (0, 1));
            })
            .unwrap();
    });
}

#[test]
fn s13_exit_hooks_run_last_in_first_out_whatever_one_of_them_does() {
    each(|builder| {
        builder
            .run(|| async {
                for fails in [false, true] {
                    let log = Rc::new(RefCell::new(Vec::new()));
                    let seen = Rc::clone(&log);
                    let outcome: Outcome<(), &str> = fiber::scope(async |s: Scope<&str>| {
                        for name in ["a", "b", "c"] {
                            let (seen, scope) = (Rc::clone(&seen), s.clone());
                            s.on_exit(move || async move {
                                fiber::sleep(millis(1)).await.unwrap();
                                assert_eq!(scope.children(), 0, "every child has ended");
                                seen.borrow_mut().push(name);
                                assert_ne!(name, "b", "b panics");
                            });
                        }
                        s.spawn(|| async { fiber::sleep(millis(2)).await.map_err(|_| "cancelled") });
                        if fails {
                            s.fail("before them");
                        } else {
                            s.cancel();
                        }
                    })
                    .await;
                    assert_eq!(*log.borrow(), ["c", "b", "a"]);
                    let cause = outcome.unwrap_err();
                    let words = cause.to_string();
                    if fails {
                        assert_eq!(words, "failed: before them (and 1 more)");
                        continue;
                    }
                    let First::Die(panic) = cause.into_first() else { panic!("{words}") };
                    assert!(panic.message().contains("b panics"), "{}", panic.message());
                }
            })
            .unwrap();
    });
}

/// Scopes that were opened, and whoever holds this is still there.
type Opened = Arc<AtomicUsize>;

/// A scope with ten below it, and so on downwards; with `away`, every other one on another shard.
fn nest(depth: u32, away: bool, opened: Opened) -> std::pin::Pin<Box<dyn Future<Output = Outcome<(), IoError>>>> {
    Box::pin(async move {
        fiber::scope(async |s: Scope<IoError>| {
            opened.fetch_add(1, Ordering::Relaxed);
            let below = if depth > 0 { 10 } else { 0 };
            for number in 0..below {
                let opened = Arc::clone(&opened);
                let body = move || async move { nest(depth - 1, away, opened).await.map_err(IoError::from) };
                if away && number % 2 == 1 { s.spawn_away(body) } else { s.spawn(body) }
            }
            assert_eq!(s.children(), below);
        })
        .await
    })
}

#[test]
fn s14_deep_and_wide_nesting_leaves_nothing_behind() {
    let run = |builder: Builder, depth: u32, away: bool, all: usize| {
        let opened = Opened::default();
        let counter = Arc::clone(&opened);
        builder
            .run(move || async move {
                let root: Outcome<()> = fiber::scope(async |s: Scope| {
                    let kept = s.clone();
                    let (one, own) = (Arc::clone(&counter), s.clone());
                    let child = s.fork(move || async move {
                        assert_eq!(own.children(), 1);
                        nest(depth, away, one).await.map_err(IoError::from)
                    });
                    child.join().await?;
                    assert_eq!(kept.children(), 0, "no child is left");
                    assert_eq!(Arc::strong_count(&counter), 2, "nobody is left who holds it");
                    Ok(())
                })
                .await;
                root.unwrap();
            })
            .unwrap();
        assert_eq!((opened.load(Ordering::Relaxed), Arc::strong_count(&opened)), (all, 1));
    };
    for io in [Selection::Sim, Selection::Uring, Selection::Epoll] {
        run(Builder::new().io(io).shards(1), 5, false, 111_111);
        run(Builder::new().io(io).shards(2), 3, true, 1_111);
    }
}

/// What of two nested deadlines went off, outside and inside; when the inner one's end was seen, and all of it.
async fn nested(outer: u64, inner: u64) -> (bool, bool, Duration, Duration) {
    let start = fiber::now();
    let (mut inside, mut seen) = (false, Duration::ZERO);
    let outcome: Outcome<(), Cause> = fiber::with_deadline(millis(outer), async || {
        let within: Outcome<(), IoError> = fiber::with_deadline(millis(inner), || fiber::sleep(Duration::MAX)).await;
        inside = within.is_err_and(|cause| cause.is_timeout());
        seen = since(start);
        // The reason that is left is the outer one's alone.
        match scope::interrupt() {
            Some(reason) => Err(Cause::interrupted(reason)),
            None => Ok(()),
        }
    })
    .await;
    let outside = match outcome {
        Ok(()) => false,
        Err(cause) => cause.is_timeout() || cause.error().is_some_and(Cause::is_timeout),
    };
    (outside, inside, seen, since(start))
}

#[test]
fn r42_of_nested_deadlines_the_nearest_wins() {
    each(|builder| {
        builder
            .run(|| async {
                let start = fiber::now();
                let (outside, inside, seen, _) = nested(50, 100).await;
                assert!(outside && inside && seen >= millis(50), "{seen:?}");
                assert!(took(start, millis(50)), "{:?}", since(start));
                let start = fiber::now();
                // A wide outer one: on a machine that is busy the inner one may be seen late.
                let (outside, inside, seen, _) = nested(60_000, 10).await;
                assert!(!outside && inside && seen >= millis(10), "the outer one goes on: {seen:?}");
                assert!(took(start, millis(10)), "{:?}", since(start));
            })
            .unwrap();
    });
    in_sim(|| async {
        assert_eq!(nested(50, 100).await, (true, true, millis(50), millis(50)));
        assert_eq!(nested(100, 10).await, (false, true, millis(10), millis(10)));
        let start = fiber::now();
        let kept: IoResult<()> = fiber::with_deadline(Duration::MAX, || async { fiber::sleep(millis(1)).await })
            .await
            .map_err(|cause: Cause| panic!("{cause}"));
        kept.unwrap();
        let zero: Outcome<(), IoError> =
            fiber::with_deadline(Duration::ZERO, || async { fiber::sleep(millis(1)).await }).await;
        assert!(zero.unwrap_err().is_timeout());
        assert_eq!(since(start), millis(1));
    });
}

/// A protected section begun before the deadline is finished after it, then the interrupt is seen; and the scope ends
/// only with the last of its children.
#[test]
fn r42_a_protected_section_outlasts_its_deadline_and_the_scope_its_children() {
    each(|builder| {
        builder
            .run(|| async {
                let start = fiber::now();
                let log = Rc::new(RefCell::new(Vec::new()));
                let (one, other) = (Rc::clone(&log), Rc::clone(&log));
                let outcome: Outcome<()> = fiber::with_deadline(millis(10), async || {
                    let scoped: Outcome<()> = fiber::scope(async |s: Scope| {
                        s.spawn(move || async move {
                            // 30 ms, of which 20 after the deadline.
                            fiber::protect(|| fiber::sleep(millis(30))).await?;
                            one.borrow_mut().push("sheltered");
                            let seen = fiber::yield_now().await.unwrap_err();
                            assert!(seen.to_string().contains("out of time"), "{seen}");
                            one.borrow_mut().push("seen");
                            Ok(())
                        });
                        s.spawn(move || async move {
                            let _ = fiber::sleep(Duration::MAX).await;
                            fiber::protect(|| fiber::sleep(millis(50))).await?;
                            other.borrow_mut().push("the last");
                            Ok(())
                        });
                    })
                    .await;
                    Ok(scoped?)
                })
                .await;
                assert_eq!(*log.borrow(), ["sheltered", "seen", "the last"]);
                assert!(outcome.unwrap_err().is_timeout());
                assert!(took(start, millis(60)), "{:?}", since(start));
            })
            .unwrap();
    });
}
