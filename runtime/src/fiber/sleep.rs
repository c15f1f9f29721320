//! Time for fibers: now, sleeping, and a ticker that does not drift.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use crate::error::{IoResult, OpKind};
use crate::fiber::local;
use crate::fiber::turn::{Charge, cancelled};
use crate::fiber::verb;
use crate::plane::backend::Backend;
use crate::plane::current::with_loop;
use crate::plane::time::{Instant, real_wall_clock};
use crate::plane::token::{Class, Token};
use crate::scope::Call;

/// The time on this shard's clock: the real monotonic one, or the simulated world's. Outside a shard, the real one.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// let begun = wo::now();
/// wo::sleep(Duration::from_secs(60))?;
/// assert_eq!(wo::now() - begun, Duration::from_secs(60));
/// # Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
pub fn now() -> Instant {
    with_loop(OpKind::Timer, |event_loop| Ok(event_loop.backend().now())).unwrap_or_else(|_| Instant::real())
}

/// What day it is: the system's wall clock, or the simulated host's. Outside a shard, the system's.
///
/// It may be set back or ahead at any time. Nothing in the runtime depends on it; to tell how long something took, or
/// to wait, use [`now`].
///
/// # Examples
///
/// ```
/// use std::time::UNIX_EPOCH;
///
/// // A simulated world begins with the year 2024, whatever day it is.
/// # #[wo::fiber]
/// # fn example() {
/// let since = wo::wall_clock().duration_since(UNIX_EPOCH).expect("it is later");
/// assert_eq!(since.as_secs(), 1_704_067_200);
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap();
/// ```
pub fn wall_clock() -> SystemTime {
    with_loop(OpKind::Timer, |event_loop| Ok(event_loop.backend().wall_clock())).unwrap_or_else(|_| real_wall_clock())
}

/// Parks for `span`. Zero gives up the turn once; `Duration::MAX` is for ever.
///
/// # Errors
///
/// ECANCELED when the fiber was cancelled, also in the middle.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// // In the simulated world a month passes at once.
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// let month = Duration::from_secs(30 * 24 * 3600);
/// let start = wo::now();
/// wo::sleep(month)?;
/// assert_eq!(wo::now() - start, month);
/// # Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
pub fn sleep(span: Duration) -> Call<Sleep> {
    // Of no span the beginning need not be known.
    sleep_until(if span.is_zero() { Instant::ORIGIN } else { now() + span })
}

/// Parks until `deadline`; a deadline that has passed gives up the turn once.
///
/// # Errors
///
/// ECANCELED when the fiber was cancelled, also in the middle.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// let begun = wo::now();
/// for round in 1..=3 {
///     // Whatever the round took, the next begins on time.
///     wo::sleep_until(begun + Duration::from_secs(round))?;
/// }
/// assert_eq!(wo::now() - begun, Duration::from_secs(3));
/// # Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
pub fn sleep_until(deadline: Instant) -> Call<Sleep> {
    Call::new(Sleep::new(deadline))
}

/// The future of [`sleep`]. Dropping it takes its timer back.
#[derive(Debug)]
pub struct Sleep {
    deadline: Instant,
    /// The timer's token, or what stands for none.
    timer: Token,
}

/// No timer yet.
const NEW: Token = Token::new(Class::Internal, 0, 0);
/// The deadline had passed; the turn was given up.
const YIELDED: Token = Token::new(Class::Internal, 0, 1);
/// No timer any more.
const DONE: Token = Token::new(Class::Internal, 0, 2);

impl Future for Sleep {
    type Output = IoResult<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<IoResult<()>> {
        let this = self.get_mut();
        // A sleep that is over by now has ended well, also when the cancel came in the same moment.
        if this.is_armed()
            && let Poll::Ready(over) = this.poll_timer(cx)
        {
            return Poll::Ready(over);
        }
        if local::is_cancelled() {
            this.disarm();
            return Poll::Ready(Err(cancelled(OpKind::Timer)));
        }
        local::waits_for(OpKind::Timer);
        if this.is_armed() { Poll::Pending } else { this.poll_timer(cx) }
    }
}

/// A sleep that no cancel ends.
#[derive(Debug)]
pub(crate) struct Alarm(Sleep);

/// Ends at `deadline`, whatever is cancelled.
pub(crate) fn alarm(deadline: Instant) -> Alarm {
    Alarm(Sleep::new(deadline))
}

impl Future for Alarm {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // Where no loop runs any more nobody is left to be alarmed.
        self.0.poll_timer(cx).map(drop)
    }
}

impl Sleep {
    fn new(deadline: Instant) -> Sleep {
        Sleep { deadline, timer: NEW }
    }

    fn is_armed(&self) -> bool {
        self.timer.class() == Some(Class::Timer)
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<IoResult<()>> {
        let (deadline, timer) = (self.deadline, self.timer);
        match timer {
            NEW => {
                local::spend();
                // The time of this tick will do: a deadline that has passed since is found by the next.
                let armed = with_loop(OpKind::Timer, |event_loop| {
                    let passed = deadline <= event_loop.now();
                    Ok(if passed { YIELDED } else { event_loop.timer_for(deadline, cx.waker().clone()) })
                });
                match armed {
                    Ok(armed) => {
                        self.timer = armed;
                        if armed == YIELDED {
                            cx.waker().wake_by_ref();
                        }
                        Poll::Pending
                    }
                    Err(error) => Poll::Ready(Err(error)),
                }
            }
            YIELDED | DONE => {
                self.timer = DONE;
                Poll::Ready(Ok(()))
            }
            _ => {
                let waits = with_loop(OpKind::Timer, |event_loop| {
                    Ok(event_loop.now() < deadline
                        && event_loop.renew_timer(timer, cx.waker())
                        && event_loop.backend().now() < deadline)
                });
                match waits {
                    Ok(true) => Poll::Pending,
                    Ok(false) => {
                        self.disarm();
                        Poll::Ready(Ok(()))
                    }
                    Err(error) => Poll::Ready(Err(error)),
                }
            }
        }
    }

    fn disarm(&mut self) {
        if self.is_armed() {
            verb::cancel(self.timer);
        }
        self.timer = DONE;
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.disarm();
    }
}

/// What a ticker does about ticks it was too late for.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::{MissedTicks, Ticker};
///
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// let mut ticker = Ticker::with_missed(Duration::from_secs(1), MissedTicks::Burst);
/// ticker.tick()?;
/// wo::sleep(Duration::from_millis(2500))?; // two are missed
/// let late = wo::now();
/// ticker.tick()?;
/// ticker.tick()?;
/// assert_eq!(wo::now(), late, "both came at once");
/// # Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum MissedTicks {
    /// Skip them: the next tick is the next that lies in the future.
    #[default]
    Skip,
    /// Make up for them at once, one after the other.
    Burst,
    /// Count the period anew from the late tick.
    Delay,
}

/// Ticks at a fixed pace: each deadline is the previous one plus the period, never "now plus the period", so what
/// happens between ticks does not add up to drift.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// wo::Builder::new().io(wo::Selection::Sim).run(|| async {
///     let mut ticker = wo::Ticker::new(Duration::from_millis(10));
///     assert_eq!(ticker.tick().await?, 0);
///     wo::sleep(Duration::from_millis(25)).await?; // two ticks pass meanwhile
///     assert_eq!(ticker.tick().await?, 1); // the first of them is told late, the other was missed
///     Ok::<_, wo::IoError>(())
/// })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Ticker {
    next: Instant,
    period: Duration,
    missed: MissedTicks,
}

impl Ticker {
    /// A ticker whose first tick is one `period` from now, and which skips what it misses.
    ///
    /// # Panics
    ///
    /// When `period` is zero.
    pub fn new(period: Duration) -> Ticker {
        Ticker::with_missed(period, MissedTicks::Skip)
    }

    /// A ticker that does as `missed` says about ticks it was too late for.
    ///
    /// # Panics
    ///
    /// When `period` is zero.
    pub fn with_missed(period: Duration, missed: MissedTicks) -> Ticker {
        assert!(!period.is_zero(), "a ticker's period is longer than zero");
        Ticker { next: now() + period, period, missed }
    }

    /// Parks until the next tick, and answers how many were missed and skipped since the last one. A tick that is due
    /// already answers without parking.
    ///
    /// # Errors
    ///
    /// ECANCELED when the fiber was cancelled; the tick is not lost.
    pub fn tick(&mut self) -> Call<Tick<'_>> {
        Call::new(Tick { ticker: self, sleep: None, charge: Charge::new() })
    }

    /// Changes the pace from the next tick on.
    ///
    /// # Panics
    ///
    /// When `period` is zero.
    pub fn reschedule(&mut self, period: Duration) {
        assert!(!period.is_zero(), "a ticker's period is longer than zero");
        self.period = period;
    }

    /// The tick that was due at `self.next` is told at `now`; answers how many more are skipped.
    fn advance(&mut self, now: Instant) -> u64 {
        let due = self.next;
        match self.missed {
            MissedTicks::Burst => {
                self.next = due + self.period;
                0
            }
            MissedTicks::Delay => {
                self.next = now + self.period;
                0
            }
            MissedTicks::Skip => {
                let period = u64::try_from(self.period.as_nanos()).unwrap_or(u64::MAX);
                let skipped = now.as_nanos().saturating_sub(due.as_nanos()) / period;
                self.next = due + Duration::from_nanos(period.saturating_mul(skipped.saturating_add(1)));
                skipped
            }
        }
    }
}

/// The future of [`Ticker::tick`].
#[derive(Debug)]
pub struct Tick<'a> {
    ticker: &'a mut Ticker,
    sleep: Option<Sleep>,
    charge: Charge,
}

impl Future for Tick<'_> {
    type Output = IoResult<u64>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<IoResult<u64>> {
        let this = self.get_mut();
        if this.charge.is_due(cx) {
            return Poll::Pending;
        }
        if local::is_cancelled() {
            return Poll::Ready(Err(cancelled(OpKind::Timer)));
        }
        if this.sleep.is_none() {
            let now = now();
            if now >= this.ticker.next {
                return Poll::Ready(Ok(this.ticker.advance(now)));
            }
            this.sleep = Some(Sleep::new(this.ticker.next));
        }
        let Some(sleep) = &mut this.sleep else { return Poll::Pending };
        match Pin::new(sleep).poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) => {
                this.sleep = None;
                Poll::Ready(Ok(this.ticker.advance(now())))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        }
    }
}
