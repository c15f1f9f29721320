//! Fibers that another shard may start, as a user sees them.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ThreadId;
use std::time::Duration;

use wo_runtime::fiber::{self, JoinHandle};
use wo_runtime::plane::backend::Selection;
use wo_runtime::shard::{self, Builder, Topology};

const REAL: [Selection; 2] = [Selection::Uring, Selection::Epoll];

fn stealing(io: Selection, shards: usize) -> Builder {
    Builder::new().io(io).shards(shards).topology(Topology::WorkStealing)
}

#[test]
fn an_idle_shard_starts_what_a_busy_one_has_not() {
    for io in REAL {
        let (started_on, own) = stealing(io, 2)
            .run(|| async {
                let own = fiber::spawn(|| async { shard::shard_index() });
                let started = Arc::new(AtomicBool::new(false));
                let seen = Arc::clone(&started);
                let stolen = fiber::spawn_stealable(move || async move {
                    seen.store(true, Ordering::SeqCst);
                    shard::shard_index()
                });
                // Busy until the other shard has started it; no fiber of this one runs meanwhile.
                while !started.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                (stolen.join().await.unwrap(), own.join().await.unwrap())
            })
            .unwrap();
        assert_eq!((started_on, own), (Some(1), Some(0)), "on {io}");
    }
}

/// Asserts that it is dropped where it was made.
struct AtHome(ThreadId, Rc<()>);

impl AtHome {
    fn new() -> AtHome {
        AtHome(std::thread::current().id(), Rc::new(()))
    }

    fn check(&self) {
        assert_eq!((std::thread::current().id(), Rc::strong_count(&self.1)), (self.0, 1));
    }
}

impl Drop for AtHome {
    fn drop(&mut self) {
        self.check();
    }
}

#[test]
fn what_has_started_stays_and_may_hold_what_cannot_move() {
    for io in REAL {
        let threads = stealing(io, 3)
            .run(|| async {
                let fibers: Vec<JoinHandle<ThreadId>> = (0..200)
                    .map(|number| {
                        fiber::spawn_stealable(move || async move {
                            let home = AtHome::new();
                            for _ in 0..number % 5 {
                                fiber::yield_now().await.unwrap();
                                home.check();
                                fiber::sleep(Duration::from_micros(200)).await.unwrap();
                                home.check();
                            }
                            std::thread::current().id()
                        })
                    })
                    .collect();
                let mut threads = BTreeSet::new();
                for fiber in fibers {
                    threads.insert(format!("{:?}", fiber.join().await.unwrap()));
                }
                threads.len()
            })
            .unwrap();
        assert!((1..=3).contains(&threads), "{threads}");
    }
}

/// A tree of fibers, each of which may start anywhere.
async fn tree(depth: u32) -> u64 {
    let mut nodes = 1;
    if depth > 0 {
        let below: Vec<_> = (0..3)
            .map(|_| {
                fiber::spawn_stealable(move || -> std::pin::Pin<Box<dyn Future<Output = u64>>> {
                    Box::pin(tree(depth - 1))
                })
            })
            .collect();
        for child in below {
            nodes += child.join().await.unwrap();
        }
    }
    nodes
}

#[test]
fn every_fiber_runs_once_and_is_joined_wherever_it_ran() {
    for io in REAL {
        for shards in [1, 2, 4] {
            let nodes = stealing(io, shards).run(|| tree(7)).unwrap();
            assert_eq!(nodes, (0..=7).map(|level| 3_u64.pow(level)).sum::<u64>(), "on {io}, {shards} shard(s)");
        }
    }
}

#[test]
fn without_the_topology_nothing_moves() {
    for io in REAL {
        for topology in [Topology::Single, Topology::ThreadPerCore] {
            let (shards, homes) = Builder::new()
                .io(io)
                .shards(2)
                .topology(topology)
                .run(|| async {
                    let mut homes = BTreeSet::new();
                    for _ in 0..100 {
                        homes.insert(fiber::spawn_stealable(|| async { shard::shard_index() }).join().await.unwrap());
                        homes.insert(fiber::spawn_pinned(|| async { shard::shard_index() }).join().await.unwrap());
                    }
                    (shard::shards(), homes)
                })
                .unwrap();
            assert_eq!(shards, if topology == Topology::Single { 1 } else { 2 });
            assert_eq!(homes, BTreeSet::from([Some(0)]));
        }
    }
    // In a simulated world the shards take turns on one thread, and steal all the same.
    let (shards, homes) = stealing(Selection::Sim, 4)
        .run(|| async {
            let fibers: Vec<_> = (0..100).map(|_| fiber::spawn_stealable(|| async { shard::shard_index() })).collect();
            let mut homes = BTreeSet::new();
            for fiber in fibers {
                homes.insert(fiber.join().await.unwrap());
            }
            (shard::shards(), homes)
        })
        .unwrap();
    assert!(shards == 4 && homes.len() > 1, "{shards} {homes:?}");
}

#[test]
fn what_may_run_anywhere_is_spread_evenly_and_joined_from_here() {
    for io in REAL {
        for (shards, each) in [(1, 60), (2, 30), (3, 20)] {
            let count = Builder::new().io(io).shards(shards).run(|| async {
                let fibers: Vec<_> = (0..60)
                    .map(|number| {
                        shard::spawn_anywhere(move || async move {
                            let home = AtHome::new();
                            fiber::yield_now().await.unwrap();
                            home.check();
                            assert_ne!(number, 59, "as planned");
                            shard::shard_index().unwrap()
                        })
                    })
                    .collect();
                let mut count = vec![0; 3];
                let mut panics = 0;
                for fiber in fibers {
                    match fiber.join().await {
                        Ok(shard) => count[shard] += 1,
                        Err(error) => panics += usize::from(error.is_panic()),
                    }
                }
                assert_eq!(panics, 1);
                count
            });
            let mut expected = vec![each; shards];
            expected[59 % shards] -= 1;
            expected.resize(3, 0);
            assert_eq!(count.unwrap(), expected, "on {io}");
        }
    }
}

#[test]
fn shards_that_are_busy_for_ever_start_their_own_all_the_same() {
    for io in REAL {
        let started = stealing(io, 2)
            .run(|| async {
                for index in 0..2 {
                    shard::post_to(index, || {
                        drop(fiber::spawn(|| async { while fiber::yield_now().await.is_ok() {} }));
                    });
                }
                let fibers: Vec<_> = (0..50).map(|_| fiber::spawn_stealable(|| async { 1 })).collect();
                let mut started = 0;
                for fiber in fibers {
                    started += fiber.join().await.unwrap();
                }
                started
            })
            .unwrap();
        assert_eq!(started, 50);
    }
}

/// Counts itself when it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn the_end_drops_what_has_not_started() {
    for io in REAL {
        for shards in [1, 3] {
            let dropped = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&dropped);
            stealing(io, shards)
                .run(move || async move {
                    for _ in 0..300 {
                        let counted = Counted(Arc::clone(&count));
                        drop(fiber::spawn_stealable(move || async move {
                            let _counted = counted;
                            let _ = fiber::sleep(Duration::MAX).await;
                        }));
                    }
                })
                .unwrap();
            assert_eq!(dropped.load(Ordering::SeqCst), 300, "on {io}, {shards} shard(s)");
        }
    }
}

#[test]
fn a_panic_before_the_first_await_or_after_it_reaches_the_joiner() {
    for io in REAL {
        let panics = stealing(io, 2)
            .run(|| async {
                let mut panics = 0;
                for number in 0..40 {
                    let doomed = fiber::spawn_stealable(move || {
                        assert_ne!(number % 2, 0, "as planned");
                        async move {
                            fiber::yield_now().await.unwrap();
                            assert_eq!(number % 2, 0, "as planned");
                        }
                    });
                    panics += usize::from(doomed.join().await.is_err_and(|error| error.is_panic()));
                }
                panics
            })
            .unwrap();
        assert_eq!(panics, 40);
    }
}

#[test]
fn a_fiber_has_a_number_once_it_runs_and_only_main_has_that_of_main() {
    let (before, inside) = stealing(Selection::Auto, 2)
        .run(|| async {
            let fiber = fiber::spawn_stealable(|| async { fiber::id() });
            (fiber.id(), fiber.join().await.unwrap())
        })
        .unwrap();
    assert!(before.is_none() || before == inside, "{before:?} and {inside:?}");
    assert!(inside.is_some_and(|id| (1..10).contains(&id.as_u64())), "{inside:?}");
}
