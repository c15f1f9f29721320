//! What a backend can do on this kernel: resolved once at set-up, immutable, visible to the user.

use std::fmt;

use crate::error::{IoError, OpKind};

/// Which kernel the loop runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BackendKind {
    /// io_uring.
    Uring,
    /// Readiness: epoll on Linux.
    Epoll,
    /// The simulated kernel.
    Sim,
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BackendKind::Uring => "uring",
            BackendKind::Epoll => "epoll",
            BackendKind::Sim => "sim",
        })
    }
}

/// A kernel's release, major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelVersion {
    /// The first number.
    pub major: u16,
    /// The second number.
    pub minor: u16,
}

impl KernelVersion {
    /// The oldest kernel the uring backend accepts.
    pub const URING_FLOOR: KernelVersion = KernelVersion { major: 6, minor: 1 };
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// How a ring delivers its completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// One submitting thread, completions only when the loop asks: SINGLE_ISSUER and DEFER_TASKRUN.
    Exclusive,
    /// Completions at any entry of the kernel: COOP_TASKRUN and TASKRUN_FLAG.
    Cooperative,
}

/// What to do when the asked [`Mode`] is not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ModePolicy {
    /// Fail at the probe stage.
    Exact,
    /// Take the next best, and record it.
    BestAvailable,
}

/// A feature beyond single ops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Feature {
    /// One accept that goes on accepting.
    MultishotAccept,
    /// One poll that goes on polling.
    MultishotPoll,
    /// One receive that goes on receiving.
    MultishotRecv,
    /// Buffers the kernel knows by index.
    RegisteredBuffers,
    /// Buffers the kernel chooses at completion.
    BufferRing,
    /// A deadline inside the wait call itself.
    WaitDeadline,
    /// Completions are never dropped when their queue overflows.
    NoDrop,
    /// A completion posted into another ring.
    MessageRing,
    /// One issuing thread, enforced by the kernel.
    SingleIssuer,
    /// Completions delivered only when asked for.
    DeferTaskrun,
    /// Sends without copying.
    SendZeroCopy,
    /// Setting a file's length in the ring.
    Truncate,
}

impl Feature {
    /// Every feature, in the order they are shown.
    pub const ALL: [Feature; 12] = [
        Feature::MultishotAccept,
        Feature::MultishotPoll,
        Feature::MultishotRecv,
        Feature::RegisteredBuffers,
        Feature::BufferRing,
        Feature::WaitDeadline,
        Feature::NoDrop,
        Feature::MessageRing,
        Feature::SingleIssuer,
        Feature::DeferTaskrun,
        Feature::SendZeroCopy,
        Feature::Truncate,
    ];

    const fn bit(self) -> u32 {
        1 << self as u8
    }
}

/// A set of op kinds.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct OpSet(u64);

impl OpSet {
    /// No kind.
    pub const EMPTY: OpSet = OpSet(0);
    /// Every kind.
    pub const ALL: OpSet = OpSet(u64::MAX);

    /// The set with `kind` in it.
    #[must_use]
    pub const fn with(self, kind: OpKind) -> OpSet {
        OpSet(self.0 | 1 << kind as u8)
    }

    /// The set without `other`'s kinds.
    #[must_use]
    pub const fn minus(self, other: OpSet) -> OpSet {
        OpSet(self.0 & !other.0)
    }

    /// Whether `kind` is in it.
    pub const fn contains(self, kind: OpKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }
}

impl fmt::Debug for OpSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpSet({:#x})", self.0)
    }
}

/// One step of the set-up ladder that was refused, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupStep {
    /// What was tried.
    pub tried: String,
    /// The kernel's answer.
    pub error: IoError,
}

/// What a backend has on this kernel. A path runs only when the code exists and this agrees.
/// # Examples
///
/// ```
/// use wo::plane::current::with_loop;
/// use wo::{BackendKind, OpKind};
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let caps = with_loop(OpKind::Nop, |event_loop| Ok(event_loop.caps().clone()))?;
///     assert_eq!(caps.mode.is_some(), caps.backend == BackendKind::Uring);
///     println!("{caps}");
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Caps {
    /// Which backend.
    pub backend: BackendKind,
    /// The kernel it runs on; the simulated one has version 0.0.
    pub kernel: KernelVersion,
    /// The mode a ring negotiated; none without a ring.
    pub mode: Option<Mode>,
    /// The op kinds that are native here; the others run on the worker pool.
    pub ops: OpSet,
    pub(crate) features: u32,
    /// The steps of the set-up ladder that were refused before one was accepted.
    pub steps: Vec<SetupStep>,
}

impl Caps {
    /// Capabilities with no ops and no features.
    pub(crate) fn new(backend: BackendKind, kernel: KernelVersion) -> Caps {
        Caps { backend, kernel, mode: None, ops: OpSet::EMPTY, features: 0, steps: Vec::new() }
    }

    /// Whether this kernel has `feature`.
    pub const fn has(&self, feature: Feature) -> bool {
        self.features & feature.bit() != 0
    }

    /// Whether this kernel does `kind` itself.
    pub const fn supports(&self, kind: OpKind) -> bool {
        self.ops.contains(kind)
    }

    pub(crate) fn set(&mut self, feature: Feature, present: bool) {
        if present {
            self.features |= feature.bit();
        } else {
            self.features &= !feature.bit();
        }
    }
}

/// `uring on Linux 6.18, exclusive, MultishotAccept, ...`
impl fmt::Display for Caps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.backend)?;
        if self.kernel.major > 0 {
            write!(f, " on Linux {}", self.kernel)?;
        }
        if let Some(mode) = self.mode {
            write!(f, ", {}", if mode == Mode::Exclusive { "exclusive" } else { "cooperative" })?;
        }
        for feature in Feature::ALL {
            if self.has(feature) {
                write!(f, ", {feature:?}")?;
            }
        }
        Ok(())
    }
}
