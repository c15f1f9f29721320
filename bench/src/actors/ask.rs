//! Ask: the round trip of a question, asked from outside, one at a time. On one thread both sides share it; on several
//! the one who answers lives on the next thread.
//!
//! `each` and `cpu` are the mean over all round trips, without a look at the clock in between; the percentiles are of
//! half as many that are timed one by one, the two looks at the clock included.

use std::time::Instant;

use hdrhistogram::Histogram;

use super::{Library, Never, Role, Watch, expect};
use crate::failure::Failure;
use crate::stats::{Sample, Unit};

struct Oracle {
    asked: u64,
}

struct Riddle(u64);

impl<L: Library> Role<L> for Oracle {
    type Message = Never;
    type Question = Riddle;
    type Answer = u64;

    async fn receive(&mut self, message: Never) {
        match message {}
    }

    fn answer(&mut self, Riddle(number): Riddle) -> u64 {
        self.asked += 1;
        self.asked ^ number
    }
}

/// Percentiles quoted, and their names.
const PERCENTILES: [(f64, &str); 3] = [(50.0, "p50"), (99.0, "p99"), (99.9, "p99.9")];

pub async fn run<L: Library>(number: usize) -> Result<Vec<Sample>, Failure> {
    // The one who asks runs where the first actor would.
    let oracle = L::start(Oracle { asked: 0 }, 1).await;
    let mut asked = 0;
    let mut wrong = 0;
    let mut check = |answer: u64| {
        asked += 1;
        wrong += u64::from(answer != asked ^ number as u64);
    };
    let riddle = || Riddle(number as u64);
    for _ in 0..number / 10 {
        check(L::ask::<Oracle>(&oracle, riddle()).await);
    }
    let watch = Watch::start();
    for _ in 0..number {
        check(L::ask::<Oracle>(&oracle, riddle()).await);
    }
    let mut samples = watch.stop(number as u64);
    let mut times = Histogram::<u64>::new(3).map_err(|error| Failure::new("make a histogram", error))?;
    for _ in 0..number.div_ceil(2) {
        let start = Instant::now();
        check(L::ask::<Oracle>(&oracle, riddle()).await);
        times.saturating_record(start.elapsed().as_nanos() as u64);
    }
    expect("the wrong answers", wrong, 0)?;
    samples.extend(
        PERCENTILES.map(|(percentile, name)| {
            Sample::new(name, times.value_at_percentile(percentile) as f64, Unit::Nanoseconds)
        }),
    );
    Ok(samples)
}
