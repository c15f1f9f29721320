//! The plane's own descriptor: what handles hold instead of `OwnedFd`.
//!
//! An [`Fd`] is shared between the handle and every op in flight on it, and the number is given back to the system
//! when the last of them lets go; so a number reused by the system never meets an old op, and a cancel is by token,
//! never by descriptor. Who closes it depends on the kernel it came from.
//!
//! The read side remembers what a cancelled read brought in after its reader had gone: those bytes belong to the
//! next read on this descriptor, those datagrams to the next receive. While such an orphaned read is still with the
//! kernel, the next reader waits for its last word, so that bytes and datagrams stay in order. What is kept is
//! bounded by the buffers of the reads that were in flight.

use std::collections::VecDeque;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use crate::error::{IoError, OpKind, Stage, errno};
use crate::plane::addr::SocketAddress;
use crate::plane::backend::os;

/// A descriptor's number in its kernel's table.
pub type RawDescriptor = i32;

/// A kernel of our own making that closes its descriptors itself.
pub trait DescriptorTable: Send + Sync {
    /// The last user of `raw` let go.
    fn close(&self, raw: RawDescriptor);

    /// A listening socket takes no more connections, and its address is free.
    fn stop_listening(&self, raw: RawDescriptor);

    /// Tells the kernels of this process apart, the operating system's being none of them.
    fn identity(&self) -> u64;

    /// What kernel it is, for the error of a handle that strays to another.
    fn describe(&self) -> String;
}

/// Hears of descriptors of the operating system that leave the plane's hands, on whatever thread that happens.
///
/// A backend that keeps books by number needs it: the number may name another file a moment later.
pub(crate) trait DescriptorWatch: Send + Sync {
    /// The last user of `raw` let go: it is closed right after this call.
    fn closing(&self, raw: RawDescriptor);

    /// `raw` was given out; it is open, and closed by others from now on.
    fn released(&self, raw: RawDescriptor);
}

/// A shared, counted descriptor. Cloning it shares it; the last clone to go closes it.
#[derive(Clone)]
pub struct Fd(Arc<Shared>);

struct Shared {
    raw: RawDescriptor,
    owner: Owner,
    /// Whether `kept` has anything to look at: the one load a read pays.
    kept_some: AtomicBool,
    kept: Mutex<Kept>,
}

enum Owner {
    /// The operating system's, closed with the last clone.
    System,
    /// The operating system's, closed with the last clone, after this was told.
    Watched(Arc<dyn DescriptorWatch>),
    /// Somebody else's: never closed here.
    Foreign,
    /// A simulated kernel's.
    Table(Arc<dyn DescriptorTable>),
}

#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    datagrams: VecDeque<KeptDatagram>,
    orphans: u32,
    waiters: Vec<Waker>,
}

/// What a reader finds before it asks the kernel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Leftover {
    /// Nothing: read from the kernel.
    Nothing,
    /// This many bytes were copied out.
    Bytes(usize),
    /// An orphaned read has not ended; the waker will be called when it has.
    Wait,
}

/// A datagram whose reader had gone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KeptDatagram {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) sender: SocketAddress,
    pub(crate) truncated: bool,
}

/// What a receiver of datagrams finds before it asks the kernel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LeftoverDatagram {
    /// Nothing: receive from the kernel.
    Nothing,
    /// The oldest one kept.
    Kept(KeptDatagram),
    /// An orphaned receive has not ended; the waker will be called when it has.
    Wait,
}

impl Fd {
    /// Takes ownership of a descriptor of the operating system.
    pub(crate) fn system(raw: RawDescriptor) -> Fd {
        Fd::with_owner(raw, Owner::System)
    }

    /// Takes ownership of a descriptor of the operating system, and tells `watch` when it goes.
    pub(crate) fn watched(raw: RawDescriptor, watch: Arc<dyn DescriptorWatch>) -> Fd {
        Fd::with_owner(raw, Owner::Watched(watch))
    }

    /// Uses somebody else's descriptor without ever closing it. The caller keeps it open while ops are in flight.
    pub(crate) fn foreign(raw: RawDescriptor) -> Fd {
        Fd::with_owner(raw, Owner::Foreign)
    }

    /// Takes ownership of a descriptor of a simulated kernel.
    pub(crate) fn of_table(raw: RawDescriptor, table: Arc<dyn DescriptorTable>) -> Fd {
        Fd::with_owner(raw, Owner::Table(table))
    }

    fn with_owner(raw: RawDescriptor, owner: Owner) -> Fd {
        Fd(Arc::new(Shared { raw, owner, kept_some: AtomicBool::new(false), kept: Mutex::default() }))
    }

    /// The number in the kernel's table, for messages and foreign calls.
    pub fn raw(&self) -> RawDescriptor {
        self.0.raw
    }

    /// Whether this is a number of the operating system, so that calls outside the plane may use it.
    pub fn is_system(&self) -> bool {
        !matches!(self.0.owner, Owner::Table(_))
    }

    /// Whether this is a number of the simulated kernel that has this identity.
    pub(crate) fn is_of(&self, identity: u64) -> bool {
        matches!(&self.0.owner, Owner::Table(table) if table.identity() == identity)
    }

    /// The error of an op on this descriptor, from a completion's negative result.
    pub(crate) fn refused(&self, res: i32, kind: OpKind) -> IoError {
        if res == -errno::EXDEV { self.strayed(kind) } else { IoError::from_result(res, kind) }
    }

    /// The error of a descriptor in the hands of a kernel that is not its own, where its number means another thing or
    /// none.
    #[cold]
    pub(crate) fn strayed(&self, kind: OpKind) -> IoError {
        let owner = match &self.0.owner {
            Owner::Table(table) => table.describe(),
            Owner::System | Owner::Watched(_) | Owner::Foreign => "the operating system".to_owned(),
        };
        IoError::new(errno::EXDEV, kind, Stage::Submit).with_context(format!(
            "descriptor {}: it is {owner}'s, and this fiber runs on another kernel; a handle stays on its host, so \
             send bytes there, or open another here",
            self.0.raw
        ))
    }

    /// Whether both are the same descriptor.
    pub fn same(&self, other: &Fd) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether it is somebody else's and never closed here.
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self.0.owner, Owner::Foreign)
    }

    /// Whether this is the only user, so that closing it closes it for good.
    pub(crate) fn is_unique(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Gives the number out without closing it, when nobody else uses it.
    pub(crate) fn into_raw(self) -> Result<RawDescriptor, Fd> {
        match Arc::try_unwrap(self.0) {
            Ok(mut shared) => {
                if let Owner::Watched(watch) = std::mem::replace(&mut shared.owner, Owner::Foreign) {
                    watch.released(shared.raw);
                }
                Ok(shared.raw)
            }
            Err(shared) => Err(Fd(shared)),
        }
    }

    /// The kernel has closed the number on request, and may have given it out again: it is neither closed nor told of
    /// here any more. False, and nothing was done, when others use it still.
    pub(crate) fn forget_closed(self) -> bool {
        match Arc::try_unwrap(self.0) {
            Ok(mut shared) => {
                shared.owner = Owner::Foreign;
                true
            }
            Err(_shared) => false,
        }
    }

    /// A listening socket takes no more connections, though ops that share it have not ended.
    pub(crate) fn stop_listening(&self) {
        match &self.0.owner {
            Owner::System | Owner::Watched(_) | Owner::Foreign => os::stop_listening(self.0.raw),
            Owner::Table(table) => table.stop_listening(self.0.raw),
        }
    }

    /// A read's reader has gone; the read is still with the kernel.
    pub(crate) fn orphan_read(&self) {
        self.kept().orphans += 1;
        self.0.kept_some.store(true, Ordering::Release);
    }

    /// An orphaned read ended and brought `bytes`, perhaps none.
    pub(crate) fn orphan_ended(&self, bytes: &[u8]) {
        let mut kept = self.kept();
        kept.orphans -= 1;
        kept.bytes.extend_from_slice(bytes);
        let waiters = std::mem::take(&mut kept.waiters);
        drop(kept);
        waiters.into_iter().for_each(Waker::wake);
    }

    /// An orphaned receive ended and brought a datagram, or none.
    pub(crate) fn orphan_datagram_ended(&self, datagram: Option<KeptDatagram>) {
        let mut kept = self.kept();
        kept.datagrams.extend(datagram);
        drop(kept);
        self.orphan_ended(&[]);
    }

    /// Puts bytes in front of whatever the kernel has: the next reads get them first. For a reader that took more off
    /// a stream than it could answer.
    pub fn keep(&self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut kept = self.kept();
        kept.bytes.splice(0..0, bytes.iter().copied());
        self.0.kept_some.store(true, Ordering::Release);
    }

    /// Whether there may be bytes of an earlier, orphaned read, or such a read: the next read is to ask for them before
    /// it waits for the kernel.
    pub fn has_leftover(&self) -> bool {
        self.0.kept_some.load(Ordering::Acquire)
    }

    /// Looks for bytes of an earlier, orphaned read; copies them into `into` where it is not empty.
    pub(crate) fn leftover(&self, into: &mut [MaybeUninit<u8>], waker: &Waker) -> Leftover {
        let mut kept = self.kept();
        if !kept.bytes.is_empty() && !into.is_empty() {
            let count = kept.bytes.len().min(into.len());
            for (slot, byte) in into.iter_mut().zip(kept.bytes.drain(..count)) {
                slot.write(byte);
            }
            if kept.bytes.is_empty() {
                kept.bytes = Vec::new();
            }
            return Leftover::Bytes(count);
        }
        if self.has_ended(&mut kept, waker) { Leftover::Nothing } else { Leftover::Wait }
    }

    /// Looks for a datagram of an earlier, orphaned receive.
    pub(crate) fn leftover_datagram(&self, waker: &Waker) -> LeftoverDatagram {
        let mut kept = self.kept();
        if let Some(datagram) = kept.datagrams.pop_front() {
            return LeftoverDatagram::Kept(datagram);
        }
        if self.has_ended(&mut kept, waker) { LeftoverDatagram::Nothing } else { LeftoverDatagram::Wait }
    }

    /// Whether no orphaned read is with the kernel any more; if one is, `waker` is called at its end.
    fn has_ended(&self, kept: &mut Kept, waker: &Waker) -> bool {
        if kept.orphans > 0 {
            kept.waiters.retain(|waiter| !waiter.will_wake(waker));
            kept.waiters.push(waker.clone());
            return false;
        }
        if kept.bytes.is_empty() && kept.datagrams.is_empty() {
            self.0.kept_some.store(false, Ordering::Release);
        }
        true
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        match &self.owner {
            Owner::System => os::close(self.raw),
            Owner::Watched(watch) => {
                watch.closing(self.raw);
                os::close(self.raw);
            }
            Owner::Foreign => {}
            Owner::Table(table) => table.close(self.raw),
        }
    }
}

impl fmt::Debug for Fd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = match self.0.owner {
            Owner::System | Owner::Watched(_) => "system",
            Owner::Foreign => "foreign",
            Owner::Table(_) => "simulated",
        };
        write!(f, "Fd({} {owner})", self.0.raw)
    }
}
