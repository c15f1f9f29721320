//! Which code performs which op.

use crate::plane::backend::sim::fs::blank_stat;
use crate::plane::backend::sim::ops::InFlight;
use crate::plane::backend::sim::world::{Body, Errno, ObjectId, Side, State};
use crate::plane::fd::RawDescriptor;
use crate::plane::op::{NO_OFFSET, RawOp};

/// What trying an op may bring: a count or a descriptor, nothing yet, or an error.
pub(super) type Answer = Result<Option<usize>, Errno>;

/// What trying an op brought.
pub(super) enum Attempt {
    /// Its result; of a multishot op, one of its results unless negative.
    Done(i32),
    /// It has to wait.
    Blocked,
}

/// The descriptor and side on which an op may have to wait; none for an op that never does.
pub(super) fn side_of(op: &RawOp) -> Option<(RawDescriptor, Side)> {
    match *op {
        RawOp::Read { fd, .. }
        | RawOp::ReadVectored { fd, .. }
        | RawOp::Recv { fd, .. }
        | RawOp::RecvFrom { fd, .. }
        | RawOp::Accept { fd, .. } => Some((fd, Side::In)),
        RawOp::Write { fd, .. }
        | RawOp::WriteDurable { fd, .. }
        | RawOp::WriteVectored { fd, .. }
        | RawOp::Send { fd, .. }
        | RawOp::SendTo { fd, .. }
        | RawOp::Connect { fd, .. } => Some((fd, Side::Out)),
        RawOp::Poll { fd, wanted } => Some((fd, if wanted.writable { Side::Out } else { Side::In })),
        _ => None,
    }
}

fn result(answer: Result<usize, Errno>) -> i32 {
    match answer {
        Ok(count) => i32::try_from(count).unwrap_or(i32::MAX),
        Err(errno) => -errno,
    }
}

impl State {
    /// Tries an op that may have to wait.
    pub(super) fn attempt(&mut self, op: &mut InFlight) -> Attempt {
        let answer = op.object.ok_or(libc::EBADF).and_then(|object| self.attempt_on(object, op));
        match answer {
            Ok(None) => Attempt::Blocked,
            Ok(Some(count)) => Attempt::Done(result(Ok(count))),
            // What was moved before it failed is what the caller learns.
            Err(_) if op.done > 0 => Attempt::Done(result(Ok(op.done))),
            Err(errno) => Attempt::Done(-errno),
        }
    }

    fn attempt_on(&mut self, object: ObjectId, op: &mut InFlight) -> Answer {
        match *op.operand.op() {
            RawOp::Read { offset, .. } | RawOp::ReadVectored { offset, .. } => self.read(object, op, offset),
            RawOp::Write { offset, .. } | RawOp::WriteVectored { offset, .. } => self.write(object, op, offset),
            RawOp::WriteDurable { offset, .. } => match self.body(object)? {
                Body::File(_) => self.write_file(object, op, offset),
                _ => Err(libc::ESPIPE),
            },
            RawOp::Recv { .. } => self.recv(object, op),
            RawOp::RecvFrom { .. } => {
                op.operand.received(None, false);
                self.recv(object, op)
            }
            RawOp::Send { all, .. } => self.send(object, op, all),
            RawOp::SendTo { .. } => self.send(object, op, false),
            RawOp::Accept { .. } => self.accept(object),
            RawOp::Connect { .. } => self.connect(object, op),
            RawOp::Poll { wanted, .. } => Ok(self.readiness(object, wanted).map(|ready| ready.to_bits() as usize)),
            _ => Err(libc::EINVAL),
        }
    }

    fn read(&mut self, object: ObjectId, op: &mut InFlight, offset: u64) -> Answer {
        match self.body(object)? {
            Body::File(_) => self.read_file(object, op, offset),
            _ if offset != NO_OFFSET => Err(libc::ESPIPE),
            Body::PipeReader(_) | Body::PipeWriter(_) => self.read_pipe(object, op),
            Body::Process(_) => Err(libc::EINVAL),
            Body::Socket(_) if op.want() == 0 => Ok(Some(0)),
            Body::Socket(_) => self.recv(object, op),
        }
    }

    fn write(&mut self, object: ObjectId, op: &mut InFlight, offset: u64) -> Answer {
        match self.body(object)? {
            Body::File(_) => self.write_file(object, op, offset),
            _ if offset != NO_OFFSET => Err(libc::ESPIPE),
            Body::PipeReader(_) | Body::PipeWriter(_) => self.write_pipe(object, op),
            Body::Process(_) => Err(libc::EINVAL),
            Body::Socket(_) => self.send(object, op, false),
        }
    }

    /// Performs an op that never waits.
    pub(super) fn perform(&mut self, op: &mut InFlight) -> i32 {
        let answer = match *op.operand.op() {
            RawOp::Nop => Ok(0),
            RawOp::Open { how, .. } => self.open(op, how),
            raw => self.perform_plain(raw, op).map(|()| 0),
        };
        result(answer)
    }

    fn perform_plain(&mut self, raw: RawOp, op: &mut InFlight) -> Result<(), Errno> {
        let now = self.time.now();
        match raw {
            RawOp::Shutdown { fd, half } => self.shutdown(self.lookup(fd)?, half),
            RawOp::Close { fd } => self.close(fd),
            RawOp::Sync { fd, .. } => self.sync(self.lookup(fd)?),
            RawOp::Allocate { fd, offset, len, keep_size } => self.allocate(self.lookup(fd)?, offset, len, keep_size),
            RawOp::Truncate { fd, len } => self.truncate(self.lookup(fd)?, len),
            RawOp::StatFd { fd, .. } => {
                let stat = self.stat_object(self.lookup(fd)?)?;
                op.operand.put_stat(stat);
                Ok(())
            }
            RawOp::StatPath { .. } => {
                let stat = self.here.fs.stat(self.here.fs.lookup(op.operand.path())?)?;
                op.operand.put_stat(stat);
                Ok(())
            }
            RawOp::Rename { replace, .. } => {
                self.here.fs.rename(op.operand.path(), op.operand.new_path(), replace, now)
            }
            RawOp::Unlink { directory, .. } => self.here.fs.unlink(op.operand.path(), directory, now),
            RawOp::Mkdir { mode, .. } => self.here.fs.make_directory(op.operand.path(), mode, now),
            RawOp::ReadDir { .. } => {
                let listing = self.here.fs.list(op.operand.path(), now)?;
                op.operand.put_listing(listing);
                Ok(())
            }
            _ => Err(libc::ENOSYS),
        }
    }

    pub(super) fn has_positions(&self, object: ObjectId) -> Result<bool, Errno> {
        let kind = u32::from(self.stat_object(object)?.stx_mode) & libc::S_IFMT;
        Ok(matches!(kind, libc::S_IFREG | libc::S_IFDIR))
    }

    fn stat_object(&self, object: ObjectId) -> Result<libc::statx, Errno> {
        match self.body(object)? {
            Body::File(file) => self.here.fs.stat(file.inode),
            Body::PipeReader(_) | Body::PipeWriter(_) => Ok(blank_stat(libc::S_IFIFO | 0o600)),
            Body::Socket(_) => Ok(blank_stat(libc::S_IFSOCK | 0o777)),
            Body::Process(_) => Ok(blank_stat(0o600)),
        }
    }
}
