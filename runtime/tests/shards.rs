//! Several shards in one program, as a user sees them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ThreadId;
use std::time::Duration;

use wo_runtime::fiber::{self, oneshot};
use wo_runtime::plane::backend::Selection;
use wo_runtime::shard::{self, Builder, RunError};

const REAL: [Selection; 2] = [Selection::Uring, Selection::Epoll];

#[test]
fn a_call_runs_on_the_shard_it_was_posted_to() {
    for io in REAL {
        let threads: Vec<(usize, ThreadId)> = Builder::new()
            .io(io)
            .shards(3)
            .run(|| async {
                assert_eq!(shard::shards(), 3);
                let mut seen = Vec::new();
                for index in 0..3 {
                    let (sender, receiver) = oneshot::oneshot();
                    assert!(shard::post_to(index, move || {
                        sender.send((shard::shard_index().unwrap(), std::thread::current().id())).unwrap();
                    }));
                    seen.push(receiver.recv().await.unwrap());
                }
                assert!(!shard::post_to(3, || ()));
                seen
            })
            .unwrap();
        assert_eq!(threads.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0, 1, 2]);
        assert_ne!(threads[1].1, threads[2].1);
        assert_eq!(threads[0].1, std::thread::current().id());
    }
}

/// A thread has 2 MiB of stack unless it is given more, and the first one 8 on most systems.
#[test]
fn what_recurses_on_the_first_shard_does_so_on_the_others() {
    fn recurse(depth: usize) -> usize {
        let held = std::hint::black_box([1_u8; 1024]);
        if depth == 0 { 0 } else { usize::from(held[depth % held.len()]) + recurse(depth - 1) }
    }
    const DEPTH: usize = 3 << 10;
    let sum = Builder::new()
        .shards(2)
        .run(|| async {
            let (sender, receiver) = oneshot::oneshot();
            assert!(shard::post_to(1, move || sender.send(recurse(DEPTH)).unwrap()));
            receiver.recv().await.unwrap()
        })
        .unwrap();
    assert_eq!(sum, DEPTH);
}

#[test]
fn fibers_of_every_shard_park_are_woken_across_and_are_unwound_at_home() {
    struct AtHome(ThreadId, Arc<AtomicUsize>);
    impl Drop for AtHome {
        fn drop(&mut self) {
            assert_eq!(std::thread::current().id(), self.0, "dropped away from home");
            self.1.fetch_add(1, Ordering::SeqCst);
        }
    }
    for io in REAL {
        let dropped = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&dropped);
        Builder::new()
            .io(io)
            .shards(3)
            .run(move || async move {
                let mut pings = Vec::new();
                for index in 0..3 {
                    let (ping, pinged) = oneshot::oneshot::<()>();
                    let (pong, ponged) = oneshot::oneshot();
                    let count = Arc::clone(&count);
                    assert!(shard::post_to(index, move || {
                        let _ = fiber::spawn(move || async move {
                            let _witness = AtHome(std::thread::current().id(), count);
                            pinged.recv().await.unwrap();
                            pong.send(shard::shard_index()).unwrap();
                            fiber::sleep(Duration::MAX).await
                        });
                    }));
                    pings.push((ping, ponged));
                }
                for (index, (ping, ponged)) in pings.into_iter().enumerate() {
                    ping.send(()).unwrap();
                    assert_eq!(ponged.recv().await.unwrap(), Some(index));
                }
            })
            .unwrap();
        assert_eq!(dropped.load(Ordering::SeqCst), 3);
    }
}

#[test]
fn a_stop_reaches_every_shard() {
    for io in REAL {
        let cancelled = Builder::new()
            .io(io)
            .shards(2)
            .run(|| async {
                let (sender, receiver) = oneshot::oneshot();
                let (ready, is_ready) = oneshot::oneshot();
                shard::post_to(1, move || {
                    let _ = fiber::spawn(move || async move {
                        ready.send(()).unwrap();
                        let slept = fiber::sleep(Duration::MAX).await;
                        sender.send(slept.unwrap_err().is_cancelled()).unwrap();
                    });
                });
                is_ready.recv().await.unwrap();
                shard::stop();
                // The verbs of this fiber are cancelled too, so it looks without one.
                let mut receiver = receiver;
                loop {
                    if let Some(cancelled) = receiver.try_recv() {
                        return cancelled;
                    }
                    fiber::yield_turn().await;
                }
            })
            .unwrap();
        assert!(cancelled);
    }
}

#[test]
fn a_grace_that_passes_ends_the_other_shards_too() {
    for io in REAL {
        let ended = Builder::new().io(io).shards(2).grace(Duration::from_millis(30)).run(|| async {
            shard::post_to(1, || {
                let _ = fiber::spawn(|| async {
                    loop {
                        let _ = fiber::sleep(Duration::from_secs(1)).await;
                        fiber::yield_turn().await;
                    }
                });
            });
            shard::stop();
            loop {
                fiber::yield_turn().await;
            }
        });
        assert!(matches!(ended, Err::<(), _>(RunError::Stopped { signal: None })), "{ended:?}");
    }
}

/// The end used to be announced by a ring alone. A shard whose tick had answered the ring, after it had looked for the
/// end and before it slept, never heard of it, and the program's run hung in joining its thread.
#[test]
fn a_program_that_ends_while_a_shard_falls_asleep_ends() {
    for io in REAL {
        for _ in 0..300 {
            Builder::new()
                .io(io)
                .shards(2)
                .run(|| async {
                    let (sender, receiver) = oneshot::oneshot();
                    shard::post_to(1, move || sender.send(()).unwrap());
                    receiver.recv().await.unwrap();
                })
                .unwrap();
        }
    }
}

#[test]
fn a_posted_call_that_panics_ends_nothing_else() {
    for io in REAL {
        let shards = Builder::new().io(io).shards(2).run(|| async {
            for index in 0..2 {
                assert!(shard::post_to(index, || panic!("as asked")));
                let (sender, receiver) = oneshot::oneshot();
                assert!(shard::post_to(index, move || sender.send(()).unwrap()));
                receiver.recv().await.unwrap();
            }
            shard::shards()
        });
        assert_eq!(shards.unwrap(), 2);
    }
}
