//! `spawn`: what it costs to start a task and to join it, from inside a task.
//!
//! Case 1 starts and joins one task after another; case `n` starts `n` tasks, then joins them in order. The tasks
//! return a number and never park. One metric: nanoseconds per task.

use std::hint::black_box;
use std::time::Duration;

use crate::bench::positive;
use crate::executor::Executor;
use crate::failure::Failure;
use crate::meter::Meter;
use crate::stats::{Sample, Unit};

/// Tasks started before the first is joined.
pub const CASES: &[&str] = &["1", "1000"];

/// Tasks per look at the clock when they are joined one by one.
const LAP: u64 = 500;

/// One round on executor `E`.
pub fn round<E: Executor>(case: &str, budget: Duration) -> Result<Vec<Sample>, Failure> {
    let tasks = positive(case)? as u64;
    let nanoseconds = E::run(move || async move {
        if tasks == 1 { one_by_one::<E>(budget).await } else { all_at_once::<E>(tasks, budget).await }
    })?;
    Ok(vec![Sample::new("spawn_join", nanoseconds, Unit::Nanoseconds)])
}

async fn one_by_one<E: Executor>(budget: Duration) -> f64 {
    let mut meter = Meter::start(budget);
    loop {
        for number in 0..LAP {
            let task = E::spawn(async move { black_box(number) });
            assert_eq!(black_box(E::join(task).await), number);
        }
        if meter.lap(LAP) {
            return meter.nanoseconds_each();
        }
    }
}

async fn all_at_once<E: Executor>(tasks: u64, budget: Duration) -> f64 {
    let mut running = Vec::with_capacity(tasks as usize);
    let mut meter = Meter::start(budget);
    loop {
        for number in 0..tasks {
            running.push(E::spawn(async move { black_box(number) }));
        }
        for (number, task) in running.drain(..).enumerate() {
            assert_eq!(black_box(E::join(task).await), number as u64);
        }
        if meter.lap(tasks) {
            return meter.nanoseconds_each();
        }
    }
}
