//! Telling the time, and letting it pass.

use std::future::Future;
use std::time::{Duration, SystemTime};

use crate::error::IoResult;
use crate::scope::call::Call;

/// Something that tells the time.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::capability::{Clock, TestClock, advance_and_settle};
///
/// #[wo::fiber]
/// fn nap(clock: &impl Clock) -> wo::IoResult<Duration> {
///     let start = clock.now();
///     clock.sleep(Duration::from_secs(3600))?;
///     Ok(clock.now() - start)
/// }
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let clock = TestClock::new();
///     let sleeper = clock.clone();
///     let napping = wo::spawn(|| nap(&sleeper));
///     advance_and_settle(&clock, Duration::from_secs(3600))?;
///     assert_eq!(napping.join().expect("it does not panic")?, Duration::from_secs(3600));
///     Ok(())
/// }
/// ```
pub trait Clock {
    /// The time since this clock's beginning.
    fn now(&self) -> Duration;

    /// What day it is. A clock that has no calendar of its own counts from the beginning of 1970.
    ///
    /// It may be set back or ahead while [`now`](Clock::now) only goes forward.
    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.now()
    }

    /// Parks for `span`; `Duration::MAX` is for ever.
    ///
    /// # Errors
    ///
    /// ECANCELED when the fiber was cancelled, also in the middle.
    fn sleep(&self, span: Duration) -> Call<impl Future<Output = IoResult<()>>>;
}

impl<C: Clock> Clock for &C {
    fn now(&self) -> Duration {
        C::now(self)
    }

    fn wall(&self) -> SystemTime {
        C::wall(self)
    }

    fn sleep(&self, span: Duration) -> Call<impl Future<Output = IoResult<()>>> {
        C::sleep(self, span)
    }
}
