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
/// use wo_runtime::error::IoResult;
/// use wo_runtime::fiber;
/// use wo_runtime::scope::capability::{Clock, TestClock};
/// use wo_runtime::shard::Builder;
///
/// async fn nap(clock: &impl Clock) -> IoResult<Duration> {
///     let start = clock.now();
///     clock.sleep(Duration::from_secs(3600)).await?;
///     Ok(clock.now() - start)
/// }
///
/// let slept = Builder::new().run(|| async {
///     let clock = TestClock::new();
///     let sleeper = clock.clone();
///     let nap = fiber::spawn(move || async move { nap(&sleeper).await });
///     fiber::advance_and_settle(&clock, Duration::from_secs(3600)).await?;
///     nap.join().await.unwrap()
/// })??;
/// assert_eq!(slept, Duration::from_secs(3600));
/// # Ok::<(), Box<dyn std::error::Error>>(())
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
