//! The simulated file system: one tree in memory, with Linux's rules and answers.
//!
//! It starts with `/tmp` and `/dev` (`null` and `zero`). Relative paths begin at the root. The simulated process may
//! do everything, as root may; its umask is 022. There are no links, hard or symbolic. A file without a name lives
//! until its last descriptor is closed. Times are the host's wall clock's.
//!
//! Beside what programs see, every file and directory keeps what the disk holds of it; see [`Disk`].
//!
//! [`Disk`]: super::Disk

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::plane::backend::operand::{FileKind, Listing};
use crate::plane::backend::sim::journal::{Entry, Journal};
use crate::plane::backend::sim::pages::{Pages, Space};
use crate::plane::backend::sim::sparse::PAGE_BYTES;
use crate::plane::backend::sim::wall::{WallClock, WallTime};
use crate::plane::backend::sim::world::Errno;
use crate::plane::time::Instant;

const UMASK: u32 = 0o022;
const NAME_BYTES_MAX: usize = 255;
const PATH_BYTES_MAX: usize = 4095;
/// How old an access time may grow before a read renews it anyway: a day, as Linux's `relatime` has it.
const ACCESS_NANOS_MAX: i128 = 86_400_000_000_000;
const DISK_BYTES: u64 = 4 << 30;

/// A file's number; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Inode(u64);

/// What a file is.
#[derive(Clone, Debug)]
pub(super) enum Content {
    File(Pages),
    Directory(Directory),
    /// The name of a Unix socket.
    Socket,
    /// `/dev/null`
    Null,
    /// `/dev/zero`
    Zero,
}

#[derive(Clone, Debug)]
pub(super) struct Directory {
    pub(super) entries: BTreeMap<Vec<u8>, Inode>,
    /// The same as the disk holds it.
    pub(super) stored: BTreeMap<Vec<u8>, Inode>,
    pub(super) parent: Inode,
}

/// A file of any sort.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) content: Content,
    mode: u32,
    pub(super) links: u32,
    /// Open descriptors.
    pub(super) opens: u32,
    accessed: WallTime,
    modified: WallTime,
    changed: WallTime,
    born: WallTime,
}

/// The tree and its disk.
#[derive(Clone, Debug)]
pub(super) struct FileSystem {
    pub(super) nodes: BTreeMap<Inode, Node>,
    next: u64,
    pub(super) space: Space,
    pub(super) journal: Journal,
    /// Files that have neither a name nor a descriptor, and that the disk may know all the same.
    pub(super) ghosts: BTreeSet<Inode>,
    /// The file changed last, until it is known when that completes.
    pub(super) fresh: Option<Inode>,
    /// The host's, by which files are stamped.
    pub(super) wall: WallClock,
}

/// How a path ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last<'a> {
    Root,
    Dot,
    DotDot,
    Name(&'a [u8]),
}

/// A path resolved up to its last part.
struct Place<'a> {
    directory: Inode,
    last: Last<'a>,
    /// The path ends in a slash: it means a directory.
    slash: bool,
}

pub(super) const ROOT: Inode = Inode(1);

impl FileSystem {
    pub(super) fn new() -> FileSystem {
        let mut fs = FileSystem {
            nodes: BTreeMap::new(),
            next: 1,
            space: Space::new(DISK_BYTES),
            journal: Journal::default(),
            ghosts: BTreeSet::new(),
            fresh: None,
            wall: WallClock::default(),
        };
        fs.add(Content::Directory(Directory::new(ROOT)), 0o755, Instant::ORIGIN);
        let entries = [("tmp", 0o1777), ("dev", 0o755)];
        for (name, mode) in entries {
            fs.add_directory(ROOT, name.as_bytes(), mode, Instant::ORIGIN);
        }
        if let Ok(dev) = fs.lookup(b"/dev") {
            for (name, content) in [("null", Content::Null), ("zero", Content::Zero)] {
                let inode = fs.add(content, 0o666, Instant::ORIGIN);
                fs.enter(dev, name.as_bytes(), inode, Instant::ORIGIN);
            }
        }
        fs.sync_all();
        fs
    }

    /// The same file system without its files.
    pub(super) fn bare(&self) -> FileSystem {
        FileSystem {
            nodes: BTreeMap::new(),
            next: self.next,
            space: self.space.clone(),
            journal: Journal::default(),
            ghosts: BTreeSet::new(),
            fresh: None,
            wall: self.wall,
        }
    }

    fn add(&mut self, content: Content, mode: u32, now: Instant) -> Inode {
        let inode = Inode(self.next);
        self.next += 1;
        let links = if matches!(content, Content::Directory(_)) { 2 } else { 1 };
        let now = self.wall.at(now);
        let node = Node { content, mode, links, opens: 0, accessed: now, modified: now, changed: now, born: now };
        self.nodes.insert(inode, node);
        inode
    }

    fn add_directory(&mut self, parent: Inode, name: &[u8], mode: u32, now: Instant) {
        let inode = self.add(Content::Directory(Directory::new(parent)), mode, now);
        self.enter(parent, name, inode, now);
        self.note([(parent, name, Some(inode))]);
        if let Some(parent) = self.nodes.get_mut(&parent) {
            parent.links += 1;
        }
    }

    pub(super) fn node(&self, inode: Inode) -> Result<&Node, Errno> {
        self.nodes.get(&inode).ok_or(libc::ENOENT)
    }

    pub(super) fn node_mut(&mut self, inode: Inode) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&inode).ok_or(libc::ENOENT)
    }

    fn directory(&self, inode: Inode) -> Result<&Directory, Errno> {
        match &self.node(inode)?.content {
            Content::Directory(directory) => Ok(directory),
            _ => Err(libc::ENOTDIR),
        }
    }

    fn is_directory(&self, inode: Inode) -> bool {
        self.directory(inode).is_ok()
    }

    /// A file's pages, with the disk they are on.
    pub(super) fn pages(&mut self, inode: Inode) -> Option<(&mut Pages, &mut Space)> {
        match &mut self.nodes.get_mut(&inode)?.content {
            Content::File(pages) => Some((pages, &mut self.space)),
            _ => None,
        }
    }

    /// Follows a path up to its last part.
    fn place<'a>(&self, path: &'a [u8]) -> Result<Place<'a>, Errno> {
        if path.is_empty() {
            return Err(libc::ENOENT);
        }
        if path.len() > PATH_BYTES_MAX {
            return Err(libc::ENAMETOOLONG);
        }
        let mut parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).peekable();
        let slash = path.ends_with(b"/");
        let mut directory = ROOT;
        while let Some(part) = parts.next() {
            if part.len() > NAME_BYTES_MAX {
                return Err(libc::ENAMETOOLONG);
            }
            let here = self.directory(directory)?;
            if parts.peek().is_none() {
                let last = match part {
                    b"." => Last::Dot,
                    b".." => Last::DotDot,
                    name => Last::Name(name),
                };
                return Ok(Place { directory, last, slash });
            }
            directory = match part {
                b"." => directory,
                b".." => here.parent,
                name => *here.entries.get(name).ok_or(libc::ENOENT)?,
            };
        }
        Ok(Place { directory, last: Last::Root, slash: true })
    }

    /// What a place holds; none when there is no such name.
    fn find(&self, place: &Place<'_>) -> Result<Option<Inode>, Errno> {
        let found = match place.last {
            Last::Root | Last::Dot => Some(place.directory),
            Last::DotDot => Some(self.directory(place.directory)?.parent),
            Last::Name(name) => self.directory(place.directory)?.entries.get(name).copied(),
        };
        match found {
            Some(inode) if place.slash && !self.is_directory(inode) => Err(libc::ENOTDIR),
            found => Ok(found),
        }
    }

    /// The file at a path.
    pub(super) fn lookup(&self, path: &[u8]) -> Result<Inode, Errno> {
        self.find(&self.place(path)?)?.ok_or(libc::ENOENT)
    }

    fn enter(&mut self, directory: Inode, name: &[u8], inode: Inode, now: Instant) {
        let now = self.wall.at(now);
        if let Some(Node { content: Content::Directory(entries), modified, changed, .. }) =
            self.nodes.get_mut(&directory)
        {
            entries.entries.insert(name.to_vec(), inode);
            (*modified, *changed) = (now, now);
        }
    }

    /// Takes a name away; the file it named goes when nothing holds it any more.
    fn leave(&mut self, directory: Inode, name: &[u8], now: Instant) -> Option<Inode> {
        let now = self.wall.at(now);
        let node = self.nodes.get_mut(&directory)?;
        let Content::Directory(entries) = &mut node.content else { return None };
        let inode = entries.entries.remove(name)?;
        (node.modified, node.changed) = (now, now);
        Some(inode)
    }

    fn unlinked(&mut self, parent: Inode, inode: Inode, now: Instant) {
        if self.is_directory(inode) {
            if let Some(parent) = self.nodes.get_mut(&parent) {
                parent.links -= 1;
            }
            if let Some(node) = self.nodes.get_mut(&inode) {
                node.links = 0;
            }
        } else if let Some(node) = self.nodes.get_mut(&inode) {
            node.links -= 1;
            node.changed = self.wall.at(now);
        }
        self.collect(inode);
    }

    /// Lets a file go that has no name and no descriptor; what the disk may know of it is kept.
    pub(super) fn collect(&mut self, inode: Inode) {
        let Some(node) = self.nodes.get_mut(&inode).filter(|node| node.links == 0 && node.opens == 0) else { return };
        if let Content::File(pages) = &mut node.content {
            pages.free(&mut self.space);
        }
        self.ghosts.insert(inode);
        self.bury();
    }

    /// Forgets the ghosts the disk cannot come to know any more.
    pub(super) fn bury(&mut self) {
        if self.ghosts.is_empty() {
            return;
        }
        let directories = self.nodes.values().filter_map(|node| match &node.content {
            Content::Directory(directory) => Some(directory),
            _ => None,
        });
        let known: BTreeSet<Inode> = directories.flat_map(|directory| directory.stored.values().copied()).collect();
        for inode in std::mem::take(&mut self.ghosts) {
            if known.contains(&inode) || self.journal.names(inode) {
                self.ghosts.insert(inode);
            } else {
                self.nodes.remove(&inode);
            }
        }
    }

    /// Notes names that changed, together.
    fn note<const N: usize>(&mut self, names: [(Inode, &[u8], Option<Inode>); N]) {
        let entry =
            |(directory, name, inode): (Inode, &[u8], Option<Inode>)| Entry { directory, name: name.to_vec(), inode };
        self.journal.note(names.map(entry).into());
    }

    /// Opens by the system's flags: answers the file and counts one descriptor of it.
    pub(super) fn open(&mut self, path: &[u8], flags: i32, mode: u32, now: Instant) -> Result<Inode, Errno> {
        let (create, exclusive) = (flags & libc::O_CREAT != 0, flags & libc::O_EXCL != 0);
        let directory_only = flags & libc::O_DIRECTORY != 0;
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        if create && directory_only {
            return Err(libc::EINVAL);
        }
        let place = self.place(path)?;
        if create && place.slash && matches!(place.last, Last::Name(_)) {
            return Err(libc::EISDIR);
        }
        let inode = match (self.find(&place)?, place.last) {
            (Some(_), _) if create && exclusive => return Err(libc::EEXIST),
            (Some(inode), _) => inode,
            (None, Last::Name(name)) if create => {
                let inode = self.add(Content::File(Pages::default()), mode & 0o7777 & !UMASK, now);
                self.enter(place.directory, name, inode, now);
                self.note([(place.directory, name, Some(inode))]);
                inode
            }
            (None, _) => return Err(libc::ENOENT),
        };
        match &self.node(inode)?.content {
            Content::Directory(_) if writes || create => return Err(libc::EISDIR),
            Content::Directory(_) => {}
            _ if directory_only => return Err(libc::ENOTDIR),
            Content::Socket => return Err(libc::ENXIO),
            Content::File(_) if flags & libc::O_TRUNC != 0 => self.truncate(inode, 0, now)?,
            _ => {}
        }
        self.node_mut(inode)?.opens += 1;
        Ok(inode)
    }

    /// A descriptor was closed.
    pub(super) fn close(&mut self, inode: Inode) {
        if let Some(node) = self.nodes.get_mut(&inode) {
            node.opens -= 1;
        }
        self.collect(inode);
    }

    pub(super) fn read(&mut self, inode: Inode, offset: u64, count: usize, now: Instant) -> Result<Vec<u8>, Errno> {
        let now = self.wall.at(now);
        let node = self.node_mut(inode)?;
        let bytes = match &node.content {
            Content::File(pages) => pages.read(offset, count)?,
            Content::Zero => vec![0; count],
            Content::Null => Vec::new(),
            Content::Directory(_) => return Err(libc::EISDIR),
            Content::Socket => return Err(libc::ENXIO),
        };
        let stale =
            node.accessed <= node.modified.max(node.changed) || now.nanos_since(node.accessed) >= ACCESS_NANOS_MAX;
        if stale {
            node.accessed = now;
        }
        Ok(bytes)
    }

    /// Writes at `offset`, or at the end without one: the count, and where the write ended.
    pub(super) fn write(
        &mut self,
        inode: Inode,
        offset: Option<u64>,
        bytes: &[u8],
        now: Instant,
    ) -> Result<(usize, u64), Errno> {
        let Some((pages, space)) = self.pages(inode) else {
            return Ok((bytes.len(), offset.unwrap_or(0) + bytes.len() as u64));
        };
        let offset = offset.unwrap_or(pages.len());
        let count = pages.write(space, offset, bytes, now)?;
        if count > 0 {
            self.touch(inode, now);
        }
        Ok((count, offset + count as u64))
    }

    pub(super) fn truncate(&mut self, inode: Inode, len: u64, now: Instant) -> Result<(), Errno> {
        let Some((pages, space)) = self.pages(inode) else { return Err(libc::EINVAL) };
        pages.truncate(space, len)?;
        self.touch(inode, now);
        Ok(())
    }

    pub(super) fn allocate(
        &mut self,
        inode: Inode,
        offset: u64,
        len: u64,
        keep_size: bool,
        now: Instant,
    ) -> Result<(), Errno> {
        let Some((pages, space)) = self.pages(inode) else { return Err(libc::ENODEV) };
        pages.reserve(space, offset, len, keep_size)?;
        self.touch(inode, now);
        Ok(())
    }

    /// A file's contents or length changed, by the op that is being performed.
    fn touch(&mut self, inode: Inode, now: Instant) {
        let now = self.wall.at(now);
        self.fresh = Some(inode);
        if let Some(node) = self.nodes.get_mut(&inode) {
            (node.modified, node.changed) = (now, now);
        }
    }

    /// Makes the file that is a Unix socket's name.
    pub(super) fn make_socket(&mut self, path: &[u8], now: Instant) -> Result<Inode, Errno> {
        let place = self.place(path)?;
        let Last::Name(name) = place.last else { return Err(libc::EEXIST) };
        match self.find(&place)? {
            Some(_) => Err(libc::EEXIST),
            None if place.slash => Err(libc::ENOENT),
            None => {
                let inode = self.add(Content::Socket, 0o777 & !UMASK, now);
                self.enter(place.directory, name, inode, now);
                self.note([(place.directory, name, Some(inode))]);
                Ok(inode)
            }
        }
    }

    pub(super) fn make_directory(&mut self, path: &[u8], mode: u32, now: Instant) -> Result<(), Errno> {
        let place = self.place(path)?;
        let Last::Name(name) = place.last else { return Err(libc::EEXIST) };
        if self.directory(place.directory)?.entries.contains_key(name) {
            return Err(libc::EEXIST);
        }
        self.add_directory(place.directory, name, mode & 0o1777 & !UMASK, now);
        Ok(())
    }

    pub(super) fn unlink(&mut self, path: &[u8], directory: bool, now: Instant) -> Result<(), Errno> {
        let place = self.place(path)?;
        let name = match place.last {
            Last::Name(name) => name,
            _ if !directory => return Err(libc::EISDIR),
            Last::Root => return Err(libc::EBUSY),
            Last::Dot => return Err(libc::EINVAL),
            Last::DotDot => return Err(libc::ENOTEMPTY),
        };
        let inode = self.find(&place)?.ok_or(libc::ENOENT)?;
        match (&self.node(inode)?.content, directory) {
            (Content::Directory(_), false) => return Err(libc::EISDIR),
            (Content::Directory(directory), true) if !directory.entries.is_empty() => return Err(libc::ENOTEMPTY),
            (Content::Directory(_), true) | (_, false) => {}
            (_, true) => return Err(libc::ENOTDIR),
        }
        self.leave(place.directory, name, now);
        self.note([(place.directory, name, None)]);
        self.unlinked(place.directory, inode, now);
        Ok(())
    }

    /// Whether `inode` is `above` or lies in it.
    fn lies_in(&self, mut inode: Inode, above: Inode) -> bool {
        loop {
            if inode == above {
                return true;
            }
            match self.directory(inode) {
                Ok(directory) if inode != ROOT => inode = directory.parent,
                _ => return false,
            }
        }
    }

    pub(super) fn rename(&mut self, from: &[u8], to: &[u8], replace: bool, now: Instant) -> Result<(), Errno> {
        let (source, target) = (self.place(from)?, self.place(to)?);
        let Last::Name(old) = source.last else { return Err(libc::EBUSY) };
        let Last::Name(new) = target.last else { return Err(if replace { libc::EBUSY } else { libc::EEXIST }) };
        let entry = |directory, name| self.directory(directory).map(|directory| directory.entries.get(name).copied());
        let moved = entry(source.directory, old)?.ok_or(libc::ENOENT)?;
        let replaced = entry(target.directory, new)?;
        let moves_directory = self.is_directory(moved);
        if replaced.is_some() && !replace {
            return Err(libc::EEXIST);
        }
        if !moves_directory && (source.slash || target.slash) {
            return Err(libc::ENOTDIR);
        }
        if self.lies_in(target.directory, moved) {
            return Err(libc::EINVAL);
        }
        if let Some(replaced) = replaced {
            if replaced == moved {
                return Ok(());
            }
            if self.lies_in(source.directory, replaced) {
                return Err(libc::ENOTEMPTY);
            }
            match (moves_directory, &self.node(replaced)?.content) {
                (true, Content::Directory(directory)) if !directory.entries.is_empty() => return Err(libc::ENOTEMPTY),
                (true, Content::Directory(_)) => {}
                (true, _) => return Err(libc::ENOTDIR),
                (false, Content::Directory(_)) => return Err(libc::EISDIR),
                (false, _) => {}
            }
            self.leave(target.directory, new, now);
            self.unlinked(target.directory, replaced, now);
        }
        self.leave(source.directory, old, now);
        self.enter(target.directory, new, moved, now);
        self.note([(source.directory, old, None), (target.directory, new, Some(moved))]);
        if let Some(node) = self.nodes.get_mut(&moved) {
            node.changed = self.wall.at(now);
            if let Content::Directory(directory) = &mut node.content {
                directory.parent = target.directory;
            }
        }
        if moves_directory && source.directory != target.directory {
            self.node_mut(source.directory)?.links -= 1;
            self.node_mut(target.directory)?.links += 1;
        }
        Ok(())
    }

    /// A directory's entries, sorted by name.
    pub(super) fn list(&mut self, path: &[u8], now: Instant) -> Result<Listing, Errno> {
        let inode = self.lookup(path)?;
        let entries = self
            .directory(inode)?
            .entries
            .iter()
            .filter_map(|(name, inode)| Some((OsString::from_vec(name.clone()), self.nodes.get(inode)?.kind())))
            .collect();
        let now = self.wall.at(now);
        self.node_mut(inode)?.accessed = now;
        Ok(Listing { entries })
    }

    pub(super) fn stat(&self, inode: Inode) -> Result<libc::statx, Errno> {
        let node = self.node(inode)?;
        let mut stat = blank_stat(node.format() | node.mode);
        stat.stx_mask |= libc::STATX_BTIME;
        stat.stx_nlink = node.links;
        stat.stx_ino = inode.0;
        stat.stx_dev_minor = 1;
        if let Content::File(pages) = &node.content {
            stat.stx_size = pages.len();
            stat.stx_blocks = pages.count() * (PAGE_BYTES as u64 / 512);
        }
        stat.stx_atime = stamp(node.accessed);
        stat.stx_mtime = stamp(node.modified);
        stat.stx_ctime = stamp(node.changed);
        stat.stx_btime = stamp(node.born);
        Ok(stat)
    }
}

impl Directory {
    fn new(parent: Inode) -> Directory {
        Directory { entries: BTreeMap::new(), stored: BTreeMap::new(), parent }
    }
}

impl Node {
    /// The same node, without the contents of a file or directory.
    pub(super) fn clone_without_content(&self) -> Node {
        let content = match self.content {
            Content::File(_) => Content::File(Pages::default()),
            Content::Directory(_) => Content::Directory(Directory::new(ROOT)),
            Content::Socket => Content::Socket,
            Content::Null => Content::Null,
            Content::Zero => Content::Zero,
        };
        Node { content, ..*self }
    }

    fn kind(&self) -> FileKind {
        match self.content {
            Content::File(_) => FileKind::File,
            Content::Directory(_) => FileKind::Directory,
            Content::Socket => FileKind::Socket,
            Content::Null | Content::Zero => FileKind::CharDevice,
        }
    }

    fn format(&self) -> u32 {
        match self.content {
            Content::File(_) => libc::S_IFREG,
            Content::Directory(_) => libc::S_IFDIR,
            Content::Socket => libc::S_IFSOCK,
            Content::Null | Content::Zero => libc::S_IFCHR,
        }
    }
}

/// Metadata of something that has only a mode.
pub(super) fn blank_stat(mode: u32) -> libc::statx {
    // SAFETY: `statx` is plain words, all valid when zero.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    stat.stx_mask = libc::STATX_BASIC_STATS;
    stat.stx_blksize = PAGE_BYTES as u32;
    stat.stx_nlink = 1;
    stat.stx_mode = mode as u16;
    stat
}

fn stamp(at: WallTime) -> libc::statx_timestamp {
    // SAFETY: a timestamp is plain words, all valid when zero.
    let mut stamp: libc::statx_timestamp = unsafe { std::mem::zeroed() };
    (stamp.tv_sec, stamp.tv_nsec) = at.parts();
    stamp
}
