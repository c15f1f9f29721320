//! Operands that the kernel reads or writes while an op is in flight, in the kernel's own layout.
//!
//! Each lives in a box that the op's slot owns, so it neither moves nor dies before the terminal completion. The
//! layers above make them and read them; only the backends know their insides.

use std::ffi::{CString, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use socket2::SockAddr;

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::plane::addr::SocketAddress;
use crate::plane::op::RawSlice;

/// The address to connect to.
#[derive(Debug)]
pub struct PeerAddress(pub(crate) SockAddr);

impl PeerAddress {
    /// The address in the kernel's layout.
    pub fn new(address: &SocketAddress) -> IoResult<PeerAddress> {
        Ok(PeerAddress(address.to_kernel(OpKind::Connect)?))
    }
}

/// A path as the kernel reads it.
#[derive(Debug)]
pub struct Path(pub(crate) CString);

impl Path {
    /// A path for `op`; a zero byte inside it is refused, naming the path.
    pub fn new(path: &std::path::Path, op: OpKind) -> IoResult<Path> {
        CString::new(path.as_os_str().as_bytes()).map(Path).map_err(|_| {
            IoError::new(errno::EINVAL, op, Stage::Submit)
                .with_context(format!("{}: the path holds a zero byte", path.display()))
        })
    }

    /// The path as std knows it.
    pub fn to_path_buf(&self) -> PathBuf {
        PathBuf::from(std::ffi::OsStr::from_bytes(self.0.to_bytes()))
    }
}

/// The path as a message names it: an empty one, which could not be seen, as `""`.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.is_empty() {
            true => f.write_str("\"\""),
            false => self.to_path_buf().display().fmt(f),
        }
    }
}

/// Several buffers for one vectored op.
pub struct IoVecs(pub(crate) Box<[libc::iovec]>);

// SAFETY: the pointers are only used by the kernel, on behalf of the op whose slot owns the memory they point at.
unsafe impl Send for IoVecs {}

impl IoVecs {
    /// The buffers in order. Their memory must live as long as the op.
    pub fn new(slices: impl IntoIterator<Item = RawSlice>) -> IoVecs {
        IoVecs(
            slices
                .into_iter()
                .map(|slice| libc::iovec { iov_base: slice.ptr.cast(), iov_len: slice.len as usize })
                .collect(),
        )
    }

    /// The buffers as raw slices, in order.
    pub fn slices(&self) -> impl Iterator<Item = RawSlice> + '_ {
        self.0.iter().map(|vec| RawSlice {
            ptr: vec.iov_base.cast(),
            len: vec.iov_len as u32,
            fixed: RawSlice::NOT_FIXED,
        })
    }
}

impl fmt::Debug for IoVecs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoVecs").field("count", &self.0.len()).finish()
    }
}

/// One datagram: a buffer, and the address it goes to or came from.
pub struct Datagram {
    pub(crate) address: SockAddr,
    pub(crate) iovec: libc::iovec,
    pub(crate) header: libc::msghdr,
}

// SAFETY: the pointers in the header point into this same box or at memory the op's slot owns; only the kernel
// follows them.
unsafe impl Send for Datagram {}

impl Datagram {
    /// A datagram to send to `address`, or to the connected peer without one.
    pub fn to(buf: RawSlice, address: Option<&SocketAddress>) -> IoResult<Box<Datagram>> {
        let address = match address {
            Some(address) => address.to_kernel(OpKind::SendTo)?,
            None => Datagram::no_address(0),
        };
        Ok(Datagram::boxed(buf, address))
    }

    /// Room for a datagram to come, and for its sender's address.
    pub fn from_anyone(buf: RawSlice) -> Box<Datagram> {
        Datagram::boxed(buf, Datagram::no_address(socket2::SockAddrStorage::zeroed().size_of()))
    }

    fn no_address(len: libc::socklen_t) -> SockAddr {
        // SAFETY: a zeroed storage is an address of family "unspecified"; `len` is at most the storage's size.
        unsafe { SockAddr::new(socket2::SockAddrStorage::zeroed(), len) }
    }

    fn boxed(buf: RawSlice, address: SockAddr) -> Box<Datagram> {
        // SAFETY: `msghdr` is plain words and pointers, all valid when zero.
        let header = unsafe { std::mem::zeroed() };
        let iovec = libc::iovec { iov_base: buf.ptr.cast(), iov_len: buf.len as usize };
        let mut datagram = Box::new(Datagram { address, iovec, header });
        datagram.header.msg_iov = &raw mut datagram.iovec;
        datagram.header.msg_iovlen = 1;
        if datagram.address.len() > 0 {
            datagram.header.msg_name = datagram.address.as_ptr().cast_mut().cast();
            datagram.header.msg_namelen = datagram.address.len();
        }
        datagram
    }

    /// Who sent the datagram; none when the sender has no address. For use after the completion.
    pub fn sender(&self) -> Option<SocketAddress> {
        let mut address = self.address.clone();
        // SAFETY: the kernel wrote an address of this length into the storage, and never more than its size.
        unsafe { address.set_length(self.header.msg_namelen) };
        SocketAddress::from_kernel(&address)
    }

    /// Whether the datagram was longer than the buffer and its end was cut off.
    pub fn is_truncated(&self) -> bool {
        self.header.msg_flags & libc::MSG_TRUNC != 0
    }
}

impl fmt::Debug for Datagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Datagram").field("len", &self.iovec.iov_len).finish_non_exhaustive()
    }
}

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenHow {
    /// Open for reading.
    pub read: bool,
    /// Open for writing.
    pub write: bool,
    /// Every write goes to the end.
    pub append: bool,
    /// Make the file when it does not exist.
    pub create: bool,
    /// Make the file, and refuse when it exists.
    pub create_new: bool,
    /// Cut an existing file to nothing.
    pub truncate: bool,
    /// Refuse what is not a directory.
    pub directory: bool,
    /// Do not follow a symbolic link at the end of the path.
    pub no_follow: bool,
    /// Transfer past the system's cache.
    pub direct: bool,
    /// The mode of a new file, before the umask.
    pub mode: u32,
}

impl OpenHow {
    /// The flags of the system's call, close-on-exec among them; a combination that makes no sense is `EINVAL`, by
    /// the rules of std's `OpenOptions`.
    pub(crate) fn flags(self) -> Result<i32, i32> {
        let access = match (self.read, self.write, self.append) {
            (true, false, false) => libc::O_RDONLY,
            (false, true, false) => libc::O_WRONLY,
            (true, true, false) => libc::O_RDWR,
            (false, _, true) => libc::O_WRONLY | libc::O_APPEND,
            (true, _, true) => libc::O_RDWR | libc::O_APPEND,
            (false, false, false) => return Err(errno::EINVAL),
        };
        let makes = self.create || self.create_new || self.truncate;
        let writes = self.write || self.append;
        if makes && !writes || self.append && self.truncate && !self.create_new {
            return Err(errno::EINVAL);
        }
        let mut flags = access | libc::O_CLOEXEC;
        let asked = [
            (self.create, libc::O_CREAT),
            (self.create_new, libc::O_CREAT | libc::O_EXCL),
            (self.truncate && !self.create_new, libc::O_TRUNC),
            (self.directory, libc::O_DIRECTORY),
            (self.no_follow, libc::O_NOFOLLOW),
            (self.direct, libc::O_DIRECT),
        ];
        for (wanted, flag) in asked {
            if wanted {
                flags |= flag;
            }
        }
        Ok(flags)
    }
}

/// What a path or descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum FileKind {
    /// A regular file.
    #[default]
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A pipe or FIFO.
    Fifo,
    /// A socket.
    Socket,
    /// A character device, terminals among them.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// Something newer than this list.
    Other,
}

/// Metadata of a file, filled in by a stat op.
pub struct FileStat {
    pub(crate) kernel: libc::statx,
}

impl Default for FileStat {
    fn default() -> FileStat {
        FileStat {
            // SAFETY: `statx` is plain words, all valid when zero.
            kernel: unsafe { std::mem::zeroed() },
        }
    }
}

impl FileStat {
    /// What it is.
    pub fn kind(&self) -> FileKind {
        match u32::from(self.kernel.stx_mode) & libc::S_IFMT {
            libc::S_IFREG => FileKind::File,
            libc::S_IFDIR => FileKind::Directory,
            libc::S_IFLNK => FileKind::Symlink,
            libc::S_IFIFO => FileKind::Fifo,
            libc::S_IFSOCK => FileKind::Socket,
            libc::S_IFCHR => FileKind::CharDevice,
            libc::S_IFBLK => FileKind::BlockDevice,
            _ => FileKind::Other,
        }
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.kind() == FileKind::File
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind() == FileKind::Directory
    }

    /// Whether it is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.kind() == FileKind::Symlink
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.kernel.stx_size
    }

    /// Whether its length is zero.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its permission bits.
    pub fn mode(&self) -> u32 {
        u32::from(self.kernel.stx_mode) & 0o7777
    }

    /// The number of names it has.
    pub fn links(&self) -> u64 {
        u64::from(self.kernel.stx_nlink)
    }

    /// Its number on its device.
    pub fn inode(&self) -> u64 {
        self.kernel.stx_ino
    }

    /// The device it lies on, as (major, minor).
    pub fn device(&self) -> (u32, u32) {
        (self.kernel.stx_dev_major, self.kernel.stx_dev_minor)
    }

    /// The space it takes on the disk, in bytes.
    pub fn allocated(&self) -> u64 {
        self.kernel.stx_blocks * 512
    }

    /// When its contents last changed.
    pub fn modified(&self) -> SystemTime {
        system_time(self.kernel.stx_mtime)
    }

    /// When it was last read.
    pub fn accessed(&self) -> SystemTime {
        system_time(self.kernel.stx_atime)
    }
}

fn system_time(stamp: libc::statx_timestamp) -> SystemTime {
    let nanos = Duration::from_nanos(u64::from(stamp.tv_nsec));
    match u64::try_from(stamp.tv_sec) {
        Ok(seconds) => SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) + nanos,
        Err(_) => SystemTime::UNIX_EPOCH - Duration::from_secs(stamp.tv_sec.unsigned_abs()) + nanos,
    }
}

impl fmt::Debug for FileStat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStat")
            .field("kind", &self.kind())
            .field("len", &self.len())
            .field("mode", &format_args!("{:o}", self.mode()))
            .finish()
    }
}

/// What a directory holds, filled in by a list op: names and kinds, sorted by name, without `.` and `..`.
#[derive(Debug, Default)]
pub struct Listing {
    /// The entries.
    pub entries: Vec<(OsString, FileKind)>,
}
