//! Time as the loop counts it: nanoseconds of a monotonic clock, real or virtual.
//!
//! Every instant is read from the loop's backend, so that in a simulated world it is the world's. Arithmetic
//! saturates: the far end of time means "never", and no deadline overflows into the past.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use crate::plane::backend::os;

/// A moment of the monotonic clock.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// let start = wo::Instant::ORIGIN;
/// assert_eq!((start + Duration::from_millis(3)).since(start), Duration::from_millis(3));
/// assert_eq!(start + Duration::MAX, wo::Instant::NEVER);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The clock's zero: the process's first look at it, or the simulated world's beginning.
    pub const ORIGIN: Instant = Instant(0);
    /// The end of time: a deadline that never comes.
    pub const NEVER: Instant = Instant(u64::MAX);

    /// The real monotonic clock, whatever loop this thread runs. The backends read it; a program asks `wo::now()`.
    pub fn real() -> Instant {
        static ORIGIN: OnceLock<u64> = OnceLock::new();
        let now = os::monotonic_nanos();
        Instant(now.saturating_sub(*ORIGIN.get_or_init(|| now)))
    }

    /// The moment `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Instant {
        Instant(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; zero when it is later than `self`.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, span: Duration) -> Instant {
        Instant(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Instant::NEVER {
            f.write_str("Instant(never)")
        } else {
            write!(f, "Instant({:?})", Duration::from_nanos(self.0))
        }
    }
}

/// The system's wall clock, for where no loop runs.
pub(crate) fn real_wall_clock() -> SystemTime {
    SystemTime::now()
}

/// By when something must have happened: a span from now, a moment, or no limit.
///
/// Verbs that end in `_by` take `impl Into<Deadline>`: a [`Duration`] counts from the call, zero and `None` mean
/// no deadline, an [`Instant`] is taken as it stands, also when it has passed.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::{Deadline, Instant};
///
/// assert_eq!(Deadline::from(Duration::from_secs(5)), Deadline::After(Duration::from_secs(5)));
/// let now = Instant::ORIGIN;
/// assert_eq!(Deadline::After(Duration::from_secs(5)).instant(now), Some(now + Duration::from_secs(5)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// No limit.
    None,
    /// This long after the call.
    After(Duration),
    /// At this moment.
    At(Instant),
}

impl Deadline {
    /// The moment it falls due when asked at `now`; none without a limit.
    pub fn instant(self, now: Instant) -> Option<Instant> {
        match self {
            Deadline::None => None,
            Deadline::After(span) => Some(now + span).filter(|at| *at != Instant::NEVER),
            Deadline::At(at) => Some(at).filter(|at| *at != Instant::NEVER),
        }
    }
}

impl From<Duration> for Deadline {
    fn from(span: Duration) -> Deadline {
        if span.is_zero() { Deadline::None } else { Deadline::After(span) }
    }
}

impl From<Option<Duration>> for Deadline {
    fn from(span: Option<Duration>) -> Deadline {
        span.map_or(Deadline::None, Deadline::from)
    }
}

impl From<Instant> for Deadline {
    fn from(at: Instant) -> Deadline {
        Deadline::At(at)
    }
}
