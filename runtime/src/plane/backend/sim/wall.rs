//! A host's wall clock: what day it is there.
//!
//! It goes with the world's clock and stands apart from it: a test sets it back or ahead, as an operator or a time
//! server does, and no timer, deadline or order in the world depends on it. Files are stamped by it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::plane::time::Instant;

/// The simulated world's beginning: 2024-01-01 00:00:00 UTC.
const BEGINNING: Duration = Duration::from_secs(1_704_067_200);

/// A moment of a wall clock: nanoseconds since the beginning of 1970, before it when negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WallTime(i128);

impl WallTime {
    pub(super) fn from_system(time: SystemTime) -> WallTime {
        match time.duration_since(UNIX_EPOCH) {
            Ok(since) => WallTime(since.as_nanos() as i128),
            Err(before) => WallTime(-(before.duration().as_nanos() as i128)),
        }
    }

    /// As the standard library has it; the nearest that it can hold.
    pub(super) fn to_system(self) -> SystemTime {
        let (seconds, nanos) = self.parts();
        let span = Duration::new(seconds.unsigned_abs(), 0);
        let whole = if seconds < 0 { UNIX_EPOCH.checked_sub(span) } else { UNIX_EPOCH.checked_add(span) };
        whole.and_then(|whole| whole.checked_add(Duration::from_nanos(nanos.into()))).unwrap_or(UNIX_EPOCH)
    }

    /// Whole seconds, rounded down, and the nanoseconds after them.
    pub(super) fn parts(self) -> (i64, u32) {
        let seconds = self.0.div_euclid(1_000_000_000).clamp(i64::MIN.into(), i64::MAX.into());
        (seconds as i64, self.0.rem_euclid(1_000_000_000) as u32)
    }

    /// Nanoseconds from `earlier` to here; negative when it is later.
    pub(super) fn nanos_since(self, earlier: WallTime) -> i128 {
        self.0 - earlier.0
    }
}

/// A wall clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct WallClock {
    /// What it would have said at the world's beginning.
    origin: WallTime,
}

impl Default for WallClock {
    fn default() -> WallClock {
        WallClock { origin: WallTime(BEGINNING.as_nanos() as i128) }
    }
}

impl WallClock {
    /// What it says at a moment of the world.
    pub(super) fn at(self, now: Instant) -> WallTime {
        WallTime(self.origin.0 + i128::from(now.as_nanos()))
    }

    /// From now on it says `time`, and goes on from there.
    pub(super) fn set(&mut self, now: Instant, time: WallTime) {
        self.origin = WallTime(time.0 - i128::from(now.as_nanos()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_is_set_anywhere_and_goes_on_from_there() {
        let mut clock = WallClock::default();
        let now = Instant::from_nanos(5);
        for time in [UNIX_EPOCH, UNIX_EPOCH - Duration::from_nanos(1), UNIX_EPOCH + Duration::from_secs(1 << 36)] {
            clock.set(now, WallTime::from_system(time));
            assert_eq!(clock.at(now).to_system(), time);
            assert_eq!(clock.at(now + Duration::from_secs(3)).to_system(), time + Duration::from_secs(3));
        }
        assert_eq!(WallTime(-1).parts(), (-1, 999_999_999));
    }
}
