//! Writes a run sequentially. Entries fill a page; the first full one determines the size of the
//! run's pages. A full page is compressed and written, and its address and last key are added to the
//! index block. A full index block is written after its pages, when an entry with another key
//! follows.
//!
//! A page enters the page cache if half of its entries are from pages that were there, so that a
//! merge does not make its readers read their pages again.

use super::index_block::{
    INDEX_BLOCK_BYTES, IndexBlock, IndexBlockBuilder, index_block_description,
};
use super::index_table::{IndexTableBuilder, bound_between};
use super::page_size;
use super::writer_options::{PageForm, RunWriterOptions};
use crate::block_memory::{BlockCharge, FileBlocks};
use crate::cache::{Cached, Priority};
use crate::filter::FilterSize;
use crate::page::{PAGE_LAYOUT, Page, PageBuilder};
use crate::value::value_block_description;
use crate::{
    EncodedReference, FilterKeys, PageCache, RangeTombstone, RunDescription, StoredValue,
    ValueReference,
};
use std::sync::Arc;
use teak_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use teak_base::{Codec, Operation, StorageError, StorageResult, WriteId};
use teak_block_file::{
    BlockAddress, BlockDescription, BlockFile, BlockKind, BlockWriter, WrittenBlocks,
};

/// The bytes of an index block are at least this multiple of those of the bound after it, because
/// bounds are part of nodes, and may be as long as keys.
const BOUND_SHARE: usize = 32;

/// A written run; its blocks become live when `written` is published.
#[derive(Debug)]
pub struct FinishedRun {
    /// The description for nodes.
    pub description: RunDescription,
    /// The blocks, for publishing: pages and index blocks, and new separate values. Empty for a run
    /// of range tombstones only.
    pub written: Vec<WrittenBlocks>,
    /// Bytes of the new separate values, before compression.
    pub separate_bytes_written: u64,
    /// Offsets of the separate values whose references were copied from other runs.
    pub copied: Vec<u64>,
}

/// Writes a sequence of runs. Reuses its buffers.
#[derive(Debug)]
pub struct RunWriter<'a> {
    file: &'a BlockFile,
    cache: &'a PageCache,
    options: RunWriterOptions,
    blocks: Option<BlockWriter>,
    /// Writes the separate values. It is another writer, so that the pages are next to each other
    /// in the file.
    values: Option<BlockWriter>,
    separate_bytes_written: u64,
    copied: Vec<u64>,
    page: PageBuilder,
    /// The form of the run's pages, once it was chosen.
    form: Option<PageForm>,
    raw: Vec<u8>,
    index_block: IndexBlockBuilder,
    index: IndexTableBuilder,
    /// The bound before the index block.
    bound: Vec<u8>,
    last_key: Vec<u8>,
    /// The last key of the page that is written.
    page_last_key: Vec<u8>,
    totals: RunDescription,
    /// Whether an entry of the current run is settled.
    any_settled: bool,
    warmth: Warmth,
}

/// What part of a page is from pages that were in the page cache.
#[derive(Debug, Default)]
struct Warmth {
    /// Whether the next entry is from such a page.
    is_cached: bool,
    entries: u64,
    cached: u64,
    /// Whether a page of the current index block was put into the cache.
    caches_index: bool,
    /// The counter of the file's blocks in memory, once a page was put into the cache.
    blocks: Option<FileBlocks>,
}

impl Warmth {
    /// Whether the page is to be cached.
    fn is_warm(&self) -> bool {
        self.cached > 0 && self.cached * 2 >= self.entries
    }

    fn count_entry(&mut self) {
        self.entries += 1;
        self.cached += u64::from(self.is_cached);
    }

    fn start_page(&mut self) {
        self.entries = 0;
        self.cached = 0;
    }
}

impl<'a> RunWriter<'a> {
    /// Creates a writer for runs in `file`. It removes blocks from the cache when it reuses their
    /// space.
    #[must_use]
    pub fn new(file: &'a BlockFile, cache: &'a PageCache, options: RunWriterOptions) -> Self {
        Self {
            file,
            cache,
            page: options.page_builder(options.form(options.page_bytes)),
            form: None,
            blocks: None,
            values: None,
            separate_bytes_written: 0,
            copied: Vec::new(),
            raw: Vec::new(),
            index_block: IndexBlockBuilder::new(match options.is_upper {
                true => FilterSize::Upper,
                false => FilterSize::Bottom,
            }),
            index: IndexTableBuilder::default(),
            bound: Vec::new(),
            last_key: Vec::new(),
            page_last_key: Vec::new(),
            options,
            totals: RunDescription::default(),
            any_settled: false,
            warmth: Warmth::default(),
        }
    }

    /// Sets whether the next entries are from pages that were in the page cache.
    #[inline]
    pub(crate) fn note_cached(&mut self, is_cached: bool) {
        self.warmth.is_cached = is_cached;
    }

    /// Appends an entry. Keys are ascending, the versions of a key newest first. Writes a large
    /// value into a block of its own.
    ///
    /// # Errors
    /// `TooLarge`, `NoSpace`, `Io`; the writer is then unusable.
    ///
    /// # Panics
    /// When the key is less than the previous key.
    pub fn push(
        &mut self,
        key: &[u8],
        write_id: WriteId,
        operation: Operation,
        value: &[u8],
    ) -> StorageResult<()> {
        check_len("value", value.len(), VALUE_BYTES_MAX)?;
        if let Some(separate) = self.options.separate
            && value.len() >= separate.bytes_min
            && operation == Operation::Put
        {
            return self.push_large(key, write_id, value, separate.codec);
        }
        self.start_entry(key, write_id, operation, value.len())?;
        self.page.push(key, write_id, operation, value);
        Ok(())
    }

    /// Appends an entry of another run of the file. Copies the reference to a separate value.
    /// Otherwise as [`RunWriter::push`].
    ///
    /// # Errors
    /// As [`RunWriter::push`].
    ///
    /// # Panics
    /// As [`RunWriter::push`].
    #[inline]
    pub fn push_stored(
        &mut self,
        key: &[u8],
        write_id: WriteId,
        operation: Operation,
        value: StoredValue<'_>,
    ) -> StorageResult<()> {
        match value {
            StoredValue::Inline(value) => self.push(key, write_id, operation, value),
            StoredValue::Separate(encoded, _) => {
                let reference = ValueReference::decode(encoded);
                self.copied.push(reference.address.offset);
                self.push_reference(key, write_id, encoded, &reference)
            }
        }
    }

    #[cold]
    fn push_large(
        &mut self,
        key: &[u8],
        write_id: WriteId,
        value: &[u8],
        codec: Codec,
    ) -> StorageResult<()> {
        let expected_bytes = self.options.expected_bytes;
        let blocks = self
            .values
            .get_or_insert_with(|| self.file.writer(expected_bytes));
        let address = blocks.write(value_block_description(codec), value)?;
        self.cache.forget(self.file.file_id(), address.offset);
        self.separate_bytes_written += value.len() as u64;
        let reference = ValueReference::new(address, value);
        self.push_reference(key, write_id, &reference.encoded(), &reference)
    }

    #[cold]
    fn push_reference(
        &mut self,
        key: &[u8],
        write_id: WriteId,
        encoded: &EncodedReference,
        reference: &ValueReference,
    ) -> StorageResult<()> {
        self.start_entry(key, write_id, Operation::Put, encoded.len())?;
        self.page.push_separate(key, write_id, encoded);
        self.totals.separate.add(reference);
        Ok(())
    }

    /// Prepares for an entry with `value_bytes` in the page.
    #[inline]
    fn start_entry(
        &mut self,
        key: &[u8],
        write_id: WriteId,
        operation: Operation,
        value_bytes: usize,
    ) -> StorageResult<()> {
        check_len("key", key.len(), KEY_BYTES_MAX)?;
        let entry_bytes = key.len() + value_bytes;
        if self.is_page_full(entry_bytes) {
            if self.form.is_none() {
                self.choose_form()?;
            }
            if self.is_page_full(entry_bytes) {
                self.write_page()?;
                self.warmth.start_page();
            }
        }
        let first = self.totals.entries() == 0;
        let new_key = first || key != self.last_key.as_slice();
        if new_key {
            assert!(
                first || key > self.last_key.as_slice(),
                "keys of a run ascend"
            );
            if self.page.is_empty() && self.is_index_block_full(key) {
                self.write_index_block()?;
                self.bound.clear();
                let bound = bound_between(&self.last_key, key);
                self.bound.extend_from_slice(bound);
            }
            if self.options.filter_keys != FilterKeys::None {
                self.index_block
                    .add_hash(self.options.filter_keys.hash(key));
            }
            self.totals.keys += 1;
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
            if first {
                self.totals.first_key.extend_from_slice(key);
            }
        }
        match operation {
            Operation::Put => self.totals.puts += 1,
            Operation::Delete => self.totals.deletes += 1,
        }
        self.warmth.count_entry();
        self.totals.raw_bytes += entry_bytes as u64 + 2;
        self.note_write_id(write_id);
        Ok(())
    }

    /// Adds a range tombstone, which is older than all entries of the run.
    pub fn add_range_tombstone(&mut self, tombstone: RangeTombstone) {
        self.note_write_id(tombstone.write_id);
        self.totals.range_tombstones.push(tombstone);
    }

    /// The size of the run so far, as planning counts it.
    #[must_use]
    pub fn merge_bytes(&self) -> u64 {
        self.totals.merge_bytes()
    }

    /// Entries pushed since the run started.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.totals.entries()
    }

    /// Whether the run has no entry and no range tombstone yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.totals.entries() == 0 && self.totals.range_tombstones.is_empty()
    }

    /// Ends the run; the writer can then write another. Returns `None` when the
    /// run is empty.
    ///
    /// # Errors
    /// `NoSpace`, `Io`; the space of the run's blocks is then freed.
    pub fn finish(&mut self) -> StorageResult<Option<FinishedRun>> {
        if self.is_empty() {
            return Ok(None);
        }
        if !self.page.is_empty() {
            self.write_page()?;
        }
        if self.index_block.pages() > 0 {
            self.write_index_block()?;
        }
        self.warmth.start_page();
        if self.form.take().is_some_and(|form| !form.has_columns) {
            self.page.set_columns(self.options.columns.clone());
        }
        let mut description = std::mem::take(&mut self.totals);
        description.all_unsettled = !std::mem::take(&mut self.any_settled);
        let Some(blocks) = self.blocks.take() else {
            return Ok(Some(FinishedRun {
                description,
                written: Vec::new(),
                separate_bytes_written: 0,
                copied: Vec::new(),
            }));
        };
        description.index = self.index.finish();
        description.filter_keys = self.options.filter_keys;
        description.last_key.extend_from_slice(&self.last_key);
        description.stored_bytes = blocks.bytes_written();
        self.last_key.clear();
        self.bound.clear();
        let mut written = vec![blocks.finish()?];
        if let Some(values) = self.values.take() {
            written.push(values.finish()?);
        }
        Ok(Some(FinishedRun {
            description,
            written,
            separate_bytes_written: std::mem::take(&mut self.separate_bytes_written),
            copied: std::mem::take(&mut self.copied),
        }))
    }

    fn note_write_id(&mut self, write_id: WriteId) {
        if write_id.is_settled() {
            self.any_settled = true;
            return;
        }
        self.totals.write_ids = Some(match self.totals.write_ids {
            None => (write_id, write_id),
            Some((min, max)) => (min.min(write_id), max.max(write_id)),
        });
    }

    /// Whether an entry of this size needs another page.
    #[inline]
    fn is_page_full(&self, entry_bytes: usize) -> bool {
        let page_bytes = self.form.map_or(self.options.page_bytes, |form| form.bytes);
        !self.page.is_empty() && self.page.raw_bytes() + entry_bytes > page_bytes
    }

    /// Chooses the form of the run's pages, and divides the first one accordingly.
    #[cold]
    fn choose_form(&mut self) -> StorageResult<()> {
        let form = page_size::choose(&self.page, &self.options);
        self.form = Some(form);
        self.page.set_columns(self.options.columns_of(form));
        if form.bytes < self.options.page_bytes {
            let mut page = self.options.page_builder(form);
            let first = std::mem::replace(&mut self.page, self.options.page_builder(form));
            first.divide(form.bytes, &mut page, |page| {
                std::mem::swap(page, &mut self.page);
                let written = self.write_page();
                std::mem::swap(page, &mut self.page);
                written
            })?;
            self.page = page;
        }
        Ok(())
    }

    fn write_page(&mut self) -> StorageResult<()> {
        let (entries, values_end) = (self.page.entries(), self.page.values_end());
        // Its size in row form, which determines the cost of decoding it.
        let raw_bytes = self.page.raw_bytes();
        // An index block begins with a new key.
        let is_new_key =
            self.index_block.pages() == 0 || self.page.first_key() != self.page_last_key.as_slice();
        self.page_last_key.clear();
        self.page_last_key.extend_from_slice(self.page.last_key());
        self.page.finish(&mut self.raw);
        let blocks = self
            .blocks
            .get_or_insert_with(|| self.file.writer(self.options.expected_bytes));
        let address: BlockAddress = blocks.write(
            BlockDescription {
                kind: BlockKind::Page,
                layout: PAGE_LAYOUT,
                codec: self.options.codec,
            },
            &self.raw,
        )?;
        self.cache.forget(self.file.file_id(), address.offset);
        if self.warmth.is_warm() {
            self.cache_page(address.offset);
        }
        self.totals.blocks_end = self.totals.blocks_end.max(address.end()).max(values_end);
        let last_key = &self.page_last_key;
        self.index_block
            .push(address, entries, raw_bytes, last_key, values_end);
        if let Some(zones) = self.page.take_zones() {
            self.index_block.add_zones(zones, is_new_key);
        }
        Ok(())
    }

    /// Puts the page that was written last into the cache.
    #[cold]
    fn cache_page(&mut self, offset: u64) {
        self.warmth.caches_index = true;
        let Ok(mut page) = Page::decode(self.raw.clone()) else {
            unreachable!("the page was encoded just now");
        };
        page.charge(BlockCharge::of_block(
            self.file_blocks(),
            page.memory_bytes(),
        ));
        self.insert(offset, Priority::Normal, Cached::Page(Arc::new(page)));
    }

    /// Puts the index block that was written last into the cache.
    #[cold]
    fn cache_index_block(&mut self, offset: u64) {
        let Ok(mut block) = IndexBlock::decode(&self.raw) else {
            unreachable!("the index block was encoded just now");
        };
        block.charge(self.file_blocks());
        self.insert(offset, Priority::High, Cached::Index(Arc::new(block)));
    }

    fn file_blocks(&mut self) -> &FileBlocks {
        let (memory, file) = (self.cache.blocks_in_memory(), self.file.file_id());
        self.warmth
            .blocks
            .get_or_insert_with(|| memory.of_file(file))
    }

    fn insert(&self, offset: u64, priority: Priority, block: Cached) {
        self.cache
            .insert(self.file.file_id(), offset, priority, block);
    }

    /// Whether the index block ends before a page that starts with `key`.
    fn is_index_block_full(&self, key: &[u8]) -> bool {
        let bytes_min = INDEX_BLOCK_BYTES.min(self.options.page_bytes);
        self.index_block.pages() > 0
            && self.index_block.bytes() >= bytes_min
            && self.index_block.bytes() >= BOUND_SHARE * bound_between(&self.last_key, key).len()
    }

    /// Writes the index block of the pages since the last one.
    fn write_index_block(&mut self) -> StorageResult<()> {
        let Some(blocks) = &mut self.blocks else {
            unreachable!("the pages of the block were written");
        };
        let (pages, entries) = (self.index_block.pages() as u64, self.index_block.entries());
        self.raw.clear();
        self.index_block.finish(&mut self.raw);
        let address = blocks.write(index_block_description(), &self.raw)?;
        self.cache.forget(self.file.file_id(), address.offset);
        if std::mem::take(&mut self.warmth.caches_index) {
            self.cache_index_block(address.offset);
        }
        self.totals.blocks_end = self.totals.blocks_end.max(address.end());
        let pushed = self.index.push(&self.bound, address, pages, entries);
        let Ok(()) = pushed else {
            unreachable!("the size of a run is limited by the options of the tree");
        };
        Ok(())
    }
}

fn check_len(what: &'static str, len: usize, limit: usize) -> StorageResult<()> {
    if len <= limit {
        return Ok(());
    }
    Err(StorageError::TooLarge {
        what,
        bytes: len as u64,
        limit: limit as u64,
    })
}
