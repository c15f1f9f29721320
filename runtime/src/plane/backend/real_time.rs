//! Whether the thread of a simulated world has waited for something real, which has no place there: a sleep of the
//! system's, a socket of the system's, a lock that another thread holds.
//!
//! A turn is suspected when it took long, and looked into: the thread has waited if it gave its core away by itself and
//! was off it about as long. One that computes, or that others keep from its core, has not. Neither what is found nor
//! how long it took has any effect on the world.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Waits no longer than this are not looked for.
const LONG: Duration = Duration::from_millis(100);
/// So much of it has to be off the core.
const OFF: Duration = Duration::from_millis(80);
/// After so many turns the thread's account is read anew.
const TURNS: u32 = 64;

thread_local! {
    /// Waits of the runtime's own: for a job, which has a thread to itself.
    static EXCUSED: Cell<u64> = const { Cell::new(0) };
}

/// This thread has waited on behalf of the world.
pub(crate) fn excuse() {
    EXCUSED.set(EXCUSED.get() + 1);
}

/// What the system keeps account of for this thread.
#[derive(Clone, Copy, Default)]
struct Account {
    on_core: Duration,
    /// How often it gave its core away by itself.
    waits: i64,
}

impl Account {
    #[cfg(all(target_os = "linux", not(miri)))]
    fn read() -> Option<Account> {
        // SAFETY: a struct of integers, of which all zeros is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the struct is alive for the call, which writes no more than it.
        if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) } != 0 {
            return None;
        }
        let span = |time: libc::timeval| {
            Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
                + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
        };
        Some(Account { on_core: span(usage.ru_utime) + span(usage.ru_stime), waits: usage.ru_nvcsw })
    }

    // Miri keeps no account either.
    #[cfg(any(not(target_os = "linux"), miri))]
    fn read() -> Option<Account> {
        None
    }
}

/// Looks at the turns of a world on its thread.
pub(crate) struct RealTime {
    /// When the account was read, and what it said; none where there is none.
    read: Option<(Instant, Account)>,
    excused: u64,
    turns: u32,
    /// When the last turn ended.
    since: Instant,
}

impl RealTime {
    /// The first turn begins now.
    pub(crate) fn new() -> RealTime {
        let now = Instant::now();
        RealTime { read: Account::read().map(|account| (now, account)), excused: EXCUSED.get(), turns: 0, since: now }
    }

    /// What was until now was none of the world's.
    pub(crate) fn begin(&mut self) {
        *self = RealTime::new();
    }

    /// A turn has ended: how long it waited, if it did.
    pub(crate) fn turn_ended(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let took = now - std::mem::replace(&mut self.since, now);
        self.turns += 1;
        if took < LONG {
            if self.turns >= TURNS {
                self.begin();
            }
            return None;
        }
        let (before, excused) = (self.read, self.excused);
        self.begin();
        let ((then, before), (now, after)) = (before?, self.read?);
        let off = (now - then).saturating_sub(after.on_core.saturating_sub(before.on_core));
        (after.waits > before.waits && off >= OFF && self.excused == excused).then_some(took)
    }
}
