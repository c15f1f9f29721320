//! Time that passes when a test says so.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::scope::call::Call;
use crate::scope::capability::Clock;
use crate::scope::now::{is_cancelled, why};

/// A clock that stands still until it is advanced: the double of [`Clock`]. Clones are the same clock.
///
/// [`advance_and_settle`](crate::fiber::advance_and_settle) advances it as real time would pass, one sleeper after the
/// other, with everything else running meanwhile.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::capability::{Clock, TestClock};
///
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let clock = TestClock::new();
/// let sleeper = clock.clone();
/// let sleeping = wo::spawn(|| sleeper.sleep(Duration::from_secs(3600)));
/// wo::capability::settle()?;
/// assert_eq!((clock.sleepers(), clock.next_due()), (1, Some(Duration::from_secs(3600))));
/// clock.advance(Duration::from_secs(3600));
/// sleeping.join().expect("it does not panic")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct TestClock(Rc<State>);

#[derive(Default)]
struct State {
    now: Cell<Duration>,
    /// What day it was when it said zero; none for the beginning of 1970.
    calendar: Cell<Option<SystemTime>>,
    made: Cell<u64>,
    /// By deadline, then by age.
    sleepers: RefCell<BTreeMap<(Duration, u64), Waker>>,
}

impl TestClock {
    /// A clock that says zero.
    pub fn new() -> TestClock {
        TestClock::default()
    }

    /// Lets `span` pass, and wakes those whose time has come, the earliest deadline first, the longest asleep first.
    pub fn advance(&self, span: Duration) {
        self.advance_to(self.0.now.get().saturating_add(span));
    }

    /// Lets time pass until `at`; a point that has passed changes nothing.
    pub fn advance_to(&self, at: Duration) {
        self.0.now.set(self.0.now.get().max(at));
        loop {
            let mut sleepers = self.0.sleepers.borrow_mut();
            let Some(first) = sleepers.first_entry().filter(|first| first.key().0 <= at) else { return };
            let waker = first.remove();
            drop(sleepers);
            waker.wake();
        }
    }

    /// Lets time pass until the next sleeper's time comes, if that is no later than `until`, and wakes that one alone;
    /// whether there was one.
    pub(crate) fn wake_next(&self, until: Duration) -> bool {
        let mut sleepers = self.0.sleepers.borrow_mut();
        let Some(first) = sleepers.first_entry().filter(|first| first.key().0 <= until) else { return false };
        self.0.now.set(self.0.now.get().max(first.key().0));
        let waker = first.remove();
        drop(sleepers);
        waker.wake();
        true
    }

    /// Sets its wall clock, ahead or back, without any time passing: who sleeps sleeps on.
    ///
    /// # Panics
    ///
    /// When the system has no name for the day that it would have been at zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use wo::capability::{Clock, TestClock};
    ///
    /// let clock = TestClock::new();
    /// clock.advance(Duration::from_secs(5));
    /// clock.set_wall(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000));
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(clock.wall(), SystemTime::UNIX_EPOCH + Duration::from_secs(1_001));
    /// assert_eq!(clock.now(), Duration::from_secs(6));
    /// ```
    pub fn set_wall(&self, time: SystemTime) {
        self.0.calendar.set(Some(time - self.0.now.get()));
    }

    /// When the next sleeper's time comes; none when nobody sleeps.
    pub fn next_due(&self) -> Option<Duration> {
        self.0.sleepers.borrow().first_key_value().map(|((due, _), _)| *due)
    }

    /// How many sleep.
    pub fn sleepers(&self) -> usize {
        self.0.sleepers.borrow().len()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Duration {
        self.0.now.get()
    }

    fn wall(&self) -> SystemTime {
        self.0.calendar.get().unwrap_or(SystemTime::UNIX_EPOCH) + self.0.now.get()
    }

    fn sleep(&self, span: Duration) -> Call<impl Future<Output = IoResult<()>>> {
        let number = self.0.made.get();
        self.0.made.set(number + 1);
        let due = self.0.now.get().saturating_add(span);
        Call::new(Asleep { clock: self.clone(), key: (due, number), yielded: !span.is_zero() })
    }
}

/// One who sleeps; dropped, it leaves.
struct Asleep {
    clock: TestClock,
    key: (Duration, u64),
    yielded: bool,
}

impl Future for Asleep {
    type Output = IoResult<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<IoResult<()>> {
        let over = self.clock.now() >= self.key.0;
        if over && self.yielded {
            return Poll::Ready(Ok(()));
        }
        if is_cancelled() {
            let error = IoError::new(errno::ECANCELED, OpKind::Timer, Stage::Submit).with_context(why());
            return Poll::Ready(Err(error));
        }
        if over {
            // A sleep of no time gives up the turn.
            self.yielded = true;
            cx.waker().wake_by_ref();
        } else {
            self.clock.0.sleepers.borrow_mut().insert(self.key, cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        let sleeper = self.clock.0.sleepers.borrow_mut().remove(&self.key);
        drop(sleeper);
    }
}

impl fmt::Debug for TestClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestClock").field("now", &self.now()).field("sleepers", &self.sleepers()).finish()
    }
}
