//! Moving the blocks of a run to holes near the start of the file.
//!
//! 1. A hole is reserved for the index block, which is the largest block.
//! 2. The pages that end after the limit are copied to holes before it; pages
//!    for which there is no hole remain where they are.
//! 3. The index block, which contains the addresses of the pages, is written
//!    again.
//! 4. The caller replaces the run by its copy. Both share the pages that were
//!    not moved.

use super::Run;
use super::index::RUN_INDEX_LAYOUT;
use crate::RunDescription;
use teak_base::{Codec, StorageResult};
use teak_block_file::{BlockAddress, BlockDescription, BlockKind, WrittenBlocks};

/// A copy of a run that shares some of its pages.
#[derive(Debug)]
pub(crate) struct RelocatedRun {
    pub(crate) description: RunDescription,
    pub(crate) written: Vec<WrittenBlocks>,
    /// The blocks that the copy does not need.
    pub(crate) freed: Vec<BlockAddress>,
}

impl Run {
    /// Copies the blocks after `limit` to holes before it. `None` when there are
    /// no such holes, or no such blocks.
    ///
    /// # Errors
    /// Those of reading and writing blocks; the space of the copies is then
    /// freed.
    pub(crate) fn relocate(&self, limit: u64) -> StorageResult<Option<RelocatedRun>> {
        let (Some(index), Some(own)) = (self.index()?, self.description.index) else {
            return Ok(None);
        };
        let after = |address: &BlockAddress| address.end() > limit;
        let mut addresses: Vec<BlockAddress> =
            index.pages().iter().map(|page| page.address).collect();
        let all = addresses.iter().chain([&own]);
        let to_move = all.filter(|address| after(address));
        let bytes = to_move.map(|address| address.end() - address.offset).sum();
        if bytes == 0 {
            return Ok(None);
        }
        let file = self.file.file_id();
        // Other addresses may be compressed less well.
        let index_bytes = u64::from(own.bytes) + 16 * index.pages().len() as u64 + 256;
        let mut index_mover = self.file.mover(limit, index_bytes);
        if !index_mover.reserve(index_bytes)? {
            return Ok(None);
        }
        let mut mover = self.file.mover(limit, bytes);
        let mut freed = Vec::new();
        for address in addresses.iter_mut().filter(|address| after(address)) {
            let Some(copy) = mover.copy(*address, BlockKind::Page)? else {
                break;
            };
            self.cache.moved(file, address.offset, copy.offset);
            freed.push(std::mem::replace(address, copy));
        }
        let mut raw = Vec::new();
        index.with_addresses(&addresses).encode(&mut raw);
        let description = BlockDescription {
            kind: BlockKind::RunIndex,
            layout: RUN_INDEX_LAYOUT,
            codec: Codec::Lz4,
        };
        if freed.is_empty() && !after(&own) {
            return Ok(None);
        }
        let Some(new) = index_mover.write(description, &raw)? else {
            return Ok(None);
        };
        self.cache.forget(file, new.offset);
        freed.push(own);
        let ends = addresses.iter().chain([&new]).map(BlockAddress::end);
        let description = RunDescription {
            index: Some(new),
            blocks_end: ends.max().unwrap_or(0),
            ..self.description.clone()
        };
        Ok(Some(RelocatedRun {
            description,
            written: vec![mover.finish()?, index_mover.finish()?],
            freed,
        }))
    }
}
