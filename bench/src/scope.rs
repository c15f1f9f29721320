//! `scope`: what structure costs beside the same work without it.
//!
//! Case `child` opens a scope, starts one child in it and joins it, beside starting and joining a bare fiber. Case
//! `checkpoint` looks for a cancel that is not there. Case `maps` runs an effect, a body and three maps, beside the
//! direct code. The two sides of a case take turns within each round, so that their ratio is the steadiest figure.

use std::hint::black_box;
use std::time::{Duration, Instant};

use wo::effect::{Effect, Run};
use wo_runtime::fiber::{self, Scope};
use wo_runtime::scope::Outcome;

use crate::executor::Executor;
use crate::failure::Failure;
use crate::stats::{Sample, Unit};

/// What is measured.
pub const CASES: &[&str] = &["child", "checkpoint", "maps"];

/// Turns of one side before the other has its own.
const TURNS: u64 = 200;

/// Looks for a cancel in a row.
const LOOKS: u64 = 100_000;

/// Refuses what is not among the cases.
pub fn check(case: &str) -> Result<(), Failure> {
    if CASES.contains(&case) {
        return Ok(());
    }
    Err(Failure::new(format!("case `{case}`"), format!("expected one of {}", CASES.join(", "))))
}

/// One round, on fibers that `E` runs.
pub fn round<E: Executor>(case: &str, budget: Duration) -> Result<Vec<Sample>, Failure> {
    check(case)?;
    let case = case.to_owned();
    E::run(move || async move {
        match case.as_str() {
            "child" => beside(budget, ["spawn_join", "scope_child"], bare().await, scoped().await).await,
            "checkpoint" => checkpoints(budget),
            _ => beside(budget, ["direct", "three_maps"], direct().await, mapped().await).await,
        }
    })
}

/// Lets two sides take turns; answers what a turn of each takes, and how many times the first the second is.
async fn beside(
    budget: Duration,
    names: [&'static str; 2],
    mut one: impl AsyncFnMut(),
    mut other: impl AsyncFnMut(),
) -> Vec<Sample> {
    let begun = Instant::now();
    let mut spent = [Duration::ZERO; 2];
    let mut turns = 0;
    while turns == 0 || begun.elapsed() < budget {
        // The first fifth warms up.
        if begun.elapsed() < budget / 5 {
            (spent, turns) = ([Duration::ZERO; 2], 0);
        }
        let start = Instant::now();
        one().await;
        let middle = Instant::now();
        other().await;
        spent[0] += middle - start;
        spent[1] += middle.elapsed();
        turns += TURNS;
    }
    let each = spent.map(|spent| spent.as_nanos() as f64 / turns as f64);
    vec![
        Sample::new(names[0], each[0], Unit::Nanoseconds),
        Sample::new(names[1], each[1], Unit::Nanoseconds),
        Sample::new("times", each[1] / each[0], Unit::Ratio),
    ]
}

async fn bare() -> impl AsyncFnMut() {
    async || {
        for number in 0..TURNS {
            let task = fiber::spawn(move || async move { black_box(number) });
            assert_eq!(black_box(task.join().await).ok(), Some(number));
        }
    }
}

async fn scoped() -> impl AsyncFnMut() {
    async || {
        for number in 0..TURNS {
            let outcome: Outcome<u64> = fiber::scope(async |s: Scope| {
                let child = s.fork(move || async move { Ok(black_box(number)) });
                Ok(black_box(child.join().await)?)
            })
            .await;
            assert_eq!(outcome.ok(), Some(number));
        }
    }
}

fn checkpoints(budget: Duration) -> Vec<Sample> {
    let begun = Instant::now();
    let (mut spent, mut looks) = (Duration::ZERO, 0);
    while looks == 0 || begun.elapsed() < budget {
        let start = Instant::now();
        for _ in 0..LOOKS {
            assert!(black_box(fiber::checkpoint()).is_ok());
        }
        let looked = start.elapsed();
        // What the loop itself takes.
        let start = Instant::now();
        for _ in 0..LOOKS {
            assert!(black_box(Ok::<(), wo::IoError>(())).is_ok());
        }
        if begun.elapsed() >= budget / 5 {
            spent += looked.saturating_sub(start.elapsed());
            looks += LOOKS;
        }
    }
    vec![Sample::new("checkpoint", spent.as_nanos() as f64 / looks as f64, Unit::Nanoseconds)]
}

fn first(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn second(number: u64) -> u64 {
    number ^ (number >> 31)
}

fn third(number: u64) -> u64 {
    number.rotate_left(7).wrapping_add(1)
}

async fn body(number: u64) -> Result<u64, ()> {
    Ok(black_box(number))
}

async fn direct() -> impl AsyncFnMut() {
    async || {
        for number in 0..TURNS {
            // The closure that the other side makes an effect of, called directly.
            let work = async || body(number).await;
            let value = work().await.map(|value| third(second(first(value))));
            let _ = black_box(value.ok());
        }
    }
}

async fn mapped() -> impl AsyncFnMut() {
    async || {
        for number in 0..TURNS {
            let effect = wo::effect(async || body(number).await).map(first).map(second).map(third);
            let _ = black_box(effect.run(&()).await.ok());
        }
    }
}
