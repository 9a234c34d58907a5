//! Look-ups of a key in a run.

use super::held_page::HeldPage;
use super::{IndexBlock, PageNumber, Run, record_of};
use crate::block_memory::BlockCharge;
use crate::cache::{Cached, Priority};
use crate::key_search::{is_same_key, key_order};
use crate::page::{OpenedRows, Projection, RowPage};
use crate::run::read_pattern::{BlockSource, ReadPattern};
use crate::{LookupKey, StoredValue, Visit};
use std::sync::Arc;
use teak_base::{Operation, StorageError, StorageResult, WriteId};
use teak_block_file::ReadAhead;
use teak_disk::pay_for_io;

/// Uses of a page from which it is decoded wholly: this takes as long as some uses.
const USES_OFTEN: u32 = 8;

/// The same while the cache has free memory, so that a decoded page replaces no others. More than 2: many pages are used only
/// for two or three rows next to each other.
const USES_OFTEN_IF_FREE: u32 = 4;

/// What a look-up needs of the pages that it reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageNeeds<'a> {
    pub(crate) source: BlockSource,
    /// The columns of values; `None`: all.
    pub(crate) projection: Option<&'a Projection>,
    /// Whether the page is read for one row or a few.
    pub(crate) one_row: bool,
}

impl PageNeeds<'_> {
    /// All columns of all rows.
    pub(crate) fn all(source: BlockSource) -> Self {
        Self {
            source,
            projection: None,
            one_row: false,
        }
    }
}

/// What is called with the versions that a look-up finds, newest first.
pub(crate) type Visitor<'a> = &'a mut dyn FnMut(WriteId, Operation, StoredValue<'_>) -> Visit;

impl Run {
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
        let visited = self.visit_from(PageNeeds::all(BlockSource::File), key, visitor)?;
        Ok(visited.unwrap_or(Visit::Continue))
    }

    /// As [`Run::visit`], for what a look-up needs. Returns `None` if the visit has ended at a block that is not in
    /// memory.
    ///
    /// # Errors
    /// Errors of reading blocks.
    pub(crate) fn visit_from(
        &self,
        needs: PageNeeds<'_>,
        key: &LookupKey<'_>,
        visitor: Visitor<'_>,
    ) -> StorageResult<Option<Visit>> {
        if self.spans(key.bytes()) {
            let visited = self.visit_points(needs, key, visitor)?;
            if visited != Some(Visit::Continue) {
                return Ok(visited);
            }
        }
        for tombstone in &self.description.range_tombstones {
            if tombstone.covers(key.bytes())
                && visitor(
                    tombstone.write_id,
                    Operation::Delete,
                    StoredValue::Inline(&[]),
                ) == Visit::Stop
            {
                return Ok(Some(Visit::Stop));
            }
        }
        Ok(Some(Visit::Continue))
    }

    /// Whether the run has a key according to its filter. `None` if that is not in memory, if there is none,
    /// and if a range tombstone covers the key.
    pub(crate) fn filter_has_key(&self, key: &LookupKey<'_>) -> Option<bool> {
        let mut tombstones = self.description.range_tombstones.iter();
        if tombstones.any(|tombstone| tombstone.covers(key.bytes())) {
            return None;
        }
        if !self.spans(key.bytes()) || self.description.index.is_empty() {
            return Some(false);
        }
        let number = self.description.index.block_of(key.bytes());
        let block = self.index_block_in_memory(number)?;
        let hash = key.hash_for(self.description.filter_keys);
        block.has_filter().then(|| self.filter_passes(&block, hash))
    }

    /// Whether a key is between the first and the last key of the run.
    #[inline]
    pub(super) fn spans(&self, key: &[u8]) -> bool {
        key_order(&self.description.first_key, key).is_le()
            && key_order(key, &self.description.last_key).is_le()
    }

    fn visit_points(
        &self,
        needs: PageNeeds<'_>,
        key: &LookupKey<'_>,
        visitor: Visitor<'_>,
    ) -> StorageResult<Option<Visit>> {
        if self.description.index.is_empty() {
            return Ok(Some(Visit::Continue));
        }
        let number = self.description.index.block_of(key.bytes());
        let block = match needs.source {
            BlockSource::File => self.index_block(number, ReadPattern::Random, Priority::High)?,
            BlockSource::Memory => match self.index_block_in_memory(number) {
                Some(block) => block,
                None => return Ok(None),
            },
        };
        if block.has_filter()
            && !self.filter_passes(&block, key.hash_for(self.description.filter_keys))
        {
            return Ok(Some(Visit::Continue));
        }
        // The versions may continue on further pages, but not in another index block.
        for place in block.page_of(key.bytes())..block.pages().len() {
            let number = PageNumber::new(number, place);
            let page = match needs.source {
                BlockSource::File => {
                    self.page_of_lookup(&block, number, needs, &mut ReadAhead::default())?
                }
                BlockSource::Memory => match self.page_in_memory(&block, number) {
                    Some(page) => HeldPage::Whole(page),
                    None => return Ok(None),
                },
            };
            let mut entry = page.lower_bound(key.bytes());
            while entry < page.entries() {
                if !is_same_key(page.key(entry), key.bytes()) {
                    return Ok(Some(Visit::Continue));
                }
                let visited = match &page {
                    HeldPage::Whole(page) => {
                        let (operation, write_id) = page.write(entry);
                        visitor(write_id, operation, self.stored_value(page, entry))
                    }
                    HeldPage::Rows(page) => {
                        let mut value = Vec::new();
                        page.value(entry, needs.projection, &mut value)
                            .map_err(|_| self.malformed_page(&block, number))?;
                        let (operation, write_id) = page.write(entry);
                        visitor(write_id, operation, StoredValue::Inline(&value))
                    }
                };
                if visited == Visit::Stop {
                    return Ok(Some(Visit::Stop));
                }
                entry += 1;
            }
            if block.last_key(place) != key.bytes() {
                break;
            }
        }
        Ok(Some(Visit::Continue))
    }

    /// Whether a page that was used so often is to be decoded wholly.
    fn is_used_often(&self, uses: u32) -> bool {
        uses >= USES_OFTEN || (uses >= USES_OFTEN_IF_FREE && self.cache.has_free_memory())
    }

    /// A page for a look-up that may need only some columns, or one row or a few.
    pub(super) fn page_of_lookup(
        &self,
        block: &IndexBlock,
        number: PageNumber,
        needs: PageNeeds<'_>,
        ahead: &mut ReadAhead,
    ) -> StorageResult<HeldPage> {
        if needs.one_row {
            let offset = record_of(block, number).address.offset;
            match self.cache.get_cached(self.file.file_id(), offset) {
                Some(Cached::Page(page)) if page.has_columns(needs.projection) => {
                    return Ok(HeldPage::Whole(page));
                }
                Some(Cached::Rows(rows)) if !self.is_used_often(rows.count_use()) => {
                    return Ok(HeldPage::Rows(rows));
                }
                None => return self.missed_page(block, number, needs, ahead),
                Some(_) => {}
            }
        }
        let pattern = ReadPattern::Random;
        let (page, _) = self.page_ahead(block, number, pattern, needs.projection, ahead)?;
        Ok(HeldPage::Whole(page))
    }

    /// Reads a page that is not in the cache, and caches it in a form in which rows are decoded one by one, if it has one.
    fn missed_page(
        &self,
        block: &IndexBlock,
        number: PageNumber,
        needs: PageNeeds<'_>,
        ahead: &mut ReadAhead,
    ) -> StorageResult<HeldPage> {
        self.cache.count_miss();
        let record = record_of(block, number);
        let raw = self.read_raw_page(record, ahead);
        pay_for_io();
        let opened = RowPage::open(raw?).map_err(|_| self.malformed_page(block, number))?;
        let (cached, page) = match opened {
            OpenedRows::Rows(mut page) => {
                self.check_rows(block, number, &page)?;
                let bytes = (page.memory_bytes(), page.entry_bytes());
                page.charge(BlockCharge::of_page(&self.blocks, bytes.0, bytes.1));
                let page = Arc::new(*page);
                (Cached::Rows(Arc::clone(&page)), HeldPage::Rows(page))
            }
            OpenedRows::Whole(raw) => {
                let page = self.decode_page(block, number, raw, needs.projection)?;
                (Cached::Page(Arc::clone(&page)), HeldPage::Whole(page))
            }
        };
        let (file, offset) = (self.file.file_id(), record.address.offset);
        self.cache.insert(file, offset, Priority::Normal, cached);
        Ok(page)
    }

    /// Compares a page with its index block. The order of its keys is not checked.
    fn check_rows(
        &self,
        block: &IndexBlock,
        number: PageNumber,
        page: &RowPage,
    ) -> StorageResult<()> {
        let record = record_of(block, number);
        if record.values_end != 0
            || page.entries() != record.entries as usize
            || page.key(page.entries() - 1) != block.last_key(number.page)
        {
            return Err(self.corrupt(record.address, "the page and its index block disagree"));
        }
        Ok(())
    }

    pub(super) fn malformed_page(&self, block: &IndexBlock, number: PageNumber) -> StorageError {
        self.corrupt(record_of(block, number).address, "the page is malformed")
    }
}
