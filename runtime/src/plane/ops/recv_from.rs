//! Receive a datagram and its sender's address.
//!
//! A receive whose reader has gone may still bring a datagram. It is kept with the descriptor, whole and with its
//! sender, and the next receive gets it first; until the orphan's last word the next receive waits, so that datagrams
//! stay in the order in which they came.

use std::task::Waker;

use crate::error::OpKind;
use crate::plane::addr::SocketAddress;
use crate::plane::backend::operand::Datagram;
use crate::plane::buf::{BufResult, IoBufMut};
use crate::plane::fd::{Fd, KeptDatagram, LeftoverDatagram};
use crate::plane::op::RawOp;
use crate::plane::ops::{Before, Kernel, Op, operand, target};

/// What a received datagram was like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The bytes that were put into the buffer.
    pub bytes: usize,
    /// Who sent it; a Unix socket without a name is [`SocketAddress::Unnamed`].
    pub sender: SocketAddress,
    /// Whether it was longer than the buffer, and the rest is gone.
    pub truncated: bool,
}

/// Receives one datagram into `buf`, from its first byte up to its capacity; the part of a datagram that does not fit
/// is gone. Answers what came, and the buffer.
#[derive(Debug)]
pub struct RecvFrom<B> {
    fd: Fd,
    buf: B,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Undecided,
    Kernel(Box<Datagram>),
    Kept { sender: SocketAddress, truncated: bool },
}

impl<B: IoBufMut> RecvFrom<B> {
    /// A receive of one datagram on `fd`.
    pub fn new(fd: &Fd, buf: B) -> RecvFrom<B> {
        RecvFrom { fd: fd.clone(), buf, source: Source::Undecided }
    }
}

/// Who sent the datagram that a completion brought, and whether it was cut.
fn origin(datagram: &Datagram) -> (SocketAddress, bool) {
    (datagram.sender().unwrap_or(SocketAddress::Unnamed), datagram.is_truncated())
}

// SAFETY: the header lies in a box of the value's own, the buffer's bytes are owned and do not move with it, by
// `IoBufMut`'s promise, and neither is touched between `lower` and the terminal completion.
unsafe impl<B: IoBufMut> Op for RecvFrom<B> {
    type Output = BufResult<Received, B>;

    fn fd(&self) -> Option<&Fd> {
        Some(&self.fd)
    }

    fn lower(&mut self) -> RawOp {
        let mut datagram = Datagram::from_anyone(target(&mut self.buf));
        let raw = RawOp::RecvFrom { fd: self.fd.raw(), datagram: operand(&mut datagram) };
        self.source = Source::Kernel(datagram);
        raw
    }

    fn before(&mut self, waker: &Waker) -> Before {
        if !self.fd.has_leftover() {
            return Before::Submit;
        }
        let kept = match self.fd.leftover_datagram(waker) {
            LeftoverDatagram::Nothing => return Before::Submit,
            LeftoverDatagram::Wait => return Before::Wait,
            LeftoverDatagram::Kept(kept) => kept,
        };
        let room = target(&mut self.buf);
        let bytes = kept.bytes.len().min(room.len as usize);
        // SAFETY: the buffer vouches for this much writable memory, which cannot overlap what the descriptor kept.
        unsafe { std::ptr::copy_nonoverlapping(kept.bytes.as_ptr(), room.ptr, bytes) };
        self.source = Source::Kept { sender: kept.sender, truncated: kept.truncated || bytes < kept.bytes.len() };
        Before::Done(i32::try_from(bytes).unwrap_or(i32::MAX))
    }

    fn finish(mut self, res: i32, _kernel: &mut dyn Kernel) -> BufResult<Received, B> {
        let Ok(bytes) = usize::try_from(res) else {
            return (Err(self.fd.refused(res, OpKind::RecvFrom)), self.buf);
        };
        // SAFETY: the kernel, or `before`, wrote this many bytes from the buffer's first on, within its capacity.
        unsafe { self.buf.set_len(bytes) };
        let (sender, truncated) = match self.source {
            Source::Kernel(datagram) => origin(&datagram),
            Source::Kept { sender, truncated } => (sender, truncated),
            Source::Undecided => (SocketAddress::Unnamed, false),
        };
        (Ok(Received { bytes, sender, truncated }), self.buf)
    }

    fn abandoned(&mut self) {
        self.fd.orphan_read();
    }

    fn orphaned(mut self, res: i32, _kernel: &mut dyn Kernel) {
        let kept = match (usize::try_from(res), &self.source) {
            (Ok(bytes), Source::Kernel(datagram)) => {
                // SAFETY: as in `finish`.
                unsafe { self.buf.set_len(bytes) };
                let (sender, truncated) = origin(datagram);
                Some(KeptDatagram { bytes: self.buf.as_bytes()[..bytes].into(), sender, truncated })
            }
            _ => None,
        };
        self.fd.orphan_datagram_ended(kept);
    }
}
