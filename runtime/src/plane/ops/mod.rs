//! One file per op: its descriptor, its lowering, and what becomes of it when nobody waits any more.
//!
//! An op descriptor owns everything the kernel will touch: the buffer, the operands, a share of the descriptor. It
//! lives in the frame of the verb that waits, or in the op's slot: at tier A from the start, at tier B from the
//! moment the waiting future is dropped. It may be moved at any time, so what it points the kernel at lies on the
//! heap. [`Op::finish`] turns the kernel's result into the answer; [`Op::orphaned`] sees to it that a completion
//! without a reader loses nothing.

use std::ptr::NonNull;
use std::task::Waker;

use crate::error::{IoError, OpKind};
use crate::plane::backend::Backend;
use crate::plane::backend::operand::Path;
use crate::plane::fd::{Fd, RawDescriptor};
use crate::plane::op::{RawOp, RawSlice};

mod accept;
mod accept_many;
mod allocate;
mod close;
mod connect;
mod job;
mod mkdir;
mod nop;
mod open;
mod poll;
mod read;
mod read_dir;
mod recv;
mod recv_from;
mod recv_more;
mod rename;
mod send;
mod send_to;
mod shutdown;
mod stat;
mod sync;
mod truncate;
mod turn;
mod unlink;
mod vectored;
mod write;

pub use accept::Accept;
pub use accept_many::AcceptMany;
pub use allocate::Allocate;
pub use close::Close;
pub use connect::Connect;
pub use job::Job;
pub use mkdir::Mkdir;
pub use nop::Nop;
pub use open::Open;
pub use poll::Poll;
pub use read::Read;
pub use read_dir::ReadDir;
pub use recv::Recv;
pub use recv_from::{Received, RecvFrom};
pub use recv_more::RecvMore;
pub use rename::Rename;
pub use send::Send;
pub use send_to::SendTo;
pub use shutdown::Shutdown;
pub use stat::Stat;
pub use sync::Sync;
pub use truncate::Truncate;
pub use turn::InTurn;
pub use unlink::Unlink;
pub use vectored::{ReadVectored, WriteVectored};
pub use write::Write;

/// What a finishing op may ask of its kernel.
pub trait Kernel {
    /// Takes ownership of a descriptor that a completion brought.
    fn adopt(&mut self, raw: RawDescriptor) -> Fd;
}

impl<B: Backend> Kernel for B {
    fn adopt(&mut self, raw: RawDescriptor) -> Fd {
        Backend::adopt(self, raw)
    }
}

/// What an op knows before the kernel is asked.
#[derive(Debug, PartialEq, Eq)]
pub enum Before {
    /// Nothing: submit it.
    Submit,
    /// The result already.
    Done(i32),
    /// Something must end first; the waker will be called.
    Wait,
}

/// An op as it is handed to a loop.
///
/// # Safety
///
/// What [`lower`](Op::lower) points at is owned by the value, does not move when the value is moved, and is left
/// alone until [`finish`](Op::finish) or [`orphaned`](Op::orphaned).
pub unsafe trait Op: Sized + 'static {
    /// What the op answers.
    type Output;

    /// The descriptor it is on, which has to be one of the loop's own kernel.
    fn fd(&self) -> Option<&Fd> {
        None
    }

    /// The words for the backend. Called once, at submission.
    fn lower(&mut self) -> RawOp;

    /// Turns the terminal completion's result into the answer. `res` is a count, a descriptor, bits, 0, or `-errno`.
    fn finish(self, res: i32, kernel: &mut dyn Kernel) -> Self::Output;

    /// What can be answered without the kernel. Called before each submission, at tier B only.
    fn before(&mut self, _waker: &Waker) -> Before {
        Before::Submit
    }

    /// Tries the op at once, without waiting; none when it must be submitted. Called by a loop that has nothing
    /// else to do in this tick.
    fn attempt<B: Backend>(&mut self, _backend: &mut B) -> Option<i32> {
        None
    }

    /// The reader has gone while the op was in flight.
    fn abandoned(&mut self) {}

    /// The abandoned op's terminal completion arrived: whatever it brought must not be lost or leak.
    fn orphaned(self, res: i32, kernel: &mut dyn Kernel) {
        drop(self.finish(res, kernel));
    }
}

/// A buffer's memory for writing from, cut to what one op can carry.
pub(crate) fn source(buf: &impl crate::plane::buf::IoBuf) -> RawSlice {
    RawSlice {
        ptr: buf.as_ptr().cast_mut(),
        len: u32::try_from(buf.len()).unwrap_or(TRANSFER_BYTES_MAX).min(TRANSFER_BYTES_MAX),
        fixed: buf.registered().unwrap_or(RawSlice::NOT_FIXED),
    }
}

/// A buffer's memory for reading into, cut to what one op can carry.
pub(crate) fn target(buf: &mut impl crate::plane::buf::IoBufMut) -> RawSlice {
    RawSlice {
        ptr: buf.as_mut_ptr(),
        len: u32::try_from(buf.capacity()).unwrap_or(TRANSFER_BYTES_MAX).min(TRANSFER_BYTES_MAX),
        fixed: buf.registered().unwrap_or(RawSlice::NOT_FIXED),
    }
}

/// An operand's address. It stays where it is when the box is moved.
pub(crate) fn operand<T>(operand: &mut Box<T>) -> NonNull<T> {
    NonNull::from(&mut **operand)
}

/// The error of an op on a path, which names it.
pub(crate) fn refused(res: i32, kind: OpKind, path: &Path) -> IoError {
    let error = IoError::from_result(res, kind);
    let named = if error.context().is_empty() { path.to_string() } else { format!("{path}: {}", error.context()) };
    error.with_context(named)
}

/// The most bytes one transfer carries: Linux's own limit for a single read or write.
pub const TRANSFER_BYTES_MAX: u32 = 0x7fff_f000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_op_cannot_carry_is_left_for_the_next() {
        // Half a gibibyte more; zeros nobody touches take no memory.
        let mut huge = vec![0u8; 5 << 29];
        assert_eq!(source(&huge).len, TRANSFER_BYTES_MAX);
        assert_eq!(target(&mut huge).len, TRANSFER_BYTES_MAX);

        let begin = huge.as_ptr() as usize;
        let mut rest = Read::at(&Fd::foreign(-1), huge, 0).behind(1 << 29);
        let RawOp::Read { buf, .. } = rest.lower() else { panic!("a read is lowered to a read") };
        assert_eq!((buf.ptr as usize - begin, buf.len), (1 << 29, TRANSFER_BYTES_MAX));
    }
}
