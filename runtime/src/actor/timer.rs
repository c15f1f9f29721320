//! Messages that come later, once or again and again.
//!
//! A fiber on the shard that asked sleeps and sends. The timer and its fiber share one word: whether it was taken back.
//! A periodic tick carries a mark that lives until the actor has done with it; while the mark of the last tick lives, a
//! tick that falls due is skipped. So a slow actor finds at most one tick waiting, and never a burst.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::actor::address::Addr;
use crate::actor::ask::Asked;
use crate::actor::counters;
use crate::actor::life;
use crate::actor::mailbox::{Envelope, Parcel};
use crate::fiber;
use crate::plane::time::Instant;

/// A message on its way through time. Dropping it takes back what has not come yet, ticks that wait in the mailbox
/// included.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// struct Log;
///
/// #[wo::actor]
/// impl Log {
///     fn receive(&mut self, line: &'static str) {
///         println!("{line}");
///     }
/// }
///
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// let log = wo::spawn(Log);
/// log.send_after(Duration::from_secs(60), "a minute has passed").detach();
/// log.send_after(Duration::from_secs(60), "never said").cancel();
/// wo::sleep(Duration::from_secs(61))?;
/// assert_eq!(wo::actor::counters().handled, 1);
/// # Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
#[must_use = "dropping a timer takes its messages back; `detach` lets it run"]
pub struct Timer {
    shared: Option<Arc<Shared>>,
}

#[derive(Default)]
struct Shared {
    taken_back: AtomicBool,
    fiber: Mutex<Option<Waker>>,
}

impl Timer {
    /// Takes back what has not come yet; the same as dropping it.
    pub fn cancel(self) {}

    /// Lets it run by itself. Once its actor has ended it sends nothing more, and ends when it would next have sent.
    pub fn detach(mut self) {
        self.shared = None;
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let Some(shared) = self.shared.take() else { return };
        shared.taken_back.store(true, Ordering::Release);
        let fiber = shared.fiber.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(fiber) = fiber {
            fiber.wake();
        }
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Timer")
    }
}

impl Shared {
    fn is_taken_back(&self) -> bool {
        self.taken_back.load(Ordering::Acquire)
    }

    /// What `future` answers; none, and it is dropped, when the timer is taken back before.
    async fn unless_taken_back<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        std::future::poll_fn(|cx: &mut Context<'_>| {
            {
                let mut fiber = self.fiber.lock().unwrap_or_else(PoisonError::into_inner);
                if !fiber.as_ref().is_some_and(|fiber| fiber.will_wake(cx.waker())) {
                    *fiber = Some(cx.waker().clone());
                }
            }
            if self.is_taken_back() {
                return Poll::Ready(None);
            }
            let polled: Pin<&mut F> = future.as_mut();
            polled.poll(cx).map(Some)
        })
        .await
    }

    /// Sleeps; false when there is nothing to do after that.
    async fn sleep_until(&self, deadline: Instant) -> bool {
        matches!(self.unless_taken_back(fiber::sleep_until(deadline)).await, Some(Ok(())))
    }
}

/// The mark of a tick.
struct Mark(Arc<Shared>);

impl Asked for Mark {
    fn is_void(&self) -> bool {
        self.0.is_taken_back()
    }
}

impl<M: Send + 'static> Addr<M> {
    /// Sends a message, `span` from now. It is sent as by [`send`](Addr::send): it waits for room in a full mailbox,
    /// and is dropped when the actor has ended. When the program stops before, it is not sent.
    ///
    /// It is sent by a fiber of this shard; on a thread that is none, nothing is sent.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wo::actor;
    ///
    /// struct Clock;
    /// #[wo::actor]
    /// impl Clock {
    ///     fn receive(&mut self, word: &'static str) {
    ///         println!("{word}");
    ///     }
    /// }
    ///
    /// # #[wo::fiber]
    /// # fn example() {
    /// let clock = wo::spawn(Clock);
    /// let timer = clock.send_after(Duration::from_secs(3600), "an hour has passed");
    /// let never = clock.send_after(Duration::from_secs(1800), "taken back");
    /// never.cancel();
    /// wo::sleep(Duration::from_secs(3601)).unwrap();
    /// assert_eq!(actor::counters().handled, 1);
    /// drop(timer);
    /// # }
    /// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap();
    /// ```
    pub fn send_after(self, span: Duration, message: M) -> Timer {
        let shared = Arc::new(Shared::default());
        let deadline = fiber::now() + span;
        let timer = Timer { shared: Some(Arc::clone(&shared)) };
        fiber::start_detached(async move {
            if shared.sleep_until(deadline).await {
                let _ = shared.unless_taken_back(self.send(message)).await;
            }
        });
        timer
    }

    /// Sends what `make` makes, at every `period` from now on, until the actor takes no more, the timer is taken back,
    /// or the program stops. The ticks keep to the beat: what happens in between does not add up to drift.
    ///
    /// A tick that falls due while the actor has not done with the one before, or has no room, is skipped.
    ///
    /// It is sent by a fiber of this shard; on a thread that is none, nothing is sent.
    ///
    /// # Panics
    ///
    /// When `period` is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wo::actor::{self, Timer};
    ///
    /// struct Heart {
    ///     beat: Option<Timer>,
    /// }
    /// #[wo::actor]
    /// impl Heart {
    ///     fn started(&mut self) {
    ///         let own = actor::this::<()>().unwrap();
    ///         self.beat = Some(own.send_every(Duration::from_secs(1), || ()));
    ///     }
    ///     fn receive(&mut self, _: ()) {}
    /// }
    ///
    /// # #[wo::fiber]
    /// # fn example() {
    /// let heart = wo::spawn(Heart { beat: None });
    /// wo::sleep(Duration::from_millis(60_500)).unwrap();
    /// assert_eq!(actor::counters().handled, 60);
    /// heart.kill();
    /// # }
    /// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap();
    /// ```
    pub fn send_every(self, period: Duration, make: impl FnMut() -> M + 'static) -> Timer {
        assert!(!period.is_zero(), "a timer's period is longer than zero");
        let shared = Arc::new(Shared::default());
        let start = fiber::now();
        let timer = Timer { shared: Some(Arc::clone(&shared)) };
        fiber::start_detached(tick(self, shared, start, period, make));
        timer
    }
}

/// Sends tick after tick.
async fn tick<M: Send + 'static>(
    addr: Addr<M>,
    shared: Arc<Shared>,
    start: Instant,
    period: Duration,
    mut make: impl FnMut() -> M,
) {
    let (mailbox, life) = addr.parts();
    let head = mailbox.head();
    let mark = Arc::new(Mark(Arc::clone(&shared)));
    let mut due = start + period;
    while shared.sleep_until(due).await && addr.is_open() {
        let is_done = Arc::strong_count(&mark) == 1;
        if is_done && head.has_room() {
            let mut message = Some(Parcel::new(make()));
            let asked = || Some(Arc::clone(&mark) as Arc<dyn Asked>);
            if mailbox.push(life, &mut message, asked).is_err()
                && let Some(message) = message
            {
                counters::count(head.home(), counters::SENT);
                life::dead_letter(head.home(), Envelope { message, asked: asked() });
            }
        }
        due = next_beat(due, period, fiber::now());
    }
}

/// The first beat after `now`.
fn next_beat(due: Instant, period: Duration, now: Instant) -> Instant {
    let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
    let missed = now.since(due).as_nanos() as u64 / period;
    due + Duration::from_nanos(period.saturating_mul(missed.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beat_is_kept_however_late_a_tick_is() {
        let beat = |due, now| {
            next_beat(Instant::from_nanos(due), Duration::from_nanos(100), Instant::from_nanos(now)).as_nanos()
        };
        assert_eq!(beat(100, 100), 200);
        assert_eq!(beat(100, 199), 200);
        assert_eq!(beat(100, 200), 300);
        assert_eq!(beat(100, 1050), 1100);
        assert_eq!(beat(100, 50), 200);
        assert_eq!(next_beat(Instant::ORIGIN, Duration::MAX, Instant::ORIGIN), Instant::NEVER);
    }
}
