//! How long to look for work before going to sleep.
//!
//! A sleep and a wake cost more than a short look around, and under load the next completion is a few microseconds
//! away. The look adapts: while waits end within it, or barely after it, it stays long; when they do not, it halves
//! away to nothing, and an idle shard sleeps at once and stays asleep.

use core::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// The longest look.
const CEILING: Duration = Duration::from_micros(20);
/// A shorter look is none.
const FLOOR: Duration = Duration::from_micros(1);
/// A sleep no longer than this was a pause between two requests of one peer, not idleness: looking longer brings the
/// answer sooner, and the next request with it.
const PAUSE: Duration = Duration::from_micros(150);
/// Looks between two readings of the clock.
const LOOKS_PER_READING: u32 = 16;

thread_local! {
    /// How many of this shard's waits are known to be long.
    static UNHURRIED: Cell<u32> = const { Cell::new(0) };
}

/// Says that what this shard waits for takes long, as a disk's sync does: as long as it lives the shard sleeps at once
/// when nothing is ready, and leaves the processor to the thread of the kernel that does the work.
///
/// # Examples
///
/// ```
/// use wo_runtime::fiber::Unhurried;
/// use wo_runtime::shard::Builder;
///
/// Builder::new().run(|| async {
///     let file = wo_runtime::os::fs::File::open("/dev/null").await?;
///     let _unhurried = Unhurried::begin();
///     file.metadata().await
/// })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "it lasts as long as it lives"]
pub struct Unhurried {
    /// It is this shard's.
    shard: PhantomData<*const ()>,
}

impl Unhurried {
    /// Begins a long wait.
    pub fn begin() -> Unhurried {
        UNHURRIED.set(UNHURRIED.get() + 1);
        Unhurried { shard: PhantomData }
    }
}

impl Drop for Unhurried {
    fn drop(&mut self) {
        // At the end of a thread nobody waits any more.
        let _ = UNHURRIED.try_with(|waits| waits.set(waits.get() - 1));
    }
}

impl fmt::Debug for Unhurried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unhurried").field("waits", &UNHURRIED.get()).field("shard", &self.shard).finish()
    }
}

#[derive(Debug)]
pub(crate) struct Spin {
    look: Duration,
    enabled: bool,
}

impl Spin {
    pub(crate) fn new(enabled: bool) -> Spin {
        Spin { look: CEILING, enabled }
    }

    /// Looks for a while; true as soon as there is something.
    pub(crate) fn look(&mut self, mut found: impl FnMut() -> bool) -> bool {
        if !self.enabled || self.look.is_zero() || UNHURRIED.get() > 0 {
            return found();
        }
        let start = Instant::now();
        loop {
            for _ in 0..LOOKS_PER_READING {
                if found() {
                    self.look = CEILING;
                    return true;
                }
                std::hint::spin_loop();
            }
            if start.elapsed() >= self.look {
                return false;
            }
        }
    }

    /// A sleep begins; none when its length does not matter.
    pub(crate) fn sleep_begins(&self) -> Option<Instant> {
        (self.enabled && UNHURRIED.get() == 0).then(Instant::now)
    }

    /// A sleep of this length followed a look in vain.
    pub(crate) fn slept(&mut self, span: Duration) {
        if span <= PAUSE {
            self.look = (self.look * 2).clamp(FLOOR, CEILING);
        } else {
            self.look /= 2;
            if self.look < FLOOR {
                self.look = Duration::ZERO;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_looks_around_during_a_long_wait() {
        let mut spin = Spin::new(true);
        let unhurried = (Unhurried::begin(), Unhurried::begin());
        let mut looks = 0;
        let mut look = || {
            looks += 1;
            false
        };
        assert!(!spin.look(&mut look) && spin.sleep_begins().is_none());
        drop(unhurried.0);
        assert!(!spin.look(&mut look));
        drop(unhurried.1);
        assert_eq!(looks, 2, "once each time");
        assert!(spin.sleep_begins().is_some());
    }

    #[test]
    fn long_sleeps_end_the_looking_and_short_ones_bring_it_back() {
        let mut spin = Spin::new(true);
        for _ in 0..8 {
            spin.slept(Duration::from_millis(1));
        }
        assert_eq!(spin.look, Duration::ZERO);
        let mut looks = 0;
        assert!(!spin.look(|| {
            looks += 1;
            false
        }));
        assert_eq!(looks, 1);
        for _ in 0..8 {
            spin.slept(Duration::from_micros(10));
        }
        assert_eq!(spin.look, CEILING);
    }
}
