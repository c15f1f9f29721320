//! `memory`: what a task costs that does nothing but wait.
//!
//! `n-sleeping` tasks wait for a timer, `n-parked` tasks for a wake that somebody else sends. Two figures of size:
//! `bytes` counts what the runtime asked the allocator for, `resident` what the process really grew by, page tables
//! and allocator included (the harness's own eight or sixteen bytes a task for handles and wakers are in `resident`
//! only). `create` runs from the first spawn until the last task waits, `wake` from the first wake until the last task
//! has ended. Every round runs in a process of its own: memory that was used once is cheaper the second time.
//!
//! `n-actors` wait for a message; see [`crate::actors::idle`].

use std::time::{Duration, Instant};

use crate::actors::{Library, idle};
use crate::alloc::live_bytes;
use crate::bench::positive;
use crate::crowd::{Counter, Parked, full, open_hall, wake_hall};
use crate::executor::{Executor, Timers};
use crate::failure::Failure;
use crate::stats::{Sample, Unit};
use crate::sys::resident_bytes;
use crate::timers;

/// How many tasks, and what they wait for.
pub const CASES: &[&str] = &["100000-sleeping", "1000000-parked", "100000-actors"];

const SLEEPING: &str = "-sleeping";
const PARKED: &str = "-parked";

thread_local! {
    static PARKING: Counter = const { Counter::new() };
    static ENDED: Counter = const { Counter::new() };
}

/// One round on an executor with timers and actors: all cases.
pub fn round_with_actors<E: Timers + Library>(case: &str, budget: Duration) -> Result<Vec<Sample>, Failure> {
    if needs_actors(case) { idle::round::<E>(case, budget) } else { round::<E>(case, budget) }
}

/// One round on an executor with timers: tasks that sleep or are parked.
pub fn round<E: Timers>(case: &str, budget: Duration) -> Result<Vec<Sample>, Failure> {
    match case.strip_suffix(SLEEPING) {
        Some(tasks) => sleeping::<E>(positive(tasks)?),
        None => round_without_timers::<E>(case, budget),
    }
}

/// One round on an executor without timers: parked tasks only.
pub fn round_without_timers<E: Executor>(case: &str, _budget: Duration) -> Result<Vec<Sample>, Failure> {
    match case.strip_suffix(PARKED) {
        Some(tasks) => parked::<E>(positive(tasks)?),
        None => Err(Failure::new(format!("case `{case}`"), "this subject has no timers")),
    }
}

/// Refuses what is no case.
pub fn check(case: &str) -> Result<(), Failure> {
    case.strip_suffix(SLEEPING)
        .or_else(|| case.strip_suffix(PARKED))
        .map(positive)
        .or_else(|| idle::actors(case))
        .and_then(|number| number.ok())
        .map(drop)
        .ok_or_else(|| {
            Failure::new(
                format!("case `{case}`"),
                "expected a number and what waits, 100000-sleeping, 1000000-parked or 100000-actors",
            )
        })
}

/// Whether `case` needs timers.
pub fn needs_timers(case: &str) -> bool {
    case.ends_with(SLEEPING)
}

/// Whether `case` needs actors.
pub fn needs_actors(case: &str) -> bool {
    idle::actors(case).is_some()
}

fn sleeping<E: Timers>(tasks: usize) -> Result<Vec<Sample>, Failure> {
    E::run(move || async move {
        let before = resident_bytes()?;
        let (sleepers, bytes) = timers::create::<E>(tasks).await;
        let resident = grown_since(before, tasks)?;
        timers::cancel::<E>(sleepers).await;
        Ok(vec![Sample::new("bytes", bytes, Unit::Bytes), Sample::new("resident", resident, Unit::Bytes)])
    })?
}

fn parked<E: Executor>(tasks: usize) -> Result<Vec<Sample>, Failure> {
    E::run(move || async move {
        open_hall(tasks);
        PARKING.with(|parking| parking.expect(tasks));
        ENDED.with(|ended| ended.expect(tasks));
        let (before, live) = (resident_bytes()?, live_bytes());

        let start = Instant::now();
        for _ in 0..tasks {
            E::detach(async {
                PARKING.with(Counter::arrive);
                Parked::default().await;
                ENDED.with(Counter::arrive);
            });
        }
        full(&PARKING).await;
        let created = start.elapsed();

        let bytes = (live_bytes() - live) as f64 / tasks as f64;
        let resident = grown_since(before, tasks)?;

        let start = Instant::now();
        let woken = wake_hall();
        full(&ENDED).await;
        let ended = start.elapsed();
        assert_eq!(woken, tasks, "every task was parked when it was woken");

        let each = |time: Duration| time.as_nanos() as f64 / tasks as f64;
        Ok(vec![
            Sample::new("create", each(created), Unit::Nanoseconds),
            Sample::new("wake", each(ended), Unit::Nanoseconds),
            Sample::new("bytes", bytes, Unit::Bytes),
            Sample::new("resident", resident, Unit::Bytes),
        ])
    })?
}

fn grown_since(before: u64, tasks: usize) -> Result<f64, Failure> {
    Ok((resident_bytes()? as f64 - before as f64) / tasks as f64)
}
