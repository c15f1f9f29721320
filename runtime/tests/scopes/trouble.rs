//! Odd inputs and odd moments, each with its stated answer.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use wo_runtime::error::{IoError, errno};
use wo_runtime::fiber::{self, Scope};
use wo_runtime::plane::Instant;
use wo_runtime::scope::schedule::{Schedule, exponential, recurs, spaced};
use wo_runtime::scope::{Cause, First, Interrupt, Outcome, ScopeOptions};

use crate::{each, in_sim, millis, since};

/// The body of a child that is not to run.
async fn must_not_run() {
    panic!("it ran");
}

#[test]
fn a_deadline_that_has_passed_cancels_before_the_first_verb() {
    in_sim(|| async {
        fiber::sleep(millis(10)).await.unwrap();
        let start = fiber::now();
        let ran = Cell::new(false);
        for at in [Instant::ORIGIN, start] {
            let outcome: Outcome<()> = fiber::with_deadline_at(at, async || {
                ran.set(true);
                fiber::sleep(millis(1)).await
            })
            .await;
            assert!(outcome.unwrap_err().is_timeout());
            assert!(ran.replace(false), "the body runs up to its first verb");
        }
        let scoped: Outcome<()> = fiber::scope_with(ScopeOptions::new().deadline(Duration::ZERO), async |s: Scope| {
            s.spawn(must_not_run);
        })
        .await;
        assert!(scoped.unwrap_err().is_timeout());
        assert_eq!(since(start), Duration::ZERO);
    });
}

#[test]
fn the_longest_deadline_is_none() {
    in_sim(|| async {
        let start = fiber::now();
        let year = Duration::from_secs(365 * 24 * 3600);
        for _ in 0..3 {
            let outcome: Outcome<()> = fiber::with_deadline(Duration::MAX, || fiber::sleep(year)).await;
            outcome.unwrap();
            let scoped: Outcome<()> = fiber::scope_with(
                ScopeOptions::new().deadline(Duration::MAX).cleanup(Duration::MAX),
                async |s: Scope| s.spawn(move || fiber::sleep(year)),
            )
            .await;
            scoped.unwrap();
        }
        let almost = Duration::MAX - Duration::from_nanos(1);
        let outcome: Outcome<()> = fiber::with_deadline(almost, || fiber::sleep(millis(1))).await;
        outcome.unwrap();
        let far = fiber::with_deadline_at(Instant::from_nanos(u64::MAX), || fiber::sleep(millis(1))).await;
        let _: () = far.map_err(|cause: Cause| panic!("{cause}")).unwrap();
        assert_eq!(since(start), 6 * year + millis(2));
    });
}

#[test]
fn an_empty_scope_ends_at_once() {
    each(|builder| {
        builder
            .run(|| async {
                let nothing: Outcome<()> = fiber::scope(async |_s: Scope| ()).await;
                nothing.unwrap();
                let value: Outcome<u8> = fiber::scope(async |_s: Scope| Ok(7)).await;
                assert_eq!(value.unwrap(), 7);
            })
            .unwrap();
    });
}

#[test]
fn a_cancel_comes_once_whenever_it_comes() {
    each(|builder| {
        builder
            .run(|| async {
                let kept = Rc::new(RefCell::new(None));
                let keep = Rc::clone(&kept);
                let outcome: Outcome<u8> = fiber::scope(async |s: Scope| {
                    s.spawn(|| fiber::sleep(Duration::MAX));
                    fiber::yield_now().await?;
                    s.cancel();
                    s.cancel();
                    assert_eq!(s.cancelled(), Some(Interrupt::Cancelled));
                    *keep.borrow_mut() = Some(s);
                    Ok(1)
                })
                .await;
                assert_eq!(outcome.unwrap(), 1, "the body ended before its next checkpoint");
                let s = kept.take().unwrap();
                // After the end nothing happens any more.
                s.cancel();
                s.fail(IoError::from(std::io::Error::other("too late")));
                fiber::checkpoint().expect("this fiber is not cancelled");
            })
            .unwrap();
    });
}

#[test]
fn a_scope_that_has_ended_starts_nothing() {
    each(|builder| {
        builder
            .run(|| async {
                let kept = Rc::new(RefCell::new(None));
                let keep = Rc::clone(&kept);
                let outcome: Outcome<()> = fiber::scope(async |s: Scope| *keep.borrow_mut() = Some(s)).await;
                outcome.unwrap();
                let s = kept.take().unwrap();
                let witness = Rc::new(());
                for round in 0..2 {
                    let (held, hook) = (Rc::clone(&witness), Rc::clone(&witness));
                    let child = s.fork(move || async move {
                        drop(held);
                        Ok(round)
                    });
                    s.on_exit(move || async move { drop(hook) });
                    s.spawn(must_not_run);
                    s.spawn_daemon(must_not_run);
                    assert!(child.is_finished());
                    child.interrupt();
                    let cause = child.join().await.unwrap_err();
                    assert_eq!(cause.interrupt(), Some(Interrupt::Cancelled));
                }
                assert_eq!(Rc::strong_count(&witness), 1, "what they captured was dropped");
                assert_eq!(s.children(), 0);
            })
            .unwrap();
    });
}

#[test]
fn a_child_of_a_cancelled_scope_never_starts_and_is_still_joined() {
    each(|builder| {
        builder
            .run(|| async {
                let witness = Rc::new(());
                let held = Rc::clone(&witness);
                let outcome: Outcome<()> = fiber::scope(async |s: Scope| {
                    s.cancel();
                    let child = s.fork(move || async move {
                        drop(held);
                        must_not_run().await;
                    });
                    assert_eq!(s.children(), 1);
                    let _: Outcome<()> = child.join().await;
                })
                .await;
                assert_eq!(outcome.unwrap_err().interrupt(), Some(Interrupt::Cancelled), "the join told the body");
                assert_eq!(Rc::strong_count(&witness), 1);
            })
            .unwrap();
    });
}

#[test]
fn a_body_that_swallows_every_error_ends_interrupted_all_the_same() {
    each(|builder| {
        builder
            .run(|| async {
                let rounds = Cell::new(0);
                let outcome: Outcome<&str> = fiber::scope(async |s: Scope| {
                    s.cancel();
                    while rounds.get() < 100 {
                        let _ = fiber::yield_now().await;
                        let _ = fiber::sleep(millis(1)).await;
                        rounds.set(rounds.get() + 1);
                    }
                    Ok("nothing happened")
                })
                .await;
                assert_eq!(outcome.unwrap_err().interrupt(), Some(Interrupt::Cancelled));
                assert_eq!(rounds.get(), 100);
            })
            .unwrap();
    });
}

#[test]
fn a_hot_body_is_stopped_at_its_checkpoint() {
    each(|builder| {
        let outcome: Outcome<u64> = builder
            .run(|| async {
                fiber::with_deadline(millis(2), async || {
                    for turns in 1_u64.. {
                        fiber::checkpoint()?;
                        if turns % 64 == 0 {
                            fiber::yield_now().await?;
                        }
                        // In simulation only what sleeps moves the clock.
                        if turns % 4096 == 0 {
                            fiber::sleep(millis(1)).await?;
                        }
                    }
                    Ok(0)
                })
                .await
            })
            .unwrap();
        assert!(outcome.unwrap_err().is_timeout());
    });
}

#[test]
fn a_scope_dropped_half_way_cancels_its_children() {
    each(|builder| {
        builder
            .run(|| async {
                let seen = Rc::new(Cell::new(None));
                let tell = Rc::clone(&seen);
                {
                    let scope = fiber::scope(async |s: Scope| {
                        s.spawn(move || async move {
                            let _ = fiber::sleep(Duration::MAX).await;
                            tell.set(fiber_reason());
                        });
                        fiber::sleep(Duration::MAX).await
                    });
                    let mut scope = std::pin::pin!(scope);
                    std::future::poll_fn(|cx| {
                        assert!(scope.as_mut().poll(cx).is_pending());
                        std::task::Poll::Ready(())
                    })
                    .await;
                    fiber::yield_now().await.unwrap();
                }
                fiber::yield_now().await.unwrap();
                assert_eq!(seen.get(), Some(Interrupt::Cancelled));
            })
            .unwrap();
    });
}

fn fiber_reason() -> Option<Interrupt> {
    wo_runtime::scope::interrupt()
}

#[test]
fn retry_with_a_strange_schedule_neither_spins_for_ever_nor_panics() {
    in_sim(|| async {
        let start = fiber::now();
        let runs = Cell::new(0_u64);
        let fails = async || {
            runs.set(runs.get() + 1);
            Err::<(), _>("always")
        };
        let none: Outcome<(), &str> = fiber::retry(recurs(0), fails).await;
        assert_eq!((none.unwrap_err().error(), runs.replace(0)), (Some(&"always"), 1));
        for factor in [f64::NAN, f64::NEG_INFINITY, -1.0, 0.0, 1.0] {
            let policy = exponential(millis(1)).factor(factor) & recurs(3);
            let outcome: Outcome<(), &str> = fiber::retry(policy, fails).await;
            assert!(outcome.is_err());
            assert_eq!(runs.replace(0), 4);
        }
        assert_eq!(since(start), millis(15));
        // A delay without end is one that only a cancel ends.
        let policy = spaced(millis(1)).jittered(f64::INFINITY, f64::INFINITY, 1);
        let endless: Outcome<(), &str> = fiber::with_deadline(millis(100), async || {
            fiber::retry(policy, fails).await.map_err(|cause: Cause<&str>| match cause.into_first() {
                First::Fail(error) => error,
                _ => "interrupted",
            })
        })
        .await;
        assert!(endless.unwrap_err().is_timeout());
        assert_eq!((runs.get(), since(start)), (1, millis(115)));
    });
}

#[test]
fn schedules_of_nothing_and_of_everything_saturate() {
    assert_eq!(exponential(Duration::MAX).delays().nth(3), Some(Duration::MAX));
    assert_eq!(exponential(Duration::ZERO).factor(f64::MAX).delays().nth(9), Some(Duration::ZERO));
    assert_eq!(spaced(Duration::MAX).up_to(Duration::MAX).delays().take(9).count(), 9);
    assert_eq!(spaced(millis(1)).up_to(Duration::ZERO).delays().count(), 0);
    assert_eq!(recurs(u64::MAX).delays().nth(1000), Some(Duration::ZERO));
    let huge = spaced(millis(1)).jittered(f64::MAX, f64::MAX, 3);
    assert_eq!(huge.delays().next(), Some(Duration::MAX));
    assert_eq!(spaced(Duration::MAX).jittered(0.0, 0.0, 3).delays().next(), Some(Duration::ZERO));
}

#[test]
fn a_childs_handle_outlives_everything() {
    each(|builder| {
        let child = builder
            .run(|| async {
                let kept = Rc::new(RefCell::new(None));
                let keep = Rc::clone(&kept);
                let outcome: Outcome<()> = fiber::scope(async |s: Scope| {
                    *keep.borrow_mut() = Some(s.fork(|| async { Ok("kept") }));
                })
                .await;
                outcome.unwrap();
                let child = kept.take().unwrap();
                child.interrupt();
                assert!(child.is_finished());
                child
            })
            .unwrap();
        drop(child);
    });
}

#[test]
fn the_error_of_a_cancelled_verb_says_why() {
    each(|builder| {
        builder
            .run(|| async {
                for (reason, words) in [
                    (Interrupt::Cancelled, "cancelled"),
                    (Interrupt::Deadline, "out of time"),
                    (Interrupt::Daemon, "only daemons were left"),
                    (Interrupt::SiblingFailed, "another of its scope failed"),
                ] {
                    let said = Rc::new(RefCell::new(Vec::new()));
                    let seen = Rc::clone(&said);
                    let late = reason == Interrupt::Deadline;
                    let options = ScopeOptions::new().deadline(if late { millis(5) } else { Duration::MAX });
                    let _: Outcome<(), &str> = fiber::scope_with(options, async |s: Scope<&str>| {
                        let body = move || async move {
                            // One parked, one that has not begun.
                            for _ in 0..2 {
                                let error = fiber::sleep(Duration::MAX).await.unwrap_err();
                                assert_eq!(wo_runtime::scope::interrupt(), Some(reason));
                                seen.borrow_mut().push(error);
                            }
                        };
                        if reason == Interrupt::Daemon {
                            s.spawn_daemon(body)
                        } else {
                            s.spawn(body)
                        }
                        fiber::yield_now().await.map_err(|_| "not yet")?;
                        match reason {
                            Interrupt::Cancelled => s.cancel(),
                            Interrupt::SiblingFailed => s.fail("on purpose"),
                            _ => {}
                        }
                        Ok(())
                    })
                    .await;
                    let said = said.take();
                    assert_eq!(said.len(), 2, "{reason:?}");
                    for error in said {
                        assert_eq!((error.errno(), error.context()), (errno::ECANCELED, words), "{reason:?}");
                        assert!(error.to_string().starts_with(&format!("timer {words}: ")), "{error}");
                    }
                }
            })
            .unwrap();
    });
}

#[test]
fn who_cancels_its_own_scope_hears_of_it_at_its_next_verb() {
    each(|builder| {
        builder
            .run(|| async {
                let own: Outcome<()> = fiber::scope(async |s: Scope| {
                    s.cancel();
                    fiber::sleep(Duration::MAX).await
                })
                .await;
                assert_eq!(own.unwrap_err().interrupt(), Some(Interrupt::Cancelled));
                let childs: Outcome<()> = fiber::scope(async |s: Scope| {
                    let around = s.clone();
                    s.spawn(move || async move {
                        let within: Outcome<()> = fiber::with_deadline(Duration::MAX, async || {
                            around.cancel();
                            fiber::sleep(Duration::MAX).await
                        })
                        .await;
                        assert_eq!(within.unwrap_err().interrupt(), Some(Interrupt::Cancelled));
                        fiber::sleep(Duration::MAX).await
                    });
                })
                .await;
                childs.unwrap();
            })
            .unwrap();
    });
}
