//! Writing a run as a stream.

use crate::{PageCache, RangeTombstone, RunDescription};
use teak_base::{Codec, Operation, StorageResult, WriteId};
use teak_block_file::{BlockFile, WrittenBlocks};

/// How runs are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunWriterOptions {
    /// Raw bytes of a page, about; a larger entry gets a page of its own.
    pub page_bytes: usize,
    /// Codec of the pages.
    pub codec: Codec,
    /// Version of the table's schema that the values follow.
    pub schema_version: u32,
    /// Stored bytes to come, about, for choosing space.
    pub expected_bytes: u64,
}

/// A written run; its blocks become live when `written` is published.
#[derive(Debug)]
pub struct FinishedRun {
    /// What nodes keep.
    pub description: RunDescription,
    /// The blocks, for publishing.
    pub written: WrittenBlocks,
}

/// Writes runs, one after the other; its buffers are kept between them.
#[derive(Debug)]
pub struct RunWriter<'a> {
    _file: &'a BlockFile,
}

#[allow(unused_variables)]
impl<'a> RunWriter<'a> {
    /// Starts a run in `file`. The cache forgets what earlier blocks at the
    /// same places held.
    #[must_use]
    pub fn new(file: &'a BlockFile, cache: &'a PageCache, options: RunWriterOptions) -> Self {
        todo!()
    }

    /// Appends an entry. Keys ascend; the versions of a key come newest first.
    ///
    /// # Errors
    /// `TooLarge`, `NoSpace`, `Io`; the writer is then useless.
    ///
    /// # Panics
    /// When the key is less than the one before.
    pub fn push(
        &mut self,
        key: &[u8],
        write_id: WriteId,
        operation: Operation,
        value: &[u8],
    ) -> StorageResult<()> {
        todo!()
    }

    /// Adds a range tombstone below all entries and below (older than) the
    /// tombstones added before.
    pub fn add_range_tombstone(&mut self, tombstone: RangeTombstone) {
        todo!()
    }

    /// Raw bytes of the entries pushed since the run started.
    #[must_use]
    pub fn raw_bytes(&self) -> u64 {
        todo!()
    }

    /// Entries pushed since the run started.
    #[must_use]
    pub fn entries(&self) -> u64 {
        todo!()
    }

    /// Whether nothing was pushed or added since the run started.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        todo!()
    }

    /// Ends the run; the writer is ready for another. `None` when it is empty.
    ///
    /// # Errors
    /// `NoSpace`, `Io`; the space of the run's blocks returns.
    pub fn finish(&mut self) -> StorageResult<Option<FinishedRun>> {
        todo!()
    }
}
