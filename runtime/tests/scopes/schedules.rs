//! Schedules at work: how often something is tried, when, and what is never tried again.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use wo_runtime::error::{IoError, IoResult};
use wo_runtime::fiber::{self, Fibers, Scope, Task};
use wo_runtime::scope::schedule::{Schedule, exponential, recurs, spaced};
use wo_runtime::scope::{self, Boxed, Cause, Executor, Interrupt, Outcome};

use crate::{each, in_sim, millis, since};

/// Fibers whose sleeps are written down.
#[derive(Clone, Default)]
struct Watched(Rc<RefCell<Vec<Duration>>>);

impl Executor for Watched {
    type Task<T: 'static> = Task<T>;

    fn start<T: 'static>(&self, body: impl Future<Output = T> + 'static) -> Option<Task<T>> {
        Fibers.start(body)
    }

    fn is_finished<T: 'static>(task: &Task<T>) -> bool {
        Fibers::is_finished(task)
    }

    fn timer(&self, at: Duration) -> Boxed<()> {
        Fibers.timer(at)
    }

    fn sleep(&self, span: Duration) -> Boxed<IoResult<()>> {
        self.0.borrow_mut().push(span);
        Fibers.sleep(span)
    }

    fn now(&self) -> Duration {
        Fibers.now()
    }
}

#[test]
fn t1_recurs_three_on_work_that_always_fails_is_four_runs() {
    each(|builder| {
        builder
            .run(|| async {
                let (runs, watched) = (Cell::new(0), Watched::default());
                let fails = async || {
                    runs.set(runs.get() + 1);
                    Err::<(), _>(runs.get())
                };
                let outcome: Outcome<(), u32> = scope::retry(watched.clone(), recurs(3), fails).await;
                // Four executions, three sleeps; and the last failure is what is told.
                assert_eq!((runs.get(), outcome.unwrap_err().error()), (4, Some(&4)));
                assert_eq!(watched.0.take(), [Duration::ZERO; 3]);
                // As often, the other way round: what succeeds is repeated.
                runs.set(0);
                let outcome: Outcome<u32> = scope::repeat(watched.clone(), recurs(3) & spaced(millis(1)), async || {
                    runs.set(runs.get() + 1);
                    Ok(runs.get())
                })
                .await;
                assert_eq!((runs.get(), outcome.unwrap()), (4, 4));
                assert_eq!(watched.0.take(), [millis(1); 3]);
            })
            .unwrap();
    });
}

/// When each run of what always fails begins, in milliseconds.
async fn begins(policy: impl Schedule) -> Vec<u128> {
    let (start, times) = (fiber::now(), RefCell::new(Vec::new()));
    let outcome: Outcome<(), &str> = fiber::retry(policy, async || {
        times.borrow_mut().push(since(start).as_millis());
        Err::<(), _>("always")
    })
    .await;
    assert_eq!(outcome.unwrap_err().to_string(), "failed: always");
    times.into_inner()
}

#[test]
fn t2_a_retry_waits_exactly_as_its_schedule_says() {
    in_sim(|| async {
        let start = fiber::now();
        assert_eq!(begins(exponential(millis(100)) & recurs(5)).await, [0, 100, 300, 700, 1500, 3100]);
        assert_eq!(since(start), millis(3100));
        assert_eq!(begins(exponential(millis(1)).factor(3.0).cap(millis(5)) & recurs(4)).await, [0, 1, 4, 9, 14]);
        assert_eq!(begins(spaced(millis(40)).up_to(millis(100))).await, [0, 40, 80]);
        assert_eq!(begins(recurs(0)).await, [0]);
    });
}

#[test]
fn t8_a_retry_with_jitter_is_its_seeds() {
    in_sim(|| async {
        let policy = |seed| (exponential(millis(100)) & recurs(8)).jittered(0.5, 1.5, seed);
        let (one, again, other) = (begins(policy(1)).await, begins(policy(1)).await, begins(policy(2)).await);
        assert_eq!(one, again);
        assert_ne!(one, other);
        assert_eq!(one.len(), 9);
    });
}

/// A number below `of`, by SplitMix64.
fn draw(chance: &mut u64, of: u64) -> u64 {
    *chance = chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*chance ^ (*chance >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((u128::from(mixed ^ (mixed >> 27)) * u128::from(of)) >> 64) as u64
}

fn list(schedule: impl Schedule) -> Vec<Duration> {
    let mut state = schedule.start();
    let delays: Vec<Duration> = std::iter::from_fn(|| schedule.next(&mut state)).take(100).collect();
    // What has ended has ended.
    assert!(delays.len() == 100 || (0..5).all(|_| schedule.next(&mut state).is_none()));
    delays
}

/// `&` and `|` are the two operations of a distributive lattice; limits meet; what runs twice runs the same.
#[test]
fn schedules_are_a_lattice() {
    for seed in 0..3_000_u64 {
        let mut chance = seed;
        let mut any = || {
            let (base, count) = (Duration::from_micros(draw(&mut chance, 50_000)), draw(&mut chance, 8));
            let cap = Duration::from_micros(draw(&mut chance, 400_000));
            let factor = draw(&mut chance, 4) as f64 / 1.3;
            let (low, high) = (draw(&mut chance, 3) as f64 / 2.0, draw(&mut chance, 5) as f64 / 2.0);
            let seed = draw(&mut chance, 1 << 40);
            (exponential(base).factor(factor).cap(cap) & recurs(count)).jittered(low, high, seed)
        };
        let (a, b, c) = (any(), any(), any());
        assert_eq!(list(a & b), list(b & a), "order, seed {seed}");
        assert_eq!(list(a | b), list(b | a), "order, seed {seed}");
        assert_eq!(list(a & (a | b)), list(a), "absorption, seed {seed}");
        assert_eq!(list(a | (a & b)), list(a), "absorption, seed {seed}");
        assert_eq!(list(a & (b | c)), list((a & b) | (a & c)), "distribution, seed {seed}");
        assert_eq!(list(a | (b & c)), list((a | b) & (a | c)), "distribution, seed {seed}");
        let (one, other) = (Duration::from_micros(draw(&mut seed.clone(), 200_000)), millis(seed % 300));
        assert_eq!(list(a.up_to(one).up_to(other)), list(a.up_to(one.min(other))), "limits, seed {seed}");
        assert_eq!(list(a.up_to(Duration::MAX)), list(a), "no limit, seed {seed}");
        // Two runs of one value know nothing of each other.
        let (mut one, mut other, whole) = (a.start(), a.start(), list(a));
        for (at, delay) in whole.iter().enumerate() {
            assert_eq!(a.next(&mut one), Some(*delay), "seed {seed}, step {at}");
            if at % 2 == 0 {
                assert_eq!(a.next(&mut other), Some(whole[at / 2]), "seed {seed}, step {at}");
            }
        }
    }
}

/// Each way to be interrupted, and a panic: one run, and no sleep.
#[test]
fn t6_what_is_interrupted_or_panics_is_not_tried_again() {
    each(|builder| {
        builder
            .run(|| async {
                let (runs, watched) = (Rc::new(Cell::new(0)), Watched::default());
                let retry = |watched: &Watched| {
                    let runs = Rc::clone(&runs);
                    scope::retry(watched.clone(), recurs(10), move || {
                        runs.set(runs.get() + 1);
                        fiber::sleep(Duration::MAX)
                    })
                };
                let once = |how: &str| {
                    assert_eq!((runs.replace(0), watched.0.take()), (1, Vec::new()), "{how}");
                };
                let late: Outcome<(), Cause> = fiber::with_deadline(millis(2), async || retry(&watched).await).await;
                assert!(late.unwrap_err().is_timeout());
                once("its time ran out");
                let repeats = Rc::clone(&runs);
                let late: Outcome<(), Cause> = fiber::with_deadline(millis(2), async || {
                    let work = async || {
                        repeats.set(repeats.get() + 1);
                        // It makes nothing of being interrupted.
                        let _ = fiber::sleep(Duration::MAX).await;
                        Ok::<_, IoError>(())
                    };
                    scope::repeat(watched.clone(), recurs(10), work).await
                })
                .await;
                assert!(late.unwrap_err().is_timeout());
                once("a repetition's time ran out");
                let outcome: Outcome<()> = fiber::scope(async |s: Scope| {
                    let child = s.fork({
                        let work = retry(&watched);
                        move || async move {
                            let cause: Cause = work.await.unwrap_err();
                            assert_eq!(cause.interrupt(), Some(Interrupt::Cancelled));
                            Ok(())
                        }
                    });
                    fiber::sleep(millis(1)).await?;
                    let ended: Outcome<()> = child.cancel().await;
                    assert_eq!(ended.unwrap_err().interrupt(), Some(Interrupt::Cancelled));
                    Ok(())
                })
                .await;
                outcome.unwrap();
                once("it was cancelled");
                let outcome: Outcome<()> = fiber::race((
                    async || retry(&watched).await.map_err(IoError::from),
                    async || fiber::sleep(millis(1)).await,
                ))
                .await;
                outcome.unwrap();
                once("another won");
                // A limit that each try sets itself is the try's own failure, when that is what it makes of it.
                let tried = Rc::clone(&runs);
                let each: Outcome<(), IoError> = scope::retry(watched.clone(), recurs(2), async || {
                    tried.set(tried.get() + 1);
                    let late: Outcome<()> = fiber::timeout(millis(1), || fiber::sleep(Duration::MAX)).await;
                    late.map_err(IoError::from)
                })
                .await;
                assert_eq!(each.unwrap_err().error().map(IoError::is_timed_out), Some(true));
                assert_eq!((runs.replace(0), watched.0.take().len()), (3, 2));
                let (counted, sleeps) = (Rc::clone(&runs), watched.clone());
                let panics = fiber::spawn(move || {
                    scope::retry(sleeps, recurs(10), async move || {
                        counted.set(counted.get() + 1);
                        assert_eq!(1, 2, "as planned");
                        Ok::<(), IoError>(())
                    })
                });
                assert!(panics.join().await.unwrap_err().is_panic());
                once("it panicked");
            })
            .unwrap();
    });
}
