//! Moving the blocks of a run, and the separate values of its entries, that end after a limit to
//! holes before it.
//!
//! 1. A hole is reserved for the new index block. If there is none, nothing can be moved.
//! 2. For each page whose separate values end after the limit: a hole is reserved for the page, the
//!    values after the limit are copied to holes before it, and the page is written again with
//!    their new addresses. Other pages that end after the limit are copied. The first block for
//!    which there is no hole ends the move.
//! 3. The index block, which contains the addresses of the pages, is written
//!    again.
//! 4. The caller replaces the run by its copy. Both share the pages and values that were not moved.

use super::index::{PageRecord, RUN_INDEX_LAYOUT, RunIndex};
use super::{ReadPattern, Run};
use crate::page::{PAGE_LAYOUT_ROW, PageBuilder};
use crate::{Page, RunDescription, ValueReference};
use std::collections::HashMap;
use teak_base::{Codec, StorageResult};
use teak_block_file::{
    BLOCK_HEADER_BYTES, BlockAddress, BlockDescription, BlockKind, BlockMover, WrittenBlocks,
};

/// Bytes of separate values that one job moves for each run, approximately.
const SEPARATE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// How to move a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RelocateOptions {
    /// The offset after which no block should end.
    pub(crate) limit: u64,
    /// The codec of pages that are written again.
    pub(crate) codec: Codec,
    /// Leading bytes of values that these pages store as planes.
    pub(crate) value_planes: u32,
}

/// A copy of a run. Both share the pages and separate values that were not moved.
#[derive(Debug)]
pub(crate) struct RelocatedRun {
    pub(crate) description: RunDescription,
    pub(crate) written: Vec<WrittenBlocks>,
    /// The blocks that the copy does not need.
    pub(crate) freed: Vec<BlockAddress>,
}

/// A move in progress.
struct Relocation<'a> {
    run: &'a Run,
    index: &'a RunIndex,
    options: RelocateOptions,
    pages: BlockMover,
    values: BlockMover,
    separate_bytes: u64,
    freed: Vec<BlockAddress>,
}

/// Whether the move continues with the next page.
#[derive(PartialEq, Eq)]
enum Step {
    Continue,
    /// There is no hole for the next block, or enough was moved.
    End,
}

impl Run {
    /// Copies the blocks and separate values that end after the limit to holes before it. `None`
    /// when nothing ends after the limit, or there are no suitable holes.
    ///
    /// # Errors
    /// Those of reading and writing blocks; the space of the copies is then
    /// freed.
    pub(crate) fn relocate(&self, options: RelocateOptions) -> StorageResult<Option<RelocatedRun>> {
        let (Some(index), Some(own)) = (self.index()?, self.description.index) else {
            return Ok(None);
        };
        if self.description.blocks_end <= options.limit {
            return Ok(None);
        }
        let mut pages = index.pages().to_vec();
        let after = pages
            .iter()
            .filter(|page| page.address.end() > options.limit);
        let bytes = after.map(|page| page.address.end() - page.address.offset);
        let limit = options.limit;
        // The index with the new addresses may be larger after compression.
        let index_bytes = u64::from(own.bytes) + 24 * pages.len() as u64 + 256;
        let mut index_mover = self.file.mover(limit, index_bytes);
        if !index_mover.reserve(index_bytes)? {
            return Ok(None);
        }
        let mut relocation = Relocation {
            run: self,
            index: &index,
            options,
            pages: self.file.mover(limit, bytes.sum()),
            values: self
                .file
                .mover(limit, self.description.separate.stored_bytes),
            separate_bytes: 0,
            freed: Vec::new(),
        };
        for (number, page) in pages.iter_mut().enumerate() {
            if relocation.page(number, page)? == Step::End {
                break;
            }
        }
        let Relocation {
            pages: page_mover,
            values,
            mut freed,
            ..
        } = relocation;
        if freed.is_empty() && own.end() <= limit {
            return Ok(None);
        }
        let mut raw = Vec::new();
        let ends = pages
            .iter()
            .flat_map(|page| [page.address.end(), page.values_end]);
        let pages_end = ends.max().unwrap_or(0);
        index.with_pages(pages).encode(&mut raw);
        let description = BlockDescription {
            kind: BlockKind::RunIndex,
            layout: RUN_INDEX_LAYOUT,
            codec: Codec::Lz4,
        };
        let Some(new) = index_mover.write(description, &raw)? else {
            return Ok(None);
        };
        self.cache.forget(self.file.file_id(), new.offset);
        freed.push(own);
        let description = RunDescription {
            index: Some(new),
            blocks_end: pages_end.max(new.end()),
            ..self.description.clone()
        };
        Ok(Some(RelocatedRun {
            description,
            written: vec![
                page_mover.finish()?,
                values.finish()?,
                index_mover.finish()?,
            ],
            freed,
        }))
    }
}

impl Relocation<'_> {
    /// Moves a page and its separate values, as far as they end after the limit.
    fn page(&mut self, number: usize, record: &mut PageRecord) -> StorageResult<Step> {
        if record.values_end > self.options.limit {
            return self.page_with_values(number, record);
        }
        if record.address.end() <= self.options.limit {
            return Ok(Step::Continue);
        }
        let Some(copy) = self.pages.copy(record.address, BlockKind::Page)? else {
            return Ok(Step::End);
        };
        let (cache, file) = (&self.run.cache, self.run.file.file_id());
        cache.moved(file, record.address.offset, copy.offset);
        self.freed
            .push(std::mem::replace(&mut record.address, copy));
        Ok(Step::Continue)
    }

    /// Moves separate values of a page, and writes the page again.
    fn page_with_values(&mut self, number: usize, record: &mut PageRecord) -> StorageResult<Step> {
        let page = self.run.page(self.index, number, ReadPattern::Sequential)?;
        // The maximum size of the new block, that of a page that is not compressed. Its raw size
        // remains the same, because references have a fixed length.
        let page_bytes = u64::from(record.raw_bytes) + BLOCK_HEADER_BYTES as u64;
        if !self.pages.reserve(page_bytes)? {
            return Ok(Step::End);
        }
        let (moved, step) = self.values(&page)?;
        if moved.is_empty() {
            return Ok(step);
        }
        let mut raw = Vec::new();
        record.values_end = self.rewrite(&page, &moved, &mut raw);
        let description = BlockDescription {
            kind: BlockKind::Page,
            layout: PAGE_LAYOUT_ROW,
            codec: self.options.codec,
        };
        let Some(address) = self.pages.write(description, &raw)? else {
            let reason = "the page is larger than the size in the index of its run";
            return Err(self.run.corrupt(record.address, reason));
        };
        self.run
            .cache
            .forget(self.run.file.file_id(), address.offset);
        self.freed
            .push(std::mem::replace(&mut record.address, address));
        Ok(step)
    }

    /// Copies the values of a page that end after the limit. Returns the new references by entry.
    fn values(&mut self, page: &Page) -> StorageResult<(HashMap<usize, ValueReference>, Step)> {
        let (cache, file) = (&self.run.cache, self.run.file.file_id());
        let mut moved = HashMap::new();
        for (entry, reference) in page.references() {
            let old = reference.address;
            if old.end() <= self.options.limit {
                continue;
            }
            if self.separate_bytes >= SEPARATE_BYTES_MAX {
                return Ok((moved, Step::End));
            }
            let Some(address) = self.values.copy(old, BlockKind::Value)? else {
                return Ok((moved, Step::End));
            };
            self.separate_bytes += reference.stored_bytes();
            cache.moved(file, old.offset, address.offset);
            self.freed.push(old);
            moved.insert(
                entry,
                ValueReference {
                    address,
                    ..reference
                },
            );
        }
        Ok((moved, Step::Continue))
    }

    /// Builds the page again, with the moved references. Returns the end of its values.
    fn rewrite(
        &self,
        page: &Page,
        moved: &HashMap<usize, ValueReference>,
        raw: &mut Vec<u8>,
    ) -> u64 {
        let mut builder = PageBuilder::new(self.options.value_planes);
        let mut values_end = 0;
        for entry in 0..page.entries() {
            let (key, (operation, id)) = (page.key(entry), page.write(entry));
            match page.reference(entry) {
                None => builder.push(key, id, operation, page.value(entry)),
                Some(encoded) => {
                    let reference = moved.get(&entry).copied();
                    let reference = reference.unwrap_or_else(|| ValueReference::decode(encoded));
                    values_end = values_end.max(reference.address.end());
                    builder.push_separate(key, id, &reference.encoded());
                }
            }
        }
        builder.finish(raw);
        values_end
    }
}
