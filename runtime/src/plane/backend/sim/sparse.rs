//! Sparse bytes: what a file holds, in pages, of which clones share what neither has changed.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of one page, the unit the disk is given out in.
pub(super) const PAGE_BYTES: usize = 4096;
/// Bytes the disk writes whole or not at all.
pub(super) const BLOCK_BYTES: usize = 512;

pub(super) type Block = [u8; BLOCK_BYTES];

const BLOCKS_OF_PAGE: u64 = (PAGE_BYTES / BLOCK_BYTES) as u64;

/// Some bytes. A page that was never written reads as zeros and takes no space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sparse {
    pub(super) len: u64,
    pages: BTreeMap<u64, Arc<[u8; PAGE_BYTES]>>,
}

/// The units of `unit` bytes that a run of bytes touches: the number of each, and which of its bytes.
fn touched(unit: usize, offset: u64, len: u64) -> impl Iterator<Item = (u64, Range<usize>)> {
    let unit = unit as u64;
    let end = offset + len;
    (offset / unit..end.div_ceil(unit)).map(move |number| {
        let start = number * unit;
        let from = offset.max(start) - start;
        let to = end.min(start + unit) - start;
        (number, from as usize..to as usize)
    })
}

/// The numbers of the blocks that a run of bytes touches.
pub(super) fn blocks_of(offset: u64, len: u64) -> Range<u64> {
    if len == 0 { 0..0 } else { offset / BLOCK_BYTES as u64..(offset + len).div_ceil(BLOCK_BYTES as u64) }
}

impl Sparse {
    /// The number of pages that take space.
    pub(super) fn count(&self) -> u64 {
        self.pages.len() as u64
    }

    pub(super) fn has_page(&self, number: u64) -> bool {
        self.pages.contains_key(&number)
    }

    pub(super) fn pages_in(&self, run: Range<u64>) -> u64 {
        self.pages.range(run).count() as u64
    }

    /// Lets a page take space; zeros when it did not.
    pub(super) fn page(&mut self, number: u64) -> &mut [u8; PAGE_BYTES] {
        Arc::make_mut(self.pages.entry(number).or_insert_with(|| Arc::new([0; PAGE_BYTES])))
    }

    /// The bytes at `offset`, as many as there are up to `count`.
    pub(super) fn read(&self, offset: u64, count: u64) -> Vec<u8> {
        let count = self.len.saturating_sub(offset).min(count);
        let mut bytes = Vec::with_capacity(count as usize);
        if count > 0 {
            for (number, range) in touched(PAGE_BYTES, offset, count) {
                match self.pages.get(&number) {
                    Some(page) => bytes.extend_from_slice(&page[range]),
                    None => bytes.resize(bytes.len() + range.len(), 0),
                }
            }
        }
        bytes
    }

    /// Writes at `offset` for as long as `may` lets a page that took no space take some; answers how much.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8], mut may: impl FnMut() -> bool) -> usize {
        let mut written = 0;
        for (number, range) in touched(PAGE_BYTES, offset, bytes.len() as u64) {
            if !self.has_page(number) && !may() {
                break;
            }
            let count = range.len();
            self.page(number)[range].copy_from_slice(&bytes[written..written + count]);
            written += count;
        }
        if written > 0 {
            self.len = self.len.max(offset + written as u64);
        }
        written
    }

    pub(super) fn block(&self, number: u64) -> Block {
        let at = (number % BLOCKS_OF_PAGE) as usize * BLOCK_BYTES;
        let mut block = [0; BLOCK_BYTES];
        if let Some(page) = self.pages.get(&(number / BLOCKS_OF_PAGE)) {
            block.copy_from_slice(&page[at..at + BLOCK_BYTES]);
        }
        block
    }

    /// Sets a block, whatever the length is.
    pub(super) fn set_block(&mut self, number: u64, block: &Block) {
        let at = (number % BLOCKS_OF_PAGE) as usize * BLOCK_BYTES;
        self.page(number / BLOCKS_OF_PAGE)[at..at + BLOCK_BYTES].copy_from_slice(block);
    }

    /// Sets a block that takes space and lies before the end; any other is left alone.
    pub(super) fn replace_block(&mut self, number: u64, block: &Block) {
        let start = number * BLOCK_BYTES as u64;
        if start < self.len && self.has_page(number / BLOCKS_OF_PAGE) {
            let mut block = *block;
            block[(self.len - start).min(BLOCK_BYTES as u64) as usize..].fill(0);
            self.set_block(number, &block);
        }
    }

    /// Makes what lies beyond the end zeros, without giving its space back.
    pub(super) fn blank_beyond_end(&mut self) {
        let page = PAGE_BYTES as u64;
        for (number, bytes) in self.pages.range_mut(self.len / page..) {
            let from = self.len.saturating_sub(number * page) as usize;
            if bytes[from..].iter().any(|byte| *byte != 0) {
                Arc::make_mut(bytes)[from..].fill(0);
            }
        }
    }

    /// Takes away what lies at `len` and beyond, so that it reads as zeros; answers how many pages that gave back.
    pub(super) fn cut(&mut self, len: u64) -> usize {
        let page = PAGE_BYTES as u64;
        let cut = self.pages.split_off(&len.div_ceil(page));
        if let Some(last) = self.pages.get_mut(&(len / page)) {
            Arc::make_mut(last)[(len % page) as usize..].fill(0);
        }
        cut.len()
    }

    /// Takes everything away; answers how many pages that gave back.
    pub(super) fn clear(&mut self) -> usize {
        self.len = 0;
        std::mem::take(&mut self.pages).len()
    }
}
