//! What the benchmarks ask of the machine: where a thread runs, how much processor time was used, how much memory.
//!
//! Processor time is the kernel's own count of nanoseconds run, not a sample of ticks. A server's time is read from
//! outside, through the clock that Linux gives every process, so measuring costs the measured process nothing.

use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

use rustix::thread::CpuSet;
use rustix::time::{ClockId, Timespec};

use crate::failure::{Failure, Tried};

/// The processors this process may run on, in order.
pub fn cores() -> Result<Vec<usize>, Failure> {
    let set = rustix::thread::sched_getaffinity(None).tried("read the set of processors")?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}

/// Keeps the calling thread, and the threads it starts, on `core`.
pub fn pin(core: usize) -> Result<(), Failure> {
    let mut set = CpuSet::new();
    if core < CpuSet::MAX_CPU {
        set.set(core);
    }
    rustix::thread::sched_setaffinity(None, &set)
        .tried(format!("pin to processor {core}"))
        .map_err(|failure| failure.remedy("pick one of this machine's processors with --server-core and --load-core"))
}

/// Processor time the calling thread has used.
pub fn thread_cpu() -> Duration {
    duration(rustix::time::clock_gettime(ClockId::ThreadCPUTime))
}

/// Processor time all threads of this process have used, finished ones included.
pub fn process_cpu() -> Duration {
    duration(rustix::time::clock_gettime(ClockId::ProcessCPUTime))
}

/// The clock that counts the processor time of all threads of one process, finished ones included.
#[derive(Clone, Copy, Debug)]
pub struct ProcessCpu {
    clock: libc::clockid_t,
    process: u32,
}

impl ProcessCpu {
    /// The clock of `process`.
    pub fn of(process: u32) -> Result<Self, Failure> {
        let mut clock = 0;
        // SAFETY: the kernel writes one clock id to `clock`, which outlives the call.
        let error = unsafe { libc::clock_getcpuclockid(process.cast_signed(), &raw mut clock) };
        if error != 0 {
            return Err(std::io::Error::from_raw_os_error(error))
                .tried(format!("find the processor clock of process {process}"));
        }
        Ok(ProcessCpu { clock, process })
    }

    /// Processor time used so far.
    pub fn read(self) -> Result<Duration, Failure> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes one timespec to `time`, which outlives the call.
        let error = unsafe { libc::clock_gettime(self.clock, &raw mut time) };
        if error != 0 {
            return Err(std::io::Error::last_os_error())
                .tried(format!("read the processor clock of process {}", self.process));
        }
        Ok(duration(Timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_nsec }))
    }
}

/// Has whoever waits to read from `stream` woken only when so many bytes are there.
pub fn wake_reader_at(stream: &TcpStream, bytes: i32) -> Result<(), Failure> {
    // SAFETY: the kernel reads one number, which outlives the call, of the size it is told.
    let error = unsafe {
        let length = size_of::<i32>() as libc::socklen_t;
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, (&raw const bytes).cast(), length)
    };
    if error != 0 {
        return Err(std::io::Error::last_os_error()).tried("set SO_RCVLOWAT");
    }
    Ok(())
}

/// Bytes of this process that are in memory now.
pub fn resident_bytes() -> Result<u64, Failure> {
    const WHERE: &str = "/proc/self/statm";
    let text = std::fs::read_to_string(WHERE).tried(format!("read {WHERE}"))?;
    let pages: u64 = text
        .split_whitespace()
        .nth(1)
        .and_then(|field| field.parse().ok())
        .ok_or_else(|| Failure::new(format!("read {WHERE}"), format!("unexpected text {text:?}")))?;
    Ok(pages * rustix::param::page_size() as u64)
}

fn duration(time: Timespec) -> Duration {
    // Processor clocks start at zero and never run backwards, so both fields are positive.
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_clock_counts_what_a_thread_burns() {
        let clock = ProcessCpu::of(std::process::id()).unwrap();
        // The process first: what the thread burns between the two is then in both.
        let (process, thread) = (clock.read().unwrap(), thread_cpu());
        while thread_cpu() - thread < Duration::from_millis(20) {
            std::hint::black_box(0);
        }
        assert!(clock.read().unwrap() - process >= Duration::from_millis(20));
    }

    #[test]
    fn memory_that_is_written_to_becomes_resident() {
        let before = resident_bytes().unwrap();
        let block = std::hint::black_box(vec![1u8; 64 << 20]);
        let grown = resident_bytes().unwrap() - before;
        assert!(grown >= (48 << 20), "grew by {grown} bytes only");
        drop(block);
    }

    #[test]
    fn a_process_that_is_not_there_and_a_core_that_is_not_there_are_refused() {
        let text = pin(1_000_000).unwrap_err().to_string();
        assert!(text.contains("processor 1000000") && text.contains("--server-core"), "{text}");
        assert!(ProcessCpu::of(u32::MAX / 2 - 1).is_err());
    }
}
