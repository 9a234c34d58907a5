//! Runs: immutable sorted sequences of pages, with index blocks.

mod block_zones;
mod column_rows;
mod cursor;
mod description;
mod estimate;
mod held_page;
mod index_block;
mod index_table;
mod lookup;
mod moved_blocks;
mod page_size;
mod read_pattern;
mod relocate;
mod separate;
mod sizes;
#[cfg(test)]
mod tests;
mod verify;
mod verify_zones;
mod writer;
mod writer_options;
mod zone_reader;

pub use column_rows::ColumnRows;
pub(crate) use cursor::FollowingPage;
pub use cursor::RunCursor;
pub(crate) use description::SEPARATE_FRACTION;
pub use description::{RunDescription, SeparateTotals};
pub use index_block::IndexBlock;
#[cfg(feature = "fuzzing")]
pub(crate) use index_block::{INDEX_BLOCK_LAYOUT, IndexBlockBuilder};
pub use index_table::IndexTable;
#[cfg(feature = "fuzzing")]
pub(crate) use index_table::{IndexTableBuilder, bound_between};
pub(crate) use lookup::{PageNeeds, Visitor};
pub(crate) use moved_blocks::MovedBlocks;
pub(crate) use read_pattern::BlockSource;
pub use read_pattern::ReadPattern;
pub(crate) use relocate::RelocateOptions;
pub(crate) use separate::read_value;
pub(crate) use sizes::PageSizes;
pub use writer::{FinishedRun, RunWriter};
pub use writer_options::{RunWriterOptions, SeparateOptions};
pub use zone_reader::{PageZone, ZoneReader};

use crate::block_memory::{BlockCharge, FileBlocks};
use crate::cache::{Cached, Priority};
use crate::filter_keys::KeyPrefix;
use crate::key_search::key_order;
use crate::page::{PAGE_LAYOUT, Projection};
use crate::page_counts::count_read;
use crate::{LookupKey, Page, PageCache, StoredValue};
use index_block::{PageRecord, is_known_layout};
use std::sync::Arc;
use teak_base::{StorageError, StorageResult};
use teak_block_file::{BlockAddress, BlockFile, BlockKind, ReadAhead};
use teak_disk::pay_for_io;

/// An open run. Opening does no I/O; index blocks and pages are read through the cache.
/// While the owner uses the run, it must hold a pin that prevents the reuse of the run's blocks.
#[derive(Debug)]
pub struct Run {
    file: BlockFile,
    cache: Arc<PageCache>,
    description: RunDescription,
    /// Counts the run's blocks in memory.
    blocks: FileBlocks,
    charge: BlockCharge,
}

/// The number of a page: its index block, and its place in this block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageNumber {
    pub(crate) block: usize,
    pub(crate) page: usize,
}

impl PageNumber {
    pub(crate) fn new(block: usize, page: usize) -> Self {
        Self { block, page }
    }
}

/// Where a run would have the keys that start with a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrefixPlace {
    /// Nowhere: the range of the run excludes them.
    None,
    /// The filters of the run do not have such prefixes.
    Unknown,
    /// If the run has such keys, they begin in this index block (see `index_table`), and the filter
    /// of the block has this hash.
    Block { number: usize, hash: u64 },
}

fn record_of(block: &IndexBlock, number: PageNumber) -> &PageRecord {
    let Some(record) = block.pages().get(number.page) else {
        unreachable!("the number is that of a page of the index block");
    };
    record
}

/// Approximate bytes of a run in nodes, without its description: references, the range of the run,
/// and its share of the node's own fields.
const NODE_BYTES: usize = 512;

impl Run {
    /// Opens a run of `file`.
    #[must_use]
    pub fn open(file: &BlockFile, cache: &Arc<PageCache>, description: RunDescription) -> Self {
        let bytes = description.memory_bytes() + size_of::<Self>() + NODE_BYTES;
        Self {
            file: file.clone(),
            blocks: cache.blocks_in_memory().of_file(file.file_id()),
            charge: BlockCharge::of_node(cache.blocks_in_memory(), bytes),
            cache: Arc::clone(cache),
            description,
        }
    }

    /// The memory of the run in nodes, in bytes.
    pub(crate) fn node_bytes(&self) -> u64 {
        self.charge.bytes()
    }

    /// The description of the run in nodes.
    #[must_use]
    pub fn description(&self) -> &RunDescription {
        &self.description
    }

    /// Begins to read in the background the block that a lookup of the key reads first from the
    /// file, if there is one. Returns whether the run probably has the key, by its filter.
    pub(crate) fn prefetch(&self, key: &LookupKey<'_>) -> bool {
        let index = &self.description.index;
        if !self.spans(key.bytes()) || index.is_empty() {
            return false;
        }
        let number = index.block_of(key.bytes());
        let peek = |offset: u64| self.cache.peek(self.file.file_id(), offset);
        let Some(address) = index.address(number) else {
            return false;
        };
        let Some(Cached::Index(block)) = peek(address.offset) else {
            self.file.prefetch(address);
            return false;
        };
        if block.has_filter() && !block.may_contain(key.hash_for(self.description.filter_keys)) {
            return false;
        }
        let page = block.pages().get(block.page_of(key.bytes()));
        if let Some(page) = page
            && peek(page.address.offset).is_none()
        {
            self.file.prefetch(page.address);
        }
        block.has_filter()
    }

    /// Where the run would have the keys that start with the prefix.
    pub(crate) fn prefix_place(&self, prefix: &KeyPrefix) -> PrefixPlace {
        let RunDescription {
            first_key,
            last_key,
            index,
            filter_keys,
            ..
        } = &self.description;
        if index.is_empty()
            || key_order(last_key, prefix.bytes()).is_lt()
            || (key_order(first_key, prefix.bytes()).is_gt()
                && !first_key.starts_with(prefix.bytes()))
        {
            return PrefixPlace::None;
        }
        match prefix.hash_for(*filter_keys) {
            Some(hash) => PrefixPlace::Block {
                number: index.block_of(prefix.bytes()),
                hash,
            },
            None => PrefixPlace::Unknown,
        }
    }

    /// Checks the filter of an index block for a hash, and counts the check.
    fn filter_passes(&self, block: &IndexBlock, hash: u64) -> bool {
        let passes = block.may_contain(hash);
        self.blocks.count_filter(!passes);
        passes
    }

    /// The value of an entry of one of the run's pages.
    #[inline]
    pub(crate) fn stored_value<'a>(&'a self, page: &'a Page, entry: usize) -> StoredValue<'a> {
        match page.reference(entry) {
            None => StoredValue::Inline(page.value(entry)),
            Some(reference) => StoredValue::Separate(reference, self),
        }
    }

    /// Returns the addresses of all blocks of the run, to free them. Separate values are not
    /// blocks of the run: they belong to entries.
    ///
    /// # Errors
    /// Errors of reading blocks.
    pub fn addresses(&self) -> StorageResult<Vec<BlockAddress>> {
        let mut addresses: Vec<BlockAddress> = self.description.index.addresses().collect();
        for number in 0..self.description.index.len() {
            let block = self.index_block(number, ReadPattern::Sequential, Priority::Normal)?;
            addresses.extend(block.pages().iter().map(|page| page.address));
        }
        Ok(addresses)
    }

    /// Reads a page from the disk, even if it is cached.
    pub(crate) fn stored_page(
        &self,
        block: &IndexBlock,
        number: PageNumber,
    ) -> StorageResult<Arc<Page>> {
        let mut ahead = ReadAhead::default();
        self.read_page(block, number, record_of(block, number), None, &mut ahead)
    }

    /// Returns an index block of the run, which must exist.
    pub(crate) fn index_block(
        &self,
        number: usize,
        pattern: ReadPattern,
        priority: Priority,
    ) -> StorageResult<Arc<IndexBlock>> {
        let Some(address) = self.description.index.address(number) else {
            unreachable!("the number is that of an index block of the run");
        };
        let (file, offset) = (self.file.file_id(), address.offset);
        let found = match pattern {
            ReadPattern::Sequential => self.cache.peek(file, offset),
            ReadPattern::Random => {
                let load = || Ok(Cached::Index(self.stored_index_block(number)?));
                Some(self.cache.get_or_load(file, offset, priority, load)?)
            }
        };
        match found {
            Some(Cached::Index(block)) => Ok(block),
            // The block is not cached. Or the cache has another block at this address: then the
            // file is damaged, and reading the block returns the error.
            _ => self.stored_index_block(number),
        }
    }

    /// Returns an index block of the run, which must exist, if it is cached.
    fn index_block_in_memory(&self, number: usize) -> Option<Arc<IndexBlock>> {
        let address = self.description.index.address(number)?;
        let cached = self.cache.get_cached(self.file.file_id(), address.offset);
        match cached {
            Some(Cached::Index(block)) => Some(block),
            _ => None,
        }
    }

    /// Reads an index block from the disk, even if it is cached.
    #[cold]
    pub(crate) fn stored_index_block(&self, number: usize) -> StorageResult<Arc<IndexBlock>> {
        let index = &self.description.index;
        let Some(address) = index.address(number) else {
            unreachable!("the number is that of an index block of the run");
        };
        count_read();
        let block = self.file.read_block(address, BlockKind::RunIndex)?;
        if !is_known_layout(block.description.layout) {
            return Err(self.corrupt(address, "the index block is of an unknown layout"));
        }
        let mut block = IndexBlock::decode(&block.raw)
            .map_err(|_| self.corrupt(address, "the index block is malformed"))?;
        let pages = block.pages().len();
        let last_key = block.last_key(pages - 1);
        let is_last_right = match index.bound_after(number) {
            Some(bound) => last_key < bound,
            None => last_key == self.description.last_key,
        };
        if !is_last_right
            || last_key < index.bound_before(number)
            || pages as u64 != index.pages_before(number + 1) - index.pages_before(number)
            || block.entries_before(pages)
                != index.entries_before(number + 1) - index.entries_before(number)
        {
            return Err(self.corrupt(address, "the index block and its run disagree"));
        }
        block.charge(&self.blocks);
        Ok(Arc::new(block))
    }

    /// Returns a page of the run, which must exist. `block` is the index block with its record.
    pub(crate) fn page(
        &self,
        block: &IndexBlock,
        number: PageNumber,
        pattern: ReadPattern,
    ) -> StorageResult<Arc<Page>> {
        let ahead = &mut ReadAhead::default();
        let found = self.page_ahead(block, number, pattern, None, ahead)?;
        Ok(found.0)
    }

    /// As [`Run::page`], for a reader that needs no values.
    pub(crate) fn page_with_keys(
        &self,
        block: &IndexBlock,
        number: PageNumber,
    ) -> StorageResult<Arc<Page>> {
        let offset = record_of(block, number).address.offset;
        match self.cache.get_cached(self.file.file_id(), offset) {
            Some(Cached::Page(page)) => Ok(page),
            _ => self.page(block, number, ReadPattern::Random),
        }
    }

    /// As [`Run::page`], for a reader that may be sequential, and may need only some columns. Also returns whether
    /// a reader with a sequential pattern found the page in the cache.
    pub(crate) fn page_ahead(
        &self,
        block: &IndexBlock,
        number: PageNumber,
        pattern: ReadPattern,
        projection: Option<&Projection>,
        ahead: &mut ReadAhead,
    ) -> StorageResult<(Arc<Page>, bool)> {
        let record = record_of(block, number);
        let (file, offset) = (self.file.file_id(), record.address.offset);
        let found = match pattern {
            ReadPattern::Sequential => self.cache.peek(file, offset),
            ReadPattern::Random => {
                let load = || {
                    let page = self.read_page(block, number, record, projection, ahead)?;
                    Ok(Cached::Page(page))
                };
                let priority = Priority::Normal;
                Some(self.cache.get_or_load(file, offset, priority, load)?)
            }
        };
        match found {
            Some(Cached::Page(page)) if page.has_columns(projection) => {
                Ok((page, pattern == ReadPattern::Sequential))
            }
            // As for index blocks.
            other => {
                // A reader of other columns, or of rows one by one, has put the page into the cache.
                let is_random = pattern == ReadPattern::Random;
                let union;
                let wanted = match &other {
                    Some(Cached::Page(page)) if is_random => {
                        union = page.columns_with(projection);
                        union.as_ref()
                    }
                    _ => projection,
                };
                let page = match &other {
                    Some(Cached::Rows(rows)) => {
                        self.decode_page(block, number, rows.raw().to_vec(), wanted)
                    }
                    _ => self.read_page(block, number, record, wanted, ahead),
                };
                // No place in the cache is claimed for the page.
                pay_for_io();
                let page = page?;
                if is_random && matches!(other, Some(Cached::Page(_) | Cached::Rows(_))) {
                    let cached = Cached::Page(Arc::clone(&page));
                    self.cache.insert(file, offset, Priority::Normal, cached);
                }
                Ok((page, false))
            }
        }
    }

    /// Returns a page of the run, which must exist, if it is cached.
    fn page_in_memory(&self, block: &IndexBlock, number: PageNumber) -> Option<Arc<Page>> {
        let offset = record_of(block, number).address.offset;
        match self.cache.get_cached(self.file.file_id(), offset) {
            Some(Cached::Page(page)) if page.has_columns(None) => Some(page),
            _ => None,
        }
    }

    #[cold]
    fn read_page(
        &self,
        block: &IndexBlock,
        number: PageNumber,
        record: &PageRecord,
        projection: Option<&Projection>,
        ahead: &mut ReadAhead,
    ) -> StorageResult<Arc<Page>> {
        let raw = self.read_raw_page(record, ahead)?;
        self.decode_page(block, number, raw, projection)
    }

    fn read_raw_page(&self, record: &PageRecord, ahead: &mut ReadAhead) -> StorageResult<Vec<u8>> {
        let address = record.address;
        count_read();
        let stored = self
            .file
            .read_block_ahead(ahead, address, BlockKind::Page)?;
        if stored.description.layout != PAGE_LAYOUT {
            return Err(self.corrupt(address, "the page is of an unknown layout"));
        }
        Ok(stored.raw)
    }

    fn decode_page(
        &self,
        block: &IndexBlock,
        number: PageNumber,
        raw: Vec<u8>,
        projection: Option<&Projection>,
    ) -> StorageResult<Arc<Page>> {
        let record = record_of(block, number);
        let address = record.address;
        let mut page = Page::decode_for(raw, projection)
            .map_err(|_| self.corrupt(address, "the page is malformed"))?;
        // Bounds and last keys ascend, so these comparisons ensure that keys ascend across pages.
        let last = page.entries() - 1;
        let before = match number.page.checked_sub(1) {
            Some(before) => block.last_key(before),
            None => self.description.index.bound_before(number.block),
        };
        let values = page.references().map(|(_, value)| value.address.end());
        if values.max().unwrap_or(0) != record.values_end
            || page.entries() != record.entries as usize
            || page.key(last) != block.last_key(number.page)
            || page.key(0) < before
        {
            return Err(self.corrupt(address, "the page and its index block disagree"));
        }
        let bytes = (page.memory_bytes(), page.entry_bytes());
        page.charge(BlockCharge::of_page(&self.blocks, bytes.0, bytes.1));
        Ok(Arc::new(page))
    }

    fn charge_block(&self, bytes: usize) -> BlockCharge {
        BlockCharge::of_block(&self.blocks, bytes)
    }

    fn corrupt(&self, address: BlockAddress, reason: &str) -> StorageError {
        StorageError::corrupt(self.file.path(), address.offset, reason)
    }
}
