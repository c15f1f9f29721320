//! The stopwatch of a round: warm up for a fifth of it, then count.

use std::time::{Duration, Instant};

/// Counts events from the end of the warm-up to the end of the round.
#[derive(Debug)]
pub struct Meter {
    warm_until: Instant,
    end: Instant,
    started: Option<Instant>,
    elapsed: Duration,
    events: u64,
}

impl Meter {
    /// Starts a round of `budget`, its warm-up included.
    pub fn start(budget: Duration) -> Self {
        let now = Instant::now();
        Meter { warm_until: now + budget / 5, end: now + budget, started: None, elapsed: Duration::ZERO, events: 0 }
    }

    /// Notes that `events` more have happened; true when the round is over.
    ///
    /// A round never ends without a measured lap, however long the laps are.
    pub fn lap(&mut self, events: u64) -> bool {
        let now = Instant::now();
        match self.started {
            None => {
                if now >= self.warm_until {
                    self.started = Some(now);
                }
                false
            }
            Some(started) => {
                self.events += events;
                self.elapsed = now - started;
                now >= self.end
            }
        }
    }

    /// Nanoseconds per event.
    pub fn nanoseconds_each(&self) -> f64 {
        self.elapsed.as_nanos() as f64 / self.events as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_without_time_still_measures_one_lap_and_not_the_warm_up() {
        let mut meter = Meter::start(Duration::ZERO);
        assert!(!meter.lap(1_000_000), "the first lap is the warm-up");
        assert!(meter.lap(10));
        assert_eq!(meter.events, 10);
        assert!(meter.nanoseconds_each() > 0.0);
    }
}
