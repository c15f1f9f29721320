//! What a backend is asked to do: one lowered op, plain words and pointers.
//!
//! A [`RawOp`] is `Copy`: the slot that stands for it owns what its pointers point at, from submission to the
//! terminal completion, and that is the whole safety argument of this module. Backends may keep a copy for as
//! long as the token is in flight and not a moment longer. The typed descriptors users see are lowered to it.

use std::ptr::NonNull;

use crate::error::OpKind;
use crate::plane::backend::operand::{Datagram, FileStat, IoVecs, Listing, OpenHow, Path, PeerAddress};
use crate::plane::fd::RawDescriptor;
use crate::plane::job::JobCell;

/// Memory of one op: where it is, how long it is, and its place among the registered buffers.
#[derive(Clone, Copy, Debug)]
pub struct RawSlice {
    /// The first byte.
    pub ptr: *mut u8,
    /// The number of bytes.
    pub len: u32,
    /// The registered buffer it lies in, or [`RawSlice::NOT_FIXED`].
    pub fixed: u16,
}

impl RawSlice {
    /// The memory is in no registered buffer.
    pub const NOT_FIXED: u16 = u16::MAX;
}

/// Which half of a connection to close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// No more reading.
    Read,
    /// No more writing: the peer reads end of file.
    Write,
    /// Neither.
    Both,
}

impl From<std::net::Shutdown> for Half {
    fn from(how: std::net::Shutdown) -> Half {
        match how {
            std::net::Shutdown::Read => Half::Read,
            std::net::Shutdown::Write => Half::Write,
            std::net::Shutdown::Both => Half::Both,
        }
    }
}

/// What a foreign descriptor is ready for, or is waited to be ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Readiness {
    /// Reading will not wait.
    pub readable: bool,
    /// Writing will not wait.
    pub writable: bool,
    /// Something is wrong with the descriptor.
    pub error: bool,
    /// The other end has gone.
    pub hangup: bool,
}

impl Readiness {
    /// Ready for reading.
    pub const READABLE: Readiness = Readiness { readable: true, writable: false, error: false, hangup: false };
    /// Ready for writing.
    pub const WRITABLE: Readiness = Readiness { readable: false, writable: true, error: false, hangup: false };

    /// Packs the four flags into a completion's result.
    pub const fn to_bits(self) -> i32 {
        self.readable as i32 | (self.writable as i32) << 1 | (self.error as i32) << 2 | (self.hangup as i32) << 3
    }

    /// The flags of a completion's result.
    pub const fn from_bits(bits: i32) -> Readiness {
        Readiness { readable: bits & 1 != 0, writable: bits & 2 != 0, error: bits & 4 != 0, hangup: bits & 8 != 0 }
    }
}

/// Offset that means "at the descriptor's own position": for pipes, terminals and other streams.
pub const NO_OFFSET: u64 = u64::MAX;

/// One op, lowered. A completion's result is a count, a descriptor, readiness bits or 0, or `-errno`.
///
/// Pointers stay valid until the terminal completion of the token it was submitted with; see the module's text.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "each variant's text names its fields")]
pub enum RawOp {
    /// Completes with 0.
    Nop,
    /// Reads at `offset`, or at the descriptor's position with [`NO_OFFSET`].
    Read { fd: RawDescriptor, buf: RawSlice, offset: u64 },
    /// Writes at `offset`, or at the descriptor's position with [`NO_OFFSET`].
    Write { fd: RawDescriptor, buf: RawSlice, offset: u64 },
    /// Writes at `offset`, and completes only once what was written, and the metadata to read it back, is on the disk.
    /// A count that is short covers that much; an error may be the write's or the sync's.
    WriteDurable { fd: RawDescriptor, buf: RawSlice, offset: u64 },
    /// Reads into several buffers.
    ReadVectored { fd: RawDescriptor, bufs: NonNull<IoVecs>, offset: u64 },
    /// Writes from several buffers.
    WriteVectored { fd: RawDescriptor, bufs: NonNull<IoVecs>, offset: u64 },
    /// Receives from a connected socket.
    Recv { fd: RawDescriptor, buf: RawSlice },
    /// Sends on a connected stream; `all` asks for the whole, which a backend may still answer short. Datagrams go by
    /// [`SendTo`](RawOp::SendTo), connected or not.
    Send { fd: RawDescriptor, buf: RawSlice, all: bool },
    /// Receives a datagram; the sender's address is left in the operand.
    RecvFrom { fd: RawDescriptor, datagram: NonNull<Datagram> },
    /// Sends a datagram to the operand's address.
    SendTo { fd: RawDescriptor, datagram: NonNull<Datagram> },
    /// Accepts a connection, close-on-exec; `multishot` goes on accepting, with `more` on every completion but the
    /// last.
    Accept { fd: RawDescriptor, multishot: bool },
    /// Connects.
    Connect { fd: RawDescriptor, address: NonNull<PeerAddress> },
    /// Closes one half of a connection, or both.
    Shutdown { fd: RawDescriptor, half: Half },
    /// Completes with readiness bits once the descriptor is ready for any of `wanted`, or is broken.
    Poll { fd: RawDescriptor, wanted: Readiness },
    /// Opens a file, close-on-exec.
    Open { path: NonNull<Path>, how: OpenHow },
    /// Closes a descriptor nobody else uses.
    Close { fd: RawDescriptor },
    /// Asks an open descriptor's metadata.
    StatFd { fd: RawDescriptor, into: NonNull<FileStat> },
    /// Asks a path's metadata; `follow` sees through a symbolic link.
    StatPath { path: NonNull<Path>, follow: bool, into: NonNull<FileStat> },
    /// Waits until data, and metadata unless `data_only`, are on the disk.
    Sync { fd: RawDescriptor, data_only: bool },
    /// Reserves space; `keep_size` leaves the length alone.
    Allocate { fd: RawDescriptor, offset: u64, len: u64, keep_size: bool },
    /// Sets the length.
    Truncate { fd: RawDescriptor, len: u64 },
    /// Renames; `replace: false` refuses to overwrite.
    Rename { from: NonNull<Path>, to: NonNull<Path>, replace: bool },
    /// Removes a file, or an empty directory.
    Unlink { path: NonNull<Path>, directory: bool },
    /// Makes a directory with this mode.
    Mkdir { path: NonNull<Path>, mode: u32 },
    /// Lists a directory into the operand.
    ReadDir { path: NonNull<Path>, into: NonNull<Listing> },
    /// Runs a call on the worker pool and completes with what it answers.
    Job { cell: NonNull<JobCell> },
}

impl RawOp {
    /// The op's kind, for tables, errors and traces.
    pub const fn kind(&self) -> OpKind {
        match self {
            RawOp::Nop => OpKind::Nop,
            RawOp::Read { .. } => OpKind::Read,
            RawOp::Write { .. } | RawOp::WriteDurable { .. } => OpKind::Write,
            RawOp::ReadVectored { .. } => OpKind::ReadVectored,
            RawOp::WriteVectored { .. } => OpKind::WriteVectored,
            RawOp::Recv { .. } => OpKind::Recv,
            RawOp::Send { .. } => OpKind::Send,
            RawOp::RecvFrom { .. } => OpKind::RecvFrom,
            RawOp::SendTo { .. } => OpKind::SendTo,
            RawOp::Accept { .. } => OpKind::Accept,
            RawOp::Connect { .. } => OpKind::Connect,
            RawOp::Shutdown { .. } => OpKind::Shutdown,
            RawOp::Poll { .. } => OpKind::Poll,
            RawOp::Open { .. } => OpKind::Open,
            RawOp::Close { .. } => OpKind::Close,
            RawOp::StatFd { .. } | RawOp::StatPath { .. } => OpKind::Stat,
            RawOp::Sync { .. } => OpKind::Sync,
            RawOp::Allocate { .. } => OpKind::Allocate,
            RawOp::Truncate { .. } => OpKind::Truncate,
            RawOp::Rename { .. } => OpKind::Rename,
            RawOp::Unlink { .. } => OpKind::Unlink,
            RawOp::Mkdir { .. } => OpKind::Mkdir,
            RawOp::ReadDir { .. } => OpKind::ReadDir,
            RawOp::Job { .. } => OpKind::Job,
        }
    }
}
