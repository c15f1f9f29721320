//! The signals that stop a program.
//!
//! The first asks it to stop, the second ends its grace at once. Both are heard by the shards' loops; a shard that
//! never comes back to its loop, because a fiber holds its thread, would not hear them. So each also winds up a timer
//! of the kernel, past the grace and a while for the end: when it strikes the process is still there, and ends on the
//! spot.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use signal_hook_registry::SigId;

use crate::error::{IoError, IoResult, OpKind, Stage};
use crate::fiber::StopRequest;
use crate::plane::backend::Waker;

/// How long the end may take beside the graces of the fibers and of the ops they leave with the kernel.
const END: Duration = Duration::from_secs(2);

/// What is said then. A handler may only write what is ready.
const LAST_WORDS: &[u8] =
    b"wo: the program was asked to stop and has not come to its end past the grace: a fiber holds \
its shard's thread, or a destructor does not return; the process ends now. Calls that hold a thread belong into \
`wo::blocking`.\n";

/// SIGTERM and SIGINT ask the program to stop, for as long as this lives.
#[derive(Debug)]
pub(crate) struct StopSignals(Vec<SigId>);

impl StopSignals {
    pub(crate) fn heed(stop: &Arc<StopRequest>, wakers: &Arc<[Waker]>, grace: Duration) -> IoResult<StopSignals> {
        let mut heeded = StopSignals(Vec::new());
        let last_resort = Arc::new(LastResort::new(grace)?);
        for signal in [libc::SIGTERM, libc::SIGINT] {
            let (stop, wakers, last_resort) = (Arc::clone(stop), Arc::clone(wakers), Arc::clone(&last_resort));
            // SAFETY: the action stores to atomics, writes to an event descriptor, sets a timer or ends the process;
            // all of that is async-signal-safe, and it neither allocates nor locks.
            let registered = unsafe {
                signal_hook_registry::register_sigaction(signal, move |info| {
                    if info.si_code == libc::SI_TIMER {
                        LastResort::end(stop.signal().unwrap_or(signal));
                    }
                    stop.ask(signal);
                    wakers.iter().for_each(Waker::wake);
                    last_resort.wind_up();
                })
            };
            heeded.0.push(registered.map_err(|error| failed(&error, format!("a handler for signal {signal}")))?);
        }
        Ok(heeded)
    }
}

fn failed(error: &std::io::Error, what: String) -> IoError {
    IoError::new(error.raw_os_error().unwrap_or(0), OpKind::Setup, Stage::Setup).with_context(what)
}

impl Drop for StopSignals {
    fn drop(&mut self) {
        for id in self.0.drain(..) {
            signal_hook_registry::unregister(id);
        }
    }
}

/// The timer that strikes when a stopping program does not end: it sends SIGTERM, and tells that it is the timer.
struct LastResort {
    timer: libc::timer_t,
    grace: Duration,
    wound_up: AtomicU32,
}

// SAFETY: the timer is a number of the kernel, good in every thread; its calls are thread-safe.
unsafe impl Send for LastResort {}
// SAFETY: as above.
unsafe impl Sync for LastResort {}

impl LastResort {
    fn new(grace: Duration) -> IoResult<LastResort> {
        let mut timer = std::ptr::null_mut();
        // SAFETY: an event of all zeros is valid, and what matters of it is set; both places are live.
        let made = unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_SIGNAL;
            event.sigev_signo = libc::SIGTERM;
            libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer)
        };
        if made != 0 {
            return Err(failed(&std::io::Error::last_os_error(), "a timer for the end of a stop".to_owned()));
        }
        Ok(LastResort { timer, grace, wound_up: AtomicU32::new(0) })
    }

    /// After the first signal it strikes past the grace, after the second, which ends the grace, soon; later ones do
    /// not put it off. Async-signal-safe.
    fn wind_up(&self) {
        let graces = match self.wound_up.fetch_add(1, Ordering::Relaxed) {
            0 => 2,
            1 => 1,
            _ => return,
        };
        let span = self.grace.saturating_mul(graces).saturating_add(END);
        let at = libc::timespec {
            tv_sec: libc::time_t::try_from(span.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: span.subsec_nanos().into(),
        };
        let once = libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
        // SAFETY: the timer lives as long as this, and the structure is live. An error is a span beyond the kernel's
        // bounds: then nothing strikes.
        let _ = unsafe { libc::timer_settime(self.timer, 0, &raw const once, std::ptr::null_mut()) };
    }

    /// Async-signal-safe.
    fn end(signal: libc::c_int) -> ! {
        // SAFETY: the bytes are live; both calls may be made in a handler.
        unsafe {
            let _ = libc::write(libc::STDERR_FILENO, LAST_WORDS.as_ptr().cast(), LAST_WORDS.len());
            libc::_exit(128 + signal)
        }
    }
}

impl fmt::Debug for LastResort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LastResort").field("grace", &self.grace).finish_non_exhaustive()
    }
}

impl Drop for LastResort {
    fn drop(&mut self) {
        // SAFETY: the timer was made here and is deleted once; the handlers, which have a share of this, are gone.
        let _ = unsafe { libc::timer_delete(self.timer) };
    }
}
