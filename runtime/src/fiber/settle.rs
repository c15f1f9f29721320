//! Letting everything else run, for tests that hold the clock.

use std::future::Future;
use std::time::Duration;

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::fiber::local;
use crate::fiber::turn::yield_now;
use crate::scope::Call;
use crate::scope::capability::{Clock, TestClock};

/// Turns after which fibers that are still busy are taken to be busy for ever.
const TURNS_MAX: u32 = 1_000_000;

/// Lets every other fiber of this shard run until none is ready any more. What waits for the kernel is not waited for:
/// this is for fibers that wait for each other and for doubles.
///
/// # Errors
///
/// ECANCELED when this fiber was cancelled; EBUSY when the others do not come to rest.
pub fn settle() -> Call<impl Future<Output = IoResult<()>>> {
    Call::new(async {
        for _ in 0..TURNS_MAX {
            yield_now().await?;
            if local::is_quiet() {
                return Ok(());
            }
        }
        Err(IoError::new(errno::EBUSY, OpKind::Yield, Stage::Completion)
            .with_context("the other fibers do not come to rest; does one of them run in circles?"))
    })
}

/// Lets `span` pass on `clock`, one sleeper after the other as real time would, and everything settle in between.
///
/// # Errors
///
/// As [`settle`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo_runtime::fiber;
/// use wo_runtime::scope::capability::{Clock, TestClock};
/// use wo_runtime::shard::Builder;
///
/// let ticks = Builder::new().run(|| async {
///     let clock = TestClock::new();
///     let ticking = clock.clone();
///     let ticker = fiber::spawn(move || async move {
///         let mut ticks = 0;
///         while ticking.now() < Duration::from_secs(60) {
///             ticking.sleep(Duration::from_secs(1)).await?;
///             ticks += 1;
///         }
///         Ok::<_, wo_runtime::error::IoError>(ticks)
///     });
///     fiber::advance_and_settle(&clock, Duration::from_secs(60)).await?;
///     ticker.join().await.unwrap()
/// })??;
/// assert_eq!(ticks, 60);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn advance_and_settle(clock: &TestClock, span: Duration) -> Call<impl Future<Output = IoResult<()>>> {
    Call::new(async move {
        settle().await?;
        let until = clock.now().saturating_add(span);
        while clock.wake_next(until) {
            settle().await?;
        }
        clock.advance_to(until);
        settle().await
    })
}
