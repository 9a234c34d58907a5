//! Checks whether the rows of a table contain writes of prepared transactions
//! that no handle owns.
//!
//! The table lock of ALTER TABLE does not wait for such a transaction. When it
//! commits, its entries would be missing from the new indexes, so the alteration
//! must be rejected. A replica often has such transactions, between XA PREPARE and
//! XA COMMIT. An alteration of a table that they have not written must be accepted. Of a damaged
//! table, what can be read is examined: a repair must not wait for transactions that have written
//! other tables.
//!
//! The caller passes the write ids of such transactions, if they are within the
//! range of the table's unsettled ids. Without any, no entry is read.

use crate::core::index::Index;
use crate::error::EngineResult;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use teak_base::{StorageError, StorageResult, Visibility, WriteId, WriteIdRanges};

/// A visibility that sees only the entries of `writes`, and records whether it has seen one.
struct Search<'a> {
    writes: Vec<Arc<WriteIdRanges>>,
    found: AtomicBool,
    interrupted: &'a (dyn Fn() -> bool + Send),
}

impl Visibility for Search<'_> {
    fn is_visible(&self, id: WriteId) -> bool {
        let found = self.writes.iter().any(|writes| writes.contains(id));
        if found {
            self.found.store(true, Ordering::Relaxed);
        }
        found
    }

    fn is_interrupted(&self) -> bool {
        (self.interrupted)()
    }
}

impl Search<'_> {
    fn is_done(&self) -> bool {
        self.found.load(Ordering::Relaxed)
    }

    fn read(&self, index: &Index) -> StorageResult<()> {
        let mut cursor = index.tree.cursor(self);
        let mut is_valid = cursor.seek_first()?;
        while is_valid && !self.is_done() {
            is_valid = cursor.next()?;
        }
        Ok(())
    }

    /// As `read`, but skips what cannot be read.
    fn read_undamaged(&self, index: &Index) -> StorageResult<()> {
        let mut cursor = index.tree.salvage(self);
        while !self.is_done() && cursor.next()?.is_some() {}
        Ok(())
    }
}

/// Whether an index contains an entry of one of `writes` that can be read. Reads the index up to
/// the first such entry.
pub(super) fn contains(
    index: &Index,
    writes: Vec<Arc<WriteIdRanges>>,
    interrupted: &(dyn Fn() -> bool + Send),
) -> EngineResult<bool> {
    if writes.is_empty() {
        return Ok(false);
    }
    let search = Search {
        writes,
        found: AtomicBool::new(false),
        interrupted,
    };
    match search.read(index) {
        Err(StorageError::Corrupt { .. } | StorageError::Io { .. }) => {
            search.read_undamaged(index)?;
        }
        read => read?,
    }
    Ok(search.is_done())
}
