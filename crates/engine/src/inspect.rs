//! Looking at a table from outside: sizes, estimates, verification.

use crate::error::{EngineError, EngineResult};
use crate::table_handle::TableHandle;
use std::ops::Bound;
use std::sync::Arc;
use teak_base::Codec;
use teak_base::StorageError;
use teak_transactions::ViewKind;
use teak_transactions::{ReadView, TransactionId};

/// Sizes of one index.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct IndexStatistics {
    /// Live entries, about.
    pub entries: u64,
    /// Bytes of the file.
    pub disk_bytes: u64,
    /// Uncompressed bytes of the entries on disk.
    pub raw_bytes: u64,
    /// Bytes in memtables.
    pub memtable_bytes: u64,
    /// Levels of nodes.
    pub height: u64,
    /// Runs.
    pub runs: u64,
    /// Deletes on disk.
    pub tombstones: u64,
    /// The codec of the bottom pages.
    pub codec: Codec,
}

impl TableHandle {
    /// Sizes of one index, at once: every statement asks for them.
    ///
    /// # Errors
    /// `InvalidArgument` when there is no such index.
    pub fn index_statistics(&self, index: u32) -> EngineResult<IndexStatistics> {
        let index = self.index(index)?;
        let tree = index.tree.statistics();
        Ok(IndexStatistics {
            entries: tree.rows,
            disk_bytes: index.tree.file_bytes(),
            raw_bytes: tree.raw_bytes,
            memtable_bytes: tree.memtable_bytes + tree.frozen_bytes,
            height: tree.height,
            runs: tree.runs,
            tombstones: tree.deletes + tree.range_tombstones,
            codec: index.tree.options().codec,
        })
    }

    /// Bytes of an index's file that may be used again.
    ///
    /// # Errors
    /// `InvalidArgument` when there is no such index.
    pub fn free_bytes(&self, index: u32) -> EngineResult<u64> {
        Ok(self.index(index)?.tree.file_statistics().free_bytes)
    }

    /// Entries with `lower <= key < upper`, about, and exactly when they are
    /// few; `None` is unbounded.
    ///
    /// # Errors
    /// `InvalidArgument` when there is no such index; `Storage`.
    pub fn records_in_range(
        &self,
        index: u32,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
    ) -> EngineResult<u64> {
        let index = self.index(index)?;
        // What is undecided counts: it may be committed by the time of the read.
        let view = ReadView::new(
            Arc::clone(self.inner.transactions.ids()),
            TransactionId::default(),
            ViewKind::Uncommitted,
        );
        let estimate = index.tree.estimate_range(
            lower.map_or(Bound::Unbounded, Bound::Included),
            upper.map_or(Bound::Unbounded, Bound::Excluded),
            view,
        );
        self.inner.checked(&index, estimate)
    }

    /// Walks every block of every index. Each finding is a sentence given to
    /// `findings`; `go_on` is asked now and then.
    ///
    /// # Errors
    /// The first index's damage, after all were walked; `Interrupted`.
    pub fn verify(
        &self,
        go_on: &mut dyn FnMut() -> bool,
        findings: &mut dyn FnMut(&str),
    ) -> EngineResult<()> {
        let mut first: Option<StorageError> = None;
        let indexes = Arc::clone(&self.table.indexes.load());
        for index in indexes.iter() {
            let walked = index.tree.verify(&mut |_| go_on());
            match walked {
                Ok(_) => {}
                Err(StorageError::Interrupted) => {
                    return Err(EngineError::Storage(StorageError::Interrupted));
                }
                Err(error) => {
                    self.inner.messages.report_damage(index, &error);
                    findings(&format!("index {}: {error}", index.entry.label));
                    first.get_or_insert(error);
                }
            }
        }
        match first {
            Some(error) => Err(EngineError::Storage(error)),
            None => Ok(()),
        }
    }
}
