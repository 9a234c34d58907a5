//! The newest version of each row in the retained log records of an unavailable
//! table.
//!
//! The file of the rows contains the effects of the log up to some position. The
//! records from that position on are newer versions and deletes of rows. A salvage
//! sorts them by key, within a memory budget, and merges them with the rows of the
//! file. If a key has records, the newest one determines the row.

use crate::core::EngineCore;
use crate::core::index::Index;
use crate::core::sorts::{SortMemory, sorter_options};
use crate::error::EngineResult;
use crate::name::retained_path;
use crate::retained::{RetainedPlace, UnreadRecords, read_undamaged};
use std::sync::Arc;
use teak_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use teak_base::{Lsn, Operation, StorageError, WriteStatus};
use teak_bulk_load::{Interrupted, SortedEntries, Sorter};
use teak_transactions::WaitError;
use teak_write_ahead_log::Record;

/// Length of the prefix of a sorted value: position of the record (u64) and number of the operation
/// in the record (u32), both big-endian, and the operation (u8). The row's value follows.
const PREFIX_BYTES: usize = 8 + 4 + 1;

/// Records between two checks for an interrupt.
const INTERRUPT_CHECK_RECORDS: u64 = 1024;

/// A range of keys that was deleted at a position of the log.
struct DeletedRange {
    lsn: Lsn,
    start: Vec<u8>,
    end: Vec<u8>,
}

/// The newest operation on a key in the retained records.
struct NewestRecord {
    key: Vec<u8>,
    /// The prefix that `PREFIX_BYTES` describes, and the value.
    stored: Vec<u8>,
}

impl NewestRecord {
    fn lsn(&self) -> Lsn {
        let bytes = self.stored.first_chunk();
        Lsn(bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes)))
    }

    fn value(&self) -> Option<&[u8]> {
        let (prefix, value) = self.stored.split_at_checked(PREFIX_BYTES)?;
        (prefix.last() == Some(&Operation::Put.number())).then_some(value)
    }
}

/// Receives the key and the value of a row.
pub(super) type OnRow<'a> = dyn FnMut(&[u8], &[u8]) -> EngineResult<()> + 'a;

/// The rows in the retained records, in the order of their keys.
pub(super) struct RetainedRows {
    records: SortedEntries,
    interrupted: Box<Interrupted>,
    deleted: Vec<DeletedRange>,
    current: Option<NewestRecord>,
    /// Records that could not be read.
    pub unread: Option<UnreadRecords>,
}

impl RetainedRows {
    /// Reads and sorts the records whose effects the file of the `rows` does not contain.
    ///
    /// # Errors
    /// `Wait(Timeout)` when such a record belongs to a prepared transaction, whose outcome is not known
    /// yet. `Wait(Interrupted)`, `NoSpace`; `NotFound` and `Io` when the records may be readable
    /// later.
    pub(super) fn read(
        core: &Arc<EngineCore>,
        table: u64,
        rows: &Index,
        interrupted: Box<Interrupted>,
    ) -> EngineResult<Self> {
        let memory = SortMemory::take(core, 1).part(1);
        let mut sorter = Sorter::new(sorter_options(core, &rows.entry, memory));
        let mut deleted = Vec::new();
        let mut stored = Vec::new();
        let mut read = 0u64;
        let unread = read_undamaged(
            RetainedPlace::of(&core.files, core.instance),
            table,
            rows.replay_from,
            &mut |lsn, record| {
                if read.is_multiple_of(INTERRUPT_CHECK_RECORDS) && interrupted() {
                    return Err(WaitError::Interrupted.into());
                }
                read += 1;
                // The file contains the effect of an earlier record, even if the outcome of its
                // transaction is not known.
                if lsn < rows.replay_from || !is_committed(core, record)? {
                    return Ok(());
                }
                match *record {
                    Record::Write { operations, .. } => {
                        for (number, operation) in (0u32..).zip(operations) {
                            if operation.file != rows.entry.file {
                                continue;
                            }
                            let (key, value) = (operation.key, operation.value);
                            if key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
                                return Err(invalid(table).into());
                            }
                            stored.clear();
                            stored.extend_from_slice(&lsn.0.to_be_bytes());
                            stored.extend_from_slice(&number.to_be_bytes());
                            stored.push(operation.operation.number());
                            stored.extend_from_slice(value);
                            sorter.add(key, &stored, &*interrupted)?;
                        }
                    }
                    Record::DeleteRange {
                        file, start, end, ..
                    } if file == rows.entry.file => deleted.push(DeletedRange {
                        lsn,
                        start: start.to_vec(),
                        end: end.to_vec(),
                    }),
                    _ => {}
                }
                Ok(())
            },
        )?;
        let records = sorter.finish(&*interrupted)?;
        let mut found = Self {
            records,
            interrupted,
            deleted,
            current: None,
            unread,
        };
        found.advance()?;
        Ok(found)
    }

    /// Passes the rows up to and including `key` to `on_row`; without a key, the rest of the rows.
    /// Returns whether the records determine the row of the key, by a write or a delete.
    pub(super) fn pass(
        &mut self,
        key: Option<&[u8]>,
        on_row: &mut OnRow<'_>,
    ) -> EngineResult<bool> {
        while let Some(record) = &self.current {
            let is_same = key == Some(record.key.as_slice());
            if !is_same && key.is_some_and(|key| record.key.as_slice() > key) {
                break;
            }
            if let Some(value) = record.value()
                && !self.is_deleted_after(record.lsn(), &record.key)
            {
                on_row(&record.key, value)?;
            }
            self.advance()?;
            if is_same {
                return Ok(true);
            }
        }
        Ok(key.is_some_and(|key| self.is_deleted_after(Lsn(0), key)))
    }

    fn is_deleted_after(&self, lsn: Lsn, key: &[u8]) -> bool {
        let mut ranges = self.deleted.iter();
        ranges.any(|range| {
            range.lsn >= lsn && range.start.as_slice() <= key && key < range.end.as_slice()
        })
    }

    /// Moves to the newest operation on the next key.
    fn advance(&mut self) -> EngineResult<()> {
        let mut newest: Option<NewestRecord> = None;
        while let Some((key, stored)) = self.records.entry() {
            match &mut newest {
                // No two operations have the same position and number, so the larger prefix is
                // that of the newer operation.
                Some(found) if found.key == key => {
                    if found.stored.as_slice() < stored {
                        found.stored.clear();
                        found.stored.extend_from_slice(stored);
                    }
                }
                Some(_) => break,
                None => {
                    newest = Some(NewestRecord {
                        key: key.to_vec(),
                        stored: stored.to_vec(),
                    });
                }
            }
            self.records.advance(&*self.interrupted)?;
        }
        self.current = newest;
        Ok(())
    }
}

/// Whether the writes of a record are committed. Returns an error while their transaction is
/// active.
fn is_committed(core: &EngineCore, record: &Record<'_>) -> EngineResult<bool> {
    let (Record::Write { write_id, .. } | Record::DeleteRange { write_id, .. }) = *record else {
        return Ok(false);
    };
    match core.transactions.ids().status(write_id) {
        WriteStatus::Active(_) => Err(WaitError::Timeout.into()),
        WriteStatus::Aborted => Ok(false),
        WriteStatus::Committed(_) => Ok(true),
    }
}

fn invalid(table: u64) -> StorageError {
    StorageError::corrupt(
        &retained_path("".as_ref(), table),
        0,
        "a record is not valid",
    )
}
