//! The poller: which descriptors it watches, and the wait.
//!
//! A descriptor is registered once, for both directions, by edges; that costs a system call per connection instead of
//! one per wait. Registrations are `polling`'s. The wait is one `epoll_pwait2` on the poller's descriptor: the crate's
//! own takes five system calls, to be woken from elsewhere and to time out, and both are done here by other means.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use polling::{Event, PollMode, Poller};

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::plane::backend::poll::source::{self, Source};
use crate::plane::backend::{Waker, calls};
use crate::plane::fd::RawDescriptor;

/// The key of the waker's event; no descriptor has it.
const WAKE_KEY: usize = usize::MAX - 1;
/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;

/// Watches descriptors, and waits for their events.
pub(super) struct Watcher {
    poller: Poller,
    events: Vec<libc::epoll_event>,
    /// Registrations made so far, for keys that no older event can have.
    registrations: u32,
    /// The kernel has epoll_pwait2.
    precise: bool,
}

impl Watcher {
    /// A poller that watches the waker's event, which is kept open for as long.
    pub(super) fn new(waker: &Waker, precise: bool) -> IoResult<Watcher> {
        let refused = |error: io::Error| {
            IoError::new(error.raw_os_error().unwrap_or(0), OpKind::Setup, Stage::Setup)
                .with_context("epoll: the loop's poller needs three descriptors; raise `ulimit -n`")
        };
        let poller = Poller::new().map_err(refused)?;
        if let Some(event) = waker.event() {
            // SAFETY: epoll forgets a descriptor by itself when it is closed; its events resolve to nothing.
            unsafe { poller.add_with_mode(event, Event::readable(WAKE_KEY), PollMode::Edge) }.map_err(refused)?;
        }
        Ok(Watcher { poller, events: Vec::with_capacity(EVENTS_MAX), registrations: 0, precise })
    }

    /// Sees to it that a descriptor is watched; or the refusal's `errno`, EPERM for what cannot be.
    pub(super) fn watch(&mut self, fd: RawDescriptor, source: &mut Source) -> Result<(), i32> {
        if source.key.is_some() {
            return Ok(());
        }
        self.registrations = self.registrations.wrapping_add(1);
        let event = Event::all(source::key(self.registrations, fd));
        // SAFETY: epoll forgets a descriptor by itself when it is closed, and one that leaves open is unwatched; an
        // event of a registration that is gone resolves to nothing by its key.
        let mut added = unsafe { self.poller.add_with_mode(fd, event, PollMode::Edge) };
        if added.as_ref().is_err_and(|error| error.raw_os_error() == Some(errno::EEXIST)) {
            // A registration of an earlier life of this very open file; it is ours now.
            // SAFETY: the descriptor is open while ops wait on it.
            let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
            added = self.poller.modify_with_mode(borrowed, event, PollMode::Edge);
        }
        added.map_err(|error| error.raw_os_error().unwrap_or(errno::EIO))?;
        source.key = Some(event.key);
        Ok(())
    }

    /// Asks for a watched descriptor's end to be told apart, which `polling` has no word for.
    pub(super) fn tell_end(&self, fd: RawDescriptor, key: usize) -> bool {
        let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLPRI | libc::EPOLLRDHUP | libc::EPOLLET;
        let mut event = libc::epoll_event { events: events as u32, u64: key as u64 };
        // SAFETY: the event lives during the call.
        unsafe { libc::epoll_ctl(self.poller.as_raw_fd(), libc::EPOLL_CTL_MOD, fd, &mut event) == 0 }
    }

    /// Stops watching a number, whatever it names by now.
    pub(super) fn unwatch(&self, fd: RawDescriptor) {
        if fd >= 0 {
            // SAFETY: the call only looks the number up; one that is closed by now is refused, which is as good.
            let _ = self.poller.delete(unsafe { BorrowedFd::borrow_raw(fd) });
        }
    }

    /// Waits for events, at most so long; false when a signal interrupted.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> IoResult<bool> {
        let (epoll, buffer, room) = (self.poller.as_raw_fd(), self.events.as_mut_ptr(), EVENTS_MAX as libc::c_int);
        let mut count = -1;
        if self.precise {
            let spec = timeout.map(|span| libc::timespec {
                tv_sec: libc::time_t::try_from(span.as_secs()).unwrap_or(libc::time_t::MAX),
                tv_nsec: span.subsec_nanos() as _,
            });
            let spec = spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
            let no_mask = std::ptr::null::<libc::sigset_t>();
            // SAFETY: the buffer has room for this many events; the time lives during the call; no mask is given.
            count = unsafe { libc::syscall(libc::SYS_epoll_pwait2, epoll, buffer, room, spec, no_mask, 0usize) } as i32;
            // A filter that does not know the call.
            self.precise = count >= 0 || !matches!(calls::last_errno(), errno::ENOSYS | libc::EPERM);
        }
        if !self.precise {
            let millis =
                timeout.map_or(-1, |span| i32::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX));
            // SAFETY: the buffer has room for this many events.
            count = unsafe { libc::epoll_wait(epoll, buffer, room, millis) };
        }
        if count < 0 {
            return match calls::last_errno() {
                errno::EINTR => Ok(false),
                errno => Err(IoError::new(errno, OpKind::Wait, Stage::Completion).with_context("epoll")),
            };
        }
        // SAFETY: the kernel wrote this many events, and the capacity is at least that.
        unsafe { self.events.set_len(count as usize) };
        Ok(true)
    }

    /// The events of the last wait, to be given back.
    pub(super) fn take_events(&mut self) -> Vec<libc::epoll_event> {
        std::mem::take(&mut self.events)
    }

    /// Takes the room for events back, emptied.
    pub(super) fn give_back(&mut self, mut events: Vec<libc::epoll_event>) {
        events.clear();
        self.events = events;
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("precise", &self.precise).finish_non_exhaustive()
    }
}
