//! Fibers, their handles and their wakers in the hands of other threads, during their shard's life and after it.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use wo_runtime::fiber::{self, JoinError, JoinHandle, oneshot};
use wo_runtime::plane::backend::Selection;
use wo_runtime::shard::Builder;

/// Rounds of what two threads race in.
const ROUNDS: usize = if cfg!(miri) { 20 } else { 2000 };

fn on_every_kernel(test: impl Fn(Builder)) {
    // The real kernels are beyond Miri.
    let kernels: &[_] =
        if cfg!(miri) { &[Selection::Sim] } else { &[Selection::Uring, Selection::Epoll, Selection::Sim] };
    for selection in kernels {
        eprintln!("on {selection}");
        test(Builder::new().io(*selection).shards(1));
    }
}

/// Wakes a thread that polls by itself.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

/// Runs a future on a thread that is no shard.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

type Joiner<T> = thread::JoinHandle<Vec<Result<T, JoinError>>>;

/// A thread that is given handles, joins each and answers the values.
fn joiner<T: Send + 'static>() -> (mpsc::Sender<JoinHandle<T>>, Joiner<T>) {
    let (sender, handles) = mpsc::channel::<JoinHandle<T>>();
    (sender, thread::spawn(move || handles.into_iter().map(|handle| block_on(handle.join())).collect()))
}

#[test]
fn a_thread_joins_fibers_that_ended_that_run_and_that_are_parked() {
    on_every_kernel(|builder| {
        let (sender, joiner) = joiner();
        builder
            .run(move || async move {
                for round in 0..ROUNDS {
                    sender.send(fiber::spawn(move || async move { vec![round] })).unwrap();
                    let parked = fiber::spawn(move || async move {
                        fiber::yield_now().await.unwrap();
                        vec![round, round]
                    });
                    sender.send(parked).unwrap();
                    if round % 2 == 0 {
                        fiber::yield_now().await.unwrap();
                    }
                }
            })
            .unwrap();
        for (index, value) in joiner.join().unwrap().into_iter().enumerate() {
            match value {
                Ok(value) => assert_eq!(value, vec![index / 2; index % 2 + 1]),
                // `main` returned before it.
                Err(error) => assert!(!error.is_panic(), "{index}: {error}"),
            }
        }
    });
}

#[test]
fn a_thread_that_joins_hears_of_the_end_of_the_program() {
    on_every_kernel(|builder| {
        let (sender, joiner) = joiner::<()>();
        builder
            .run(move || async move {
                sender.send(fiber::spawn(std::future::pending)).unwrap();
                sender.send(fiber::spawn(|| async { panic!("as planned") })).unwrap();
                fiber::yield_now().await.unwrap();
            })
            .unwrap();
        let ends = joiner.join().unwrap();
        assert!(matches!(ends[0], Err(JoinError::Cancelled)));
        assert!(matches!(ends[1], Err(JoinError::Panicked(_))));
    });
}

#[test]
fn handles_are_let_go_from_both_sides_at_once() {
    on_every_kernel(|builder| {
        let (sender, handles) = mpsc::channel::<JoinHandle<Arc<()>>>();
        let lets_go = thread::spawn(move || handles.into_iter().for_each(drop));
        let value = Arc::new(());
        let given = Arc::clone(&value);
        builder
            .run(move || async move {
                for _ in 0..ROUNDS {
                    let given = Arc::clone(&given);
                    sender.send(fiber::spawn(move || async move { given })).unwrap();
                    fiber::yield_now().await.unwrap();
                }
            })
            .unwrap();
        lets_go.join().unwrap();
        assert_eq!(Arc::strong_count(&value), 1, "every result was dropped");
    });
}

#[test]
fn wakers_are_copied_woken_and_dropped_by_several_threads() {
    on_every_kernel(|builder| {
        let turns = builder
            .run(|| async {
                let mut turns = 0;
                for _ in 0..ROUNDS / 10 {
                    let lent = Arc::new(Mutex::new(Vec::new()));
                    let threads: Vec<_> = (0..3)
                        .map(|_| {
                            let lent = Arc::clone(&lent);
                            thread::spawn(move || {
                                loop {
                                    let waker: Option<Waker> = lent.lock().unwrap().pop();
                                    let Some(waker) = waker else {
                                        thread::yield_now();
                                        continue;
                                    };
                                    let copies: Vec<_> = (0..5).map(|_| waker.clone()).collect();
                                    copies[0].wake_by_ref();
                                    waker.wake();
                                    return;
                                }
                            })
                        })
                        .collect();
                    poll_fn(|cx| {
                        turns += 1;
                        if threads.iter().all(|thread| thread.is_finished()) {
                            return Poll::Ready(());
                        }
                        lent.lock().unwrap().push(cx.waker().clone());
                        // Nobody says that a thread has finished.
                        cx.waker().wake_by_ref();
                        Poll::Pending
                    })
                    .await;
                    threads.into_iter().for_each(|thread| thread.join().unwrap());
                }
                turns
            })
            .unwrap();
        assert!(turns > 0);
    });
}

#[test]
fn every_wake_from_elsewhere_is_followed_by_a_turn() {
    on_every_kernel(|builder| {
        builder
            .run(|| async {
                // The simulated kernel knows of no other thread: it has to see something go on.
                fiber::spawn(|| async { while fiber::yield_now().await.is_ok() {} });
                for round in 0..ROUNDS {
                    let (sender, receiver) = oneshot::oneshot();
                    let sends = thread::Builder::new().spawn(move || sender.send(round)).unwrap();
                    assert_eq!(receiver.recv().await.unwrap(), round);
                    sends.join().unwrap().unwrap();
                    if round > ROUNDS / 20 {
                        break;
                    }
                }
            })
            .unwrap();
    });
}

#[test]
fn handles_and_wakers_outlive_the_program() {
    on_every_kernel(|builder| {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let keeps = Arc::clone(&kept);
        let value = Arc::new(());
        let given = Arc::clone(&value);
        let (ended, parked) = builder
            .run(move || async move {
                let ended = fiber::spawn(move || async move { given });
                let parked = fiber::spawn(move || {
                    poll_fn(move |cx| {
                        keeps.lock().unwrap().push(cx.waker().clone());
                        Poll::<()>::Pending
                    })
                });
                fiber::yield_now().await.unwrap();
                (ended, parked)
            })
            .unwrap();
        assert!(ended.is_finished() && parked.is_finished());
        assert_eq!(ended.id().map(|id| id.as_u64()), Some(1));
        let wakers = std::mem::take(&mut *kept.lock().unwrap());
        thread::spawn(move || {
            for waker in wakers {
                let copy = waker.clone();
                waker.wake();
                copy.wake_by_ref();
            }
        })
        .join()
        .unwrap();
        assert!(matches!(block_on(parked.join()), Err(JoinError::Cancelled)));
        drop(block_on(ended.join()).unwrap());
        assert_eq!(Arc::strong_count(&value), 1);
    });
}

#[test]
fn a_waker_that_panics_harms_only_itself() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Panics>) {
            panic!("as planned");
        }
    }
    on_every_kernel(|builder| {
        let value = builder
            .run(|| async {
                let child = fiber::spawn(|| async { 7 });
                let mut join = pin!(child.join());
                let waker = Waker::from(Arc::new(Panics));
                assert!(join.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                fiber::yield_now().await.unwrap();
                join.await.unwrap()
            })
            .unwrap();
        assert_eq!(value, 7);
    });
}

#[test]
fn two_fibers_that_hold_each_others_handles_are_freed() {
    on_every_kernel(|builder| {
        let value = Arc::new(());
        let given = Arc::clone(&value);
        builder
            .run(move || async move {
                let (to_first, first) = oneshot::oneshot::<JoinHandle<()>>();
                let (to_second, second) = oneshot::oneshot::<JoinHandle<()>>();
                let (one, other) = (Arc::clone(&given), given);
                let a = fiber::spawn(move || async move {
                    let _held = one;
                    let _ = first.recv().await.unwrap().join().await;
                });
                let b = fiber::spawn(move || async move {
                    let _held = other;
                    let _ = second.recv().await.unwrap().join().await;
                });
                to_first.send(b).unwrap();
                to_second.send(a).unwrap();
                fiber::yield_now().await.unwrap();
            })
            .unwrap();
        assert_eq!(Arc::strong_count(&value), 1);
    });
}
