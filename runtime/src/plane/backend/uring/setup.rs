//! The set-up ladder: how a ring comes to be, or why there is none.
//!
//! From the top: the wanted mode with the wanted size, or with the largest that leaves the loops beside it as much of
//! the memory that may be locked; on `ENOMEM` half the size, down to [`ENTRIES_MIN`]; on `EINVAL` the next mode, where
//! the policy allows it. Any other refusal would be the same on every rung and ends the climb.
//! Every refused rung is kept with its answer, and the last refusal names its likely cause and the remedy.

use io_uring::IoUring;

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::plane::backend::caps::{Feature, Mode, ModePolicy, SetupStep};
use crate::plane::backend::config::{BackendConfig, Shim};
use crate::plane::backend::os;

/// The smallest submission queue worth having.
const ENTRIES_MIN: u32 = 8;

/// The kernel's largest submission queue; it clamps what is beyond.
const ENTRIES_MAX: u32 = 32_768;

/// Completion entries for each submission entry, unless configured: completions come in bursts, and one that does
/// not fit costs the kernel an allocation.
const COMPLETIONS_PER_SUBMISSION: u32 = 4;

/// A ring and how it was had.
pub(super) struct SetUp {
    pub(super) ring: IoUring,
    pub(super) mode: Mode,
    pub(super) steps: Vec<SetupStep>,
}

/// One rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rung {
    mode: Mode,
    submissions: u32,
    completions: u32,
}

impl Rung {
    fn top(config: &BackendConfig) -> Rung {
        let submissions = config.submission_entries.clamp(1, ENTRIES_MAX);
        let completions = match config.completion_entries {
            0 => submissions * COMPLETIONS_PER_SUBMISSION,
            asked => asked.max(submissions),
        };
        let mut rung = Rung { mode: config.mode, submissions, completions };
        let share = os::lockable_bytes().map(|bytes| bytes / u64::from(config.loops.max(1)));
        while share.is_some_and(|share| rung.bytes() > share)
            && let Some(smaller) = rung.smaller()
        {
            rung = smaller;
        }
        rung
    }

    /// The memory the kernel locks for it: the submission entries, and the completion entries behind their header, in
    /// whole pages.
    fn bytes(self) -> u64 {
        const PAGE: u64 = 4096;
        const HEADER: u64 = 64 + 4 * 64;
        let entries = |count: u32| u64::from(count.next_power_of_two());
        let submissions = entries(self.submissions) * 64;
        let completions = HEADER + entries(self.completions) * 16 + entries(self.submissions) * 4;
        submissions.next_multiple_of(PAGE) + completions.next_multiple_of(PAGE)
    }

    /// The same with half the memory, unless that is too little to work with.
    fn smaller(self) -> Option<Rung> {
        let submissions = self.submissions / 2;
        let completions = (self.completions / 2).max(submissions);
        (submissions >= ENTRIES_MIN).then_some(Rung { submissions, completions, ..self })
    }

    /// The next best mode, with the wanted size.
    fn next_mode(self, config: &BackendConfig) -> Option<Rung> {
        match (self.mode, config.mode_policy) {
            (Mode::Exclusive, ModePolicy::BestAvailable) => Some(Rung { mode: Mode::Cooperative, ..Rung::top(config) }),
            _ => None,
        }
    }

    fn name(self) -> String {
        let mode = match self.mode {
            Mode::Exclusive => "exclusive",
            Mode::Cooperative => "cooperative",
        };
        format!("io_uring, {mode}, {} and {} entries", self.submissions, self.completions)
    }

    /// Asks the kernel, or the shim in its place.
    fn climb(self, shim: &Shim, tries: usize) -> std::io::Result<IoUring> {
        let refuse = |errno| Err(std::io::Error::from_raw_os_error(errno));
        if let Some(errno) = shim.fail_setup {
            return refuse(errno);
        }
        if tries < shim.fail_first_setups as usize {
            return refuse(errno::ENOMEM);
        }
        let mut builder = IoUring::builder();
        builder.setup_cqsize(self.completions).setup_clamp().setup_submit_all().setup_taskrun_flag();
        match self.mode {
            Mode::Exclusive => {
                // As a kernel without them would answer.
                if shim.hides(Feature::SingleIssuer) || shim.hides(Feature::DeferTaskrun) {
                    return refuse(errno::EINVAL);
                }
                builder.setup_single_issuer().setup_defer_taskrun();
            }
            Mode::Cooperative => {
                builder.setup_coop_taskrun();
            }
        }
        builder.build(self.submissions)
    }
}

/// Climbs down the ladder of `config` until the kernel gives a ring.
pub(super) fn set_up(config: &BackendConfig) -> IoResult<SetUp> {
    let mut rung = Rung::top(config);
    let mut steps: Vec<SetupStep> = Vec::new();
    loop {
        let error = match rung.climb(&config.shim, steps.len()) {
            Ok(ring) => return Ok(SetUp { ring, mode: rung.mode, steps }),
            Err(error) => error.raw_os_error().unwrap_or(errno::EIO),
        };
        let next = match error {
            errno::ENOMEM => rung.smaller(),
            errno::EINVAL => rung.next_mode(config),
            _ => None,
        };
        let exact = error == errno::EINVAL && config.mode_policy == ModePolicy::Exact;
        let stage = if exact { Stage::Probe } else { Stage::Setup };
        let error = IoError::new(error, OpKind::Setup, stage);
        match next {
            Some(next) => {
                steps.push(SetupStep { tried: rung.name(), error });
                rung = next;
            }
            None => {
                let remedy = remedy(error.errno());
                return Err(error.with_context(format!("{} ({remedy})", rung.name())));
            }
        }
    }
}

/// The likely cause of a refusal, and what to do about it.
fn remedy(error: i32) -> &'static str {
    match error {
        errno::ENOSYS => {
            "the kernel is too old for io_uring, was built without it, or a seccomp filter hides it: use Linux 6.1 or \
             newer, allow io_uring_setup in the filter, or set WO_IO=auto"
        }
        libc::EPERM | errno::EACCES => {
            "a seccomp filter, the container, or the sysctl kernel.io_uring_disabled forbids it: allow io_uring_setup, \
             io_uring_enter and io_uring_register in the filter, set kernel.io_uring_disabled=0, or set WO_IO=auto"
        }
        errno::ENOMEM => {
            "not even the smallest ring fits into the memory allowed: raise `ulimit -l` and the memory limit of the \
             container"
        }
        errno::EMFILE => "the process has too many open files: raise `ulimit -n`",
        errno::ENFILE => "the system has too many open files: raise `ulimit -n` and the sysctl fs.file-max",
        errno::EINVAL => {
            "the kernel does not know this mode, or a seccomp filter refuses it: use Linux 6.1 or newer, take the best \
             available mode instead of an exact one, or set WO_IO=auto"
        }
        _ => "an answer io_uring_setup does not give by itself, so a seccomp filter is likely: set WO_IO=auto",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(shim: Shim) -> BackendConfig {
        BackendConfig { submission_entries: 64, shim, ..BackendConfig::default() }
    }

    fn refused(config: &BackendConfig) -> IoError {
        match set_up(config) {
            Ok(_) => panic!("a ring was set up"),
            Err(error) => error,
        }
    }

    #[test]
    fn the_wanted_rung_comes_first() {
        let got = set_up(&config(Shim::default())).unwrap();
        assert_eq!((got.mode, got.steps.len()), (Mode::Exclusive, 0));
        assert_eq!((got.ring.params().sq_entries(), got.ring.params().cq_entries()), (64, 256));
        assert!(got.ring.params().is_setup_single_issuer() && got.ring.params().is_feature_nodrop());
    }

    #[test]
    fn memory_refused_halves_the_ring() {
        let got = set_up(&config(Shim { fail_first_setups: 3, ..Shim::default() })).unwrap();
        assert_eq!((got.ring.params().sq_entries(), got.ring.params().cq_entries()), (8, 32));
        let tried: Vec<_> = got.steps.iter().map(|step| (step.tried.as_str(), step.error.errno())).collect();
        assert_eq!(
            tried,
            [
                ("io_uring, exclusive, 64 and 256 entries", errno::ENOMEM),
                ("io_uring, exclusive, 32 and 128 entries", errno::ENOMEM),
                ("io_uring, exclusive, 16 and 64 entries", errno::ENOMEM),
            ]
        );
    }

    #[test]
    fn memory_refused_to_the_end_is_an_error_with_its_remedy() {
        let error = refused(&config(Shim { fail_first_setups: 4, ..Shim::default() }));
        assert_eq!((error.errno(), error.op(), error.stage()), (errno::ENOMEM, OpKind::Setup, Stage::Setup));
        assert!(error.context().starts_with("io_uring, exclusive, 8 and 32 entries"), "{error}");
        assert!(error.context().contains("ulimit -l"), "{error}");
    }

    #[test]
    fn a_missing_mode_degrades_or_fails_by_policy() {
        for hidden in [Feature::SingleIssuer, Feature::DeferTaskrun] {
            let mut config = config(Shim { hidden_features: vec![hidden], ..Shim::default() });
            let got = set_up(&config).unwrap();
            assert_eq!((got.mode, got.steps.len()), (Mode::Cooperative, 1));
            assert_eq!(got.steps[0].error.errno(), errno::EINVAL);
            assert!(!got.ring.params().is_setup_single_issuer());

            config.mode_policy = ModePolicy::Exact;
            let error = refused(&config);
            assert_eq!((error.errno(), error.stage()), (errno::EINVAL, Stage::Probe));
        }
    }

    #[test]
    fn every_refusal_names_its_remedy() {
        for (errno, words) in [
            (errno::ENOSYS, "Linux 6.1"),
            (libc::EPERM, "kernel.io_uring_disabled"),
            (errno::EACCES, "seccomp"),
            (errno::ENOMEM, "ulimit -l"),
            (errno::EMFILE, "ulimit -n"),
            (errno::ENFILE, "ulimit -n"),
            (errno::EINVAL, "Linux 6.1"),
            (libc::EXDEV, "WO_IO=auto"),
        ] {
            let error = refused(&config(Shim { fail_setup: Some(errno), ..Shim::default() }));
            assert_eq!(error.errno(), errno);
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn sizes_keep_to_what_the_kernel_takes() {
        let sized = |submission_entries, completion_entries| {
            let config = BackendConfig { submission_entries, completion_entries, ..BackendConfig::default() };
            let ring = set_up(&config).unwrap().ring;
            (ring.params().sq_entries(), ring.params().cq_entries())
        };
        assert_eq!(sized(0, 0), (1, 4));
        assert_eq!(sized(8, 1), (8, 8));
        assert_eq!(sized(8, 16), (8, 16));
        assert_eq!(sized(20, 0), (32, 128));
    }
}
