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
///
/// # Examples
///
/// ```
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let channel = wo::Channel::new(10);
/// let source = channel.clone();
/// wo::spawn(|| {
///     for number in 0..10 {
///         source.put(number).expect("the channel is open");
///         wo::yield_now().expect("nothing cancels this");
///     }
/// });
/// wo::capability::settle()?;
/// assert_eq!(channel.len(), 10, "it has done all it could");
/// # Ok(())
/// # }
/// ```
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
/// use wo::capability::{Clock, TestClock, advance_and_settle};
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let clock = TestClock::new();
///     let ticking = clock.clone();
///     let ticker = wo::spawn(|| {
///         let mut ticks = 0;
///         while ticking.now() < Duration::from_secs(60) {
///             ticking.sleep(Duration::from_secs(1))?;
///             ticks += 1;
///         }
///         Ok::<_, wo::IoError>(ticks)
///     });
///     advance_and_settle(&clock, Duration::from_secs(60))?;
///     assert_eq!(ticker.join().expect("it does not panic")?, 60);
///     Ok(())
/// }
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
