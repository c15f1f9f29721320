//! Which thread this is, for a simulated world: its own, one that works for it, or a stranger's.
//!
//! Asked in a signal handler as well, so it is one look at a plain thread-local: no lock, nothing made.

use std::cell::Cell;

thread_local! {
    /// The thread this one works for, by its mark; 0 for itself.
    static SERVES: Cell<usize> = const { Cell::new(0) };
}

/// This thread's mark, or that of the thread it works for. No two threads have the same at one time.
pub(crate) fn mark() -> usize {
    SERVES.with(|serves| match serves.get() {
        0 => std::ptr::from_ref(serves) as usize,
        other => other,
    })
}

/// This thread works for the one with this mark, which waits for it.
pub(crate) fn serve(mark: usize) {
    SERVES.set(mark);
}

/// Whether this thread works for another, a simulated world's.
pub(crate) fn serves() -> bool {
    SERVES.get() != 0
}
