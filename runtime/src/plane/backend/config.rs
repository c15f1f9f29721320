//! How to set a backend up, and the shim that makes a kernel look poorer than it is.

use std::fmt;
use std::str::FromStr;

use crate::plane::backend::caps::{Feature, KernelVersion, Mode, ModePolicy, OpSet};
use crate::plane::backend::sim::SimHost;

/// Which backend to take.
/// # Examples
///
/// ```
/// use wo::Selection;
///
/// assert_eq!("epoll".parse(), Ok(Selection::Epoll));
/// let answer = wo::Builder::new().io(Selection::Sim).run(async || 6 * 7);
/// assert_eq!(answer.unwrap(), 42);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Selection {
    /// io_uring where the kernel gives it, else epoll, with the reason on record.
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// epoll.
    Epoll,
    /// The simulated kernel.
    Sim,
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Selection::Auto => "auto",
            Selection::Uring => "uring",
            Selection::Epoll => "epoll",
            Selection::Sim => "sim",
        })
    }
}

/// The word was none of `auto`, `uring`, `epoll` and `sim`.
/// # Examples
///
/// ```
/// use wo::Selection;
///
/// let error = "kqueue".parse::<Selection>().unwrap_err();
/// assert_eq!(error.to_string(), "expected auto, uring, epoll or sim");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownSelection;

impl fmt::Display for UnknownSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected auto, uring, epoll or sim")
    }
}

impl std::error::Error for UnknownSelection {}

impl FromStr for Selection {
    type Err = UnknownSelection;

    fn from_str(word: &str) -> Result<Selection, UnknownSelection> {
        match word {
            "auto" => Ok(Selection::Auto),
            "uring" => Ok(Selection::Uring),
            "epoll" => Ok(Selection::Epoll),
            "sim" => Ok(Selection::Sim),
            _ => Err(UnknownSelection),
        }
    }
}

/// How to set a backend up.
///
/// # Examples
///
/// ```
/// use wo::plane::backend::{BackendConfig, Mode, ModePolicy};
///
/// let config = BackendConfig { submission_entries: 64, mode: Mode::Cooperative, ..BackendConfig::default() };
/// assert_eq!(config.mode_policy, ModePolicy::BestAvailable);
/// ```
#[derive(Clone, Debug)]
pub struct BackendConfig {
    /// Entries of the submission queue; rounded up to a power of two. The ladder may halve it.
    pub submission_entries: u32,
    /// Entries of the completion queue; 0 lets the backend choose. Overflow loses nothing.
    pub completion_entries: u32,
    /// How many loops are set up beside each other with this configuration. Rings are memory that a user may lock
    /// only so much of (`ulimit -l`), so each starts no larger than its part of that. A program's builder puts the
    /// number of its shards here.
    pub loops: u32,
    /// How completions are delivered.
    pub mode: Mode,
    /// What to do when that is not to be had.
    pub mode_policy: ModePolicy,
    /// The seed of a simulated kernel, when it has a world of its own.
    pub seed: u64,
    /// The host that a simulated kernel runs; none makes one, alone in a world of its own.
    pub host: Option<SimHost>,
    /// A poorer kernel to pretend, for tests of degraded paths.
    pub shim: Shim,
}

impl Default for BackendConfig {
    fn default() -> BackendConfig {
        BackendConfig {
            submission_entries: 256,
            completion_entries: 0,
            loops: 1,
            mode: Mode::Exclusive,
            mode_policy: ModePolicy::BestAvailable,
            seed: 0,
            host: None,
            shim: Shim::default(),
        }
    }
}

/// Makes a kernel look poorer than it is, so that every degraded path runs in tests on any one kernel.
#[derive(Clone, Debug, Default)]
pub struct Shim {
    /// Op kinds the probe answers "no" for.
    pub hidden_ops: OpSet,
    /// Features that are taken for missing.
    pub hidden_features: Vec<Feature>,
    /// The release the kernel claims to be.
    pub kernel: Option<KernelVersion>,
    /// Every ring set-up fails with this `errno`.
    pub fail_setup: Option<i32>,
    /// This many ring set-ups fail with `ENOMEM` before one may succeed, which walks the ladder.
    pub fail_first_setups: u32,
    /// Registration of buffers fails with this `errno`.
    pub fail_registration: Option<i32>,
}

impl Shim {
    /// Whether `feature` is to be taken for missing.
    pub fn hides(&self, feature: Feature) -> bool {
        self.hidden_features.contains(&feature)
    }
}
