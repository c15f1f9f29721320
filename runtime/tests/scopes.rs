//! Scopes as a user sees them, on every kernel; the simulated one makes the times exact.

mod scopes {
    pub mod away;
    pub mod channels;
    pub mod cleanup;
    pub mod reasons;
    pub mod together;
    pub mod trouble;
}

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use wo_runtime::error::{IoError, IoResult};
use wo_runtime::fiber::{self, Scope};
use wo_runtime::plane::Instant;
use wo_runtime::plane::backend::Selection;
use wo_runtime::scope::{Cause, First, Interrupt, Outcome};
use wo_runtime::shard::Builder;

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn each(test: impl Fn(Builder)) {
    for io in [Selection::Uring, Selection::Epoll, Selection::Sim] {
        eprintln!("on {io}");
        test(Builder::new().io(io));
    }
}

fn in_sim<T: 'static, F: Future<Output = T> + 'static>(body: impl FnOnce() -> F) -> T {
    Builder::new().io(Selection::Sim).run(body).unwrap()
}

fn since(start: Instant) -> Duration {
    fiber::now() - start
}

#[test]
fn s1_first_failure_cancels_the_others_and_later_ones_are_counted() {
    let run = |second: u64| {
        in_sim(move || async move {
            let start = fiber::now();
            let slow = Rc::new(RefCell::new(None));
            let seen = Rc::clone(&slow);
            let outcome: Outcome<(), &str> = fiber::scope(async |s: Scope<&str>| {
                s.spawn(|| async {
                    fiber::sleep(millis(10)).await.map_err(|_| "cancelled")?;
                    Err::<(), _>("first")
                });
                s.spawn(move || async move {
                    fiber::sleep(millis(second)).await.map_err(|_| "cancelled")?;
                    Err::<(), _>("second")
                });
                s.spawn(move || async move {
                    let slept = fiber::sleep(millis(1000)).await;
                    *seen.borrow_mut() = Some((slept.is_err(), since(start)));
                });
            })
            .await;
            assert_eq!(*slow.borrow(), Some((true, since(start))));
            let cause = outcome.unwrap_err();
            (*cause.error().unwrap(), cause.suppressed(), since(start))
        })
    };
    let (error, suppressed, at) = run(20);
    assert_eq!((error, suppressed), ("first", 0));
    assert!(at < millis(11), "{at:?}");
    assert_eq!(run(10).0, "first");
    assert_eq!(run(10).1, 1);
}

#[test]
fn s2_a_scope_ends_with_its_last_child() {
    in_sim(|| async {
        let start = fiber::now();
        let outcome: Outcome<(), IoError> = fiber::scope(async |s: Scope<IoError>| {
            s.spawn(|| async { fiber::sleep(Duration::from_secs(1)).await });
        })
        .await;
        outcome.unwrap();
        assert_eq!(since(start), Duration::from_secs(1));
    });
}

#[test]
fn s3_daemons_are_interrupted_once_only_daemons_are_left() {
    in_sim(|| async {
        let reason = Rc::new(Cell::new(None));
        let seen = Rc::clone(&reason);
        let outcome: Outcome<i32, IoError> = fiber::scope(async |s: Scope<IoError>| {
            s.spawn_daemon(move || async move {
                while fiber::sleep(millis(1)).await.is_ok() {}
                seen.set(wo_runtime::scope::interrupt());
            });
            fiber::sleep(millis(20)).await?;
            Ok(5)
        })
        .await;
        assert_eq!(outcome.unwrap(), 5);
        assert_eq!(reason.get(), Some(Interrupt::Daemon));
    });
}

#[test]
fn s5_a_protected_clean_up_is_done_and_the_cancel_arrives_after_it() {
    in_sim(|| async {
        let log = Rc::new(RefCell::new(Vec::new()));
        let seen = Rc::clone(&log);
        let start = fiber::now();
        let outcome: Outcome<(), IoError> = fiber::scope(async |s: Scope<IoError>| {
            let inner = s.clone();
            s.spawn(move || async move {
                inner.cancel();
                fiber::protect(|| async { fiber::sleep(millis(200)).await }).await.unwrap();
                let at = since(start);
                let cancelled = fiber::yield_now().await.is_err();
                seen.borrow_mut().push((at, cancelled));
            });
        })
        .await;
        // Cancelling asks work to stop and is no failure: the body's own value stands.
        outcome.unwrap();
        assert_eq!(*log.borrow(), [(millis(200), true)]);
    });
}

#[test]
fn s9_a_child_cancelled_before_its_first_poll_never_starts() {
    each(|builder| {
        builder
            .run(|| async {
                let witness = Rc::new(());
                let started = Rc::new(Cell::new(false));
                let (held, flag) = (Rc::clone(&witness), Rc::clone(&started));
                let outcome: Outcome<(), IoError> = fiber::scope(async |s: Scope<IoError>| {
                    s.spawn(move || async move {
                        flag.set(true);
                        drop(held);
                    });
                    s.cancel();
                })
                .await;
                outcome.unwrap();
                assert!(!started.get());
                assert_eq!(Rc::strong_count(&witness), 1);
            })
            .unwrap();
    });
}

#[test]
fn s13_exit_hooks_run_last_in_first_out_whatever_one_of_them_does() {
    each(|builder| {
        builder
            .run(|| async {
                let log = Rc::new(RefCell::new(Vec::new()));
                let seen = Rc::clone(&log);
                let outcome: Outcome<(), IoError> = fiber::scope(async |s: Scope<IoError>| {
                    for name in ["a", "b", "c"] {
                        let seen = Rc::clone(&seen);
                        s.on_exit(move || async move {
                            fiber::yield_now().await.unwrap();
                            seen.borrow_mut().push(name);
                            assert_ne!(name, "b", "b panics");
                        });
                    }
                    s.cancel();
                })
                .await;
                assert_eq!(*log.borrow(), ["c", "b", "a"]);
                assert!(outcome.unwrap_err().is_panic());
            })
            .unwrap();
    });
}

#[test]
fn s14_deep_and_wide_nesting_leaves_nothing_behind() {
    /// Scopes that were opened, and whoever holds this is still there.
    type Opened = Rc<Cell<u32>>;

    fn nest(depth: u32, opened: Opened) -> std::pin::Pin<Box<dyn Future<Output = Outcome<(), IoError>>>> {
        Box::pin(async move {
            fiber::scope(async |s: Scope<IoError>| {
                opened.set(opened.get() + 1);
                for _ in 0..if depth > 0 { 10 } else { 0 } {
                    let below = Rc::clone(&opened);
                    s.spawn(move || async move { nest(depth - 1, below).await.map_err(IoError::from) });
                }
                assert_eq!(s.children(), if depth > 0 { 10 } else { 0 });
            })
            .await
        })
    }
    in_sim(|| async {
        let opened = Opened::default();
        let root: Outcome<()> = fiber::scope(async |s: Scope| {
            let kept = s.clone();
            let all = Rc::clone(&opened);
            s.fork(move || async move { nest(5, all).await.map_err(IoError::from) }).join().await?;
            assert_eq!(kept.children(), 0, "no child is left");
            Ok(())
        })
        .await;
        root.unwrap();
        assert_eq!(opened.get(), 111_111);
        assert_eq!(Rc::strong_count(&opened), 1, "nobody is left who holds it");
    });
}

#[test]
fn a_panicking_child_is_the_scopes_cause() {
    each(|builder| {
        let outcome: Outcome<(), IoError> = builder
            .run(|| async {
                fiber::scope(async |s: Scope<IoError>| {
                    s.spawn(|| async { assert_eq!(1, 2, "as planned") });
                    s.spawn(|| async { fiber::sleep(Duration::MAX).await });
                })
                .await
            })
            .unwrap();
        assert!(matches!(outcome.unwrap_err().first(), First::Die(_)));
    });
}

#[test]
fn a_body_that_swallows_its_cancel_still_ends_interrupted() {
    each(|builder| {
        let outcome: Outcome<i32, IoError> = builder
            .run(|| async {
                fiber::with_deadline(millis(5), || async {
                    let _ = fiber::sleep(Duration::MAX).await;
                    Ok::<_, IoError>(7)
                })
                .await
            })
            .unwrap();
        assert!(outcome.unwrap_err().is_timeout());
    });
}

#[test]
fn r42_of_nested_deadlines_the_nearest_wins() {
    in_sim(|| async {
        let start = fiber::now();
        let nested = |outer: u64, inner: u64| async move {
            let mut inner_cause = None;
            let slot = &mut inner_cause;
            let outer: Outcome<(), IoError> = fiber::with_deadline(millis(outer), || async move {
                let inner: Outcome<(), IoError> =
                    fiber::with_deadline(millis(inner), || async { fiber::sleep(Duration::MAX).await }).await;
                *slot = inner.err().and_then(|cause| cause.interrupt());
                fiber::yield_now().await
            })
            .await;
            (outer.err().and_then(|cause: Cause| cause.interrupt()), inner_cause)
        };
        assert_eq!(nested(50, 100).await, (Some(Interrupt::Deadline), Some(Interrupt::Deadline)));
        assert_eq!(since(start), millis(50));
        assert_eq!(nested(100, 10).await, (None, Some(Interrupt::Deadline)));
        assert_eq!(since(start), millis(60));
        let kept: IoResult<()> = fiber::with_deadline(Duration::MAX, || async { fiber::sleep(millis(1)).await })
            .await
            .map_err(|cause: Cause| panic!("{cause}"));
        kept.unwrap();
        let zero: Outcome<(), IoError> =
            fiber::with_deadline(Duration::ZERO, || async { fiber::sleep(millis(1)).await }).await;
        assert!(zero.unwrap_err().is_timeout());
        assert_eq!(since(start), millis(61));
    });
}

#[test]
fn t1_recurs_three_on_work_that_always_fails_is_four_runs() {
    use wo_runtime::scope::schedule::{recurs, spaced};
    in_sim(|| async {
        let start = fiber::now();
        let runs = Rc::new(Cell::new(0));
        let seen = Rc::clone(&runs);
        let outcome: Outcome<(), &str> = fiber::retry(spaced(millis(10)).both(recurs(3)), move || {
            let seen = Rc::clone(&seen);
            async move {
                seen.set(seen.get() + 1);
                Err::<(), _>("always")
            }
        })
        .await;
        assert_eq!(outcome.unwrap_err().error(), Some(&"always"));
        assert_eq!((runs.get(), since(start)), (4, millis(30)));
    });
}

#[test]
fn t6_what_is_interrupted_or_panics_is_not_tried_again() {
    use wo_runtime::scope::schedule::recurs;
    in_sim(|| async {
        let runs = Rc::new(Cell::new(0));
        let seen = Rc::clone(&runs);
        let outcome: Outcome<(), Cause> = fiber::with_deadline(millis(5), || {
            fiber::retry(recurs(10), move || {
                seen.set(seen.get() + 1);
                fiber::sleep(Duration::MAX)
            })
        })
        .await;
        assert!(outcome.unwrap_err().is_timeout());
        assert_eq!(runs.get(), 1);
        let panics = fiber::spawn(|| {
            fiber::retry(recurs(10), || async {
                assert_eq!(1, 2, "as planned");
                Ok::<(), IoError>(())
            })
        });
        assert!(panics.join().await.unwrap_err().is_panic());
    });
}
