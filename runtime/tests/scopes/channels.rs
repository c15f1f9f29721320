//! Channels, local and between shards: the same cases for both.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wo_runtime::error::errno;
use wo_runtime::fiber::{self, Channel, Door, Scope};
use wo_runtime::plane::backend::Selection;
use wo_runtime::scope::{Cause, Outcome};
use wo_runtime::shard::Builder;

use crate::{each, millis};

/// Runs a case with a channel of each kind, on every kernel.
macro_rules! on_both {
    ($($(#[$meta:meta])* $name:ident => $case:ident;)+) => {$(
        $(#[$meta])*
        #[test]
        fn $name() {
            each(|builder| builder.clone().run(|| $case(Channel::new)).unwrap());
            each(|builder| builder.clone().run(|| $case(Channel::shared)).unwrap());
        }
    )+};
}

on_both! {
    items_come_in_order_and_a_full_channel_parks => order;
    a_closed_channel_is_drained_and_then_says_so => close;
    a_cancelled_wait_loses_nothing => cancel;
    who_was_called_and_goes_passes_the_call_on => pass_on;
    trying_never_parks_and_never_overtakes => trying;
    who_waits_longest_is_served_first => fair;
    an_item_comes_with_the_cancel_or_stays => race_with_cancel;
    a_capacity_of_nothing_is_one => smallest;
}

async fn order<D: Door<u32> + 'static>(new: impl Fn(usize) -> Channel<u32, D>) {
    let channel = new(3);
    let source = channel.clone();
    let outcome: Outcome<Vec<u32>> = fiber::scope(async |s: Scope| {
        s.spawn(move || async move {
            for number in 0..100 {
                source.put(number).await?;
                assert!(source.len() <= source.capacity());
            }
            source.close();
            Ok(())
        });
        let mut seen = Vec::new();
        while let Some(number) = channel.next().await? {
            seen.push(number);
        }
        Ok(seen)
    })
    .await;
    assert_eq!(outcome.unwrap(), (0..100).collect::<Vec<_>>());
}

async fn close<D: Door<Arc<u8>> + 'static>(new: impl Fn(usize) -> Channel<Arc<u8>, D>) {
    let channel = new(2);
    let item = Arc::new(7);
    channel.put(Arc::clone(&item)).await.unwrap();
    channel.put(Arc::clone(&item)).await.unwrap();
    let (full, late) = (channel.clone(), Arc::clone(&item));
    let waits = fiber::spawn(move || async move { full.put(late).await });
    fiber::yield_now().await.unwrap();
    channel.close();
    channel.close();
    let refused = waits.join().await.unwrap().unwrap_err();
    assert!(refused.is_closed() && !refused.is_full());
    assert_eq!(*refused.into_item(), 7);
    assert!(channel.try_put(Arc::clone(&item)).unwrap_err().is_closed());
    assert_eq!(channel.len(), 2);
    assert_eq!(*channel.take().await.unwrap(), 7);
    assert_eq!(channel.next().await.unwrap().as_deref(), Some(&7));
    assert_eq!(channel.take().await.unwrap_err().errno(), errno::EPIPE);
    assert_eq!(channel.next().await.unwrap(), None);
    assert_eq!(Arc::strong_count(&item), 1);
    // What is left in it goes with it.
    let other = new(1);
    other.try_put(Arc::clone(&item)).unwrap();
    drop(other);
    assert_eq!(Arc::strong_count(&item), 1);
    // Takers that wait hear of it.
    let empty = new(1);
    let waits: Vec<_> = (0..3)
        .map(|_| {
            fiber::spawn({
                let empty = empty.clone();
                move || empty.take()
            })
        })
        .collect();
    fiber::yield_now().await.unwrap();
    empty.close();
    for wait in waits {
        assert_eq!(wait.join().await.unwrap().unwrap_err().errno(), errno::EPIPE);
    }
}

async fn cancel<D: Door<u32> + 'static>(new: impl Fn(usize) -> Channel<u32, D>) {
    let channel = new(1);
    for round in 0..20 {
        let (taker, putter) = (channel.clone(), channel.clone());
        let outcome: Outcome<()> = fiber::scope(async |s: Scope| {
            s.spawn(move || async move { taker.take().await.map(drop) });
            fiber::yield_now().await?;
            s.cancel();
            Ok(())
        })
        .await;
        outcome.unwrap();
        channel.put(round).await.unwrap();
        let refused = Rc::new(RefCell::new(None));
        let seen = Rc::clone(&refused);
        let outcome: Outcome<()> = fiber::scope(async |s: Scope| {
            s.spawn(move || async move {
                let error = putter.put(round + 100).await.unwrap_err();
                assert_eq!(error.error().errno(), errno::ECANCELED);
                *seen.borrow_mut() = Some(error.into_item());
            });
            fiber::yield_now().await?;
            s.cancel();
            Ok(())
        })
        .await;
        outcome.unwrap();
        assert_eq!(refused.take(), Some(round + 100), "the item comes back");
        assert_eq!(channel.take().await.unwrap(), round);
    }
    assert!(channel.is_empty());
}

async fn pass_on<D: Door<u32> + 'static>(new: impl Fn(usize) -> Channel<u32, D>) {
    let channel = new(1);
    let (one, other) = (channel.clone(), channel.clone());
    let mut called = Box::pin(one.take().into_future());
    std::future::poll_fn(|cx| {
        assert!(called.as_mut().poll(cx).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    let second = fiber::spawn(move || other.take());
    fiber::yield_now().await.unwrap();
    channel.put(5).await.unwrap();
    // The first was called; it goes without having come.
    drop(called);
    assert_eq!(second.join().await.unwrap().unwrap(), 5);
    // The same of those who wait for room.
    channel.put(1).await.unwrap();
    let mut called = Box::pin(channel.put(2).into_future());
    std::future::poll_fn(|cx| {
        assert!(called.as_mut().poll(cx).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    let other = channel.clone();
    let second = fiber::spawn(move || async move { other.put(3).await });
    fiber::yield_now().await.unwrap();
    assert_eq!(channel.try_take(), Some(1));
    drop(called);
    second.join().await.unwrap().unwrap();
    assert_eq!(channel.try_take(), Some(3));
}

async fn trying<D: Door<u32> + 'static>(new: impl Fn(usize) -> Channel<u32, D>) {
    let channel = new(1);
    assert_eq!(channel.try_take(), None);
    channel.try_put(1).unwrap();
    let full = channel.try_put(2).unwrap_err();
    assert!(full.is_full());
    assert_eq!(full.into_item(), 2);
    let waiting = channel.clone();
    let putter = fiber::spawn(move || async move { waiting.put(3).await });
    fiber::yield_now().await.unwrap();
    assert_eq!(channel.try_take(), Some(1));
    assert!(channel.try_put(4).unwrap_err().is_full(), "the room is another's, who has waited");
    putter.join().await.unwrap().unwrap();
    assert_eq!(channel.try_take(), Some(3));
    let waiting = channel.clone();
    let taker = fiber::spawn(move || waiting.take());
    fiber::yield_now().await.unwrap();
    channel.try_put(5).unwrap();
    assert_eq!(channel.try_take(), None, "the item is another's, who has waited");
    assert_eq!(taker.join().await.unwrap().unwrap(), 5);
}

async fn fair<D: Door<u32> + 'static>(new: impl Fn(usize) -> Channel<u32, D>) {
    let channel = new(1);
    let log = Rc::new(RefCell::new(Vec::new()));
    let outcome: Outcome<()> = fiber::scope(async |s: Scope| {
        for number in 0..10 {
            let (waiting, seen) = (channel.clone(), Rc::clone(&log));
            s.spawn(move || async move {
                let item = waiting.take().await?;
                seen.borrow_mut().push((number, item));
                Ok(())
            });
            fiber::yield_now().await?;
        }
        for item in 0..10 {
            channel.put(item).await?;
        }
        Ok(())
    })
    .await;
    outcome.unwrap();
    assert_eq!(*log.borrow(), (0..10).map(|number| (number, number)).collect::<Vec<_>>());
}

async fn race_with_cancel<D: Door<u32> + 'static>(new: impl Fn(usize) -> Channel<u32, D>) {
    for item in 0..20 {
        let channel = new(1);
        let taken = Rc::new(RefCell::new(None));
        let (taker, seen) = (channel.clone(), Rc::clone(&taken));
        let outcome: Outcome<()> = fiber::scope(async |s: Scope| {
            s.spawn(move || async move {
                *seen.borrow_mut() = taker.take().await.ok();
            });
            fiber::yield_now().await?;
            channel.try_put(item)?;
            s.cancel();
            Ok(())
        })
        .await;
        outcome.unwrap();
        assert_eq!(taken.take(), Some(item), "it had waited, so the item was its own");
        channel.close();
        assert_eq!(channel.next().await.unwrap(), None);
    }
}

async fn smallest<D: Door<u32> + 'static>(new: impl Fn(usize) -> Channel<u32, D>) {
    let channel = new(0);
    assert_eq!(channel.capacity(), 1);
    channel.put(1).await.unwrap();
    assert_eq!(channel.take().await.unwrap(), 1);
}

#[test]
fn r34_a_taker_of_a_channel_that_is_never_empty_lets_others_run() {
    for io in [Selection::Uring, Selection::Epoll] {
        let turns = Builder::new()
            .io(io)
            .reductions(50)
            .run(|| async {
                let channel = Channel::new(1024);
                let outcome: Outcome<u32, Cause> = fiber::scope(async |s: Scope<Cause>| {
                    s.spawn_daemon(move || async move {
                        loop {
                            while channel.try_put(0_u8).is_ok() {}
                            if channel.take().await.is_err() {
                                break;
                            }
                        }
                    });
                    let mut turns = 0;
                    for _ in 0..100 {
                        fiber::yield_now().await?;
                        turns += 1;
                    }
                    Ok(turns)
                })
                .await;
                outcome.unwrap_or_default()
            })
            .unwrap();
        assert_eq!(turns, 100);
    }
}

#[test]
fn items_cross_shards_and_none_is_lost_or_doubled() {
    for io in [Selection::Uring, Selection::Epoll] {
        for shards in [1, 2, 4] {
            let sum = Arc::new(AtomicU64::new(0));
            let total = Arc::clone(&sum);
            let left = Builder::new()
                .io(io)
                .shards(shards)
                .run(move || async move {
                    let channel = Channel::shared(4);
                    let cancelled = Arc::new(Mutex::new(Vec::new()));
                    let outcome: Outcome<()> = fiber::scope(async |s: Scope| {
                        let mut putters = Vec::new();
                        for number in 0..4_u64 {
                            let (source, kept) = (channel.clone(), Arc::clone(&cancelled));
                            putters.push(s.fork_away(move || async move {
                                for item in 0..500 {
                                    if let Err(refused) = source.put(number * 1000 + item).await {
                                        kept.lock().unwrap().push(refused.into_item());
                                    }
                                }
                                Ok(())
                            }));
                            let (sink, total) = (channel.clone(), Arc::clone(&total));
                            s.spawn_away(move || async move {
                                while let Some(item) = sink.next().await? {
                                    total.fetch_add(item, Ordering::Relaxed);
                                    if item % 7 == 0 {
                                        // Waits that end early, while others put.
                                        let late: Outcome<u64> =
                                            fiber::with_deadline(Duration::from_micros(item % 50), || sink.take())
                                                .await;
                                        total.fetch_add(late.unwrap_or(0), Ordering::Relaxed);
                                    }
                                }
                                Ok(())
                            });
                        }
                        for putter in putters {
                            putter.join().await?;
                        }
                        channel.close();
                        Ok(())
                    })
                    .await;
                    outcome.unwrap();
                    let mut left = std::mem::take(&mut *cancelled.lock().unwrap());
                    while let Some(item) = channel.try_take() {
                        left.push(item);
                    }
                    left.into_iter().sum::<u64>()
                })
                .unwrap();
            let expected: u64 = (0..4).flat_map(|number| (0..500).map(move |item| number * 1000 + item)).sum();
            assert_eq!(sum.load(Ordering::Relaxed) + left, expected, "on {io} with {shards} shards");
        }
    }
}

#[test]
fn a_channel_outlives_the_program_that_used_it() {
    let channel = Channel::shared(2);
    let there = channel.clone();
    Builder::new()
        .run(move || async move {
            let waits = there.clone();
            drop(fiber::spawn(move || waits.take()));
            fiber::sleep(millis(1)).await.unwrap();
        })
        .unwrap();
    // The taker that waited was unwound, and its place in line with it.
    channel.try_put(1).unwrap();
    assert_eq!(channel.try_take(), Some(1));
}
