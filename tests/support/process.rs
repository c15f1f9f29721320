//! What the system says about a process: open descriptors, threads asleep, wake-ups, processor time.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::fs;
use std::time::Duration;

/// Descriptors this process has open.
pub fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("/proc/self/fd").count()
}

/// One thread of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its id.
    pub id: u32,
    /// Whether it waits in the kernel.
    pub asleep: bool,
    /// How often it has gone to sleep.
    pub sleeps: u64,
    /// How often it was interrupted while it ran.
    pub preemptions: u64,
}

/// The threads of a process, by id.
pub fn threads(process: u32) -> Vec<Thread> {
    let mut threads = Vec::new();
    for entry in fs::read_dir(format!("/proc/{process}/task")).expect("the process lives") {
        let path = entry.expect("the process lives").path();
        // A thread may end between the listing and the look.
        let Ok(status) = fs::read_to_string(path.join("status")) else { continue };
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.trim().to_owned()
        };
        let number = |name: &str| field(name).parse().unwrap_or_default();
        threads.push(Thread {
            id: path.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a thread's id"),
            asleep: field("State:").starts_with('S'),
            sleeps: number("voluntary_ctxt_switches:"),
            preemptions: number("nonvoluntary_ctxt_switches:"),
        });
    }
    threads.sort_by_key(|thread| thread.id);
    threads
}

/// Waits until a thread of this process sleeps in the kernel, and has gone to sleep more than `before` times.
pub fn until_asleep(thread: u32, before: u64) -> Thread {
    loop {
        let all = threads(std::process::id());
        let found = all.into_iter().find(|other| other.id == thread).expect("the thread lives");
        if found.asleep && found.sleeps > before {
            return found;
        }
        std::thread::yield_now();
    }
}

/// This thread's id.
pub fn this_thread() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    u32::try_from(unsafe { libc::gettid() }).expect("a thread's id is positive")
}

/// Processor time of this process so far.
pub fn processor_time() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Processor time of this thread so far. A thread that is always busy ages by it as by the clock on the wall, but for
/// what the system gives to others.
pub fn thread_time() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// How long this thread has been ready to run while the system ran others; zero where it does not say.
pub fn thread_queued() -> Duration {
    let stat = fs::read_to_string(format!("/proc/self/task/{}/schedstat", this_thread())).unwrap_or_default();
    Duration::from_nanos(stat.split_whitespace().nth(1).and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

fn clock(which: libc::clockid_t) -> Duration {
    // SAFETY: all zeros is a valid `timespec`, and the call writes to a live one.
    let spent = unsafe {
        let mut spent: libc::timespec = std::mem::zeroed();
        assert_eq!(libc::clock_gettime(which, &raw mut spent), 0);
        spent
    };
    Duration::new(spent.tv_sec.unsigned_abs(), u32::try_from(spent.tv_nsec).expect("below a second"))
}
