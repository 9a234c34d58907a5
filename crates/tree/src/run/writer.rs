//! Writes a run sequentially. Entries fill a page. A full page is compressed and written, and its
//! address, last key and filter are added to the run's index. The index is written last.

use super::index::{RUN_INDEX_LAYOUT, RunIndex};
use crate::page::{PAGE_LAYOUT_ROW, PageBuilder};
use crate::{PageCache, RangeTombstone, RunDescription};
use teak_base::checksum::hash_key;
use teak_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use teak_base::{Codec, Operation, StorageError, StorageResult, WriteId};
use teak_block_file::{
    BlockAddress, BlockDescription, BlockFile, BlockKind, BlockWriter, WrittenBlocks,
};

/// Options for writing runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunWriterOptions {
    /// Approximate raw bytes of a page; a larger entry gets a separate page.
    pub page_bytes: usize,
    /// Codec of the pages.
    pub codec: Codec,
    /// Expected stored bytes, to choose an extent.
    pub expected_bytes: u64,
    /// Whether to build filters, which help lookups of complete keys.
    pub filters: bool,
    /// Leading bytes of values that contain columns of fixed width.
    pub value_planes: u32,
}

/// A written run; its blocks become live when `written` is published.
#[derive(Debug)]
pub struct FinishedRun {
    /// The description for nodes.
    pub description: RunDescription,
    /// The blocks, for publishing; `None` for a run of range tombstones only.
    pub written: Option<WrittenBlocks>,
}

/// Writes a sequence of runs. Reuses its buffers.
#[derive(Debug)]
pub struct RunWriter<'a> {
    file: &'a BlockFile,
    cache: &'a PageCache,
    options: RunWriterOptions,
    blocks: Option<BlockWriter>,
    page: PageBuilder,
    raw: Vec<u8>,
    hashes: Vec<u64>,
    index: RunIndex,
    last_key: Vec<u8>,
    totals: RunDescription,
    /// Whether an entry of the current run is settled.
    any_settled: bool,
}

impl<'a> RunWriter<'a> {
    /// Creates a writer for runs in `file`. It removes blocks from the cache when it reuses their
    /// space.
    #[must_use]
    pub fn new(file: &'a BlockFile, cache: &'a PageCache, options: RunWriterOptions) -> Self {
        Self {
            file,
            cache,
            page: PageBuilder::new(options.value_planes),
            options,
            blocks: None,
            raw: Vec::new(),
            hashes: Vec::new(),
            index: RunIndex::default(),
            last_key: Vec::new(),
            totals: RunDescription::default(),
            any_settled: false,
        }
    }

    /// Appends an entry. Keys are ascending, the versions of a key newest first.
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
        check_len("key", key.len(), KEY_BYTES_MAX)?;
        check_len("value", value.len(), VALUE_BYTES_MAX)?;
        let entry_bytes = key.len() + value.len();
        if !self.page.is_empty() && self.page.raw_bytes() + entry_bytes > self.options.page_bytes {
            self.write_page()?;
        }
        let first = self.totals.entries() == 0;
        let new_key = first || key != self.last_key.as_slice();
        if new_key {
            assert!(
                first || key > self.last_key.as_slice(),
                "keys of a run ascend"
            );
            self.totals.keys += 1;
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
            if first {
                self.totals.first_key.extend_from_slice(key);
            }
        }
        if self.options.filters && (new_key || self.page.is_empty()) {
            self.hashes.push(hash_key(key));
        }
        match operation {
            Operation::Put => self.totals.puts += 1,
            Operation::Delete => self.totals.deletes += 1,
        }
        self.totals.raw_bytes += entry_bytes as u64 + 2;
        self.note_write_id(write_id);
        self.page.push(key, write_id, operation, value);
        Ok(())
    }

    /// Adds a range tombstone below all entries and below (older than) the
    /// tombstones added before.
    pub fn add_range_tombstone(&mut self, tombstone: RangeTombstone) {
        self.note_write_id(tombstone.write_id);
        self.totals.range_tombstones.push(tombstone);
    }

    /// Raw bytes of the entries pushed since the run started.
    #[must_use]
    pub fn raw_bytes(&self) -> u64 {
        self.totals.raw_bytes
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
        let mut description = std::mem::take(&mut self.totals);
        description.all_unsettled = !std::mem::take(&mut self.any_settled);
        let Some(mut blocks) = self.blocks.take() else {
            return Ok(Some(FinishedRun {
                description,
                written: None,
            }));
        };
        self.raw.clear();
        self.index.encode(&mut self.raw);
        let address = blocks.write(
            BlockDescription {
                kind: BlockKind::RunIndex,
                layout: RUN_INDEX_LAYOUT,
                codec: Codec::Lz4,
            },
            &self.raw,
        )?;
        self.cache.forget(self.file.file_id(), address.offset);
        description.index = Some(address);
        description.blocks_end = description.blocks_end.max(address.end());
        description.last_key.extend_from_slice(&self.last_key);
        description.pages = u32::try_from(self.index.pages().len()).unwrap_or(u32::MAX);
        description.stored_bytes = blocks.bytes_written();
        self.index = RunIndex::default();
        self.last_key.clear();
        Ok(Some(FinishedRun {
            description,
            written: Some(blocks.finish()?),
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

    fn write_page(&mut self) -> StorageResult<()> {
        let entries = self.page.entries();
        self.page.finish(&mut self.raw);
        let blocks = self
            .blocks
            .get_or_insert_with(|| self.file.writer(self.options.expected_bytes));
        let address: BlockAddress = blocks.write(
            BlockDescription {
                kind: BlockKind::Page,
                layout: PAGE_LAYOUT_ROW,
                codec: self.options.codec,
            },
            &self.raw,
        )?;
        self.cache.forget(self.file.file_id(), address.offset);
        self.totals.blocks_end = self.totals.blocks_end.max(address.end());
        self.index.push(
            address,
            entries,
            self.raw.len(),
            &self.last_key,
            &self.hashes,
        );
        self.hashes.clear();
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
