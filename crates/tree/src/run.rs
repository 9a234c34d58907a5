//! Runs: immutable sorted sequences of pages with an index block.

mod cursor;
mod description;
mod estimate;
mod index;
mod read_pattern;
mod relocate;
mod separate;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

pub use cursor::RunCursor;
pub(crate) use description::SEPARATE_FRACTION;
pub use description::{RunDescription, SeparateTotals};
pub use index::RunIndex;
pub use read_pattern::ReadPattern;
pub(crate) use relocate::RelocateOptions;
pub use writer::{FinishedRun, RunWriter, RunWriterOptions, SeparateOptions};

use crate::block_memory::{BlockCharge, FileBlocks};
use crate::cache::Cached;
use crate::key_search::{is_same_key, key_order};
use crate::page::PAGE_LAYOUT_ROW;
use crate::page_counts::count_read;
use crate::{LookupKey, Page, PageCache, StoredValue, Visit};
use index::{PageRecord, RUN_INDEX_LAYOUT};
use std::sync::Arc;
use teak_base::{Operation, StorageError, StorageResult, WriteId};
use teak_block_file::{BlockAddress, BlockFile, BlockKind};

/// An open run. Opening does no I/O; the index block and the pages are read through the cache.
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

    /// Calls `visitor` for the versions of a key, newest first, then for the
    /// range tombstones that cover it, as deletes.
    ///
    /// # Errors
    /// Errors of reading blocks.
    pub fn visit(
        &self,
        key: &LookupKey<'_>,
        visitor: &mut dyn FnMut(WriteId, Operation, StoredValue<'_>) -> Visit,
    ) -> StorageResult<Visit> {
        let inside = key_order(&self.description.first_key, key.bytes()).is_le()
            && key_order(key.bytes(), &self.description.last_key).is_le();
        if inside && self.visit_points(key, visitor)? == Visit::Stop {
            return Ok(Visit::Stop);
        }
        for tombstone in &self.description.range_tombstones {
            if tombstone.covers(key.bytes())
                && visitor(
                    tombstone.write_id,
                    Operation::Delete,
                    StoredValue::Inline(&[]),
                ) == Visit::Stop
            {
                return Ok(Visit::Stop);
            }
        }
        Ok(Visit::Continue)
    }

    fn visit_points(
        &self,
        key: &LookupKey<'_>,
        visitor: &mut dyn FnMut(WriteId, Operation, StoredValue<'_>) -> Visit,
    ) -> StorageResult<Visit> {
        let Some(index) = self.index()? else {
            return Ok(Visit::Continue);
        };
        let first = index.page_of(key.bytes());
        for number in first..index.pages().len() {
            // The versions may continue on further pages, whose filters also contain the key.
            if index.has_filter(number) {
                let passes = index.may_contain(number, key.hash());
                self.cache.count_filter(!passes);
                if !passes {
                    return Ok(Visit::Continue);
                }
            }
            let page = self.page(&index, number, ReadPattern::Random)?;
            let mut entry = page.lower_bound(key.bytes());
            while entry < page.entries() {
                if !is_same_key(page.key(entry), key.bytes()) {
                    return Ok(Visit::Continue);
                }
                let (operation, write_id) = page.write(entry);
                let value = self.stored_value(&page, entry);
                if visitor(write_id, operation, value) == Visit::Stop {
                    return Ok(Visit::Stop);
                }
                entry += 1;
            }
            if index.last_key(number) != key.bytes() {
                break;
            }
        }
        Ok(Visit::Continue)
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
        let mut addresses = Vec::new();
        if let (Some(index), Some(own)) = (self.index()?, self.description.index) {
            addresses.extend(index.pages().iter().map(|page| page.address));
            addresses.push(own);
        }
        Ok(addresses)
    }

    /// Reads the run's index from the disk, even if it is cached.
    pub(crate) fn stored_index(&self) -> StorageResult<Option<Arc<RunIndex>>> {
        let address = self.description.index;
        address.map(|address| self.read_index(address)).transpose()
    }

    /// Reads a page from the disk, even if it is cached.
    pub(crate) fn stored_page(&self, index: &RunIndex, number: usize) -> StorageResult<Arc<Page>> {
        let Some(record) = index.pages().get(number) else {
            unreachable!("pages are asked for by numbers of the index");
        };
        self.read_page(index, number, record)
    }

    /// Returns the run's index; `None` when the run has no entries.
    pub(crate) fn index(&self) -> StorageResult<Option<Arc<RunIndex>>> {
        let Some(address) = self.description.index else {
            return Ok(None);
        };
        let load = || Ok(Cached::Index(self.read_index(address)?));
        match self
            .cache
            .get_or_load(self.file.file_id(), address.offset, load)?
        {
            Cached::Index(index) => Ok(Some(index)),
            // The cache has another block at this address, so the file is damaged. Reading the
            // block returns the error.
            Cached::Page(_) | Cached::Value(_) => Ok(Some(self.read_index(address)?)),
        }
    }

    #[cold]
    fn read_index(&self, address: BlockAddress) -> StorageResult<Arc<RunIndex>> {
        count_read();
        let block = self.file.read_block(address, BlockKind::RunIndex)?;
        if block.description.layout != RUN_INDEX_LAYOUT {
            return Err(self.corrupt(address, "the run index is of an unknown layout"));
        }
        let mut index = RunIndex::decode(&block.raw)
            .map_err(|_| self.corrupt(address, "the run index is malformed"))?;
        index.charge(self.charge_block(index.memory_bytes()));
        Ok(Arc::new(index))
    }

    /// Returns a page of the run, which must exist.
    pub(crate) fn page(
        &self,
        index: &RunIndex,
        number: usize,
        pattern: ReadPattern,
    ) -> StorageResult<Arc<Page>> {
        let Some(record) = index.pages().get(number) else {
            unreachable!("pages are asked for by numbers of the index");
        };
        let (file, offset) = (self.file.file_id(), record.address.offset);
        let found = match pattern {
            ReadPattern::Sequential => self.cache.get(file, offset),
            ReadPattern::Random => {
                let load = || Ok(Cached::Page(self.read_page(index, number, record)?));
                Some(self.cache.get_or_load(file, offset, load)?)
            }
        };
        match found {
            Some(Cached::Page(page)) => Ok(page),
            // The page is not cached. Or the cache has another block at this address: then the file
            // is damaged, and reading the block returns the error.
            _ => self.read_page(index, number, record),
        }
    }

    #[cold]
    fn read_page(
        &self,
        index: &RunIndex,
        number: usize,
        record: &PageRecord,
    ) -> StorageResult<Arc<Page>> {
        let address = record.address;
        count_read();
        let block = self.file.read_block(address, BlockKind::Page)?;
        if block.description.layout != PAGE_LAYOUT_ROW {
            return Err(self.corrupt(address, "the page is of an unknown layout"));
        }
        let mut page =
            Page::decode(block.raw).map_err(|_| self.corrupt(address, "the page is malformed"))?;
        // The last keys in the index ascend, so these comparisons ensure that keys ascend across
        // pages.
        let last = page.entries() - 1;
        let before = number.checked_sub(1).map(|before| index.last_key(before));
        let values = page.references().map(|(_, value)| value.address.end());
        if values.max().unwrap_or(0) != record.values_end
            || page.entries() != record.entries as usize
            || page.key(last) != index.last_key(number)
            || before.is_some_and(|before| page.key(0) < before)
        {
            return Err(self.corrupt(address, "the page and its run's index disagree"));
        }
        page.charge(self.charge_block(page.memory_bytes()));
        Ok(Arc::new(page))
    }

    fn charge_block(&self, bytes: usize) -> BlockCharge {
        BlockCharge::of_block(&self.blocks, bytes)
    }

    fn corrupt(&self, address: BlockAddress, reason: &str) -> StorageError {
        StorageError::corrupt(self.file.path(), address.offset, reason)
    }
}
