//! How to open a file, in std's words.

use std::path::Path;

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::fiber::{Call, verb};
use crate::os::fs::explain::with_remedy;
use crate::os::fs::file::File;
use crate::plane::backend::operand::{self, OpenHow};
use crate::plane::ops::Open;

/// How to open a file; the options mean what they mean in [`std::fs::OpenOptions`].
///
/// # Examples
///
/// ```
/// use wo::fs::OpenOptions;
///
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// let log = OpenOptions::new().append(true).create(true).open("/tmp/server.log")?;
/// log.write_all(b"started\n")?;
/// log.write_all(b"stopped\n")?;
/// assert_eq!(wo::fs::read("/tmp/server.log")?, b"started\nstopped\n");
/// # Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions(OpenHow);

impl OpenOptions {
    /// Nothing chosen yet; at least one of read, write and append must be.
    pub fn new() -> OpenOptions {
        OpenOptions(OpenHow {
            read: false,
            write: false,
            append: false,
            create: false,
            create_new: false,
            truncate: false,
            directory: false,
            no_follow: false,
            direct: false,
            mode: 0o666,
        })
    }

    /// Open for reading.
    pub fn read(&mut self, on: bool) -> &mut OpenOptions {
        self.0.read = on;
        self
    }

    /// Open for writing.
    pub fn write(&mut self, on: bool) -> &mut OpenOptions {
        self.0.write = on;
        self
    }

    /// Open for writing, every write at the end of the file, whatever other writers do.
    pub fn append(&mut self, on: bool) -> &mut OpenOptions {
        self.0.append = on;
        self
    }

    /// Cut an existing file to nothing.
    pub fn truncate(&mut self, on: bool) -> &mut OpenOptions {
        self.0.truncate = on;
        self
    }

    /// Make the file when it does not exist.
    pub fn create(&mut self, on: bool) -> &mut OpenOptions {
        self.0.create = on;
        self
    }

    /// Make the file, and refuse with `EEXIST` when something has its name already, a dangling link included.
    pub fn create_new(&mut self, on: bool) -> &mut OpenOptions {
        self.0.create_new = on;
        self
    }

    /// The mode of a new file, before the umask; 0o666 unless set.
    pub fn mode(&mut self, mode: u32) -> &mut OpenOptions {
        self.0.mode = mode;
        self
    }

    /// Open only what is not a symbolic link; refuse a link with `ELOOP`.
    pub fn no_follow(&mut self, on: bool) -> &mut OpenOptions {
        self.0.no_follow = on;
        self
    }

    /// Open only a directory; refuse anything else with `ENOTDIR`. A directory is opened for reading: to sync the names
    /// in it, or to lock it.
    pub fn directory(&mut self, on: bool) -> &mut OpenOptions {
        self.0.directory = on;
        self
    }

    /// Transfer between memory and disk, past the system's cache. Every transfer's offset, length and place in memory
    /// must then be multiples of the device's block, 512 or 4096 bytes mostly; where they are not, and where the file
    /// system cannot do it at all, the transfer or the opening is refused with `EINVAL`. It is no sync: what the device
    /// itself keeps in a cache is not on the disk yet.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::error::errno;
    /// use wo::fs::OpenOptions;
    /// use wo::plane::buf::Slice;
    ///
    /// # #[wo::fiber]
    /// # fn example() -> wo::IoResult<()> {
    /// let ledger = OpenOptions::new().write(true).create(true).direct(true).open("/tmp/ledger")?;
    /// let (refused, _) = ledger.write_at(b"paid 5".to_vec(), 0);
    /// assert_eq!(refused.unwrap_err().errno(), errno::EINVAL);
    ///
    /// let room = vec![0; 2 * 4096];
    /// let begin = room.as_ptr().align_offset(4096);
    /// let block = Slice::new(room, begin..begin + 4096);
    /// assert_eq!(ledger.write_durable_at(block, 0).0?, 4096);
    /// # Ok(())
    /// # }
    /// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
    /// ```
    pub fn direct(&mut self, on: bool) -> &mut OpenOptions {
        self.0.direct = on;
        self
    }

    /// Opens `path`. The descriptor is close-on-exec.
    ///
    /// Opening a FIFO waits for its other end.
    ///
    /// # Errors
    ///
    /// `EINVAL` for options that contradict each other and for a path with a zero byte; else what the kernel says,
    /// naming the path. Dropped half-way, a file that was opened is closed again; one that was made stays.
    pub fn open<P: AsRef<Path>>(&self, path: P) -> Call<impl Future<Output = IoResult<File>> + use<P>> {
        let how = self.0;
        Call::new(async move { open(path.as_ref(), how).await })
    }
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions::new()
    }
}

pub(super) async fn open(path: &Path, how: OpenHow) -> IoResult<File> {
    if let Some(contradiction) = contradiction(how) {
        return Err(IoError::new(errno::EINVAL, OpKind::Open, Stage::Submit)
            .with_context(format!("{}: {contradiction}", path.display())));
    }
    let fd = verb(Open::new(operand::Path::new(path, OpKind::Open)?, how)).await.map_err(with_remedy)?;
    Ok(File::opened(fd, path, how.append))
}

/// What is wrong with the options, by std's rules.
fn contradiction(how: OpenHow) -> Option<&'static str> {
    let writes = how.write || how.append;
    if !how.read && !writes {
        Some("open it for reading, writing or appending")
    } else if !writes && (how.create || how.create_new || how.truncate) {
        Some("a file is created or truncated only when it is opened for writing")
    } else if how.append && how.truncate && !how.create_new {
        Some("a file opened for appending is not truncated")
    } else {
        None
    }
}
