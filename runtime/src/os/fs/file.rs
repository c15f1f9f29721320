//! An open file, or another descriptor that reads and writes like one.
//!
//! A handle is a descriptor, a name for errors, and two cursors. One is its position: the reads that have no offset
//! of their own, and on files with positions the writes too, take turns on it and move it. The other keeps the writes
//! of a stream, or of a file opened for appending, from mixing their bytes. Clones share all of it.

use std::fmt;
use std::io::SeekFrom;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::fiber::{Call, verb};
use crate::os::fs::explain::explain;
use crate::os::fs::options::OpenOptions;
use crate::os::fs::session::{Session, Way};
use crate::os::fs::{FileKind, Metadata};
use crate::plane::backend::{AnyBackend, Backend};
use crate::plane::current::with_loop;
use crate::plane::cursor::Cursor;
use crate::plane::fd::Fd;
use crate::plane::ops::{Allocate, Close, Stat, Sync, Truncate};

/// The last offset there is, plus one.
const OFFSETS_END: u64 = 1 << 63;

/// An open file. Pipes, terminals and devices are files as well; the ends of a [`pipe`](crate::os::io::pipe) and the
/// standard streams come as this type.
///
/// Reading and writing is done at an offset ([`read_at`](File::read_at), [`write_at`](File::write_at) and their kin),
/// which never moves the position, or at the position ([`read`](File::read), [`write`](File::write) and theirs). The
/// position is the handle's own: the verbs that move it take turns, first come first served, so two reads started at
/// once get one part each, whatever happens to either. Those ending in `_by` have a deadline and answer "nothing by
/// then" as a value. Buffers come back with the answer, on success and on failure.
///
/// Clones share the descriptor and the position. The descriptor is closed with the last of them, and after the last
/// op in flight; [`close`](File::close) hears what the system says to that. Files may be sent to other threads.
///
/// # Examples
///
/// ```
/// use wo::fs::File;
///
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// let file = File::create("/tmp/greeting")?;
/// file.write_all(b"hello, world")?;
/// file.sync_all()?;
///
/// let file = File::open("/tmp/greeting")?;
/// let (count, buf) = file.read_at(Vec::with_capacity(5), 7);
/// assert_eq!((count?, &buf[..]), (5, &b"world"[..]));
/// # Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
#[derive(Clone)]
pub struct File(Arc<Shared>);

struct Shared {
    fd: Fd,
    name: Box<str>,
    appends: bool,
    way: OnceLock<Way>,
    cursor: Cursor,
    writers: Cursor,
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// As [`OpenOptions::open`].
    pub fn open<P: AsRef<Path>>(path: P) -> Call<impl Future<Output = IoResult<File>>> {
        OpenOptions::new().read(true).open(path)
    }

    /// Opens a file for writing, empty: made when there was none, cut to nothing when there was.
    ///
    /// # Errors
    ///
    /// As [`OpenOptions::open`].
    pub fn create<P: AsRef<Path>>(path: P) -> Call<impl Future<Output = IoResult<File>>> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path)
    }

    /// A file that was opened by path.
    pub(crate) fn opened(fd: Fd, path: &Path, appends: bool) -> File {
        File::with(fd, path.display().to_string(), appends, OnceLock::new())
    }

    /// A descriptor that is asked for what comes next.
    pub(crate) fn stream(fd: Fd, name: impl Into<String>) -> File {
        File::with(fd, name.into(), false, Way::Stream.into())
    }

    fn with(fd: Fd, name: String, appends: bool, way: OnceLock<Way>) -> File {
        File(Arc::new(Shared { fd, name: name.into(), appends, way, cursor: Cursor::new(), writers: Cursor::new() }))
    }

    /// Moves the position, and answers it, in bytes from the beginning. It may stand behind the end of the file.
    ///
    /// It waits for the reads and writes in front of it. Dropped half-way, the position has not moved.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a position before the beginning or past the last offset, `ESPIPE` for a stream, which has none.
    pub fn seek(&self, to: SeekFrom) -> Call<impl Future<Output = IoResult<u64>>> {
        Call::new(async move {
            let refuse = |errno, why: &'static str| {
                self.explain(IoError::new(errno, OpKind::Seek, Stage::Submit).with_context(why))
            };
            if self.way().map_err(|error| self.explain(error))? == Way::Stream {
                return Err(refuse(errno::ESPIPE, "a stream has no position to move"));
            }
            let session = Session::reading(self, None).await.map_err(|error| self.explain(error))?;
            let mut session = session.expect("without a deadline its turn comes");
            let (base, by) = match to {
                SeekFrom::Start(position) => (position, 0),
                SeekFrom::Current(by) => (session.position(), by),
                SeekFrom::End(by) => (self.end().await?, by),
            };
            let position = base
                .checked_add_signed(by)
                .filter(|position| *position < OFFSETS_END)
                .ok_or_else(|| refuse(errno::EINVAL, "a position before the beginning, or past the last offset"))?;
            session.move_to(position);
            Ok(position)
        })
    }

    async fn end(&self) -> IoResult<u64> {
        let stat = self.metadata().await?;
        if stat.kind() == FileKind::BlockDevice {
            return Err(self.explain(
                IoError::new(errno::EOPNOTSUPP, OpKind::Stat, Stage::Submit)
                    .with_context("a device does not tell where it ends"),
            ));
        }
        Ok(stat.len())
    }

    /// Waits until everything written is on the disk, metadata included. A file that is new also needs its
    /// directory synced ([`sync_dir`](crate::os::fs::sync_dir)) before its name is there for good.
    ///
    /// # Errors
    ///
    /// `EIO` when something could not be written; the system says so once, and syncing again does not bring it back.
    pub fn sync_all(&self) -> Call<impl Future<Output = IoResult<()>>> {
        Call::new(async move { verb(Sync::all(self.fd())).await.map_err(|error| self.explain(error)) })
    }

    /// As [`sync_all`](File::sync_all), without the metadata that is not needed to read the data back.
    ///
    /// # Errors
    ///
    /// As [`sync_all`](File::sync_all).
    pub fn sync_data(&self) -> Call<impl Future<Output = IoResult<()>>> {
        Call::new(async move { verb(Sync::data(self.fd())).await.map_err(|error| self.explain(error)) })
    }

    /// Cuts the file to `len` bytes, or lengthens it with zeros that take no space. The position stays.
    ///
    /// # Errors
    ///
    /// `EINVAL` when the file is not open for writing or has no length, `EFBIG` past what the file system takes.
    pub fn set_len(&self, len: u64) -> Call<impl Future<Output = IoResult<()>>> {
        Call::new(async move { verb(Truncate::new(self.fd(), len)).await.map_err(|error| self.explain(error)) })
    }

    /// Reserves the disk space of `len` bytes from `offset` on, so that writing there cannot run out of it; the file
    /// grows to hold them, with zeros.
    ///
    /// # Errors
    ///
    /// `ENOSPC` when there is not that much, `EOPNOTSUPP` where the file system cannot, `EINVAL` when `len` is 0.
    pub fn allocate(&self, offset: u64, len: u64) -> Call<impl Future<Output = IoResult<()>>> {
        Call::new(async move {
            verb(Allocate::new(self.fd(), offset, len, false)).await.map_err(|error| self.explain(error))
        })
    }

    /// Locks the file against every other opening of it that asks for a lock, in this process too; false when another
    /// one has the lock. Never waits, and stops nobody from reading or writing.
    ///
    /// The lock is the opening's, not the name's: renaming or removing the file changes nothing. It ends with the last
    /// clone of this handle and the last op in flight, or with the process. Directories can be locked as well.
    ///
    /// # Errors
    ///
    /// `EBADF` or `EINVAL` for what cannot be locked, `ENOLCK` on file systems without locks.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::fs::{self, OpenOptions};
    ///
    /// # #[wo::fiber]
    /// # fn example() -> wo::IoResult<()> {
    /// fs::create_dir("/tmp/ours")?;
    /// let ours = OpenOptions::new().read(true).directory(true).open("/tmp/ours")?;
    /// assert!(ours.try_lock()?);
    /// let again = OpenOptions::new().read(true).directory(true).open("/tmp/ours")?;
    /// assert!(!again.try_lock()?);
    /// # Ok(())
    /// # }
    /// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
    /// ```
    pub fn try_lock(&self) -> IoResult<bool> {
        with_loop(OpKind::Lock, |event_loop| event_loop.backend().try_lock(self.fd()))
            .map_err(|error| self.explain(error))
    }

    /// Takes the lock of [`try_lock`](File::try_lock) off at once. Closing the file would do so too, but not before the
    /// last share of it is gone: clones, ops in flight, and children that were forked a moment ago. Without a lock this
    /// does nothing. Never waits.
    ///
    /// # Errors
    ///
    /// `EBADF` for what cannot be locked.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::fs::{self, OpenOptions};
    ///
    /// # #[wo::fiber]
    /// # fn example() -> wo::IoResult<()> {
    /// fs::create_dir("/tmp/ours")?;
    /// let ours = OpenOptions::new().read(true).directory(true).open("/tmp/ours")?;
    /// let again = OpenOptions::new().read(true).directory(true).open("/tmp/ours")?;
    /// assert!(ours.try_lock()? && !again.try_lock()?);
    /// ours.unlock()?;
    /// assert!(again.try_lock()?);
    /// # Ok(())
    /// # }
    /// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
    /// ```
    pub fn unlock(&self) -> IoResult<()> {
        with_loop(OpKind::Lock, |event_loop| event_loop.backend().unlock(self.fd()))
            .map_err(|error| self.explain(error))
    }

    /// The process that holds the lock of [`try_lock`](File::try_lock), where the system tells: Linux does, to
    /// processes of the same pid namespace. It may have let go by the time this is answered.
    pub fn lock_holder(&self) -> Call<impl Future<Output = Option<u32>>> {
        Call::new(async move {
            if !self.fd().is_system() {
                // A simulated world is within one process.
                let is_locked = with_loop(OpKind::Lock, |event_loop| match event_loop.backend() {
                    AnyBackend::Sim(sim) => sim.is_locked(self.fd()),
                    _ => Ok(false),
                });
                return is_locked.is_ok_and(|locked| locked).then(std::process::id);
            }
            let stat = self.metadata().await.ok()?;
            // Never waits: the kernel writes the list as it is read.
            lock_holder(&std::fs::read_to_string("/proc/locks").ok()?, stat.device(), stat.inode())
        })
    }

    /// The file's metadata.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn metadata(&self) -> Call<impl Future<Output = IoResult<Metadata>>> {
        Call::new(async move { verb(Stat::of(self.fd())).await.map_err(|error| self.explain(error)) })
    }

    /// Closes the file and answers what the system says to it. While clones or ops in flight still use it, it is
    /// closed with the last of them, and the answer is that all is well; so for a descriptor that is somebody else's.
    ///
    /// Success does not mean that data is on the disk; [`sync_all`](File::sync_all) does. Dropped half-way, it is
    /// closed all the same.
    ///
    /// # Errors
    ///
    /// What an earlier write could not report, on file systems that write late.
    pub fn close(self) -> Call<impl Future<Output = IoResult<()>>> {
        Call::new(async move {
            let Ok(Shared { fd, name, .. }) = Arc::try_unwrap(self.0) else { return Ok(()) };
            match Close::new(fd) {
                Ok(close) => verb(close).await.map_err(|error| explain(error, &name)),
                Err(shared) => {
                    drop(shared);
                    Ok(())
                }
            }
        })
    }

    pub(in crate::os) fn fd(&self) -> &Fd {
        &self.0.fd
    }

    pub(super) fn cursor(&self) -> &Cursor {
        &self.0.cursor
    }

    pub(super) fn writers(&self) -> &Cursor {
        &self.0.writers
    }

    pub(super) fn appends(&self) -> bool {
        self.0.appends
    }

    pub(super) fn explain(&self, error: IoError) -> IoError {
        explain(error, &self.0.name)
    }

    /// How the kernel is asked for its bytes; found out when it first matters.
    pub(super) fn way(&self) -> IoResult<Way> {
        if let Some(way) = self.0.way.get() {
            return Ok(*way);
        }
        let positions = with_loop(OpKind::Stat, |event_loop| event_loop.backend().has_positions(self.fd()))?;
        Ok(*self.0.way.get_or_init(|| if positions { Way::Positional } else { Way::Stream }))
    }

    /// Refuses offsets where there are none, and one that nothing can have.
    pub(super) fn check_offset(&self, offset: u64, op: OpKind) -> IoResult<()> {
        let errno = match self.way()? {
            Way::Stream => errno::ESPIPE,
            Way::Positional if offset >= OFFSETS_END => errno::EINVAL,
            Way::Positional => return Ok(()),
        };
        Err(IoError::new(errno, op, Stage::Submit).with_context(format!("at offset {offset}")))
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("name", &self.0.name)
            .field("fd", &self.0.fd)
            .field("cursor", &self.0.cursor)
            .finish_non_exhaustive()
    }
}

/// Finds the holder of a file's flock(2) in the text of /proc/locks. Some file systems give files another device there
/// than to stat(2), so a lone lock on the inode's number is taken as well.
fn lock_holder(locks: &str, device: (u32, u32), inode: u64) -> Option<u32> {
    let mut likely = Vec::new();
    for line in locks.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        // "1: FLOCK ADVISORY WRITE 1234 08:01:131074 0 EOF"; those who wait have "->" behind the number.
        let [_, "FLOCK", _, _, pid, place, ..] = words[..] else { continue };
        let (Ok(pid), Some((place_device, place_inode))) = (pid.parse::<u32>(), place.rsplit_once(':')) else {
            continue;
        };
        if place_inode.parse() != Ok(inode) || pid == 0 {
            continue;
        }
        if place_device == format!("{:02x}:{:02x}", device.0, device.1) {
            return Some(pid);
        }
        likely.push(pid);
    }
    if let [pid] = likely[..] { Some(pid) } else { None }
}

#[cfg(test)]
mod tests {
    use super::lock_holder;

    #[test]
    fn holder_is_found_by_device_and_inode_or_by_a_lone_inode() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 08:01:42 0 EOF\n2: FLOCK  ADVISORY  WRITE 11 08:02:42 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 12 08:01:42 0 EOF\n3: FLOCK  ADVISORY  WRITE 13 08:01:42 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 14 00:1a:43 0 EOF\n5: nonsense\n";
        assert_eq!(lock_holder(locks, (8, 1), 42), Some(13));
        assert_eq!(lock_holder(locks, (9, 9), 42), None, "two of that number, neither surely ours");
        assert_eq!(lock_holder(locks, (9, 9), 43), Some(14));
        assert_eq!(lock_holder(locks, (8, 1), 44), None);
    }
}
