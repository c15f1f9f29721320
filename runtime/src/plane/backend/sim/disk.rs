//! A simulated host's disk as a value: what tests prepare, damage, inspect, and lose power with.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::{IoError, IoResult, OpKind, Stage};
use crate::plane::backend::sim::events::Chance;
use crate::plane::backend::sim::fs::FileSystem;
use crate::plane::backend::sim::unsynced::Choose;
use crate::plane::backend::sim::world::Errno;
use crate::plane::time::Instant;

/// Which of the things that were not synced a power cut leaves on the disk.
///
/// # Examples
///
/// ```
/// use wo::fs;
/// use wo::sim::{Survival, World};
///
/// let mut world = World::new(1);
/// let host = world.host("writer");
/// let program = world.start(&host, || fs::write("/tmp/note", "not synced"));
/// world.finish(program)??;
/// assert!(host.disk().after_power_cut(Survival::Nothing).read("/tmp/note").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// None of them.
    Nothing,
    /// All of them, each in its latest state.
    Everything,
    /// A state of each, as this seed draws.
    Seeded(u64),
    /// The image of this number; see [`Disk::images`]. Past the last it begins again.
    Image(u128),
}

impl Survival {
    /// The state of one unit after another, of so many it may be in.
    pub(super) fn choices(self) -> Box<Choose<'static>> {
        match self {
            Survival::Nothing => Box::new(|_| 0),
            Survival::Everything => Box::new(|states| states - 1),
            Survival::Seeded(seed) => {
                let mut chance = Chance::new(seed);
                Box::new(move |states| chance.within(0..states as u64) as usize)
            }
            Survival::Image(mut number) => Box::new(move |states| {
                let state = number % states as u128;
                number /= states as u128;
                state as usize
            }),
        }
    }
}

/// A file system with its page cache: what programs see of it, and what its disk holds.
///
/// Writing changes the cache. What was not synced may have reached the disk or not, in any part: each block of 512
/// bytes that was written, the length, each change of a directory is in one of the states it went through since it was
/// last synced, independently of the others. Blocks are never torn in themselves; a change of a directory is whole,
/// and never there without an earlier one about the same name or file. A sync of a file does not sync the directory
/// that names it.
///
/// A clone is a copy, and cheap: the bytes neither has changed are shared.
///
/// # Examples
///
/// ```
/// use wo::fs;
/// use wo::sim::{Disk, Host, Survival};
///
/// let host = Host::new(7);
/// wo::Builder::new().simulated(&host).run(|| async {
///     let file = fs::File::create("/tmp/log").await?;
///     file.write_all_at(b"not synced".to_vec(), 0).await.0
/// })??;
/// let disk: Disk = host.disk();
/// assert_eq!(disk.read("/tmp/log")?, b"not synced");
/// // Neither the name nor the bytes have to be there after a power cut.
/// assert!(disk.after_power_cut(Survival::Nothing).read("/tmp/log").is_err());
/// assert_eq!(disk.after_power_cut(Survival::Everything).read("/tmp/log")?, b"not synced");
/// // The name, the length and the block: each may be lost or not.
/// assert_eq!(disk.image_count(), 8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Disk(pub(super) FileSystem);

impl Default for Disk {
    fn default() -> Disk {
        Disk::new()
    }
}

impl Disk {
    /// A disk of 4 GiB that holds `/tmp` and `/dev`.
    pub fn new() -> Disk {
        Disk(FileSystem::new())
    }

    /// Changes its size; what is written stays, also when that is more.
    pub fn resize(&mut self, bytes: u64) {
        self.0.space.resize(bytes);
    }

    /// What a program would read of a file.
    ///
    /// # Errors
    ///
    /// As a program's read.
    pub fn read(&self, path: impl AsRef<Path>) -> IoResult<Vec<u8>> {
        let path = path.as_ref();
        let read = |bytes: &[u8]| {
            let inode = self.0.lookup(bytes)?;
            let size = self.0.stat(inode)?.stx_size;
            self.0.peek(inode, 0, usize::try_from(size).unwrap_or(usize::MAX))
        };
        read(path.as_os_str().as_bytes()).map_err(refused(OpKind::Read, path))
    }

    /// Replaces a file by these bytes, and makes the directories above it. All of it is on the disk.
    ///
    /// # Errors
    ///
    /// As a program's, had it done the same.
    pub fn write(&mut self, path: impl AsRef<Path>, bytes: &[u8]) -> IoResult<()> {
        let path = path.as_ref();
        self.make_parents(path)?;
        let write = |fs: &mut FileSystem| {
            let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
            let inode = fs.open(path.as_os_str().as_bytes(), flags, 0o644, Instant::ORIGIN)?;
            let written = fs.write(inode, Some(0), bytes, Instant::ORIGIN);
            fs.close(inode);
            match written {
                Ok((count, _)) if count < bytes.len() => Err(libc::ENOSPC),
                Ok(_) => Ok(()),
                Err(errno) => Err(errno),
            }
        };
        let written = write(&mut self.0).map_err(refused(OpKind::Write, path));
        self.sync();
        written
    }

    /// Makes a directory and those above it. All of it is on the disk.
    ///
    /// # Errors
    ///
    /// As a program's, had it done the same.
    pub fn create_dir_all(&mut self, path: impl AsRef<Path>) -> IoResult<()> {
        self.make_parents(&path.as_ref().join("x"))?;
        self.sync();
        Ok(())
    }

    fn make_parents(&mut self, path: &Path) -> IoResult<()> {
        let parents: Vec<&Path> = path.ancestors().skip(1).filter(|parent| parent.parent().is_some()).collect();
        for parent in parents.into_iter().rev().filter(|parent| !parent.as_os_str().is_empty()) {
            match self.0.make_directory(parent.as_os_str().as_bytes(), 0o755, Instant::ORIGIN) {
                Ok(()) | Err(libc::EEXIST) => {}
                Err(errno) => return Err(refused(OpKind::Mkdir, parent)(errno)),
            }
        }
        Ok(())
    }

    /// The names in a directory, sorted.
    ///
    /// # Errors
    ///
    /// As a program's listing.
    pub fn list(&self, path: impl AsRef<Path>) -> IoResult<Vec<OsString>> {
        let path = path.as_ref();
        let list = |bytes: &[u8]| self.0.names(self.0.lookup(bytes)?);
        list(path.as_os_str().as_bytes()).map_err(refused(OpKind::ReadDir, path))
    }

    /// Every regular file, by path, sorted.
    pub fn files(&self) -> Vec<PathBuf> {
        let paths = self.0.files();
        paths.iter().map(|path| PathBuf::from(OsStr::from_bytes(path))).collect()
    }

    /// Turns one bit of a file over, on the disk and in the cache: bit 0 is the lowest of the first byte.
    ///
    /// # Errors
    ///
    /// No such file, or the bit lies beyond its end: EINVAL.
    pub fn flip_bit(&mut self, path: impl AsRef<Path>, bit: u64) -> IoResult<()> {
        let path = path.as_ref();
        self.0.flip_bit(path.as_os_str().as_bytes(), bit).map_err(refused(OpKind::Write, path))
    }

    /// Makes bytes of a file unreadable (`EIO`) until they are written anew.
    ///
    /// # Errors
    ///
    /// No such file.
    pub fn damage(&mut self, path: impl AsRef<Path>, bytes: Range<u64>) -> IoResult<()> {
        let path = path.as_ref();
        self.0.damage(path.as_os_str().as_bytes(), bytes).map_err(refused(OpKind::Write, path))
    }

    /// Puts everything on the disk, as an orderly end of the host does.
    pub fn sync(&mut self) {
        self.0.sync_all();
    }

    /// For each unit that is not synced, the number of states the disk may hold it in, at least 2.
    pub fn unsynced(&self) -> Vec<usize> {
        self.0.options()
    }

    /// What the disk holds after a power cut now. Nothing of it is unsynced.
    pub fn after_power_cut(&self, survival: Survival) -> Disk {
        Disk(self.0.image(&mut *survival.choices()))
    }

    /// How many images [`images`](Disk::images) gives; `u128::MAX` stands for more than that.
    pub fn image_count(&self) -> u128 {
        self.unsynced().iter().fold(1, |count, states| count.saturating_mul(*states as u128))
    }

    /// Every disk a power cut now may leave: each combination of the states of what is not synced. Two of them may
    /// hold the same, when what differs cannot be seen.
    pub fn images(&self) -> impl Iterator<Item = Disk> + '_ {
        let count = self.image_count();
        let mut next = 0;
        std::iter::from_fn(move || {
            let image = (next < count).then(|| self.after_power_cut(Survival::Image(next)));
            next += 1;
            image
        })
    }

    /// The same, when there are no more than `max`; else so many of them: nothing, everything, then what `seed` draws.
    pub fn some_images(&self, max: usize, seed: u64) -> impl Iterator<Item = Disk> + '_ {
        let all = self.image_count() <= max as u128;
        let number = if all { self.image_count() as usize } else { max };
        let mut chance = Chance::new(seed);
        (0..number).map(move |index| {
            self.after_power_cut(match index {
                _ if all => Survival::Image(index as u128),
                0 => Survival::Nothing,
                1 => Survival::Everything,
                _ => Survival::Seeded(chance.within(0..u64::MAX)),
            })
        })
    }
}

fn refused(op: OpKind, path: &Path) -> impl Fn(Errno) -> IoError + '_ {
    move |errno| {
        IoError::new(errno, op, Stage::Completion).with_context(format!("{} on a simulated disk", path.display()))
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("files", &self.files()).field("unsynced", &self.unsynced().len()).finish()
    }
}
