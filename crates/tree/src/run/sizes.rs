//! The sizes of the blocks of a run, for tools and reports.

use super::index_block::PageRecord;
use super::{ReadPattern, Run};
use crate::cache::Priority;
use crate::page::{PAGE_LAYOUT, PageColumns, PartSize, page_columns, part_sizes};
use teak_base::StorageResult;
use teak_block_file::BlockKind;

/// A page of a run.
pub(crate) struct PageSizes<'a> {
    pub(crate) entries: u64,
    /// Its bytes before the codec has compressed them.
    pub(crate) encoded_bytes: u64,
    /// Its bytes in the file.
    pub(crate) bytes_in_file: u64,
    pub(crate) parts: &'a [PartSize],
}

/// Readable pages of a run that are searched for columns. Short ones have none.
const SEARCHED_MAX: usize = 100;

impl Run {
    /// The columns that one of the first readable pages describes; `None` if none has columns of values.
    pub(crate) fn stored_columns(&self) -> Option<PageColumns> {
        let blocks = (0..self.description.index.len()).filter_map(|number| {
            let block = self.stored_index_block(number).ok()?;
            Some(
                block
                    .pages()
                    .iter()
                    .map(|page| page.address)
                    .collect::<Vec<_>>(),
            )
        });
        let columns = blocks.flatten().filter_map(|address| {
            let block = self.file.read_block(address, BlockKind::Page).ok()?;
            let is_known = block.description.layout == PAGE_LAYOUT;
            is_known.then(|| page_columns(&block.raw).ok()).flatten()
        });
        let mut columns = columns.take(SEARCHED_MAX);
        columns.find(|columns| !columns.value().is_empty())
    }

    /// Reads all blocks from the file. Calls `visit` with the bytes of the filter of each index block, and then with
    /// each of its pages.
    pub(crate) fn visit_blocks(
        &self,
        visit: &mut dyn FnMut(u64, Option<&PageSizes<'_>>) -> StorageResult<()>,
    ) -> StorageResult<()> {
        let mut parts = Vec::new();
        for number in 0..self.description.index.len() {
            let index = self.stored_index_block(number)?;
            visit(index.filter_bytes() as u64, None)?;
            for record in index.pages() {
                visit(0, Some(&self.page_sizes(record, &mut parts)?))?;
            }
        }
        Ok(())
    }

    /// Reads the page with this number among all pages of the run from the file; `parts` receives the sizes of its parts.
    /// `None` if the run has fewer pages.
    pub(crate) fn sizes_of_page<'a>(
        &self,
        page: u64,
        parts: &'a mut Vec<PartSize>,
    ) -> StorageResult<Option<PageSizes<'a>>> {
        let index = &self.description.index;
        let Some(number) = index.block_of_page(page) else {
            return Ok(None);
        };
        let block = self.index_block(number, ReadPattern::Sequential, Priority::Normal)?;
        let place = usize::try_from(page - index.pages_before(number));
        let record = place.ok().and_then(|place| block.pages().get(place));
        match record {
            Some(record) => self.page_sizes(record, parts).map(Some),
            None => Ok(None),
        }
    }

    fn page_sizes<'a>(
        &self,
        record: &PageRecord,
        parts: &'a mut Vec<PartSize>,
    ) -> StorageResult<PageSizes<'a>> {
        let address = record.address;
        let block = self.file.read_block(address, BlockKind::Page)?;
        parts.clear();
        if block.description.layout != PAGE_LAYOUT
            || part_sizes(&block.raw, &mut |size| parts.push(size)).is_err()
        {
            return Err(self.corrupt(address, "the page is malformed"));
        }
        Ok(PageSizes {
            entries: record.entries.into(),
            encoded_bytes: block.raw.len() as u64,
            bytes_in_file: address.end() - address.offset,
            parts,
        })
    }
}
