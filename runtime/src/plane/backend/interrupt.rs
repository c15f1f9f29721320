//! Brings a worker out of a system call that waits, such as the opening of a FIFO nobody else has open.
//!
//! The system has one way to do that: a signal whose handler returns. A handler that does nothing is put on a
//! real-time signal nobody uses, when a call is first to be brought out and not before. The signal may come a moment
//! before the call begins to wait, so a timer sends it again and again until the worker says that it is out. A
//! worker that meets it anywhere else makes its call again.

use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::time::Duration;

/// How often the signal is sent.
const EVERY: Duration = Duration::from_millis(1);

/// The signal set aside, if there is one: workers leave it open to delivery.
pub(super) fn signal() -> Option<libc::c_int> {
    static SIGNAL: OnceLock<Option<libc::c_int>> = OnceLock::new();
    *SIGNAL.get_or_init(|| {
        (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev().find(|signal| disposition(*signal) == Some(libc::SIG_DFL))
    })
}

fn disposition(signal: libc::c_int) -> Option<libc::sighandler_t> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: no new action is given, and the old one is written where there is room when the call answers 0.
    unsafe {
        (libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0).then(|| action.assume_init().sa_sigaction)
    }
}

extern "C" fn nothing(_: libc::c_int) {}

/// Puts the handler in place; false when somebody else's is there by now.
fn install(signal: libc::c_int) -> bool {
    let ours = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    match disposition(signal) {
        Some(there) if there == ours => true,
        Some(libc::SIG_DFL) => {
            // SAFETY: `sigaction` is plain words, valid when zero: no flags, so interrupted calls are not restarted,
            // and an empty mask. The handler touches nothing.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = ours;
                libc::sigaction(signal, &action, std::ptr::null_mut()) == 0
            }
        }
        _ => false,
    }
}

/// A thread's number in the system.
pub(super) type ThreadNumber = libc::pid_t;

/// The calling thread's number.
pub(super) fn this_thread() -> ThreadNumber {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

/// Interrupts one thread until dropped.
#[derive(Debug)]
pub(super) struct Interrupter(libc::timer_t);

// SAFETY: the system's number of a timer, good on every thread of the process.
unsafe impl Send for Interrupter {}

impl Interrupter {
    /// Starts to interrupt a thread, which must not end before; none when the system refuses.
    pub(super) fn start(thread: ThreadNumber) -> Option<Interrupter> {
        let signal = signal().filter(|signal| install(*signal))?;
        let every = libc::timespec { tv_sec: 0, tv_nsec: EVERY.subsec_nanos() as _ };
        let times = libc::itimerspec { it_interval: every, it_value: every };
        // SAFETY: `sigevent` is plain words, valid when zero; the timer's number is written before it is used, and
        // the handler is in place before the first signal.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal;
            event.sigev_notify_thread_id = thread;
            let mut timer = MaybeUninit::uninit();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, timer.as_mut_ptr()) != 0 {
                return None;
            }
            let interrupter = Interrupter(timer.assume_init());
            (libc::timer_settime(interrupter.0, 0, &times, std::ptr::null_mut()) == 0).then_some(interrupter)
        }
    }
}

impl Drop for Interrupter {
    fn drop(&mut self) {
        // SAFETY: the timer is this value's own, and deleted once.
        unsafe { libc::timer_delete(self.0) };
    }
}
