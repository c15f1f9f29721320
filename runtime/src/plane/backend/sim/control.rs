//! The fault controls: how a test makes the simulated kernel answer what it would not answer by itself.
//!
//! A rule waits for the next op of its kind and is used up by it. Completions can be held back at the moment they
//! would reach their loop, and let go one by one in any order, which is how every interleaving of a completion with
//! a cancel, a deadline or a drop is reached. None of this changes what else happens: an op answered by a rule has
//! no effect, a held completion's effect has happened.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, MutexGuard};

use crate::error::{IoError, IoResult, OpKind, Stage};
use crate::plane::backend::RawCompletion;
use crate::plane::backend::caps::OpSet;
use crate::plane::backend::sim::disk::Survival;
use crate::plane::backend::sim::events::{Posted, SyncFate};
use crate::plane::backend::sim::faults::DiskFaults;
use crate::plane::backend::sim::site::HostId;
use crate::plane::backend::sim::world::{LoopId, State, World};
use crate::plane::time::Instant;

/// What the next op of a kind meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// This answer, without effect.
    Answer(i32),
    /// At most this many bytes to move.
    Short(usize),
    /// How a sync ends.
    Sync(SyncFate),
}

/// What was ordered and not yet used.
#[derive(Debug, Default)]
pub(super) struct Controls {
    rules: VecDeque<(OpKind, Rule)>,
    holding: OpSet,
    held: Vec<Posted>,
}

impl Controls {
    /// Takes the rule for an op of this kind, the oldest first.
    pub(super) fn rule_for(&mut self, kind: OpKind) -> Option<Rule> {
        let place = self.rules.iter().position(|(of, _)| *of == kind)?;
        self.rules.remove(place).map(|(_, rule)| rule)
    }

    /// Whether an op of this kind has to be submitted to meet what was ordered for it.
    pub(super) fn concerns(&self, kind: OpKind) -> bool {
        self.holding.contains(kind) || self.rules.iter().any(|(of, _)| *of == kind)
    }

    /// Keeps a completion whose kind is held; gives back any other.
    pub(super) fn hold_back(&mut self, posted: Posted) -> Option<Posted> {
        if self.holding.contains(posted.kind) {
            self.held.push(posted);
            return None;
        }
        Some(posted)
    }

    /// Takes what is held for a loop that has ended.
    pub(super) fn recall(&mut self, home: LoopId) -> Vec<Posted> {
        let (theirs, others) = std::mem::take(&mut self.held).into_iter().partition(|posted| posted.to == home);
        self.held = others;
        theirs
    }

    pub(super) fn held(&self) -> usize {
        self.held.len()
    }
}

/// A completion that is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The kind of op it ends, or goes on.
    pub kind: OpKind,
    /// What its loop will see.
    pub completion: RawCompletion,
}

/// The fault controls of one loop's simulated world, from [`SimBackend::control`]. Cheap to clone, usable from any
/// thread; a program keeps its determinism when it is used at determined moments.
///
/// # Examples
///
/// ```
/// use wo::error::{OpKind, errno};
/// use wo::plane::Token;
/// use wo::plane::backend::sim::SimBackend;
/// use wo::plane::backend::{Backend, BackendConfig, RawCompletion};
/// use wo::plane::op::RawOp;
/// use wo::plane::token::Class;
///
/// let mut sim = SimBackend::open(&BackendConfig::default())?;
/// sim.control().fail_next(OpKind::Nop, errno::EIO);
/// let token = Token::new(Class::User, 0, 0);
/// // SAFETY: a nop points at nothing.
/// unsafe { sim.submit(token, RawOp::Nop) }.expect("the queue is empty");
/// sim.wait(None)?;
/// let mut completions = Vec::new();
/// sim.reap(&mut completions);
/// assert_eq!(completions, [RawCompletion { token, res: -errno::EIO, more: false }]);
/// # Ok::<(), wo::error::IoError>(())
/// ```
///
/// [`SimBackend::control`]: crate::plane::backend::sim::SimBackend::control
#[derive(Clone)]
pub struct SimControl {
    world: Arc<World>,
    host: HostId,
    home: LoopId,
}

impl SimControl {
    pub(super) fn new(world: Arc<World>, host: HostId, home: LoopId) -> SimControl {
        SimControl { world, host, home }
    }

    fn at_home(&self) -> MutexGuard<'_, State> {
        self.world.at(self.host)
    }

    /// The next op of `kind` to be submitted completes with `res`, and has no effect: nothing is read, written,
    /// opened or closed. Several rules for one kind are used one after another.
    pub fn answer_next(&self, kind: OpKind, res: i32) {
        self.at_home().here.controls.rules.push_back((kind, Rule::Answer(res)));
    }

    /// The next op of `kind` fails with `errno`, a positive number.
    pub fn fail_next(&self, kind: OpKind, errno: i32) {
        self.answer_next(kind, -errno);
    }

    /// The next op of `kind` moves at most `len` bytes: a short read or write.
    pub fn short_next(&self, kind: OpKind, len: usize) {
        self.at_home().here.controls.rules.push_back((kind, Rule::Short(len)));
    }

    /// Every multishot op that is armed now ends with `res` and no more to come: 0, or `-errno`. Answers how many.
    pub fn terminate_multishot(&self, res: i32) -> usize {
        self.at_home().terminate_multishot(res)
    }

    /// From now on no completion reaches its loop until it is released.
    pub fn hold_completions(&self) {
        self.at_home().here.controls.holding = OpSet::ALL;
    }

    /// The same for completions of one kind of op, besides kinds already held.
    pub fn hold_kind(&self, kind: OpKind) {
        let mut state = self.at_home();
        state.here.controls.holding = state.here.controls.holding.with(kind);
    }

    /// The completions held back, in the order they came.
    pub fn held(&self) -> Vec<Held> {
        let state = self.at_home();
        state
            .here
            .controls
            .held
            .iter()
            .map(|posted| Held { kind: posted.kind, completion: posted.completion })
            .collect()
    }

    /// Lets the `index`th of [`held`](SimControl::held) reach its loop now; none when there is no such.
    pub fn release_one(&self, index: usize) -> Option<Held> {
        let mut state = self.at_home();
        if index >= state.here.controls.held.len() {
            return None;
        }
        let posted = state.here.controls.held.remove(index);
        let held = Held { kind: posted.kind, completion: posted.completion };
        state.hand_over(posted);
        Some(held)
    }

    /// Holds nothing any more, and lets what was held reach its loop in the order it came.
    pub fn release_all(&self) {
        let mut state = self.at_home();
        state.here.controls.holding = OpSet::EMPTY;
        for posted in std::mem::take(&mut state.here.controls.held) {
            state.hand_over(posted);
        }
    }

    /// Puts a completion of the test's own before the loop: one of a token long gone, one nobody asked for.
    pub fn inject_completion(&self, completion: RawCompletion) {
        self.at_home().hand_over(Posted { to: self.home, completion, kind: OpKind::None });
    }

    /// Limits the number of open descriptors; those that are open stay open.
    pub fn limit_descriptors(&self, limit: usize) {
        self.at_home().limit_descriptors(limit);
    }

    /// The number of open descriptors.
    pub fn open_descriptors(&self) -> usize {
        self.at_home().open_descriptors()
    }

    /// Changes the size of the simulated disk; what is written stays, also when that is more.
    pub fn resize_disk(&self, bytes: u64) {
        self.at_home().here.fs.space.resize(bytes);
    }

    /// The next sync, or durable write, fails with `errno`, and the page cache drops what it covered: of that the disk
    /// holds what `survival` says, programs read what the disk holds, and the sync after this one has nothing to do
    /// and answers 0. The length of the file is kept, and is the next sync's to store.
    pub fn fail_sync(&self, errno: i32, survival: Survival) {
        self.at_home().here.controls.rules.push_back((OpKind::Sync, Rule::Sync(SyncFate::Fails(errno, survival))));
    }

    /// The next sync, or durable write, answers as if it had ended well, and what it covers is as unsynced as before.
    pub fn lie_about_sync(&self) {
        self.at_home().here.controls.rules.push_back((OpKind::Sync, Rule::Sync(SyncFate::Lies)));
    }

    /// From now on the disk fails by chance, as the seed draws.
    pub fn disk_faults(&self, faults: DiskFaults) {
        self.at_home().here.disk_faults = faults;
    }

    /// Turns one bit of a file over; see [`Disk::flip_bit`].
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// [`Disk::flip_bit`]: crate::plane::backend::sim::Disk::flip_bit
    pub fn flip_bit(&self, path: impl AsRef<Path>, bit: u64) -> IoResult<()> {
        let path = path.as_ref();
        let flipped = self.at_home().here.fs.flip_bit(path.as_os_str().as_bytes(), bit);
        flipped.map_err(|errno| not_there(errno, path))
    }

    /// Makes bytes of a file unreadable (`EIO`) until they are written anew.
    ///
    /// # Errors
    ///
    /// No such file.
    pub fn damage(&self, path: impl AsRef<Path>, bytes: Range<u64>) -> IoResult<()> {
        let path = path.as_ref();
        let damaged = self.at_home().here.fs.damage(path.as_os_str().as_bytes(), bytes);
        damaged.map_err(|errno| not_there(errno, path))
    }

    /// The world's clock.
    pub fn now(&self) -> Instant {
        self.at_home().time.now()
    }
}

fn not_there(errno: i32, path: &Path) -> IoError {
    IoError::new(errno, OpKind::Write, Stage::Completion)
        .with_context(format!("{} on a simulated disk", path.display()))
}

impl fmt::Debug for SimControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.at_home();
        f.debug_struct("SimControl")
            .field("now", &state.time.now())
            .field("held", &state.here.controls.held.len())
            .finish_non_exhaustive()
    }
}
