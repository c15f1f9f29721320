//! Races and joins: the first to end, or all of them.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use wo_runtime::error::IoError;
use wo_runtime::fiber::{self, Channel};
use wo_runtime::scope::{self, First, Interrupt, Outcome};

use crate::{each, in_sim, millis, since};

#[test]
fn losers_hear_that_the_race_is_lost_and_are_waited_for() {
    in_sim(|| async {
        let start = fiber::now();
        let log = RefCell::new(Vec::new());
        let loser = async |name: &'static str| {
            let slept = fiber::sleep(Duration::from_secs(60)).await;
            log.borrow_mut().push((name, slept.is_err(), scope::interrupt()));
            fiber::protect(|| fiber::sleep(millis(5))).await?;
            log.borrow_mut().push((name, true, None));
            Ok("never")
        };
        let outcome: Outcome<&str> = fiber::race((
            async || loser("before").await,
            async || {
                fiber::sleep(millis(10)).await?;
                Ok("quick")
            },
            async || loser("after").await,
        ))
        .await;
        assert_eq!(outcome.unwrap(), "quick");
        assert_eq!(since(start), millis(15));
        let lost = Some(Interrupt::RaceLost);
        let mut log = log.take();
        log.sort_by_key(|(name, _, reason)| (reason.is_none(), *name));
        let cleaned = |name| (name, true, None);
        assert_eq!(log, [("after", true, lost), ("before", true, lost), cleaned("after"), cleaned("before")]);
    });
}

#[test]
fn a_race_ends_as_its_first_does() {
    each(|builder| {
        builder
            .run(|| async {
                let failed: Outcome<(), &str> = fiber::race((
                    async || fiber::sleep(Duration::MAX).await.map_err(|_| "cancelled"),
                    async || Err("failed"),
                ))
                .await;
                assert_eq!(failed.unwrap_err().error(), Some(&"failed"));
                let panicked: Outcome<()> = fiber::race((
                    async || fiber::sleep(Duration::MAX).await,
                    async || {
                        fiber::yield_now().await?;
                        assert_eq!(1, 2, "as planned");
                        Ok(())
                    },
                ))
                .await;
                assert!(matches!(panicked.unwrap_err().into_first(), First::Die(_)));
                let late: Outcome<()> = fiber::timeout(millis(1), async || {
                    let both: Outcome<()> = fiber::race((
                        async || fiber::sleep(Duration::MAX).await,
                        async || fiber::sleep(Duration::MAX).await,
                    ))
                    .await;
                    assert!(both.as_ref().unwrap_err().is_timeout());
                    Ok(both?)
                })
                .await;
                assert_eq!(IoError::from(late.unwrap_err()).errno(), 110);
                let nobody: Outcome<()> = fiber::race_all(Vec::<u8>::new(), async |_| Ok(())).await;
                assert_eq!(nobody.unwrap_err().interrupt(), Some(Interrupt::RaceLost));
            })
            .unwrap();
    });
}

#[test]
fn a_race_of_takers_loses_no_item() {
    each(|builder| {
        builder
            .run(|| async {
                let (one, other) = (Channel::new(8), Channel::new(8));
                let (mut put, mut took) = (0_u64, 0_u64);
                for number in 1..=300_u64 {
                    for (at, channel) in [&one, &other].into_iter().enumerate() {
                        let item = number * 10 + at as u64;
                        if number % (2 + at as u64) == 0 && channel.try_put(item).is_ok() {
                            put += item;
                        }
                    }
                    let (late, item) = (number % 3 == 0, number * 10 + 5);
                    let outcome: Outcome<u64> = fiber::race((
                        || one.take(),
                        || other.take(),
                        async || {
                            // Both takers wait by now; one of them is served, and the race is over for the other.
                            fiber::yield_now().await?;
                            if late && one.try_put(item).is_ok() {
                                put += item;
                                fiber::sleep(Duration::MAX).await?;
                            }
                            Ok(0)
                        },
                    ))
                    .await;
                    took += outcome.unwrap();
                }
                while let Some(item) = one.try_take().or_else(|| other.try_take()) {
                    took += item;
                }
                assert_eq!(took, put);
            })
            .unwrap();
    });
}

#[test]
fn what_is_joined_borrows_and_comes_in_order() {
    in_sim(|| async {
        let start = fiber::now();
        let names = ["c".to_owned(), "a".to_owned(), "b".to_owned()];
        let calls = Cell::new(0);
        let outcome: Outcome<(usize, &str, ())> = fiber::join((
            async || {
                fiber::sleep(millis(30)).await?;
                calls.set(calls.get() + 1);
                Ok(names.len())
            },
            async || {
                calls.set(calls.get() + 1);
                Ok(names[0].as_str())
            },
            || fiber::sleep(millis(20)),
        ))
        .await;
        assert_eq!(outcome.unwrap(), (3, "c", ()));
        assert_eq!((calls.get(), since(start)), (2, millis(30)));
        let shouted: Outcome<Vec<String>> = fiber::join_all(names.iter().enumerate(), async |(at, name)| {
            fiber::sleep(millis(30 - 10 * at as u64)).await?;
            Ok(name.to_uppercase())
        })
        .await;
        assert_eq!(shouted.unwrap(), ["C", "A", "B"]);
        assert_eq!(since(start), millis(60));
        let none: Outcome<Vec<()>> = fiber::join_all(Vec::<u8>::new(), async |_| Ok(())).await;
        assert!(none.unwrap().is_empty());
    });
}

#[test]
fn one_that_fails_has_the_others_cancelled_and_all_are_waited_for() {
    in_sim(|| async {
        let start = fiber::now();
        let told = Cell::new(None);
        let outcome: Outcome<((), ()), &str> = fiber::join((
            async || {
                let _ = fiber::sleep(Duration::MAX).await;
                told.set(scope::interrupt());
                fiber::protect(|| fiber::sleep(millis(5))).await.map_err(|_| "sheltered")?;
                Err("also")
            },
            async || {
                fiber::sleep(millis(1)).await.map_err(|_| "cancelled")?;
                Err("first")
            },
        ))
        .await;
        let cause = outcome.unwrap_err();
        assert_eq!((cause.error(), cause.suppressed()), (Some(&"first"), 0), "the other was interrupted");
        assert_eq!((told.get(), since(start)), (Some(Interrupt::SiblingFailed), millis(6)));
        let both: Outcome<Vec<()>, u32> =
            fiber::join_all([3_u32, 1, 2], async |number: u32| if number > 0 { Err(number) } else { Ok(()) }).await;
        assert_eq!(both.unwrap_err().to_string(), "failed: 3 (and 2 more)");
    });
}

#[test]
fn thousands_are_joined_in_no_more_than_their_own_wakes() {
    in_sim(|| async {
        let polls = Cell::new(0_u64);
        let count = 5000_u64;
        let outcome: Outcome<Vec<u64>> = fiber::join_all(0..count, async |number: u64| {
            let mut sleep = Box::pin(fiber::sleep(Duration::from_micros(number)));
            std::future::poll_fn(|cx| {
                polls.set(polls.get() + 1);
                sleep.as_mut().poll(cx)
            })
            .await?;
            Ok(number)
        })
        .await;
        assert_eq!(outcome.unwrap().len(), 5000);
        assert!(polls.get() <= 3 * count, "{} polls", polls.get());
    });
}
