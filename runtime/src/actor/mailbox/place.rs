//! Where a mailbox lies: the word that an address holds.
//!
//! A pointer rather than a reference, because what it points at takes no part in how addresses compare and hash: a lint
//! that looks for keys which may change under a map follows references, and would blame every map keyed by addresses.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;

use crate::actor::mailbox::Mailbox;

/// A reference to a mailbox, as a plain word.
pub(crate) struct Place<M: 'static>(NonNull<Mailbox<M>>);

// SAFETY: it stands for a `&'static Mailbox<M>`, which is `Send` and `Sync` where the mailbox is `Sync`.
unsafe impl<M: 'static> Send for Place<M> where Mailbox<M>: Sync {}
// SAFETY: as above.
unsafe impl<M: 'static> Sync for Place<M> where Mailbox<M>: Sync {}

// No code of a program's runs while a mailbox is being changed, so no panic leaves one half changed.
impl<M: 'static> UnwindSafe for Place<M> {}
impl<M: 'static> RefUnwindSafe for Place<M> {}

impl<M> Place<M> {
    #[inline]
    pub(crate) fn of(mailbox: &'static Mailbox<M>) -> Place<M> {
        Place(NonNull::from(mailbox))
    }

    #[inline]
    pub(crate) fn get(self) -> &'static Mailbox<M> {
        // SAFETY: it was made of a reference for ever.
        unsafe { self.0.as_ref() }
    }
}

impl<M> Clone for Place<M> {
    fn clone(&self) -> Place<M> {
        *self
    }
}

impl<M> Copy for Place<M> {}

impl<M> PartialEq for Place<M> {
    fn eq(&self, other: &Place<M>) -> bool {
        self.0 == other.0
    }
}

impl<M> fmt::Debug for Place<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Place")
    }
}
