//! Calls that hold their thread up, as a user sees them.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use wo_runtime::error::errno;
use wo_runtime::fiber;
use wo_runtime::plane::backend::Selection;
use wo_runtime::shard::{self, BlockingError, Builder, blocking};

const EVERY_KERNEL: [Selection; 3] = [Selection::Uring, Selection::Epoll, Selection::Sim];
const REAL: [Selection; 2] = [Selection::Uring, Selection::Epoll];

/// Says when it is dropped.
struct Witness(Arc<AtomicBool>);

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn witness() -> (Witness, Arc<AtomicBool>) {
    let dropped = Arc::new(AtomicBool::new(false));
    (Witness(Arc::clone(&dropped)), dropped)
}

#[test]
fn a_call_runs_elsewhere_and_its_value_comes_back() {
    for io in EVERY_KERNEL {
        let here = std::thread::current().id();
        let there = Builder::new().io(io).run(|| async { blocking(|| std::thread::current().id()).await }).unwrap();
        assert_ne!(there.unwrap(), here, "on {io}");
    }
}

#[test]
fn r36_panic_blocking() {
    for io in EVERY_KERNEL {
        let (panicked, answered) = Builder::new()
            .io(io)
            .blocking_threads(1)
            .run(|| async {
                let panicked = blocking(|| -> i32 { panic!("as planned") }).await;
                (panicked, blocking(|| 42).await)
            })
            .unwrap();
        let payload = panicked.unwrap_err().into_panic().expect("a panic");
        assert_eq!(*payload.downcast::<&str>().unwrap(), "as planned");
        assert_eq!(answered.unwrap(), 42, "on {io}");
    }
}

#[test]
fn a_value_whose_destructor_panics_harms_nobody() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("as planned");
        }
    }
    for io in REAL {
        let (go, wait) = mpsc::channel::<()>();
        let (started, has_started) = mpsc::channel();
        let answered = Builder::new()
            .io(io)
            .blocking_threads(1)
            .run(|| async move {
                let mut call = Box::pin(blocking(move || {
                    started.send(()).unwrap();
                    let _ = wait.recv();
                    Bomb
                }));
                assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
                while has_started.try_recv().is_err() {
                    fiber::yield_now().await.unwrap();
                }
                // Nobody will take the bomb.
                drop(call);
                go.send(()).unwrap();
                blocking(|| 42).await
            })
            .unwrap();
        assert_eq!(answered.unwrap(), 42);
    }
}

#[test]
fn as_many_run_at_once_as_the_bound_says_and_the_shard_goes_on() {
    const THREADS: usize = 3;
    for io in REAL {
        let (most, ticks) = Builder::new()
            .io(io)
            .blocking_threads(THREADS)
            .run(|| async {
                let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
                // Three at a time get past it, which shows that three run at once.
                let barrier = Arc::new(Barrier::new(THREADS));
                let ticks = Rc::new(Cell::new(0));
                let ticking = Rc::clone(&ticks);
                let ticker = fiber::spawn(move || async move {
                    while fiber::sleep(Duration::from_millis(1)).await.is_ok() {
                        ticking.set(ticking.get() + 1);
                    }
                });
                let calls: Vec<_> = (0..4 * THREADS)
                    .map(|_| {
                        let (running, most, barrier) = (Arc::clone(&running), Arc::clone(&most), Arc::clone(&barrier));
                        fiber::spawn(move || {
                            blocking(move || {
                                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                                most.fetch_max(now, Ordering::SeqCst);
                                barrier.wait();
                                running.fetch_sub(1, Ordering::SeqCst);
                            })
                        })
                    })
                    .collect();
                for call in calls {
                    call.join().await.unwrap().unwrap();
                }
                let (go, wait) = mpsc::channel();
                let held = fiber::spawn(move || blocking(move || wait.recv().unwrap()));
                while ticks.get() < 3 {
                    fiber::yield_now().await.unwrap();
                }
                go.send(()).unwrap();
                held.join().await.unwrap().unwrap();
                drop(ticker);
                (most.load(Ordering::SeqCst), ticks.get())
            })
            .unwrap();
        assert_eq!(most, THREADS);
        assert!(ticks >= 3);
    }
}

#[test]
fn a_stop_cancels_the_wait_and_takes_back_what_has_not_started() {
    for io in REAL {
        let (go, wait) = mpsc::channel::<()>();
        let (started, has_started) = mpsc::channel();
        let (captured, dropped) = witness();
        let outcomes = Builder::new()
            .io(io)
            .blocking_threads(1)
            .run(move || async move {
                let running = fiber::spawn(move || {
                    blocking(move || {
                        started.send(()).unwrap();
                        let _ = wait.recv();
                    })
                });
                let waiting = fiber::spawn(move || {
                    blocking(move || {
                        drop(captured);
                        panic!("it never runs");
                    })
                });
                while has_started.try_recv().is_err() {
                    fiber::yield_now().await.unwrap();
                }
                shard::stop();
                let cancelled = |outcome: Result<(), BlockingError>| matches!(outcome, Err(BlockingError::Cancelled));
                // This fiber is cancelled too, so it looks without a verb.
                while !(running.is_finished() && waiting.is_finished()) {
                    fiber::yield_turn().await;
                }
                assert!(dropped.load(Ordering::SeqCst), "taken back before the thread was free");
                let outcomes = [running.join().await.unwrap(), waiting.join().await.unwrap()].map(cancelled);
                drop(go);
                outcomes
            })
            .unwrap();
        assert_eq!(outcomes, [true, true], "on {io}");
    }
}

#[test]
fn the_end_drops_what_waits_and_waits_for_what_runs() {
    for io in REAL {
        let (captured, dropped) = witness();
        let (started, has_started) = mpsc::channel();
        let ended = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ended);
        Builder::new()
            .io(io)
            .blocking_threads(1)
            .run(move || async move {
                drop(fiber::spawn(move || {
                    blocking(move || {
                        started.send(()).unwrap();
                        std::thread::sleep(Duration::from_millis(50));
                        end.store(true, Ordering::SeqCst);
                    })
                }));
                drop(fiber::spawn(move || {
                    blocking(move || {
                        drop(captured);
                        panic!("it never runs");
                    })
                }));
                while has_started.try_recv().is_err() {
                    fiber::yield_now().await.unwrap();
                }
            })
            .unwrap();
        assert!(dropped.load(Ordering::SeqCst) && ended.load(Ordering::SeqCst), "on {io}");
    }
}

#[test]
fn a_call_that_outlasts_the_grace_is_left_to_itself() {
    for io in REAL {
        let (go, wait) = mpsc::channel::<()>();
        let (ended, has_ended) = mpsc::channel();
        let (started, has_started) = mpsc::channel();
        let begun = Instant::now();
        Builder::new()
            .io(io)
            .grace(Duration::from_millis(50))
            .run(move || async move {
                drop(fiber::spawn(move || {
                    blocking(move || {
                        started.send(()).unwrap();
                        let _ = wait.recv();
                        ended.send(()).unwrap();
                    })
                }));
                while has_started.try_recv().is_err() {
                    fiber::yield_now().await.unwrap();
                }
            })
            .unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(50), "the grace was waited for");
        assert!(has_ended.try_recv().is_err(), "and no longer");
        go.send(()).unwrap();
        has_ended.recv().unwrap();
    }
}

#[test]
fn a_call_without_a_shard_is_refused_by_name() {
    let mut call = pin!(blocking(|| 1));
    match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Err(BlockingError::Refused(error))) => {
            assert_eq!(error.errno(), errno::ENXIO);
            assert!(error.to_string().contains("Builder::run"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_shard_uses_the_same_threads() {
    for io in REAL {
        let threads = Builder::new()
            .io(io)
            .shards(3)
            .blocking_threads(1)
            .run(|| async {
                let mut threads = Vec::new();
                for index in 0..3 {
                    let (sender, receiver) = fiber::oneshot::oneshot();
                    shard::post_to(index, move || {
                        drop(fiber::spawn(move || async move {
                            sender.send(blocking(|| std::thread::current().id()).await.unwrap()).unwrap();
                        }));
                    });
                    threads.push(receiver.recv().await.unwrap());
                }
                threads
            })
            .unwrap();
        assert!(threads.iter().all(|thread| *thread == threads[0]), "{threads:?}");
    }
}
