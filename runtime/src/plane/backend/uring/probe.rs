//! The three tiers of probing, resolved once: is there a ring, which opcodes has it, which features.
//!
//! The first tier is the ladder in [`setup`](super::setup). Here the kernel's release is held against the floor, the
//! opcodes are asked from the kernel, and what comes out is immutable. Ops a program cannot do without, those that
//! wait for a peer, are demanded: a kernel at the floor has them all, and no worker pool could stand in. File ops may
//! be missing one by one.

use std::ffi::CStr;
use std::sync::OnceLock;

use io_uring::{IoUring, Probe, opcode};

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::plane::backend::caps::{BackendKind, Caps, Feature, KernelVersion, OpSet};
use crate::plane::backend::config::Shim;
use crate::plane::backend::{calls, os};

/// The opcodes behind each kind that waits for a peer.
const DEMANDED: [(OpKind, &[u8]); 15] = [
    (OpKind::Nop, &[opcode::Nop::CODE]),
    (OpKind::Read, &[opcode::Read::CODE, opcode::ReadFixed::CODE]),
    (OpKind::Write, &[opcode::Write::CODE, opcode::WriteFixed::CODE]),
    (OpKind::ReadVectored, &[opcode::Readv::CODE]),
    (OpKind::WriteVectored, &[opcode::Writev::CODE]),
    (OpKind::Recv, &[opcode::Recv::CODE]),
    (OpKind::Send, &[opcode::Send::CODE]),
    (OpKind::RecvFrom, &[opcode::RecvMsg::CODE]),
    (OpKind::SendTo, &[opcode::SendMsg::CODE]),
    (OpKind::Accept, &[opcode::Accept::CODE]),
    (OpKind::Connect, &[opcode::Connect::CODE]),
    (OpKind::Shutdown, &[opcode::Shutdown::CODE]),
    (OpKind::Poll, &[opcode::PollAdd::CODE]),
    (OpKind::Close, &[opcode::Close::CODE]),
    (OpKind::Cancel, &[opcode::AsyncCancel::CODE, opcode::Timeout::CODE]),
];

/// The opcode behind each kind the worker pool can stand in for.
const OPTIONAL: [(OpKind, u8); 8] = [
    (OpKind::Open, opcode::OpenAt::CODE),
    (OpKind::Stat, opcode::Statx::CODE),
    (OpKind::Sync, opcode::Fsync::CODE),
    (OpKind::Allocate, opcode::Fallocate::CODE),
    (OpKind::Truncate, opcode::Ftruncate::CODE),
    (OpKind::Rename, opcode::RenameAt::CODE),
    (OpKind::Unlink, opcode::UnlinkAt::CODE),
    (OpKind::Mkdir, opcode::MkDirAt::CODE),
];

/// The kernel's release, or the one the shim claims; an error below the floor.
pub(super) fn kernel(shim: &Shim) -> IoResult<KernelVersion> {
    let version = shim.kernel.unwrap_or_else(running);
    if version < KernelVersion::URING_FLOOR {
        return Err(IoError::new(errno::ENOSYS, OpKind::Setup, Stage::Probe).with_context(format!(
            "io_uring (Linux {version} is older than {}, the oldest this works on: use a newer kernel, or set \
             WO_IO=auto)",
            KernelVersion::URING_FLOOR
        )));
    }
    Ok(version)
}

/// The release of the running kernel; 0.0 when it is not two numbers.
fn running() -> KernelVersion {
    // SAFETY: the structure is bytes, and `uname` writes strings into it that end in a zero byte within their arrays.
    let release = unsafe {
        let mut name: libc::utsname = std::mem::zeroed();
        if libc::uname(&raw mut name) != 0 {
            return parse("");
        }
        CStr::from_ptr(name.release.as_ptr()).to_string_lossy().into_owned()
    };
    parse(&release)
}

fn parse(release: &str) -> KernelVersion {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(|word| word.parse().unwrap_or(0));
    KernelVersion { major: numbers.next().unwrap_or(0), minor: numbers.next().unwrap_or(0) }
}

/// What the ring can do, seen through the shim.
pub(super) fn probe(ring: &IoUring, kernel: KernelVersion, shim: &Shim) -> IoResult<Caps> {
    let refused = |errno, context: String| IoError::new(errno, OpKind::Setup, Stage::Probe).with_context(context);
    let mut known = Probe::new();
    ring.submitter().register_probe(&mut known).map_err(|error| {
        let context = "io_uring (its opcodes cannot be asked; a seccomp filter may forbid io_uring_register: allow \
                       it, or set WO_IO=auto)";
        refused(error.raw_os_error().unwrap_or(errno::EIO), context.into())
    })?;
    let has = |codes: &[u8]| codes.iter().all(|code| known.is_supported(*code));

    let mut caps = Caps::new(BackendKind::Uring, kernel);
    for (kind, codes) in DEMANDED {
        if !has(codes) || shim.hidden_ops.contains(kind) {
            return Err(refused(
                errno::ENOSYS,
                format!("io_uring (this kernel's has no {kind}: use Linux 6.1 or newer, or set WO_IO=auto)"),
            ));
        }
        caps.ops = caps.ops.with(kind);
    }
    for (kind, code) in OPTIONAL {
        if has(&[code]) && !shim.hidden_ops.contains(kind) {
            caps.ops = caps.ops.with(kind);
        }
    }
    if shim.hides(Feature::Truncate) {
        caps.ops = caps.ops.minus(OpSet::EMPTY.with(OpKind::Truncate));
    }

    let params = ring.params();
    for (feature, present) in [
        // Flags of older opcodes, which no probe shows; the floor is past all of them.
        (Feature::MultishotAccept, true),
        (Feature::MultishotPoll, true),
        (Feature::MultishotRecv, true),
        (Feature::BufferRing, true),
        (Feature::RegisteredBuffers, params.is_feature_resource_tagging()),
        (Feature::WaitDeadline, params.is_feature_ext_arg()),
        (Feature::NoDrop, params.is_feature_nodrop()),
        (Feature::MessageRing, has(&[opcode::MsgRingData::CODE])),
        (Feature::SingleIssuer, params.is_setup_single_issuer()),
        // Set up together with the former, always.
        (Feature::DeferTaskrun, params.is_setup_single_issuer()),
        (Feature::SendZeroCopy, has(&[opcode::SendZc::CODE])),
        (Feature::Truncate, caps.supports(OpKind::Truncate)),
    ] {
        caps.set(feature, present && !shim.hides(feature));
    }
    if !caps.has(Feature::NoDrop) {
        return Err(refused(
            errno::ENOSYS,
            "io_uring (this kernel's drops completions when their queue is full: use Linux 6.1 or newer, or set \
             WO_IO=auto)"
                .into(),
        ));
    }
    Ok(caps)
}

/// `RWF_NOSIGNAL`, since Linux 6.18: a write into a broken pipe answers `EPIPE` and raises no signal.
const RWF_NOSIGNAL: i32 = 0x100;

/// The flags every write should carry on this kernel: no SIGPIPE where it can be told so. Elsewhere a write into a
/// broken pipe raises it, as plain writes do; Rust programs ignore it from the start.
pub(super) fn write_flags() -> i32 {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    // Without a descriptor to try it on the question stays open, for the next ring.
    let known = match KNOWN.get() {
        Some(known) => *known,
        None => takes_no_signal().is_some_and(|known| *KNOWN.get_or_init(|| known)),
    };
    if known { RWF_NOSIGNAL } else { 0 }
}

/// Writes a byte into a pipe of our own: a kernel that does not know the flag refuses it.
fn takes_no_signal() -> Option<bool> {
    let (_reading, writing) = os::pipe(true).ok()?;
    let mut byte = 0u8;
    let byte = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: one vector of one byte, which is only read; the descriptor is open.
    Some(calls::retrying(|| unsafe { libc::pwritev2(writing.raw(), &byte, 1, -1, RWF_NOSIGNAL) }) == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plane::backend::config::BackendConfig;
    use crate::plane::backend::uring::setup::set_up;

    fn probed(shim: Shim) -> IoResult<Caps> {
        let ring = set_up(&BackendConfig::default()).unwrap().ring;
        probe(&ring, kernel(&shim)?, &shim)
    }

    #[test]
    fn releases_are_read() {
        for (release, major, minor) in
            [("6.18.44-fc-v657", 6, 18), ("5.4.0-rc1", 5, 4), ("6.1", 6, 1), ("7", 7, 0), ("", 0, 0), ("odd", 0, 0)]
        {
            assert_eq!(parse(release), KernelVersion { major, minor }, "{release:?}");
        }
        assert!(running() >= KernelVersion::URING_FLOOR, "these tests need a kernel at the floor");
    }

    #[test]
    fn an_old_kernel_is_refused_at_the_probe_stage() {
        let claim = |major, minor| kernel(&Shim { kernel: Some(KernelVersion { major, minor }), ..Shim::default() });
        let error = claim(6, 0).unwrap_err();
        assert_eq!((error.errno(), error.stage()), (errno::ENOSYS, Stage::Probe));
        assert!(error.to_string().contains("Linux 6.0 is older than 6.1"), "{error}");
        assert!(claim(5, 19).is_err());
        assert!(claim(6, 1).is_ok());
        assert!(claim(7, 0).is_ok());
    }

    #[test]
    fn the_floor_is_all_there() {
        let caps = probed(Shim::default()).unwrap();
        for (kind, _) in DEMANDED {
            assert!(caps.supports(kind), "{kind}");
        }
        assert!(!caps.supports(OpKind::ReadDir) && !caps.supports(OpKind::Job));
        for feature in [Feature::NoDrop, Feature::WaitDeadline, Feature::MultishotAccept, Feature::DeferTaskrun] {
            assert!(caps.has(feature), "{feature:?}");
        }
    }

    #[test]
    fn hidden_file_ops_are_missing_and_hidden_peer_ops_are_fatal() {
        let hidden_ops = OpSet::EMPTY.with(OpKind::Stat).with(OpKind::Open);
        let caps = probed(Shim { hidden_ops, ..Shim::default() }).unwrap();
        assert!(!caps.supports(OpKind::Stat) && !caps.supports(OpKind::Open) && caps.supports(OpKind::Sync));

        for (kind, _) in DEMANDED {
            let error = probed(Shim { hidden_ops: OpSet::EMPTY.with(kind), ..Shim::default() }).unwrap_err();
            assert_eq!((error.errno(), error.stage()), (errno::ENOSYS, Stage::Probe));
            assert!(error.to_string().contains(&format!("no {kind}")), "{error}");
        }
    }

    #[test]
    fn hidden_features_are_missing() {
        for feature in Feature::ALL {
            match probed(Shim { hidden_features: vec![feature], ..Shim::default() }) {
                Ok(caps) => assert!(!caps.has(feature) && feature != Feature::NoDrop, "{feature:?}"),
                Err(error) => assert_eq!((feature, error.stage()), (Feature::NoDrop, Stage::Probe)),
            }
        }
        let truncate = Shim { hidden_features: vec![Feature::Truncate], ..Shim::default() };
        assert!(!probed(truncate).unwrap().supports(OpKind::Truncate));
        let truncate = Shim { hidden_ops: OpSet::EMPTY.with(OpKind::Truncate), ..Shim::default() };
        assert!(!probed(truncate).unwrap().has(Feature::Truncate));
    }
}
