//! Connect a socket.
//!
//! The op holds a share of the descriptor, so a connect whose waiter has gone closes the socket with its last word,
//! whichever word that is: nothing is left connected that nobody holds.

use crate::error::{IoResult, OpKind};
use crate::plane::addr::SocketAddress;
use crate::plane::backend::operand::PeerAddress;
use crate::plane::fd::Fd;
use crate::plane::op::RawOp;
use crate::plane::ops::{Kernel, Op, operand};

/// Connects a stream socket to a listener, or fixes the peer of a datagram socket.
#[derive(Debug)]
pub struct Connect {
    fd: Fd,
    address: Box<PeerAddress>,
}

impl Connect {
    /// A connect of `fd` to `address`.
    ///
    /// # Errors
    ///
    /// An address that has no form in the kernel: a path too long for a Unix socket, or an unnamed one.
    pub fn new(fd: &Fd, address: &SocketAddress) -> IoResult<Connect> {
        Ok(Connect { fd: fd.clone(), address: Box::new(PeerAddress::new(address)?) })
    }
}

// SAFETY: the address lies in a box of the value's own and is not touched after `lower`.
unsafe impl Op for Connect {
    type Output = IoResult<()>;

    fn fd(&self) -> Option<&Fd> {
        Some(&self.fd)
    }

    fn lower(&mut self) -> RawOp {
        RawOp::Connect { fd: self.fd.raw(), address: operand(&mut self.address) }
    }

    #[inline]
    fn finish(self, res: i32, _kernel: &mut dyn Kernel) -> IoResult<()> {
        if res < 0 { Err(self.fd.refused(res, OpKind::Connect)) } else { Ok(()) }
    }
}
