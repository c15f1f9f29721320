//! Open files: what a descriptor adds to the file it opened.

use crate::plane::backend::operand::OpenHow;
use crate::plane::backend::sim::exec::Answer;
use crate::plane::backend::sim::fs::Inode;
use crate::plane::backend::sim::ops::InFlight;
use crate::plane::backend::sim::world::{Body, Errno, ObjectId, State};
use crate::plane::op::{NO_OFFSET, RawOp};

/// One opening of a file.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) inode: Inode,
    readable: bool,
    writable: bool,
    append: bool,
    direct: bool,
    position: u64,
}

/// What offsets, lengths and addresses of direct transfers are multiples of.
const DIRECT_BYTES: usize = 512;

/// Whether a transfer may pass by the cache.
fn is_direct(op: &InFlight, at: u64) -> bool {
    at.is_multiple_of(DIRECT_BYTES as u64) && op.operand.is_aligned(DIRECT_BYTES)
}

/// Whether a transfer ends where an offset still has a number.
fn fits(at: u64, count: usize) -> bool {
    at.checked_add(count as u64).is_some_and(|end| i64::try_from(end).is_ok())
}

impl State {
    /// Opens the op's path: answers a descriptor.
    pub(super) fn open(&mut self, op: &InFlight, how: OpenHow) -> Result<usize, Errno> {
        let flags = how.flags()?;
        if !self.has_room_for_descriptor() {
            return Err(libc::EMFILE);
        }
        let inode = self.here.fs.open(op.operand.path(), flags, how.mode, self.time.now())?;
        let access = flags & libc::O_ACCMODE;
        let file = OpenFile {
            inode,
            readable: access != libc::O_WRONLY,
            writable: access != libc::O_RDONLY,
            append: how.append,
            direct: how.direct,
            position: 0,
        };
        let object = self.add(Body::File(file));
        self.install(object).map(|raw| raw as usize)
    }

    fn file_mut(&mut self, object: ObjectId) -> Result<&mut OpenFile, Errno> {
        match self.body_mut(object)? {
            Body::File(file) => Ok(file),
            Body::Socket(_) | Body::PipeReader(_) | Body::PipeWriter(_) | Body::Process(_) => Err(libc::EINVAL),
        }
    }

    /// Reads at `offset`, or at the position and moves it.
    pub(super) fn read_file(&mut self, object: ObjectId, op: &mut InFlight, offset: u64) -> Answer {
        let file = self.file_mut(object)?;
        if !file.readable {
            return Err(libc::EBADF);
        }
        let (inode, direct) = (file.inode, file.direct);
        let at = if offset == NO_OFFSET { file.position } else { offset };
        if !fits(at, op.want()) || direct && !is_direct(op, at) {
            return Err(libc::EINVAL);
        }
        let bytes = self.here.fs.read(inode, at, op.want(), self.time.now())?;
        op.operand.scatter(0, &bytes);
        if offset == NO_OFFSET {
            self.file_mut(object)?.position = at + bytes.len() as u64;
        }
        Ok(Some(bytes.len()))
    }

    /// Writes at `offset`, or at the position and moves it; at the end when the file was opened for appending.
    pub(super) fn write_file(&mut self, object: ObjectId, op: &mut InFlight, offset: u64) -> Answer {
        let file = self.file_mut(object)?;
        if !file.writable {
            return Err(libc::EBADF);
        }
        let (inode, append, direct) = (file.inode, file.append, file.direct);
        let at = if offset == NO_OFFSET { file.position } else { offset };
        if !fits(at, op.want()) || direct && !is_direct(op, at) {
            return Err(libc::EINVAL);
        }
        let mut bytes = op.operand.gather(0, op.want());
        if !bytes.is_empty() && self.chance.happens(self.here.disk_faults.bit_flip) {
            let bit = self.chance.within(0..bytes.len() as u64 * 8) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let (count, end) = self.here.fs.write(inode, (!append).then_some(at), &bytes, self.time.now())?;
        if offset == NO_OFFSET {
            self.file_mut(object)?.position = end;
        }
        if op.is_durable() && count > 0 {
            self.syncing = self.here.fs.begin_range_sync(inode, end - count as u64, count as u64);
        }
        Ok(Some(count))
    }

    /// Reads up to `want` bytes at the position, for a process that shares the opening.
    pub(super) fn read_on(&mut self, object: ObjectId, want: usize) -> Result<Vec<u8>, Errno> {
        let now = self.time.now();
        let file = self.file_mut(object)?;
        let (inode, at, readable) = (file.inode, file.position, file.readable);
        if !readable {
            return Err(libc::EBADF);
        }
        let bytes = self.here.fs.read(inode, at, want, now)?;
        self.file_mut(object)?.position = at + bytes.len() as u64;
        Ok(bytes)
    }

    /// Writes at the position, or at the end, for a process that shares the opening.
    pub(super) fn write_on(&mut self, object: ObjectId, bytes: &[u8]) -> Result<usize, Errno> {
        let now = self.time.now();
        let file = self.file_mut(object)?;
        let (inode, at, append, writable) = (file.inode, file.position, file.append, file.writable);
        if !writable {
            return Err(libc::EBADF);
        }
        let (count, end) = self.here.fs.write(inode, (!append).then_some(at), bytes, now)?;
        self.file_mut(object)?.position = end;
        Ok(count)
    }

    pub(super) fn truncate(&mut self, object: ObjectId, len: u64) -> Result<(), Errno> {
        let now = self.time.now();
        let file = self.file_mut(object)?;
        if !file.writable {
            return Err(libc::EINVAL);
        }
        let inode = file.inode;
        self.here.fs.truncate(inode, len, now)
    }

    pub(super) fn allocate(&mut self, object: ObjectId, offset: u64, len: u64, keep_size: bool) -> Result<(), Errno> {
        let now = self.time.now();
        if len == 0 || i64::try_from(offset).is_err() || i64::try_from(len).is_err() {
            return Err(libc::EINVAL);
        }
        let file = match self.body_mut(object)? {
            Body::File(file) if file.writable => file,
            Body::File(_) | Body::PipeReader(_) => return Err(libc::EBADF),
            Body::PipeWriter(_) => return Err(libc::ESPIPE),
            Body::Socket(_) | Body::Process(_) => return Err(libc::ENODEV),
        };
        let inode = file.inode;
        self.here.fs.allocate(inode, offset, len, keep_size, now)
    }

    /// Locks the file, unless another opening of it has the lock.
    pub(super) fn try_lock(&mut self, object: ObjectId) -> Result<bool, Errno> {
        let inode = self.file_mut(object)?.inode;
        Ok(*self.here.locks.entry(inode).or_insert(object) == object)
    }

    /// Whether any opening of the file has the lock.
    pub(super) fn is_locked(&mut self, object: ObjectId) -> Result<bool, Errno> {
        let inode = self.file_mut(object)?.inode;
        Ok(self.here.locks.contains_key(&inode))
    }

    /// Takes the lock off that this opening may have.
    pub(super) fn unlock(&mut self, object: ObjectId) -> Result<(), Errno> {
        let inode = self.file_mut(object)?.inode;
        self.end_lock(object, inode);
        Ok(())
    }

    fn end_lock(&mut self, object: ObjectId, inode: Inode) {
        if self.here.locks.get(&inode) == Some(&object) {
            self.here.locks.remove(&inode);
        }
    }

    /// An opening ends, and with it the lock it may have had.
    pub(super) fn end_file(&mut self, object: ObjectId, file: &OpenFile) {
        self.end_lock(object, file.inode);
        self.here.fs.close(file.inode);
    }

    /// Begins a sync; it has its effect when its completion has come so far. See [`post`](State::post).
    pub(super) fn sync(&mut self, object: ObjectId) -> Result<(), Errno> {
        let inode = self.file_mut(object)?.inode;
        self.syncing = Some(self.here.fs.begin_sync(inode, self.time.now())?);
        Ok(())
    }

    /// Whether trying this op may change what the disk holds or may hold.
    pub(super) fn changes_disk(&self, op: &RawOp) -> bool {
        match *op {
            RawOp::Write { fd, .. } | RawOp::WriteDurable { fd, .. } | RawOp::WriteVectored { fd, .. } => {
                self.is_file(fd)
            }
            RawOp::Open { how, .. } => how.create || how.truncate,
            RawOp::Allocate { .. }
            | RawOp::Truncate { .. }
            | RawOp::Rename { .. }
            | RawOp::Unlink { .. }
            | RawOp::Mkdir { .. } => true,
            _ => false,
        }
    }
}
