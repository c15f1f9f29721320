//! The memory of an op in flight, as the simulated kernel reads and writes it.
//!
//! All use of an op's pointers is here. An [`Operand`] exists only from submission to the moment the op's result
//! stands: making one is the promise that the memory is the op's for that long, and everything else is plain code.

use std::ptr::NonNull;

use socket2::SockAddr;

use crate::error::OpKind;
use crate::plane::addr::SocketAddress;
use crate::plane::backend::operand::{FileStat, Listing, Path};
use crate::plane::op::{RawOp, RawSlice};

/// A submitted op, with the right to use what it points at.
#[derive(Debug)]
pub(super) struct Operand(RawOp);

// SAFETY: the memory belongs to the op's slot, which leaves it alone until the terminal completion was reaped. The
// world uses it under its lock only, so two threads never do at once.
unsafe impl Send for Operand {}

impl Operand {
    /// # Safety
    ///
    /// What `op` points at stays valid, and untouched by others, for as long as the operand exists.
    pub(super) unsafe fn new(op: RawOp) -> Operand {
        Operand(op)
    }

    /// The op, for its plain words.
    pub(super) fn op(&self) -> &RawOp {
        &self.0
    }

    /// The op's buffers, in order.
    fn slices(&self) -> Vec<RawSlice> {
        match self.0 {
            RawOp::Read { buf, .. }
            | RawOp::Write { buf, .. }
            | RawOp::WriteDurable { buf, .. }
            | RawOp::Recv { buf, .. }
            | RawOp::Send { buf, .. } => {
                vec![buf]
            }
            RawOp::ReadVectored { bufs, .. } | RawOp::WriteVectored { bufs, .. } => {
                // SAFETY: the list is the op's.
                unsafe { bufs.as_ref() }.slices().collect()
            }
            RawOp::RecvFrom { datagram, .. } | RawOp::SendTo { datagram, .. } => {
                // SAFETY: the datagram is the op's.
                let iovec = unsafe { datagram.as_ref() }.iovec;
                vec![RawSlice { ptr: iovec.iov_base.cast(), len: iovec.iov_len as u32, fixed: RawSlice::NOT_FIXED }]
            }
            _ => Vec::new(),
        }
    }

    /// The number of bytes of all its buffers together.
    pub(super) fn len(&self) -> usize {
        self.slices().iter().map(|slice| slice.len as usize).sum()
    }

    /// Writes `bytes` into the buffers, after their first `skip` bytes. What does not fit is left out.
    pub(super) fn scatter(&mut self, mut skip: usize, mut bytes: &[u8]) {
        for slice in self.slices() {
            let room = (slice.len as usize).saturating_sub(skip);
            let count = room.min(bytes.len());
            if count > 0 {
                // SAFETY: the buffer is the op's, `skip + count` is within its length, and `bytes` is the world's own
                // memory.
                unsafe { slice.ptr.add(skip).copy_from_nonoverlapping(bytes.as_ptr(), count) };
            }
            bytes = &bytes[count..];
            skip = skip.saturating_sub(slice.len as usize);
        }
    }

    /// Whether places and lengths of the buffers are multiples of this.
    pub(super) fn is_aligned(&self, bytes: usize) -> bool {
        self.slices()
            .iter()
            .all(|slice| slice.ptr.addr().is_multiple_of(bytes) && (slice.len as usize).is_multiple_of(bytes))
    }

    /// At most `limit` bytes of the buffers, after their first `skip` bytes.
    pub(super) fn gather(&self, mut skip: usize, limit: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(limit.min(self.len().saturating_sub(skip)));
        for slice in self.slices() {
            let count = (slice.len as usize).saturating_sub(skip).min(limit - bytes.len());
            if count > 0 {
                // SAFETY: the buffer is the op's, initialised since it is to be written from, and `skip + count` is
                // within its length.
                bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(slice.ptr.add(skip), count) });
            }
            skip = skip.saturating_sub(slice.len as usize);
        }
        bytes
    }

    /// The address to connect or send to; none when the op names none.
    pub(super) fn address(&self) -> Option<SocketAddress> {
        match self.0 {
            // SAFETY: the operand is the op's.
            RawOp::Connect { address, .. } => SocketAddress::from_kernel(unsafe { &address.as_ref().0 }),
            RawOp::SendTo { datagram, .. } => {
                // SAFETY: the operand is the op's.
                let address = unsafe { &datagram.as_ref().address };
                if address.len() == 0 { None } else { SocketAddress::from_kernel(address) }
            }
            _ => None,
        }
    }

    /// Notes who sent the datagram that was received, and whether its end was cut off.
    pub(super) fn received(&mut self, sender: Option<&SocketAddress>, truncated: bool) {
        let RawOp::RecvFrom { mut datagram, .. } = self.0 else { return };
        // SAFETY: the operand is the op's.
        let datagram = unsafe { datagram.as_mut() };
        let sender: Option<SockAddr> = sender.and_then(|sender| sender.to_kernel(OpKind::RecvFrom).ok());
        datagram.header.msg_namelen = sender.as_ref().map_or(0, SockAddr::len);
        if let Some(sender) = sender {
            datagram.address = sender;
        }
        datagram.header.msg_flags = if truncated { libc::MSG_TRUNC } else { 0 };
    }

    /// The path the op names; the first of two.
    pub(super) fn path(&self) -> &[u8] {
        match &self.0 {
            RawOp::Open { path, .. }
            | RawOp::StatPath { path, .. }
            | RawOp::Unlink { path, .. }
            | RawOp::Mkdir { path, .. }
            | RawOp::ReadDir { path, .. }
            | RawOp::Rename { from: path, .. } => bytes_of(path),
            _ => &[],
        }
    }

    /// The new path of a rename.
    pub(super) fn new_path(&self) -> &[u8] {
        match &self.0 {
            RawOp::Rename { to, .. } => bytes_of(to),
            _ => &[],
        }
    }

    /// Fills in what was asked of a file.
    pub(super) fn put_stat(&mut self, stat: libc::statx) {
        if let RawOp::StatFd { mut into, .. } | RawOp::StatPath { mut into, .. } = self.0 {
            let into: &mut FileStat = {
                // SAFETY: the operand is the op's.
                unsafe { into.as_mut() }
            };
            into.kernel = stat;
        }
    }

    /// Fills in a directory's entries.
    pub(super) fn put_listing(&mut self, listing: Listing) {
        if let RawOp::ReadDir { mut into, .. } = self.0 {
            // SAFETY: the operand is the op's.
            *unsafe { into.as_mut() } = listing;
        }
    }

    /// Takes a job's call out of its cell.
    pub(super) fn take_call(&mut self) -> Option<Box<dyn FnOnce() -> i32 + Send>> {
        match self.0 {
            // SAFETY: the cell is the op's.
            RawOp::Job { mut cell } => unsafe { cell.as_mut() }.take(),
            _ => None,
        }
    }
}

fn bytes_of(path: &NonNull<Path>) -> &[u8] {
    // SAFETY: the path is the op's, and the operand it was found in is borrowed for as long.
    unsafe { path.as_ref() }.0.to_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plane::backend::operand::IoVecs;

    fn slice(bytes: &mut [u8]) -> RawSlice {
        RawSlice { ptr: bytes.as_mut_ptr(), len: bytes.len() as u32, fixed: RawSlice::NOT_FIXED }
    }

    #[test]
    fn vectored_memory_is_one_run_of_bytes() {
        let (mut a, mut b, mut c) = ([1, 2, 3], [], [4, 5]);
        let mut vecs = IoVecs::new([slice(&mut a), slice(&mut b), slice(&mut c)]);
        let op = RawOp::ReadVectored { fd: 3, bufs: NonNull::from(&mut vecs), offset: 0 };
        // SAFETY: the buffers outlive the operand and are not used while it exists.
        let mut operand = unsafe { Operand::new(op) };
        assert_eq!(operand.len(), 5);
        assert_eq!(operand.gather(2, 2), [3, 4]);
        assert_eq!(operand.gather(4, 9), [5]);
        assert_eq!(operand.gather(9, 9), []);
        operand.scatter(1, &[7, 8, 9, 10, 11, 12]);
        assert_eq!((a, c), ([1, 7, 8], [9, 10]));
    }
}
