//! The ring itself: two queues shared with the kernel, and the one call that moves both.
//!
//! The halves of the `io-uring` crate's ring are kept for as long as the ring, because a registered descriptor lives
//! in the submitting half, and so that a push is a store and no more. Every entry of the kernel goes through
//! [`Ring::enter`], which is done only when the kernel has taken everything that was queued: a short answer is
//! followed up, and a full completion queue is emptied into the caller's hands before the next try.

use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::time::Duration;
use std::{fmt, io};

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{CompletionQueue, CompletionStatus, EnterFlags, IoUring, SubmissionQueue, Submitter, cqueue, squeue};

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::plane::backend::Full;
use crate::plane::backend::process::Home;
use crate::plane::op::RawSlice;

/// Tries without any progress before the kernel's "try again" is taken for an answer.
const FRUITLESS_MAX: u32 = 64;

/// The longest span given to the kernel, which adds it to the clock and must not run over. A wait may end early.
const SPAN_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A completion as the kernel posted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Posted {
    pub(super) word: u64,
    pub(super) res: i32,
    pub(super) more: bool,
}

/// How long an entry of the kernel may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Only as long as handing over takes.
    No,
    /// Until a completion.
    Forever,
    /// Until a completion, or for this long.
    For(Duration),
}

/// What to do after an entry of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// All was taken, and the wait is over.
    Done,
    /// Something is still queued: enter again.
    Again,
    /// The kernel is short of room: take completions out, then enter again.
    MakeRoom,
    /// It will not get better.
    Failed(i32),
}

impl Verdict {
    fn of(answer: io::Result<usize>, left: usize) -> Verdict {
        let errno = match answer {
            Ok(_) => 0,
            Err(error) => error.raw_os_error().unwrap_or(errno::EIO),
        };
        match errno {
            // The wait ran out or a signal ended it. Both can come before everything was taken.
            0 | libc::ETIME | errno::EINTR if left > 0 => Verdict::Again,
            0 | libc::ETIME | errno::EINTR => Verdict::Done,
            errno::EAGAIN | errno::EBUSY => Verdict::MakeRoom,
            errno => Verdict::Failed(errno),
        }
    }
}

/// A ring, owned by the thread that set it up.
pub(super) struct Ring {
    submitter: ManuallyDrop<Submitter<'static>>,
    submissions: ManuallyDrop<SubmissionQueue<'static>>,
    completions: ManuallyDrop<CompletionQueue<'static>>,
    status: CompletionStatus,
    /// What the halves borrow from; given back after them.
    whole: NonNull<IoUring>,
    home: Home,
    /// Completions are delivered only when an entry asks for them.
    deferred: bool,
    /// For waits: without it a loop that idles on armed polls counts as waiting for a disk.
    idle: EnterFlags,
    overflows: u64,
    /// The kernel's workers were given CPUs.
    placed_workers: bool,
}

impl Ring {
    /// Takes a ring over on the thread that set it up, and is the only one to use it from now on.
    pub(super) fn new(ring: IoUring) -> Ring {
        let deferred = ring.params().is_setup_single_issuer();
        let idle = if ring.params().is_feature_no_iowait() { EnterFlags::NO_IOWAIT } else { EnterFlags::empty() };
        let whole = NonNull::from(Box::leak(Box::new(ring)));
        // SAFETY: the box was just leaked and nothing else points at it. It stays where it is until `drop` takes it
        // back, after the halves that borrow from it, so no borrow outlives it.
        let (submitter, submissions, completions) = unsafe { &mut *whole.as_ptr() }.split();
        // SAFETY: the status lives beside the ring it looks at, and is not used after it.
        let status = unsafe { completions.status() };
        Ring {
            submitter: ManuallyDrop::new(submitter),
            submissions: ManuallyDrop::new(submissions),
            completions: ManuallyDrop::new(completions),
            status,
            whole,
            home: Home::here(),
            deferred,
            idle,
            overflows: 0,
            placed_workers: false,
        }
    }

    /// Registers the ring's own descriptor, so that entries need not look it up.
    pub(super) fn register_descriptor(&mut self) -> io::Result<()> {
        self.submitter.register_ring_fd()
    }

    /// Has the kernel run the workers of this thread's rings on these CPUs, the first [`libc::CPU_SETSIZE`] of them.
    /// They are the thread's, not the ring's, so they get their own back when the ring goes.
    pub(super) fn register_worker_cpus(&mut self, cpus: &[usize]) -> io::Result<()> {
        // SAFETY: a set of CPUs is bits; all zero is the empty one.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        for cpu in cpus.iter().filter(|cpu| **cpu < libc::CPU_SETSIZE as usize) {
            // SAFETY: the set has a bit of that number.
            unsafe { libc::CPU_SET(*cpu, &mut set) };
        }
        self.submitter.register_iowq_aff(&set)?;
        self.placed_workers = true;
        Ok(())
    }

    /// Makes a table of `places` registered buffers, all empty.
    pub(super) fn register_buffer_table(&self, places: u16) -> io::Result<()> {
        self.submitter.register_buffers_sparse(places.into())
    }

    /// Registers memory at a place of the table.
    ///
    /// # Safety
    ///
    /// The memory stays valid until the ring is dropped.
    pub(super) unsafe fn register_buffer(&self, place: u16, memory: RawSlice) -> io::Result<()> {
        let vec = libc::iovec { iov_base: memory.ptr.cast(), iov_len: memory.len as usize };
        // SAFETY: the caller vouches for the memory.
        unsafe { self.submitter.register_buffers_update(place.into(), &[vec], None) }
    }

    /// Queues an entry.
    ///
    /// # Safety
    ///
    /// What the entry points at stays valid until its last completion.
    #[inline(always)]
    pub(super) unsafe fn push(&mut self, entry: &squeue::Entry) -> Result<(), Full> {
        // SAFETY: the caller's promise is the queue's.
        unsafe { self.submissions.push(entry) }.map_err(|_| Full)
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.submissions.is_full()
    }

    /// Entries queued and not yet taken by the kernel. It takes them inside [`enter`](Ring::enter) only.
    pub(super) fn queued(&self) -> usize {
        self.submissions.len()
    }

    /// Room for this many more entries.
    pub(super) fn space(&self) -> usize {
        self.submissions.capacity() - self.submissions.len()
    }

    /// Whether completions are posted.
    #[inline]
    pub(super) fn has_posted(&self) -> bool {
        !self.status.is_empty()
    }

    /// The number of completions posted.
    pub(super) fn posted(&mut self) -> usize {
        self.completions.sync();
        self.completions.len()
    }

    /// Whether the kernel holds completions back until it is entered: their queue overflowed.
    #[inline]
    pub(super) fn is_overflowing(&self) -> bool {
        self.submissions.cq_overflow()
    }

    /// Whether the kernel has work to do for this ring, on this thread, before it can post more.
    #[inline]
    pub(super) fn has_task_work(&self) -> bool {
        self.submissions.taskrun()
    }

    /// How often the completion queue was found overflowing.
    pub(super) fn overflows(&self) -> u64 {
        self.overflows
    }

    /// Whether this process may touch the ring: one made by a fork must not.
    #[inline]
    pub(super) fn is_home(&self) -> bool {
        self.home.is_here()
    }

    /// Copies out what is posted and gives the places back.
    #[inline]
    pub(super) fn drain(&mut self, mut take: impl FnMut(Posted)) {
        self.completions.sync();
        for entry in &mut *self.completions {
            take(Posted { word: entry.user_data(), res: entry.result(), more: cqueue::more(entry.flags()) });
        }
        self.completions.sync();
    }

    /// Hands everything queued to the kernel, lets it post what it has, and waits. `take` gets completions only when
    /// the kernel needs their room.
    ///
    /// # Errors
    ///
    /// What the kernel answered that trying again did not mend; `kind` says what it was entered for.
    pub(super) fn enter(&mut self, wait: Wait, kind: OpKind, mut take: impl FnMut(Posted)) -> IoResult<()> {
        self.check_home(kind)?;
        let (mut wait, mut fruitless) = (wait, 0);
        loop {
            self.submissions.sync();
            let queued = self.submissions.len();
            let answer = self.enter_once(queued, wait);
            self.submissions.sync();
            let left = self.submissions.len();
            match Verdict::of(answer, left) {
                Verdict::Done => return Ok(()),
                Verdict::Again | Verdict::MakeRoom if left < queued => fruitless = 0,
                Verdict::Again => fruitless += 1,
                Verdict::MakeRoom => {
                    let mut taken = false;
                    self.drain(|posted| {
                        taken = true;
                        take(posted);
                    });
                    if taken {
                        // What the wait was for has come.
                        (wait, fruitless) = (Wait::No, 0);
                    } else {
                        fruitless += 1;
                    }
                    // Memory comes back when others run.
                    std::thread::yield_now();
                }
                Verdict::Failed(errno) => return Err(failed(errno, kind)),
            }
            if fruitless >= FRUITLESS_MAX {
                return Err(failed(errno::EAGAIN, kind));
            }
        }
    }

    /// Lets the kernel post what it holds back, without handing anything over.
    pub(super) fn collect(&mut self) -> IoResult<()> {
        self.check_home(OpKind::Wait)?;
        match Verdict::of(self.enter_once(0, Wait::No), 0) {
            Verdict::Failed(errno) => Err(failed(errno, OpKind::Wait)),
            // What it could not do now it will do at the next entry.
            Verdict::Done | Verdict::Again | Verdict::MakeRoom => Ok(()),
        }
    }

    fn enter_once(&mut self, queued: usize, wait: Wait) -> io::Result<usize> {
        let overflowing = self.is_overflowing();
        self.overflows += u64::from(overflowing);
        let mut flags = if wait == Wait::No { EnterFlags::empty() } else { self.idle };
        // Deferred work runs, and overflowed completions move, only in an entry that asks for completions.
        if wait != Wait::No || self.deferred || overflowing || self.has_task_work() {
            flags |= EnterFlags::GETEVENTS;
        }
        let (queued, least) = (queued as u32, u32::from(wait != Wait::No));
        match wait {
            // SAFETY: the numbers fit the flags; entries were pushed under `push`'s promise.
            Wait::No | Wait::Forever => unsafe {
                self.submitter.enter::<libc::sigset_t>(queued, least, flags.bits(), None)
            },
            Wait::For(span) => {
                let span = Timespec::from(span.min(SPAN_MAX));
                let args = SubmitArgs::new().timespec(&span);
                flags |= EnterFlags::EXT_ARG;
                // SAFETY: as above; the argument is of the type the flag announces, and lives during the call.
                unsafe { self.submitter.enter(queued, least, flags.bits(), Some(&args)) }
            }
        }
    }

    fn check_home(&self, kind: OpKind) -> IoResult<()> {
        if self.is_home() {
            return Ok(());
        }
        Err(IoError::new(errno::ENXIO, kind, Stage::Submit)
            .with_context("io_uring (the ring belongs to the process this one was forked from: make a new loop)"))
    }
}

/// The deadline of a wait as an entry of its own, for a kernel that takes none with the wait: it completes when
/// `span` is over, or else silently with the next completion. The kernel reads `span` when it takes the entry.
pub(super) fn deadline(span: &Timespec, word: u64) -> squeue::Entry {
    io_uring::opcode::Timeout::new(span).count(1).build().user_data(word).flags(squeue::Flags::SKIP_SUCCESS)
}

/// The span of such a deadline.
pub(super) fn span(wait: Duration) -> Timespec {
    Timespec::from(wait.min(SPAN_MAX))
}

fn failed(errno: i32, kind: OpKind) -> IoError {
    let reason = match errno {
        errno::EAGAIN => "io_uring (the kernel has no memory for more requests: have fewer in flight)",
        libc::EBADR => "io_uring (the kernel dropped a completion for want of memory: some op will never end)",
        libc::EPERM | errno::EACCES | errno::ENOSYS => {
            "io_uring (a seccomp filter may forbid io_uring_enter: allow it, or set WO_IO=auto)"
        }
        _ => "io_uring",
    };
    IoError::new(errno, kind, Stage::Submit).with_context(reason)
}

impl Drop for Ring {
    fn drop(&mut self) {
        // In a forked child the queues' memory is the parent's, and their drop would write to it. The registration
        // is the parent thread's as well.
        if self.is_home() {
            // The kernel keeps the ring alive for a registered descriptor until the thread ends. That none was
            // registered is no error here.
            let _ = self.submitter.unregister_ring_fd();
            if self.placed_workers {
                // Refused, the workers of the thread's next ring are where these were.
                let _ = self.submitter.unregister_iowq_aff();
            }
            // SAFETY: each is dropped once, here, and not used again.
            unsafe {
                ManuallyDrop::drop(&mut self.completions);
                ManuallyDrop::drop(&mut self.submissions);
            }
        }
        // SAFETY: the pointer came from a leaked box; the halves are not used again, the submitter's drop being
        // nothing but forgetting.
        drop(unsafe { Box::from_raw(self.whole.as_ptr()) });
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the halves hold shared borrows of the whole, and so does this.
        let whole = unsafe { self.whole.as_ref() };
        f.debug_struct("Ring")
            .field("descriptor", &whole.as_raw_fd())
            .field("queued", &self.queued())
            .field("submissions", &whole.params().sq_entries())
            .field("completions", &whole.params().cq_entries())
            .field("overflows", &self.overflows)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(errno: i32) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(errno))
    }

    #[test]
    fn a_short_answer_is_not_success() {
        assert_eq!(Verdict::of(Ok(3), 5), Verdict::Again);
        assert_eq!(Verdict::of(Ok(0), 1), Verdict::Again);
        assert_eq!(Verdict::of(Ok(8), 0), Verdict::Done);
    }

    #[test]
    fn ends_of_a_wait_are_no_errors() {
        for end in [libc::ETIME, errno::EINTR] {
            assert_eq!(Verdict::of(refused(end), 0), Verdict::Done);
            assert_eq!(Verdict::of(refused(end), 2), Verdict::Again);
        }
    }

    #[test]
    fn shortage_makes_room_and_the_rest_fails() {
        for shortage in [errno::EAGAIN, errno::EBUSY] {
            assert_eq!(Verdict::of(refused(shortage), 2), Verdict::MakeRoom);
            assert_eq!(Verdict::of(refused(shortage), 0), Verdict::MakeRoom);
        }
        for failure in [libc::EBADR, errno::EEXIST, errno::EBADF] {
            assert_eq!(Verdict::of(refused(failure), 2), Verdict::Failed(failure));
        }
    }

    #[test]
    fn a_submission_cut_short_goes_on() {
        // Without "submit all", the kernel stops at an entry it cannot even begin with, and says how far it came.
        let mut ring = Ring::new(IoUring::new(8).unwrap());
        let broken = io_uring::opcode::Fsync::new(io_uring::types::Fd(-1))
            .flags(io_uring::types::FsyncFlags::from_bits_retain(0x80))
            .build();
        let fine = io_uring::opcode::Nop::new().build();
        for (word, entry) in (0..).zip([broken.clone(), fine.clone(), broken, fine]) {
            // SAFETY: the entries point at nothing.
            unsafe { ring.push(&entry.user_data(word)) }.unwrap();
        }
        ring.enter(Wait::Forever, OpKind::Wait, |_| {}).unwrap();
        assert_eq!(ring.queued(), 0);
        let mut seen = Vec::new();
        ring.drain(|posted| seen.push((posted.word, posted.res)));
        assert_eq!(seen, [(0, -errno::EINVAL), (1, 0), (2, -errno::EINVAL), (3, 0)]);
    }

    #[test]
    fn overflow_is_counted_and_loses_nothing() {
        let ring = IoUring::builder().setup_cqsize(4).build(4).unwrap();
        let mut ring = Ring::new(ring);
        let mut seen = Vec::new();
        for word in 0..64 {
            let entry = io_uring::opcode::Nop::new().build().user_data(word);
            // SAFETY: the entry points at nothing.
            while unsafe { ring.push(&entry) }.is_err() {
                ring.enter(Wait::No, OpKind::Nop, |posted| seen.push(posted.word)).unwrap();
            }
        }
        ring.enter(Wait::No, OpKind::Nop, |posted| seen.push(posted.word)).unwrap();
        while ring.has_posted() || ring.is_overflowing() {
            ring.drain(|posted| seen.push(posted.word));
            ring.collect().unwrap();
        }
        assert!(ring.overflows() > 0);
        assert_eq!(seen, (0..64).collect::<Vec<_>>());
    }

    #[test]
    fn the_longest_span_is_a_wait() {
        let mut ring = Ring::new(IoUring::new(4).unwrap());
        // SAFETY: the entry points at nothing.
        unsafe { ring.push(&io_uring::opcode::Nop::new().build()) }.unwrap();
        ring.enter(Wait::For(Duration::MAX), OpKind::Wait, |_| {}).unwrap();
        assert!(ring.has_posted());
    }
}
