//! The clock of this shard as a capability.

use std::future::Future;
use std::time::{Duration, SystemTime};

use crate::error::IoResult;
use crate::fiber::sleep::{now, sleep, wall_clock};
use crate::plane::time::Instant;
use crate::scope::Call;
use crate::scope::capability::Clock;

/// The real clock, or the simulated world's.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::capability::{Clock, LiveClock};
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let start = LiveClock.now();
///     LiveClock.sleep(Duration::from_millis(1))?;
///     assert!(LiveClock.now() - start >= Duration::from_millis(1));
///     Ok(())
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveClock;

impl Clock for LiveClock {
    fn now(&self) -> Duration {
        now().since(Instant::ORIGIN)
    }

    fn wall(&self) -> SystemTime {
        wall_clock()
    }

    fn sleep(&self, span: Duration) -> Call<impl Future<Output = IoResult<()>>> {
        sleep(span)
    }
}
