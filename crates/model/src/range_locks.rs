//! The ranges that a transaction has read with locks. Other transactions must
//! not insert there until this transaction ends. An engine may block insertions
//! somewhat beyond these ranges, because it locks ahead of a scan.

use crate::types::{EntryKey, InsertBlocked, Key, TableId};

/// The ranges that one transaction has read with locks.
#[derive(Debug, Default)]
pub(crate) struct RangeLocks {
    ranges: Vec<LockedRange>,
    /// Tables that the transaction has read with locks.
    tables: Vec<TableId>,
}

#[derive(Debug)]
struct LockedRange {
    table: TableId,
    index: usize,
    low: Key,
    /// The first key after the range; `None` when it has no end.
    high: Option<Key>,
}

impl RangeLocks {
    /// Adds the range `low <= key < high`.
    pub(crate) fn lock(&mut self, low: &EntryKey, high: Option<Key>) {
        self.touch(low.table);
        self.ranges.push(LockedRange {
            table: low.table,
            index: low.index,
            low: low.key.clone(),
            high,
        });
    }

    /// Adds a table without locking a range.
    pub(crate) fn touch(&mut self, table: TableId) {
        if !self.tables.contains(&table) {
            self.tables.push(table);
        }
    }

    /// Removes the ranges of a table, not the table itself.
    pub(crate) fn forget_ranges(&mut self, table: TableId) {
        self.ranges.retain(|range| range.table != table);
    }

    /// Whether the insertion of an entry is blocked.
    pub(crate) fn blocks(&self, entry: &EntryKey) -> InsertBlocked {
        let contains = |range: &LockedRange| {
            range.table == entry.table
                && range.index == entry.index
                && range.low <= entry.key
                && range.high.as_ref().is_none_or(|high| entry.key < *high)
        };
        if self.ranges.iter().any(contains) {
            InsertBlocked::Yes
        } else if self.tables.contains(&entry.table) {
            InsertBlocked::Possibly
        } else {
            InsertBlocked::No
        }
    }
}
