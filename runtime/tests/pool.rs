//! Batch work on a pool's threads, as a user sees it.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use wo_runtime::os::cpus;
use wo_runtime::shard::pool::{Pool, Worker};
use wo_runtime::shard::{Builder, blocking};

const THREADS: [usize; 4] = [1, 2, 3, 8];

/// An uneven tree whose shape its seed decides: the number of nodes in it, counted by hand.
fn count(seed: u64, depth: u32) -> u64 {
    1 + children(seed, depth).map(|child| count(child, depth - 1)).sum::<u64>()
}

fn children(seed: u64, depth: u32) -> impl Iterator<Item = u64> {
    let number = if depth == 0 { 0 } else { seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61 };
    (0..number).map(move |nth| seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(nth + 1))
}

fn count_on<'env>(worker: &Worker<'env>, seed: u64, depth: u32, nodes: &'env AtomicU64) {
    nodes.fetch_add(1, Ordering::Relaxed);
    for child in children(seed, depth) {
        worker.spawn(move |worker| count_on(worker, child, depth - 1, nodes));
    }
}

#[test]
fn every_task_runs_once_however_many_threads_there_are() {
    for seed in 1..40 {
        let expected = count(seed, 6);
        for threads in THREADS {
            let nodes = AtomicU64::new(0);
            Pool::new(threads).run(|worker| count_on(worker, seed, 6, &nodes));
            assert_eq!(nodes.into_inner(), expected, "seed {seed}, {threads} thread(s)");
        }
    }
}

#[test]
fn the_root_gives_its_value_after_the_last_task() {
    for threads in THREADS {
        let (mut borrowed, done) = (vec![1, 2, 3], AtomicBool::new(false));
        let length = Pool::new(threads).run(|worker| {
            worker.spawn(|_| {
                std::thread::sleep(Duration::from_millis(5));
                done.store(true, Ordering::SeqCst);
            });
            borrowed.push(4);
            borrowed.len()
        });
        assert_eq!((length, done.into_inner()), (4, true));
    }
}

#[test]
fn workers_are_numbered_and_the_caller_is_the_first() {
    let seen = Mutex::new(BTreeSet::new());
    let caller = std::thread::current().id();
    Pool::new(3).run(|worker| {
        assert_eq!((worker.index(), std::thread::current().id()), (0, caller));
        for _ in 0..200 {
            worker.spawn(|worker| {
                assert_eq!(worker.index() == 0, std::thread::current().id() == caller);
                seen.lock().unwrap().insert(worker.index());
                std::thread::sleep(Duration::from_micros(100));
            });
        }
    });
    let seen = seen.into_inner().unwrap();
    assert!(seen.iter().all(|index| *index < 3), "{seen:?}");
}

#[test]
fn a_task_that_waits_alone_is_found_while_its_worker_is_busy() {
    let found = AtomicBool::new(false);
    Pool::new(2).run(|worker| {
        worker.spawn(|worker| {
            assert_eq!(worker.index(), 1);
            found.store(true, Ordering::SeqCst);
        });
        // This one is busy until the other has run it.
        while !found.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    });
}

#[test]
fn a_panic_reaches_the_caller_after_all_other_tasks_have_run() {
    for threads in THREADS {
        let ran = AtomicU64::new(0);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            Pool::new(threads).run(|worker| {
                for number in 0..100 {
                    let ran = &ran;
                    worker.spawn(move |_| {
                        ran.fetch_add(1, Ordering::Relaxed);
                        assert_ne!(number, 50, "as planned");
                    });
                }
            });
        }));
        let words = *ended.unwrap_err().downcast::<String>().unwrap();
        assert!(words.contains("as planned"), "{words}");
        assert_eq!(ran.into_inner(), 100);
    }
}

#[test]
fn a_panic_of_the_root_reaches_the_caller_after_its_tasks() {
    for threads in THREADS {
        let ran = AtomicBool::new(false);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            Pool::new(threads).run(|worker| {
                worker.spawn(|_| ran.store(true, Ordering::SeqCst));
                panic!("as planned");
            });
        }));
        assert_eq!(*ended.unwrap_err().downcast::<&str>().unwrap(), "as planned");
        assert!(ran.into_inner());
    }
}

#[test]
fn a_batch_inside_a_task_is_a_batch_of_its_own() {
    let nodes = AtomicU64::new(0);
    Pool::new(2).run(|worker| {
        for seed in 1..5 {
            let nodes = &nodes;
            worker.spawn(move |_| Pool::new(2).run(|worker| count_on(worker, seed, 5, nodes)));
        }
    });
    assert_eq!(nodes.into_inner(), (1..5).map(|seed| count(seed, 5)).sum::<u64>());
}

#[test]
fn a_fiber_runs_a_batch_through_blocking() {
    let nodes = Builder::new()
        .run(|| async {
            blocking(|| {
                let nodes = AtomicU64::new(0);
                Pool::default().run(|worker| count_on(worker, 7, 6, &nodes));
                nodes.into_inner()
            })
            .await
        })
        .unwrap();
    assert_eq!(nodes.unwrap(), count(7, 6));
}

#[test]
fn a_pool_has_a_thread_for_each_core_unless_told_and_one_at_least() {
    assert_eq!(Pool::default().threads(), cpus::cores());
    assert_eq!(Pool::new(0).threads(), 1);
}

#[test]
fn a_pool_of_many_threads_ends_with_its_work_and_one_without_bound_has_one() {
    for threads in [1000, 5000, 50_000_000] {
        let pool = Pool::new(threads);
        assert_eq!(pool.threads(), threads.min(1024));
        let nodes = AtomicU64::new(0);
        pool.run(|worker| count_on(worker, 3, 5, &nodes));
        assert_eq!(nodes.into_inner(), count(3, 5));
    }
}

#[test]
fn all_threads_of_a_pool_come_to_help() {
    const THREADS: usize = 40;
    // Each waits for all the others: so many threads are needed at one time.
    let all = std::sync::Barrier::new(THREADS);
    Pool::new(THREADS).run(|worker| {
        for _ in 0..THREADS {
            worker.spawn(|_| {
                all.wait();
            });
        }
    });
}
