//! Which process a kernel object was made in.
//!
//! A fork copies a backend's descriptors and, worse, shares a ring's queues: a child that touched them would submit
//! and reap in its parent's name. So whoever holds such things remembers its [`Home`], and asks before it uses them.
//! The mark is a page that the kernel wipes in every child, however the child was made; asking is one load.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The process in which it was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home {
    process: u32,
    mark: Option<&'static AtomicU32>,
}

impl Home {
    /// This process.
    pub(crate) fn here() -> Home {
        let (process, mark) = (std::process::id(), mark());
        if let Some(mark) = mark {
            mark.store(process, Ordering::Relaxed);
        }
        Home { process, mark }
    }

    /// Whether this is still the process it was made in. Without a mark, which the system may refuse, it answers
    /// yes.
    #[inline]
    pub(crate) fn is_here(self) -> bool {
        self.mark.is_none_or(|mark| mark.load(Ordering::Relaxed) == self.process)
    }
}

/// The wiped page's first word: the process's number, or 0 in a child that has made nothing yet.
fn mark() -> Option<&'static AtomicU32> {
    static MARK: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();
    *MARK.get_or_init(|| {
        // SAFETY: a fresh private page of our own: zeroed, aligned for every type, never unmapped, so a shared
        // reference to its first word stays valid for ever. Advising it touches nothing else.
        unsafe {
            let (bytes, protection) = (libc::sysconf(libc::_SC_PAGESIZE) as usize, libc::PROT_READ | libc::PROT_WRITE);
            let page =
                libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
            if page == libc::MAP_FAILED {
                return None;
            }
            if libc::madvise(page, bytes, libc::MADV_WIPEONFORK) != 0 {
                libc::munmap(page, bytes);
                return None;
            }
            Some(&*page.cast::<AtomicU32>())
        }
    })
}
