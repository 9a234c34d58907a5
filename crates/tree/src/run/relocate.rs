//! Moving the blocks of a run, and the separate values of its entries: those that end after a limit to
//! holes before it, or those with another encryption key to anywhere (see [`MovedBlocks`]).
//!
//! For each index block:
//! 1. If the block or what it refers to may have to be moved, a hole is reserved for a new block.
//!    If there is none, the move ends.
//! 2. For each page with separate values to be moved: a hole is reserved for the page, the
//!    values are copied, and the page is written again with
//!    their new addresses. Other pages that are to be moved are copied. The first block for
//!    which there is no hole ends the move.
//! 3. The index block, which contains the addresses of the pages, is written again.
//!
//! The caller replaces the run by its copy. Both share the pages and values that were not moved.

use super::index_block::{PageRecord, index_block_description};
use super::{IndexBlock, MovedBlocks, PageNumber, ReadPattern, Run};
use crate::cache::Priority;
use crate::page::{PAGE_LAYOUT, PageBuilder, PageColumns};
use crate::{Page, RunDescription, ValueReference};
use std::collections::HashMap;
use teak_base::{Codec, StorageResult};
use teak_block_file::{BlockAddress, BlockDescription, BlockKind, BlockMover, WrittenBlocks};

/// Bytes of separate values that one job moves to holes for each run, approximately.
const SEPARATE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// How to move a run.
#[derive(Clone, Debug)]
pub(crate) struct RelocateOptions {
    /// Which blocks are moved.
    pub(crate) moved: MovedBlocks,
    /// The codec of pages that are written again.
    pub(crate) codec: Codec,
    /// Leading bytes of values that these pages store as planes.
    pub(crate) value_planes: u32,
    /// Whether these pages are encoded by column; others are if they have zones, as in runs of loads.
    pub(crate) has_columns: bool,
    /// The columns of keys and values.
    pub(crate) columns: PageColumns,
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
    options: RelocateOptions,
    index_blocks: BlockMover,
    pages: BlockMover,
    values: BlockMover,
    separate_bytes: u64,
    freed: Vec<BlockAddress>,
    /// One past the last byte of the blocks and values of the copy so far.
    blocks_end: u64,
}

/// Whether the move continues with the next page.
#[derive(PartialEq, Eq)]
enum Step {
    Continue,
    /// There is no hole for the next block, or enough was moved.
    End,
}

impl Run {
    /// Copies the blocks and separate values that are to be moved. `None` when there are none, or no suitable holes.
    ///
    /// # Errors
    /// Those of reading and writing blocks; the space of the copies is then
    /// freed.
    pub(crate) fn relocate(&self, options: RelocateOptions) -> StorageResult<Option<RelocatedRun>> {
        if !options.moved.may_concern(self.description.blocks_end) {
            return Ok(None);
        }
        let limit = options.moved.limit();
        let index = &self.description.index;
        let mut relocation = Relocation {
            run: self,
            options,
            index_blocks: self.file.mover(limit, 0),
            pages: self.file.mover(limit, self.description.stored_bytes),
            values: self
                .file
                .mover(limit, self.description.separate.stored_bytes),
            separate_bytes: 0,
            freed: Vec::new(),
            blocks_end: 0,
        };
        let mut addresses: Vec<BlockAddress> = index.addresses().collect();
        let mut step = Step::Continue;
        for (number, address) in addresses.iter_mut().enumerate() {
            let block = self.index_block(number, ReadPattern::Sequential, Priority::Normal)?;
            let mut pages = block.pages().to_vec();
            if step == Step::Continue {
                step = relocation.index_block(number, &block, &mut pages, address)?;
            }
            let ends = pages
                .iter()
                .flat_map(|page| [page.address.end(), page.values_end]);
            let end = ends.max().unwrap_or(0).max(address.end());
            relocation.blocks_end = relocation.blocks_end.max(end);
        }
        if relocation.freed.is_empty() {
            return Ok(None);
        }
        let description = RunDescription {
            index: index.with_addresses(&addresses),
            blocks_end: relocation.blocks_end,
            ..self.description.clone()
        };
        Ok(Some(RelocatedRun {
            description,
            written: vec![
                relocation.pages.finish()?,
                relocation.values.finish()?,
                relocation.index_blocks.finish()?,
            ],
            freed: relocation.freed,
        }))
    }
}

impl Relocation<'_> {
    /// Moves an index block with its pages and their separate values, as far as they are to be moved.
    fn index_block(
        &mut self,
        number: usize,
        block: &IndexBlock,
        pages: &mut [PageRecord],
        address: &mut BlockAddress,
    ) -> StorageResult<Step> {
        let ends = pages
            .iter()
            .flat_map(|page| [page.address.end(), page.values_end]);
        let mut ends = ends.chain([address.end()]);
        if !ends.any(|end| self.options.moved.may_concern(end)) {
            return Ok(Step::Continue);
        }
        let mut raw = Vec::new();
        block.encode(&mut raw);
        // The new block has the same raw size.
        if !self.index_blocks.reserve(raw.len() as u64)? {
            return Ok(Step::End);
        }
        let freed_before = self.freed.len();
        let mut step = Step::Continue;
        for (place, page) in pages.iter_mut().enumerate() {
            step = self.page(block, PageNumber::new(number, place), page)?;
            if step == Step::End {
                break;
            }
        }
        let is_changed = self.freed.len() > freed_before;
        if !is_changed && !self.options.moved.concerns(&self.run.file, *address)? {
            return Ok(step);
        }
        raw.clear();
        block.encode_with(pages, &mut raw);
        let new = self.index_blocks.write(index_block_description(), &raw)?;
        let Some(new) = new else {
            unreachable!("space for the block was reserved");
        };
        self.run.cache.forget(self.run.file.file_id(), new.offset);
        self.freed.push(std::mem::replace(address, new));
        Ok(step)
    }

    /// Moves a page and its separate values, as far as they are to be moved.
    fn page(
        &mut self,
        block: &IndexBlock,
        number: PageNumber,
        record: &mut PageRecord,
    ) -> StorageResult<Step> {
        if self.options.moved.may_concern(record.values_end) {
            let freed_before = self.freed.len();
            let step = self.page_with_values(block, number, record)?;
            if step == Step::End || self.freed.len() > freed_before {
                return Ok(step);
            }
        }
        if !self
            .options
            .moved
            .concerns(&self.run.file, record.address)?
        {
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
    fn page_with_values(
        &mut self,
        block: &IndexBlock,
        number: PageNumber,
        record: &mut PageRecord,
    ) -> StorageResult<Step> {
        let page = self.run.page(block, number, ReadPattern::Sequential)?;
        // The raw size remains the same, because references have a fixed length.
        if !self.pages.reserve(record.raw_bytes.into())? {
            return Ok(Step::End);
        }
        let (moved, step) = self.values(&page)?;
        if moved.is_empty() {
            return Ok(step);
        }
        let mut raw = Vec::new();
        let has_columns = self.options.has_columns || block.has_zones();
        record.values_end = self.rewrite(&page, &moved, has_columns, &mut raw);
        let description = BlockDescription {
            kind: BlockKind::Page,
            layout: PAGE_LAYOUT,
            codec: self.options.codec,
        };
        let Some(address) = self.pages.write(description, &raw)? else {
            let reason = "the page is larger than the size in its index block";
            return Err(self.run.corrupt(record.address, reason));
        };
        self.run
            .cache
            .forget(self.run.file.file_id(), address.offset);
        self.freed
            .push(std::mem::replace(&mut record.address, address));
        Ok(step)
    }

    /// Copies the values of a page that are to be moved. Returns the new references by entry.
    fn values(&mut self, page: &Page) -> StorageResult<(HashMap<usize, ValueReference>, Step)> {
        let (cache, file) = (&self.run.cache, self.run.file.file_id());
        let mut moved = HashMap::new();
        for (entry, reference) in page.references() {
            let old = reference.address;
            if !self.options.moved.concerns(&self.run.file, old)? {
                continue;
            }
            let has_limit = self.options.moved.limit().is_some();
            if has_limit && self.separate_bytes >= SEPARATE_BYTES_MAX {
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
        has_columns: bool,
        raw: &mut Vec<u8>,
    ) -> u64 {
        let columns = match has_columns {
            true => self.options.columns.clone(),
            false => PageColumns::default(),
        };
        let mut builder = PageBuilder::with_columns(self.options.value_planes, columns);
        builder.set_packing(self.options.codec == Codec::Zstd);
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
