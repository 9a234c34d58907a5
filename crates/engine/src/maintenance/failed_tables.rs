//! Tables with a file that fails: they become read-only, so that they do not
//! affect others.
//!
//! An index that cannot be flushed or checkpointed needs more and more of the
//! log. Its table refuses writes from the moment when
//! - its file accepts no checkpoint until it is opened again, because a sync has
//!   failed or its blocks contradict each other; or
//! - a flush or checkpoint of it fails, and it needs more of the log than
//!   [`LOG_SHARE`].
//!
//! In the second case writes are accepted again when all indexes of the table
//! have been checkpointed. In the first case the table must be repaired or
//! truncated, or the engine opened again.

use super::flusher::FlushContext;
use crate::core::index::Index;
use crate::core::table::Table;
use crate::core::tables::Tables;
use crate::core::work_kind::WorkKind;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use teak_base::{FileId, Lsn, StorageError};

/// An index whose flushes or checkpoints fail may need so much of the log, in
/// eighths of its bound: more than makes a checkpoint due, and less than slows
/// writers.
pub(super) const LOG_SHARE: u64 = 3;

/// The parts of an engine that deal with failed tables.
pub(super) struct FailedTables<'a> {
    pub flush: FlushContext<'a>,
    pub tables: &'a Mutex<Tables>,
    pub log_bytes_max: u64,
}

/// Whether flushes or checkpoints of an index fail.
fn failure(index: &Index) -> Option<StorageError> {
    let checkpoint = index.checkpoint_retry.failure();
    checkpoint.or_else(|| index.attempts(WorkKind::Memtables).failure())
}

impl FailedTables<'_> {
    /// Makes tables read-only whose files fail, and ends that for those whose files
    /// work again. `read_only` lists them.
    pub(super) fn update(&self, read_only: &mut Vec<Weak<Table>>) {
        read_only.retain(|table| {
            let table = table.upgrade();
            table.is_some_and(|table| !self.accept_again(&table))
        });
        let end = self.flush.log.end();
        for index in self.flush.written.live() {
            if index.is_temporary() || index.access.refusal().is_some() {
                continue;
            }
            let Some(cause) = self.reason(&index, end) else {
                continue;
            };
            if let Some(table) = self.table_of(index.entry.file) {
                self.refuse_writes(&table, &cause);
                read_only.push(Arc::downgrade(&table));
            }
        }
    }

    /// Why the table of an index must be read-only, if it must.
    fn reason(&self, index: &Index, end: Lsn) -> Option<StorageError> {
        let failure = failure(index)?;
        if let Some(cause) = index.tree.checkpoint_refusal() {
            return Some(cause);
        }
        let needed = index.log_needed_from(|| end)?;
        let share = self.log_bytes_max / 8 * LOG_SHARE;
        (end.0.saturating_sub(needed.0) > share).then_some(failure)
    }

    /// The open table that an index file belongs to.
    fn table_of(&self, file: FileId) -> Option<Arc<Table>> {
        let slot = {
            let tables = self.tables.lock();
            let mut states = tables.durable();
            let (_, state) = states.find(|(_, state)| {
                let mut indexes = state.entry.indexes.iter();
                indexes.any(|index| index.file == file)
            })?;
            Arc::clone(&state.slot)
        };
        let open = slot.lock();
        open.clone()
    }

    fn refuse_writes(&self, table: &Table, cause: &StorageError) {
        let Some(indexes) = table.open_indexes() else {
            return;
        };
        let mut were_accepted = false;
        for index in indexes.iter() {
            were_accepted |= index.access.refuse(cause);
        }
        for index in indexes.iter() {
            index.tree.wait_for_writers();
        }
        if were_accepted {
            let text = format!("table {} is read-only now: {cause}", table.name());
            self.flush.messages.error(&text);
        }
    }

    /// Accepts writes of a read-only table if nothing of it fails any more.
    fn accept_again(&self, table: &Table) -> bool {
        let Some(indexes) = table.open_indexes() else {
            return true;
        };
        let fails = |index: &Arc<Index>| {
            failure(index).is_some() || index.tree.checkpoint_refusal().is_some()
        };
        if indexes.iter().any(fails) {
            return false;
        }
        if indexes.iter().any(|index| index.access.refusal().is_some()) {
            for index in indexes.iter() {
                index.access.allow();
            }
            let text = format!("table {} accepts writes again", table.name());
            self.flush.messages.note(&text);
        }
        true
    }
}
