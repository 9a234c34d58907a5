//! How many rows a transaction has added to each table, so that its commit can change the counts of
//! rows.
//!
//! A change belongs to the write id of its statement, so a rollback to a savepoint removes it. If there
//! are many, the changes of the oldest ids are added up for each table. A rollback to a savepoint
//! between them makes the change of the table unknown.

use crate::core::counters::TableCounters;
use smallvec::SmallVec;
use std::sync::Arc;
use teak_base::{CommitSequence, FileId};

/// Number of changes from which the older half is added up.
const CHANGES_MAX: usize = 256;

/// The change of one table by writes with consecutive write ids of the transaction.
#[derive(Debug)]
struct Change {
    counters: Arc<TableCounters>,
    /// The file that contains the table's rows.
    file: FileId,
    /// Number of write ids that the transaction had after the first and the last of the writes.
    first: u64,
    last: u64,
    /// `None`: not known.
    rows: Option<i64>,
}

impl Change {
    fn is_of(&self, counters: &Arc<TableCounters>, file: FileId) -> bool {
        self.file == file && Arc::ptr_eq(&self.counters, counters)
    }
}

/// The changes of a transaction.
#[derive(Debug, Default)]
pub(crate) struct RowChanges {
    /// Ascending by `last`.
    changes: SmallVec<[Change; 2]>,
    /// Whether there was a write, even if it was rolled back.
    has_written: bool,
    /// Whether the transaction may have hidden rows from its snapshot that it has not counted.
    hides_rows: bool,
    /// The number of changes at which they are added up.
    squeeze_at: usize,
}

impl RowChanges {
    pub(crate) fn has_written(&self) -> bool {
        self.has_written
    }

    /// Called when the transaction deletes a range of keys: the range may have rows that only its snapshot
    /// sees, because others have deleted them since. From now on the transaction does not know what it sees.
    pub(crate) fn note_hidden_rows(&mut self) {
        self.has_written = true;
        self.hides_rows = true;
    }

    /// Adds the change of a write; `ids` is the number of write ids that the transaction has after it.
    #[inline]
    pub(crate) fn add(&mut self, counters: &Arc<TableCounters>, file: FileId, ids: u64, rows: i64) {
        self.has_written = true;
        let newest = self.changes.iter_mut().rev();
        let mut newest = newest.take_while(|change| change.first == ids);
        if let Some(change) = newest.find(|change| change.is_of(counters, file)) {
            change.rows = change.rows.map(|sum| sum + rows);
            return;
        }
        self.push(Change {
            counters: Arc::clone(counters),
            file,
            first: ids,
            last: ids,
            rows: Some(rows),
        });
    }

    #[cold]
    fn push(&mut self, change: Change) {
        self.changes.push(change);
        if self.changes.len() >= self.squeeze_at.max(CHANGES_MAX) {
            self.squeeze();
        }
    }

    /// Adds up the older half of the changes, for each table.
    fn squeeze(&mut self) {
        let newer = self.changes.drain(self.changes.len() / 2..);
        let newer: SmallVec<[Change; 2]> = newer.collect();
        let mut sums: SmallVec<[Change; 2]> = SmallVec::new();
        for change in self.changes.drain(..) {
            let found = sums.iter_mut();
            match found
                .into_iter()
                .find(|sum| sum.is_of(&change.counters, change.file))
            {
                Some(sum) => {
                    sum.last = change.last;
                    sum.rows = sum.rows.zip(change.rows).map(|(sum, rows)| sum + rows);
                }
                None => sums.push(change),
            }
        }
        sums.sort_by_key(|sum| sum.last);
        sums.extend(newer);
        self.squeeze_at = sums.len() + CHANGES_MAX / 2;
        self.changes = sums;
    }

    /// Removes the changes of the writes after a savepoint, before which the transaction had `ids` write ids.
    pub(crate) fn roll_back_to(&mut self, ids: u64) {
        self.changes.retain(|change| change.first <= ids);
        for change in &mut self.changes {
            if change.last > ids {
                change.last = ids;
                change.rows = None;
            }
        }
    }

    /// The number of rows that the transaction adds to those that its snapshot sees in a table. `None`: not
    /// known.
    pub(crate) fn of(&self, counters: &Arc<TableCounters>, file: FileId) -> Option<i64> {
        if self.hides_rows {
            return None;
        }
        let changes = self.changes.iter();
        let mut of_table = changes.filter(|change| change.is_of(counters, file));
        of_table.try_fold(0, |sum, change| Some(sum + change.rows?))
    }

    /// Adds the changes to the counts of the tables, for the commit `at`.
    pub(crate) fn publish(&self, at: CommitSequence) {
        for change in &self.changes {
            change.counters.rows.add(change.file, at, change.rows);
        }
    }

    /// Folds the counts of the tables that have many changes.
    pub(crate) fn fold(&self, mut snapshots: impl FnMut() -> Vec<CommitSequence>) {
        let mut list = None;
        for change in &self.changes {
            if change.counters.rows.is_fold_due() {
                change
                    .counters
                    .rows
                    .fold(list.get_or_insert_with(&mut snapshots));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: FileId = FileId(3);

    #[test]
    fn rollback_to_a_savepoint_removes_its_changes() {
        let (one, two) = (Arc::default(), Arc::default());
        let mut changes = RowChanges::default();
        assert!(!changes.has_written());
        changes.add(&one, FILE, 1, 5);
        changes.add(&two, FILE, 1, 1);
        changes.add(&one, FILE, 1, -2);
        changes.add(&one, FILE, 2, 100);
        assert_eq!(changes.of(&one, FILE), Some(103));
        assert_eq!(changes.of(&one, FileId(4)), Some(0));
        changes.roll_back_to(1);
        assert_eq!(changes.of(&one, FILE), Some(3));
        assert_eq!(changes.of(&two, FILE), Some(1));
        changes.roll_back_to(0);
        assert_eq!(changes.of(&one, FILE), Some(0));
        assert!(changes.has_written());
    }

    proptest! {
        #[test]
        fn changes_are_exact_or_unknown(
            steps in proptest::collection::vec((0u8..40, 0usize..3, 0i64..100), 1..2000),
        ) {
            let tables: [Arc<TableCounters>; 3] = Default::default();
            let mut changes = RowChanges::default();
            // The table and the change of each write id.
            let mut model: Vec<(usize, i64)> = Vec::new();
            let mut may_be_unknown = false;
            for (kind, table, amount) in steps {
                if kind == 0 {
                    // Usually the newest statement is rolled back.
                    let back = if amount < 90 { 1 } else { model.len() * 2 / 3 };
                    may_be_unknown |= back > 1;
                    let ids = model.len().saturating_sub(back);
                    model.truncate(ids);
                    changes.roll_back_to(ids as u64);
                } else {
                    model.push((table, amount));
                    changes.add(&tables[table], FILE, model.len() as u64, amount);
                }
                prop_assert!(changes.changes.len() < 2 * CHANGES_MAX);
            }
            for (number, table) in tables.iter().enumerate() {
                let sum: i64 = model.iter().filter(|(of, _)| *of == number).map(|(_, amount)| amount).sum();
                match changes.of(table, FILE) {
                    Some(found) => prop_assert_eq!(found, sum),
                    None => prop_assert!(may_be_unknown),
                }
            }
        }
    }
}
