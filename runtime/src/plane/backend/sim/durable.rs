//! What the disk holds of a file system: syncs, and what a power cut leaves.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;

use crate::plane::backend::sim::events::SyncFate;
use crate::plane::backend::sim::fs::{Content, Directory, FileSystem, Inode, Node, ROOT};
use crate::plane::backend::sim::journal::Journal;
use crate::plane::backend::sim::sparse::blocks_of;
use crate::plane::backend::sim::unsynced::Choose;
use crate::plane::backend::sim::world::Errno;
use crate::plane::time::Instant;

/// What a sync covers.
#[derive(Clone, Debug)]
pub(super) struct Covered {
    /// What had completed by then.
    pub(super) until: Instant,
    /// Only these blocks, of a durable write; and the length.
    pub(super) blocks: Option<Range<u64>>,
}

impl Covered {
    pub(super) fn has(&self, block: u64) -> bool {
        self.blocks.as_ref().is_none_or(|blocks| blocks.contains(&block))
    }
}

/// A sync in flight.
#[derive(Clone, Debug)]
pub(super) struct Syncing {
    inode: Inode,
    covered: Covered,
}

impl Syncing {
    /// The same, of an op that completes at `at`: a durable write covers itself.
    pub(super) fn completing(mut self, at: Instant) -> Syncing {
        if self.covered.blocks.is_some() {
            self.covered.until = at;
        }
        self
    }
}

impl FileSystem {
    /// The change made last completes at `at`.
    pub(super) fn stamp(&mut self, at: Instant) {
        self.journal.stamp(at);
        if let Some((pages, _)) = self.fresh.take().and_then(|inode| self.pages(inode)) {
            pages.stamp(at);
        }
    }

    /// Begins a sync of a file or directory.
    pub(super) fn begin_sync(&mut self, inode: Inode, now: Instant) -> Result<Syncing, Errno> {
        let node = self.node_mut(inode)?;
        match &mut node.content {
            Content::File(pages) => pages.sync_begins(),
            Content::Directory(_) => {}
            Content::Socket | Content::Null | Content::Zero => return Err(libc::EINVAL),
        }
        // Until it ends it holds the file, as its descriptor does.
        node.opens += 1;
        Ok(Syncing { inode, covered: Covered { until: now, blocks: None } })
    }

    /// Begins the sync of a durable write; none of what is no regular file.
    pub(super) fn begin_range_sync(&mut self, inode: Inode, offset: u64, len: u64) -> Option<Syncing> {
        self.pages(inode)?;
        let mut sync = self.begin_sync(inode, Instant::NEVER).ok()?;
        sync.covered.blocks = Some(blocks_of(offset, len));
        Some(sync)
    }

    /// A sync has completed: what it covers is on the disk, or what its fate has in store for that.
    pub(super) fn end_sync(&mut self, sync: &Syncing, fate: SyncFate) {
        match (self.nodes.get_mut(&sync.inode).map(|node| &mut node.content), fate) {
            (Some(Content::File(pages)), _) => pages.sync_ends(&sync.covered, fate),
            (Some(Content::Directory(_)), SyncFate::Well) => self.sync_directory(sync.inode, sync.covered.until),
            // A directory's changes stay where they are.
            _ => {}
        }
        self.close(sync.inode);
    }

    fn sync_directory(&mut self, inode: Inode, until: Instant) {
        for entry in self.journal.take(inode, until) {
            if let Some(Content::Directory(directory)) =
                self.nodes.get_mut(&entry.directory).map(|node| &mut node.content)
            {
                set(&mut directory.stored, entry.name, entry.inode);
            }
        }
        self.bury();
    }

    /// No program uses the file system any more: no descriptor is open, and no op in flight.
    pub(super) fn rest(&mut self) {
        self.stamp(Instant::ORIGIN);
        self.journal.rest();
        let inodes: Vec<Inode> = self.nodes.keys().copied().collect();
        for inode in inodes {
            let Some(node) = self.nodes.get_mut(&inode) else { continue };
            if let Content::File(pages) = &mut node.content {
                pages.rest();
            }
            if std::mem::take(&mut node.opens) > 0 {
                self.collect(inode);
            }
        }
    }

    /// Puts everything on the disk.
    pub(super) fn sync_all(&mut self) {
        self.stamp(Instant::ORIGIN);
        self.journal = Journal::default();
        for node in self.nodes.values_mut() {
            match &mut node.content {
                Content::File(pages) => {
                    pages.sync_begins();
                    pages.sync_ends(&Covered { until: Instant::NEVER, blocks: None }, SyncFate::Well);
                }
                Content::Directory(directory) => directory.stored = directory.entries.clone(),
                Content::Socket | Content::Null | Content::Zero => {}
            }
        }
        self.bury();
    }

    /// For each unit of what is not synced, how many states of it the disk may hold: changes of directories, then
    /// files by number, each by length and blocks.
    pub(super) fn options(&self) -> Vec<usize> {
        let files = self.nodes.values().filter_map(|node| match &node.content {
            Content::File(pages) => Some(pages.options()),
            _ => None,
        });
        std::iter::repeat_n(2, self.journal.len()).chain(files.flatten()).collect()
    }

    /// What is left in a power cut, when `choose` says of each unit in which state the disk holds it.
    pub(super) fn image(&self, choose: &mut Choose<'_>) -> FileSystem {
        let mut names: BTreeMap<Inode, BTreeMap<Vec<u8>, Inode>> = self
            .nodes
            .iter()
            .filter_map(|(inode, node)| match &node.content {
                Content::Directory(directory) => Some((*inode, directory.stored.clone())),
                _ => None,
            })
            .collect();
        for entry in self.journal.choose(choose) {
            if let Some(directory) = names.get_mut(&entry.directory) {
                set(directory, entry.name.clone(), entry.inode);
            }
        }
        let mut files: BTreeMap<Inode, Node> = BTreeMap::new();
        for (inode, node) in &self.nodes {
            if let Content::File(pages) = &node.content {
                let mut image = node.clone_without_content();
                image.content = Content::File(pages.image(choose));
                files.insert(*inode, image);
            }
        }
        let mut image = self.bare();
        let mut found = vec![(ROOT, ROOT)];
        while let Some((inode, parent)) = found.pop() {
            let (Some(node), false) = (self.nodes.get(&inode), image.nodes.contains_key(&inode)) else { continue };
            let mut kept = files.remove(&inode).unwrap_or_else(|| node.clone_without_content());
            (kept.links, kept.opens) = (1, 0);
            if let Some(stored) = names.remove(&inode) {
                let is_directory = |inode: &&Inode| matches!(self.nodes[inode].content, Content::Directory(_));
                kept.links = 2 + stored.values().filter(is_directory).count() as u32;
                found.extend(stored.values().map(|child| (*child, inode)));
                kept.content = Content::Directory(Directory { entries: stored.clone(), stored, parent });
            }
            image.nodes.insert(inode, kept);
        }
        image.space.used = image
            .nodes
            .values()
            .map(|node| match &node.content {
                Content::File(pages) => pages.count(),
                _ => 0,
            })
            .sum();
        image
    }
}

/// What tests do to a disk, and see of it.
impl FileSystem {
    /// A file's bytes, without a trace.
    pub(super) fn peek(&self, inode: Inode, offset: u64, count: usize) -> Result<Vec<u8>, Errno> {
        match &self.node(inode)?.content {
            Content::File(pages) => pages.read(offset, count),
            Content::Directory(_) => Err(libc::EISDIR),
            Content::Socket | Content::Null | Content::Zero => Ok(Vec::new()),
        }
    }

    /// A directory's names, sorted.
    pub(super) fn names(&self, inode: Inode) -> Result<Vec<OsString>, Errno> {
        match &self.node(inode)?.content {
            Content::Directory(directory) => {
                Ok(directory.entries.keys().map(|name| OsString::from_vec(name.clone())).collect())
            }
            _ => Err(libc::ENOTDIR),
        }
    }

    /// The paths of all regular files, sorted.
    pub(super) fn files(&self) -> Vec<Vec<u8>> {
        let mut files = Vec::new();
        let mut found = vec![(ROOT, Vec::new())];
        while let Some((inode, path)) = found.pop() {
            match self.nodes.get(&inode).map(|node| &node.content) {
                Some(Content::Directory(directory)) => {
                    found.extend(
                        directory.entries.iter().map(|(name, inode)| (*inode, [&path[..], b"/", name].concat())),
                    );
                }
                Some(Content::File(_)) => files.push(path),
                _ => {}
            }
        }
        files.sort_unstable();
        files
    }

    /// Turns one bit of a file over, on the disk and in the cache.
    pub(super) fn flip_bit(&mut self, path: &[u8], bit: u64) -> Result<(), Errno> {
        let inode = self.lookup(path)?;
        let (pages, _) = self.pages(inode).ok_or(libc::EINVAL)?;
        pages.flip_bit(bit)
    }

    /// Makes bytes of a file unreadable until they are written anew.
    pub(super) fn damage(&mut self, path: &[u8], bytes: Range<u64>) -> Result<(), Errno> {
        let inode = self.lookup(path)?;
        let (pages, _) = self.pages(inode).ok_or(libc::EINVAL)?;
        pages.damage(bytes);
        Ok(())
    }
}

fn set(names: &mut BTreeMap<Vec<u8>, Inode>, name: Vec<u8>, inode: Option<Inode>) {
    match inode {
        Some(inode) => drop(names.insert(name, inode)),
        None => drop(names.remove(&name)),
    }
}
