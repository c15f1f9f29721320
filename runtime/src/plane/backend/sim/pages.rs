//! The bytes of a simulated file: sparse pages, taken from a disk of limited size.

use std::collections::BTreeMap;

use crate::plane::backend::sim::world::Errno;

/// Bytes of one page, the unit the disk is given out in.
pub(super) const PAGE_BYTES: usize = 4096;
/// The longest a file can be.
pub(super) const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// How much of the disk is taken, and how much there is, in pages.
#[derive(Debug)]
pub(super) struct Disk {
    used: u64,
    size: u64,
}

impl Disk {
    pub(super) fn new(bytes: u64) -> Disk {
        Disk { used: 0, size: bytes / PAGE_BYTES as u64 }
    }

    /// Changes its size. What is taken stays taken, also when that is more.
    pub(super) fn resize(&mut self, bytes: u64) {
        self.size = bytes / PAGE_BYTES as u64;
    }

    fn free(&self) -> u64 {
        self.size.saturating_sub(self.used)
    }

    fn take(&mut self) -> bool {
        let free = self.free() > 0;
        self.used += u64::from(free);
        free
    }

    fn give_back(&mut self, pages: usize) {
        self.used -= pages as u64;
    }
}

/// A file's contents. A page that was never written reads as zeros and takes no space.
#[derive(Debug, Default)]
pub(super) struct Pages {
    len: u64,
    pages: BTreeMap<u64, Box<[u8; PAGE_BYTES]>>,
}

/// The pages a run of bytes touches: the number of each, and which of its bytes.
fn touched(offset: u64, len: u64) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let page = PAGE_BYTES as u64;
    let end = offset + len;
    (offset / page..end.div_ceil(page)).map(move |number| {
        let start = number * page;
        let from = offset.max(start) - start;
        let to = end.min(start + page) - start;
        (number, from as usize..to as usize)
    })
}

impl Pages {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The number of pages that take space.
    pub(super) fn count(&self) -> u64 {
        self.pages.len() as u64
    }

    /// The bytes at `offset`, as many as there are up to `count`.
    pub(super) fn read(&self, offset: u64, count: usize) -> Vec<u8> {
        let count = self.len.saturating_sub(offset).min(count as u64);
        let mut bytes = Vec::with_capacity(count as usize);
        if count > 0 {
            for (number, range) in touched(offset, count) {
                match self.pages.get(&number) {
                    Some(page) => bytes.extend_from_slice(&page[range]),
                    None => bytes.resize(bytes.len() + range.len(), 0),
                }
            }
        }
        bytes
    }

    /// Writes at `offset`, as much as the disk has room for; refused when that is nothing.
    pub(super) fn write(&mut self, disk: &mut Disk, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let room = FILE_BYTES_MAX.saturating_sub(offset);
        if room == 0 {
            return Err(libc::EFBIG);
        }
        let bytes = &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        let mut written = 0;
        for (number, range) in touched(offset, bytes.len() as u64) {
            let Some(page) = self.page(disk, number) else { break };
            page[range.clone()].copy_from_slice(&bytes[written..written + range.len()]);
            written += range.len();
        }
        if written == 0 {
            return Err(libc::ENOSPC);
        }
        self.len = self.len.max(offset + written as u64);
        Ok(written)
    }

    fn page(&mut self, disk: &mut Disk, number: u64) -> Option<&mut [u8; PAGE_BYTES]> {
        if !self.pages.contains_key(&number) && !disk.take() {
            return None;
        }
        Some(self.pages.entry(number).or_insert_with(|| Box::new([0; PAGE_BYTES])))
    }

    /// Takes space for a run of bytes; all of it or none.
    pub(super) fn reserve(&mut self, disk: &mut Disk, offset: u64, len: u64, keep_size: bool) -> Result<(), Errno> {
        let end = offset.checked_add(len).filter(|end| *end <= FILE_BYTES_MAX).ok_or(libc::EFBIG)?;
        let page = PAGE_BYTES as u64;
        let run = offset / page..end.div_ceil(page);
        let missing = (run.end - run.start) - self.pages.range(run.clone()).count() as u64;
        if missing > disk.free() {
            return Err(libc::ENOSPC);
        }
        for number in run {
            self.page(disk, number);
        }
        if !keep_size {
            self.len = self.len.max(end);
        }
        Ok(())
    }

    /// Sets the length: the end is cut off, or zeros follow.
    pub(super) fn truncate(&mut self, disk: &mut Disk, len: u64) -> Result<(), Errno> {
        if len > FILE_BYTES_MAX {
            return Err(libc::EINVAL);
        }
        let page = PAGE_BYTES as u64;
        let cut = self.pages.split_off(&len.div_ceil(page));
        disk.give_back(cut.len());
        if let Some(last) = self.pages.get_mut(&(len / page)) {
            last[(len % page) as usize..].fill(0);
        }
        self.len = len;
        Ok(())
    }

    /// Gives everything back.
    pub(super) fn free(&mut self, disk: &mut Disk) {
        disk.give_back(self.pages.len());
        self.pages.clear();
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = PAGE_BYTES as u64;

    #[test]
    fn bytes_come_back_across_pages_and_holes() {
        let (mut disk, mut pages) = (Disk::new(1 << 20), Pages::default());
        let bytes: Vec<u8> = (0..10_000u32).map(|number| number as u8).collect();
        assert_eq!(pages.write(&mut disk, 3 * PAGE - 7, &bytes), Ok(10_000));
        assert_eq!(pages.len(), 3 * PAGE - 7 + 10_000);
        assert_eq!(pages.count(), 4);
        assert_eq!(pages.read(3 * PAGE - 7, usize::MAX), bytes);
        assert_eq!(pages.read(3 * PAGE - 9, 4), [0, 0, 0, 1]);
        assert_eq!(pages.read(pages.len(), 5), []);
    }

    #[test]
    fn cutting_and_growing_leaves_zeros() {
        let (mut disk, mut pages) = (Disk::new(1 << 20), Pages::default());
        pages.write(&mut disk, 0, &[9; 5000]).unwrap();
        pages.truncate(&mut disk, 10).unwrap();
        assert_eq!((pages.count(), disk.used), (1, 1));
        pages.truncate(&mut disk, 5000).unwrap();
        let mut expected = vec![0; 5000];
        expected[..10].fill(9);
        assert_eq!(pages.read(0, 5000), expected);
        assert_eq!(pages.truncate(&mut disk, u64::MAX), Err(libc::EINVAL));
    }

    #[test]
    fn a_full_disk_writes_short_then_refuses() {
        let (mut disk, mut pages) = (Disk::new(2 * PAGE), Pages::default());
        assert_eq!(pages.write(&mut disk, 0, &[1; 3 * PAGE_BYTES]), Ok(2 * PAGE_BYTES));
        assert_eq!(pages.write(&mut disk, 2 * PAGE, &[1]), Err(libc::ENOSPC));
        assert_eq!(pages.write(&mut disk, 0, &[2]), Ok(1), "a page the file has needs no room");
        assert_eq!(pages.reserve(&mut disk, 0, 3 * PAGE, false), Err(libc::ENOSPC));
        assert_eq!((pages.len(), disk.used), (2 * PAGE, 2));
        pages.truncate(&mut disk, 0).unwrap();
        assert_eq!(pages.reserve(&mut disk, 0, PAGE + 1, true), Ok(()));
        assert_eq!((pages.len(), disk.used), (0, 2));
        pages.free(&mut disk);
        assert_eq!(disk.used, 0);
    }

    #[test]
    fn the_end_of_the_number_line_is_an_error() {
        let (mut disk, mut pages) = (Disk::new(1 << 20), Pages::default());
        assert_eq!(pages.write(&mut disk, FILE_BYTES_MAX, &[1]), Err(libc::EFBIG));
        assert_eq!(pages.write(&mut disk, FILE_BYTES_MAX - 1, &[1, 2]), Ok(1));
        assert_eq!(pages.reserve(&mut disk, FILE_BYTES_MAX, 1, false), Err(libc::EFBIG));
    }
}
