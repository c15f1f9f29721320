//! Changes of directories that the disk may know, or not.
//!
//! Making, removing and renaming a name change the directories at once for everyone to see, and the disk when a
//! directory they changed is synced. In a power cut each of the changes that were not synced has reached the disk or
//! has not, whole, and independently of the others unless they are about the same name or the same file: a rename
//! loses no file, and gives none two names.

use crate::plane::backend::sim::fs::Inode;
use crate::plane::time::Instant;

/// A name in a directory, and what it stands for now; nothing when it was taken away.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) directory: Inode,
    pub(super) name: Vec<u8>,
    pub(super) inode: Option<Inode>,
}

#[derive(Clone, Debug)]
struct Change {
    /// When the op that made it completes.
    landed: Instant,
    entries: Vec<Entry>,
}

/// The changes that are not synced, in the order they were made.
#[derive(Clone, Debug, Default)]
pub(super) struct Journal {
    changes: Vec<Change>,
}

impl Journal {
    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }

    /// Notes a change that is whole or not at all.
    pub(super) fn note(&mut self, entries: Vec<Entry>) {
        self.changes.push(Change { landed: Instant::NEVER, entries });
    }

    /// The change made last completes at `at`.
    pub(super) fn stamp(&mut self, at: Instant) {
        for change in self.changes.iter_mut().rev().take_while(|change| change.landed == Instant::NEVER) {
            change.landed = at;
        }
    }

    /// Every op has completed.
    pub(super) fn rest(&mut self) {
        self.changes.iter_mut().for_each(|change| change.landed = Instant::ORIGIN);
    }

    /// Whether the disk may come to know this file by a change that is not synced.
    pub(super) fn names(&self, inode: Inode) -> bool {
        self.changes.iter().flat_map(|change| &change.entries).any(|entry| entry.inode == Some(inode))
    }

    /// Takes the changes of a directory that had completed at `until`, and those they stand on: the names to set, in
    /// order.
    pub(super) fn take(&mut self, directory: Inode, until: Instant) -> Vec<Entry> {
        let mut taken: Vec<Change> = Vec::new();
        let mut left = Vec::new();
        for change in self.changes.drain(..).rev() {
            let asked = change.landed <= until && change.entries.iter().any(|entry| entry.directory == directory);
            if asked || taken.iter().any(|later| later.stands_on(&change)) {
                taken.push(change);
            } else {
                left.push(change);
            }
        }
        self.changes.extend(left.into_iter().rev());
        taken.into_iter().rev().flat_map(|change| change.entries).collect()
    }

    /// The names to set, in order, when of each change `choose` has said whether it reached the disk. One that stands
    /// on a change that did not cannot have.
    pub(super) fn choose(&self, choose: &mut dyn FnMut(usize) -> usize) -> Vec<&Entry> {
        let (mut reached, mut lost): (Vec<&Change>, Vec<&Change>) = (Vec::new(), Vec::new());
        for change in &self.changes {
            let chosen = choose(2) > 0;
            if chosen && !lost.iter().any(|earlier| change.stands_on(earlier)) {
                reached.push(change);
            } else {
                lost.push(change);
            }
        }
        reached.into_iter().flat_map(|change| &change.entries).collect()
    }
}

impl Change {
    /// Whether this change, made later, needs the earlier one: it is about the same name, or the same file.
    fn stands_on(&self, earlier: &Change) -> bool {
        self.entries.iter().any(|mine| {
            earlier.entries.iter().any(|theirs| {
                (mine.directory == theirs.directory && mine.name == theirs.name)
                    || (mine.inode.is_some() && mine.inode == theirs.inode)
            })
        })
    }
}
