//! Effects have no meaning of their own: each program here is written twice, as an effect and as the direct code, and
//! both must come to the same, in the same virtual time, with the same calls in the same order.

use std::cell::RefCell;
use std::fmt::Debug;
use std::rc::Rc;
use std::time::Duration;

use wo_runtime::fiber::{self, Run};
use wo_runtime::plane::backend::Selection;
use wo_runtime::scope::capability::{Clock, Env, HasClock, TestClock};
use wo_runtime::scope::effect::{Effect, effect, effect_in, fail, succeed};
use wo_runtime::scope::schedule::{exponential, recurs, spaced};
use wo_runtime::scope::{Cause, First, Interrupt, Outcome};
use wo_runtime::shard::Builder;

type Log = Rc<RefCell<Vec<String>>>;

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// How an outcome reads, errors told from panics and interruptions.
fn said<T: Debug>(outcome: Outcome<T, &'static str>) -> String {
    match outcome {
        Ok(value) => format!("{value:?}"),
        Err(cause) => cause.to_string(),
    }
}

/// Runs both versions in worlds of their own.
fn same<A, B>(name: &str, as_effect: impl FnOnce(Log) -> A, directly: impl FnOnce(Log) -> B)
where
    A: AsyncFnOnce() -> String + 'static,
    B: AsyncFnOnce() -> String + 'static,
{
    let mut results = Vec::new();
    let world = |log: &Log, body: Box<dyn FnOnce() -> std::pin::Pin<Box<dyn Future<Output = String>>>>| {
        let (result, took) = Builder::new()
            .io(Selection::Sim)
            .run(move || async move {
                let start = fiber::now();
                (body().await, fiber::now() - start)
            })
            .unwrap();
        (result, took, log.take())
    };
    let log = Log::default();
    let body = as_effect(Rc::clone(&log));
    results.push(world(&log, Box::new(move || Box::pin(async move { body().await }))));
    let log = Log::default();
    let body = directly(Rc::clone(&log));
    results.push(world(&log, Box::new(move || Box::pin(async move { body().await }))));
    assert_eq!(results[0], results[1], "{name}");
}

/// Work that sleeps, writes down that it ran, and fails until it has run often enough.
async fn work(log: &Log, name: &str, span: u64, fails: usize) -> Result<u64, &'static str> {
    log.borrow_mut().push(format!("{name} at {:?}", fiber::now()));
    fiber::sleep(millis(span)).await.map_err(|_| "cancelled")?;
    let ran = log.borrow().iter().filter(|line| line.starts_with(name)).count();
    if ran > fails { Ok(span) } else { Err("not yet") }
}

#[test]
fn values_and_maps() {
    same(
        "succeed",
        |_| async || said(succeed::<_, &str>(7).map(|n| n * 2).map(|n| n + 1).map(|n| format!("<{n}>")).run(&()).await),
        |_| async || said(Ok(format!("<{}>", 7 * 2 + 1))),
    );
    same(
        "fail",
        |log| {
            async move || {
                let never = |n: u32| log.borrow_mut().push(format!("mapped {n}"));
                said(fail::<u32, _>("no").map(never).run(&()).await)
            }
        },
        |_| async || said(Err::<(), _>(Cause::fail("no"))),
    );
    same(
        "effect",
        |log| async move || said(effect(async || work(&log, "a", 5, 0).await).map(|n| n + 1).run(&()).await),
        |log| async move || said(work(&log, "a", 5, 0).await.map(|n| n + 1).map_err(Cause::fail)),
    );
}

#[test]
fn one_after_the_other() {
    for (first, second) in [(0, 0), (1, 0), (0, 1)] {
        same(
            "and_then",
            move |log| {
                async move || {
                    let log = &log;
                    let chain = effect(async || work(log, "a", 5, first).await)
                        .and_then(|n| effect(async move || work(log, "b", n + 2, second).await))
                        .map(|n| n * 10);
                    said(chain.run(&()).await)
                }
            },
            move |log| {
                async move || {
                    let chain = async {
                        let n = work(&log, "a", 5, first).await?;
                        let n = work(&log, "b", n + 2, second).await?;
                        Ok(n * 10)
                    };
                    said(chain.await.map_err(Cause::fail))
                }
            },
        );
    }
}

#[test]
fn two_at_once() {
    for (one, other) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        same(
            "zip_par",
            move |log| {
                async move || {
                    let log = &log;
                    let pair = effect(async || work(log, "a", 5, one).await)
                        .zip_par(effect(async || work(log, "b", 9, other).await));
                    said(pair.run(&()).await)
                }
            },
            move |log| {
                async move || {
                    let log = &log;
                    said(
                        fiber::join((async || work(log, "a", 5, one).await, async || work(log, "b", 9, other).await))
                            .await,
                    )
                }
            },
        );
    }
}

#[test]
fn again_while_it_fails() {
    let policy = || exponential(millis(10)) & recurs(3);
    for fails in 0..6 {
        same(
            "with_retry",
            move |log| {
                async move || said(effect(async || work(&log, "a", 1, fails).await).with_retry(policy()).run(&()).await)
            },
            move |log| async move || said(fiber::retry(policy(), async || work(&log, "a", 1, fails).await).await),
        );
    }
}

#[test]
fn no_longer_than_a_limit() {
    for limit in [0, 1, 4, 5, 6, 100] {
        same(
            "with_timeout",
            move |log| {
                async move || {
                    said(effect(async || work(&log, "a", 5, 0).await).with_timeout(millis(limit)).run(&()).await)
                }
            },
            move |log| {
                async move || said(fiber::with_deadline(millis(limit), async || work(&log, "a", 5, 0).await).await)
            },
        );
    }
    // Of what is tried again the limit is for all tries, or for each, as it is written.
    same(
        "a limit around tries",
        |log| {
            async move || {
                let tries = effect(async || work(&log, "a", 5, 99).await).with_retry(spaced(millis(5)));
                said(tries.with_timeout(millis(42)).run(&()).await)
            }
        },
        |log| {
            async move || {
                let outcome = fiber::with_deadline(millis(42), async || {
                    fiber::retry(spaced(millis(5)), async || work(&log, "a", 5, 99).await).await.map_err(|cause| {
                        match cause.into_first() {
                            First::Fail(error) => error,
                            _ => "interrupted",
                        }
                    })
                });
                said(outcome.await)
            }
        },
    );
    same(
        "a limit around each try is an interruption, which is not tried again",
        |log| {
            async move || {
                let each = effect(async || work(&log, "a", 5, 0).await).with_timeout(millis(3)).with_retry(recurs(3));
                said(each.run(&()).await)
            }
        },
        |log| async move || said(fiber::with_deadline(millis(3), async || work(&log, "a", 5, 0).await).await),
    );
}

#[test]
fn a_cancel_from_around_and_a_panic_within() {
    same(
        "cancelled",
        |log| {
            async move || {
                let log = &log;
                let outcome: Outcome<String, &str> = fiber::with_deadline(millis(3), async || {
                    let both = effect(async || work(log, "a", 5, 0).await)
                        .zip_par(effect(async || work(log, "b", 9, 0).await));
                    let outcome = both.run(&()).await;
                    assert_eq!(outcome.as_ref().unwrap_err().interrupt(), Some(Interrupt::Deadline));
                    Ok(said(outcome))
                })
                .await;
                said(outcome)
            }
        },
        |log| {
            async move || {
                let log = &log;
                let outcome: Outcome<String, &str> = fiber::with_deadline(millis(3), async || {
                    let both: Outcome<(u64, u64), &str> =
                        fiber::join((async || work(log, "a", 5, 0).await, async || work(log, "b", 9, 0).await)).await;
                    Ok(said(both))
                })
                .await;
                said(outcome)
            }
        },
    );
    same(
        "panics",
        |_| {
            async || {
                let panics = effect(async || {
                    fiber::yield_now().await.map_err(|_| "cancelled")?;
                    assert_eq!(1, 2, "as planned");
                    Ok(1)
                });
                said(panics.zip_par(succeed(2)).run(&()).await)
            }
        },
        |_| {
            async || {
                let panics = async || {
                    fiber::yield_now().await.map_err(|_| "cancelled")?;
                    assert_eq!(1, 2, "as planned");
                    Ok::<_, &str>(1)
                };
                said(fiber::join((panics, async || Ok(2))).await)
            }
        },
    );
}

/// As a `Result`, for the direct code of a piece within another.
fn plain<T>(outcome: Outcome<T, &'static str>) -> Result<T, &'static str> {
    outcome.map_err(|cause| match cause.into_first() {
        First::Fail(error) => error,
        First::Interrupted(Interrupt::Deadline) => "out of time",
        First::Interrupted(_) => "interrupted",
        First::Die(_) => "panicked",
    })
}

/// What a seed draws for the program below: spans and failures of its three pieces, and its limits.
#[derive(Clone, Copy, Debug)]
struct Draw {
    spans: [u64; 3],
    fails: [usize; 3],
    tries: u64,
    all_tries: u64,
    limit: u64,
}

impl Draw {
    fn of(seed: u64) -> Draw {
        let mut chance = seed;
        let mut below = |of: u64| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (chance >> 33) % of
        };
        Draw {
            spans: [below(9), below(9), below(9)],
            fails: [below(4) as usize, below(3) as usize, below(3) as usize],
            tries: below(4),
            all_tries: below(3),
            limit: below(60),
        }
    }
}

/// Every kind of node, one within the other, with numbers of all sorts: what comes of it, when, and after which calls
/// is the direct code's.
#[test]
fn any_program_of_them_is_its_direct_code() {
    let mut ends = std::collections::BTreeMap::new();
    for seed in 0..400 {
        let Draw { spans, fails, tries, all_tries, limit } = Draw::of(seed);
        let policy = move || exponential(millis(2)) & recurs(tries);
        let again = move || spaced(millis(1)) & recurs(all_tries);
        let end = Rc::new(RefCell::new(String::new()));
        let told = Rc::clone(&end);
        same(
            &format!("seed {seed}"),
            move |log| {
                async move || {
                    let log = &log;
                    let one = effect(async || work(log, "a", spans[0], fails[0]).await).with_retry(policy());
                    let other = effect(async || work(log, "b", spans[1], fails[1]).await)
                        .and_then(|n| effect(async move || work(log, "c", n + spans[2], fails[2]).await));
                    let all = one.zip_par(other).map(|(one, other)| one * 100 + other).map(|both| both + 1);
                    let ended = plain(all.with_retry(again()).with_timeout(millis(limit)).run(&()).await);
                    *told.borrow_mut() = ended.map_or_else(str::to_owned, |_| "well".to_owned());
                    format!("{ended:?}")
                }
            },
            move |log| {
                async move || {
                    let log = &log;
                    let all = async || {
                        let one = async || {
                            plain(fiber::retry(policy(), async || work(log, "a", spans[0], fails[0]).await).await)
                        };
                        let other = async || {
                            let n = work(log, "b", spans[1], fails[1]).await?;
                            work(log, "c", n + spans[2], fails[2]).await
                        };
                        let (one, other) = plain(fiber::join((one, other)).await)?;
                        Ok(one * 100 + other + 1)
                    };
                    let limited =
                        fiber::with_deadline(millis(limit), async || plain(fiber::retry(again(), all).await)).await;
                    format!("{:?}", plain(limited))
                }
            },
        );
        *ends.entry(end.take()).or_insert(0) += 1;
    }
    // All of its ends have been met.
    assert!(ends.values().all(|count| *count > 20) && ends.len() == 3, "{ends:?}");
}

#[test]
fn an_effect_runs_in_the_world_it_is_given_and_as_often_as_one_likes() {
    Builder::new()
        .io(Selection::Sim)
        .run(|| async {
            let nap = effect_in(async |env: &Env<TestClock>| {
                env.clock().sleep(millis(10)).await?;
                Ok::<_, wo_runtime::error::IoError>(env.clock().now())
            });
            let twice = nap.and_then(move |first| nap.map(move |second| (first, second)));
            for round in 1..=3_u64 {
                let clock = TestClock::new();
                let env = Env::empty().with_clock(clock.clone());
                clock.advance(millis(100 * round));
                let napping = fiber::spawn(move || async move { twice.run(&env).await });
                fiber::advance_and_settle(&clock, Duration::from_secs(1)).await.unwrap();
                let seen = napping.join().await.unwrap().unwrap();
                assert_eq!(seen, (millis(100 * round + 10), millis(100 * round + 20)));
            }
        })
        .unwrap();
}
