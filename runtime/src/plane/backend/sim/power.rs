//! A host's power: when it goes, and who looks at the disk before it changes.
//!
//! Steps are what a crash can fall between: every op that is issued, and every event of the world. With the power cut
//! at a step, that step does not happen, and none after it.

use std::fmt;

use crate::plane::backend::sim::disk::Disk;
use crate::plane::backend::sim::world::call_out;

/// What is called with the disk before each of its changes.
pub(super) type Watcher = Box<dyn FnMut(Disk) + Send>;

/// A host's power.
#[derive(Default)]
pub(super) struct Power {
    steps: u64,
    cut_at: Option<u64>,
    cut: bool,
    watcher: Option<Watcher>,
}

impl Power {
    /// Counts a step; true when it does not happen, because the power is gone.
    pub(super) fn counts_down(&mut self) -> bool {
        if !self.cut {
            self.steps += 1;
            self.cut = self.cut_at.is_some_and(|at| self.steps >= at);
        }
        self.cut
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    pub(super) fn cut(&mut self) {
        self.cut = true;
    }

    pub(super) fn cut_at(&mut self, step: u64) {
        self.cut_at = Some(step);
    }

    /// The power is back, and nothing more is planned for it.
    pub(super) fn restore(&mut self) {
        (self.cut, self.cut_at) = (false, None);
    }

    pub(super) fn watch(&mut self, watcher: Option<Watcher>) {
        self.watcher = watcher;
    }

    pub(super) fn is_watched(&self) -> bool {
        self.watcher.is_some()
    }

    pub(super) fn show(&mut self, disk: Disk) {
        // One that panics is not asked again.
        if let Some(mut watcher) = self.watcher.take() {
            call_out(|| watcher(disk));
            self.watcher = Some(watcher);
        }
    }
}

impl fmt::Debug for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Power")
            .field("steps", &self.steps)
            .field("cut_at", &self.cut_at)
            .field("cut", &self.cut)
            .finish_non_exhaustive()
    }
}
