//! Runs: immutable sorted sequences of pages with an index block.

mod cursor;
mod description;
mod writer;

pub use cursor::{ReadMode, RunCursor};
pub use description::RunDescription;
pub use writer::{FinishedRun, RunWriter, RunWriterOptions};

use crate::{LookupKey, PageCache, Visit};
use std::ops::Bound;
use std::sync::Arc;
use teak_base::{Operation, StorageResult, WriteId};
use teak_block_file::{BlockAddress, BlockFile};

/// A run that can be read. Opening reads nothing; the index block and the
/// pages come through the cache. The owner holds what keeps the run's blocks
/// from being freed (a version's pin) as long as it uses the run.
#[derive(Debug)]
pub struct Run {
    description: RunDescription,
}

#[allow(unused_variables)]
impl Run {
    /// A run of `file`.
    #[must_use]
    pub fn open(file: &BlockFile, cache: &Arc<PageCache>, description: RunDescription) -> Self {
        todo!()
    }

    /// What nodes keep of the run.
    #[must_use]
    pub fn description(&self) -> &RunDescription {
        &self.description
    }

    /// Shows the versions of a key, newest first, then the range tombstones
    /// that cover it as deletes.
    ///
    /// # Errors
    /// Those of reading blocks.
    pub fn visit(
        &self,
        key: &LookupKey<'_>,
        visitor: &mut dyn FnMut(WriteId, Operation, &[u8]) -> Visit,
    ) -> StorageResult<Visit> {
        todo!()
    }

    /// A cursor over the entries; range tombstones are not shown.
    #[must_use]
    pub fn cursor(self: &Arc<Self>, mode: ReadMode) -> RunCursor {
        todo!()
    }

    /// Estimates the entries in a range, reading the index block alone.
    ///
    /// # Errors
    /// Those of reading blocks.
    pub fn estimate(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> StorageResult<u64> {
        todo!()
    }

    /// The addresses of all blocks of the run, to free them.
    ///
    /// # Errors
    /// Those of reading blocks.
    pub fn addresses(&self) -> StorageResult<Vec<BlockAddress>> {
        todo!()
    }
}
