//! Lists of fibers, threaded through their cells.
//!
//! A list is a ring through its own head, so that entering and leaving ask no questions. A cell is in one list at
//! most; its links are null while it is in none.

use std::cell::Cell;
use std::ptr::{self, NonNull};

/// A place in a list, or its head.
pub(crate) struct Links {
    previous: Cell<*const Links>,
    next: Cell<*const Links>,
}

impl Links {
    pub(crate) const fn new() -> Links {
        Links { previous: Cell::new(ptr::null()), next: Cell::new(ptr::null()) }
    }

    pub(super) fn are_in_a_list(&self) -> bool {
        !self.next.get().is_null()
    }
}

/// Leaves the list.
///
/// # Safety
///
/// The links are in a list, on its thread.
pub(super) unsafe fn leave(links: NonNull<Links>) {
    // SAFETY: what is in a list does not move and is alive: it leaves before it is freed.
    unsafe {
        let links = links.as_ref();
        let (previous, next) = (links.previous.get(), links.next.replace(ptr::null()));
        (*previous).next.set(next);
        (*next).previous.set(previous);
    }
}

/// What is in a list.
enum Ends {
    NotOpen,
    None,
    Some { first: *const Links, last: *const Links },
}

/// A list, on one thread. It has to be opened before anything enters.
pub(crate) struct List {
    head: Links,
}

impl List {
    pub(crate) const fn new() -> List {
        List { head: Links::new() }
    }

    /// Makes it an empty list, where it is now; it must not move any more.
    pub(crate) fn open(&self) {
        self.head.previous.set(&self.head);
        self.head.next.set(&self.head);
    }

    /// Exchanges what is in both, which are on the same thread.
    pub(crate) fn swap(&self, other: &List) {
        let (own, theirs) = (self.ends(), other.ends());
        self.take_over(theirs);
        other.take_over(own);
    }

    fn ends(&self) -> Ends {
        let first = self.head.next.get();
        if first.is_null() {
            Ends::NotOpen
        } else if ptr::eq(first, &self.head) {
            Ends::None
        } else {
            Ends::Some { first, last: self.head.previous.get() }
        }
    }

    /// Has these in it, which were in another list.
    fn take_over(&self, ends: Ends) {
        match ends {
            Ends::NotOpen => {
                self.head.previous.set(ptr::null());
                self.head.next.set(ptr::null());
            }
            Ends::None => self.open(),
            Ends::Some { first, last } => {
                self.head.next.set(first);
                self.head.previous.set(last);
                // SAFETY: as in `leave`.
                unsafe {
                    (*first).previous.set(&self.head);
                    (*last).next.set(&self.head);
                }
            }
        }
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        ptr::eq(self.head.next.get(), &self.head) || self.head.next.get().is_null()
    }

    /// Puts `links` first.
    ///
    /// # Safety
    ///
    /// The list is open; the links are in none, and neither move nor are freed before they have left.
    pub(super) unsafe fn enter(&self, links: NonNull<Links>) {
        let first = self.head.next.replace(links.as_ptr());
        // SAFETY: as in `leave`.
        unsafe {
            links.as_ref().previous.set(&self.head);
            links.as_ref().next.set(first);
            (*first).previous.set(links.as_ptr());
        }
    }

    /// The first that is in it.
    pub(super) fn first(&self) -> Option<NonNull<Links>> {
        if self.is_empty() { None } else { NonNull::new(self.head.next.get().cast_mut()) }
    }

    /// The one behind `links`.
    ///
    /// # Safety
    ///
    /// The links are in this list.
    pub(super) unsafe fn after(&self, links: NonNull<Links>) -> Option<NonNull<Links>> {
        // SAFETY: as in `leave`.
        let next = unsafe { links.as_ref().next.get() };
        if ptr::eq(next, &self.head) { None } else { NonNull::new(next.cast_mut()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(list: &List, links: &[Links]) -> Vec<usize> {
        let mut found = Vec::new();
        let mut next = list.first();
        while let Some(at) = next {
            found.push(links.iter().position(|one| ptr::eq(one, at.as_ptr())).expect("it is one of these"));
            // SAFETY: it is in this list.
            next = unsafe { list.after(at) };
        }
        found
    }

    #[test]
    fn what_is_in_two_lists_is_exchanged() {
        let (one, two, closed) = (List::new(), List::new(), List::new());
        one.open();
        two.open();
        let links = [const { Links::new() }; 3];
        for one_of_them in &links {
            // SAFETY: the links stay where they are, and outlive the lists.
            unsafe { one.enter(NonNull::from(one_of_them)) };
        }
        one.swap(&two);
        assert_eq!((numbers(&one, &links), numbers(&two, &links)), (vec![], vec![2, 1, 0]));
        // SAFETY: it is in a list.
        unsafe { leave(NonNull::from(&links[1])) };
        two.swap(&closed);
        assert!(two.is_empty() && numbers(&closed, &links) == [2, 0]);
        closed.swap(&one);
        // SAFETY: it is in no list, and stays where it is.
        unsafe { one.enter(NonNull::from(&links[1])) };
        assert_eq!((numbers(&one, &links), numbers(&closed, &links)), (vec![1, 2, 0], vec![]));
    }
}
