//! Inspection of a table: sizes, estimates, verification.

use crate::error::{EngineError, EngineResult};
use crate::index_number::IndexNumber;
use crate::table_handle::TableHandle;
use std::ops::Bound;
use std::sync::Arc;
use teak_base::{Codec, StorageError};
use teak_transactions::{ReadView, TransactionId, ViewKind};
use teak_tree::TreeSizes;

/// Sizes of one index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexStatistics {
    /// Estimated number of live entries.
    pub entries: u64,
    /// Bytes of the file.
    pub disk_bytes: u64,
    /// Uncompressed bytes of the entries on disk. While the files are closed: of all entries.
    pub raw_bytes: u64,
    /// Bytes in memtables.
    pub memtable_bytes: u64,
    /// Levels of nodes.
    pub height: u64,
    /// Number of runs.
    pub runs: u64,
    /// Number of delete entries and range tombstones on disk.
    pub tombstones: u64,
    /// The codec of bottom runs.
    pub codec: Codec,
    /// Bytes of its decoded blocks in memory; 0 while the files are closed.
    pub cached_bytes: u64,
    /// Bytes of the entries in memory before compression, as if their pages had been decoded with all columns; 0 while
    /// the files are closed.
    pub cached_entry_bytes: u64,
    /// Limit of the page cache, which all indexes share, in bytes.
    pub cache_bytes_limit: u64,
    /// Mean uncompressed bytes of a page; 0 while the files are closed.
    pub page_bytes: u64,
}

/// # Inspection
impl TableHandle {
    /// Sizes of one index. Cheap enough to be called for every statement. If the
    /// table's files are closed, they remain closed. The result then contains the
    /// sizes at the time when they were closed, or those in the catalogue that was
    /// read when the engine was opened.
    ///
    /// # Errors
    /// `NoSuchIndex`; `NoSuchTable` when the table was dropped.
    pub fn index_statistics(&self, index: IndexNumber) -> EngineResult<IndexStatistics> {
        let of_tree = |tree: TreeSizes| IndexStatistics {
            entries: tree.rows,
            disk_bytes: tree.file_bytes,
            raw_bytes: tree.raw_bytes,
            memtable_bytes: tree.memtable_bytes,
            height: tree.height,
            runs: tree.runs,
            tombstones: tree.deletes,
            codec: tree.codec,
            cached_bytes: tree.cached_bytes,
            cached_entry_bytes: tree.cached_entry_bytes,
            cache_bytes_limit: tree.cache_bytes_limit,
            page_bytes: tree.page_bytes,
        };
        self.index_state(
            index,
            |index| of_tree(index.tree.sizes()),
            |sizes, codec| IndexStatistics {
                entries: sizes.entries,
                disk_bytes: sizes.file_bytes,
                raw_bytes: sizes.raw_bytes,
                memtable_bytes: 0,
                height: sizes.height,
                runs: sizes.runs,
                tombstones: sizes.tombstones,
                codec,
                cached_bytes: 0,
                cached_entry_bytes: 0,
                cache_bytes_limit: self.core.files.cache.capacity_bytes(),
                page_bytes: 0,
            },
        )
    }

    /// Free space within an index's file that later writes will reuse, in bytes.
    /// Leaves closed files closed, as [`TableHandle::index_statistics`] does.
    ///
    /// # Errors
    /// `NoSuchIndex`; `NoSuchTable` when the table was dropped.
    pub fn free_bytes(&self, index: IndexNumber) -> EngineResult<u64> {
        self.index_state(
            index,
            |index| index.tree.file_statistics().unused_bytes(),
            |sizes, _| sizes.unused_bytes,
        )
    }

    /// Estimates the number of entries with `lower <= key < upper`; mostly exact if it is small.
    /// Uncommitted entries count, too. `None` is unbounded.
    ///
    /// # Errors
    /// `NoSuchIndex`; `Storage`.
    pub fn records_in_range(
        &self,
        index: IndexNumber,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
    ) -> EngineResult<u64> {
        let index = self.index(index)?;
        let estimate = index.tree.estimate_range(
            lower.map_or(Bound::Unbounded, Bound::Included),
            upper.map_or(Bound::Unbounded, Bound::Excluded),
            self.uncommitted_view(),
        );
        self.core.checked(&index, estimate)
    }

    /// As [`TableHandle::records_in_range`], for the keys that start with a prefix, which must be
    /// as for [`Cursor::set_prefix`](crate::Cursor::set_prefix).
    ///
    /// # Errors
    /// As [`TableHandle::records_in_range`].
    pub fn records_with_prefix(&self, index: IndexNumber, prefix: &[u8]) -> EngineResult<u64> {
        let index = self.index(index)?;
        let view = self.uncommitted_view();
        let estimate = index.tree.estimate_prefix(prefix, view);
        self.core.checked(&index, estimate)
    }

    /// The view of estimates. It includes uncommitted writes, because they may be committed before
    /// the caller reads the range.
    fn uncommitted_view(&self) -> ReadView {
        ReadView::new(
            Arc::clone(self.core.transactions.ids()),
            TransactionId::default(),
            ViewKind::Uncommitted,
        )
    }

    /// Reads and checks every block of all indexes, or only of the index of the rows if the table
    /// was opened to be salvaged. Passes texts about the problems to `findings`. Stops when
    /// `is_wanted` returns `false`.
    ///
    /// # Errors
    /// The reason why the table cannot be opened, otherwise the error of the first damaged index,
    /// after all indexes were checked; `Interrupted`; errors of opening the table's files.
    pub fn verify(
        &self,
        is_wanted: &mut dyn FnMut() -> bool,
        findings: &mut dyn FnMut(&str),
    ) -> EngineResult<()> {
        let mut first = self.table.unreadable();
        if let Some(cause) = &first {
            findings(&format!("the table cannot be opened: {cause}"));
        }
        let indexes = self.indexes()?;
        for index in indexes.iter() {
            match index.tree.verify(&mut |_| is_wanted()) {
                Ok(_) => {}
                Err(StorageError::Interrupted) => {
                    return Err(EngineError::Storage(StorageError::Interrupted));
                }
                Err(error) => {
                    self.core.messages.report_damage(index, &error);
                    findings(&format!("index {}: {error}", index.entry.label));
                    self.list_damage(index, is_wanted, findings)?;
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
