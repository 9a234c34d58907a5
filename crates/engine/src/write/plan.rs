//! The plan of one row's write: the keys to check and the operations on indexes.

use crate::core::index::Index;
use crate::core::table::index_at;
use crate::error::{EngineError, EngineResult};
use crate::index_number::IndexNumber;
use smallvec::SmallVec;
use std::sync::Arc;
use teak_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use teak_base::{FileId, Operation, StorageError};
use teak_transactions::{LockId, RowName};
use teak_write_ahead_log::WriteOperation;

/// Approximate memory of an entry in a memtable, in addition to its key and value.
const ENTRY_BYTES: usize = 48;

/// Maximum size of the entries of a row, in bytes. The log record of a row, with the
/// framing of its operations, must not exceed the log's limit.
const LOG_ROW_BYTES_MAX: usize = 40 << 20;

/// The state that a key must have before the row is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyRequirement {
    /// The key has no live entry.
    Absent,
    /// The row exists, and the transaction may write it.
    Writable,
}

/// A key to check before the row is written.
#[derive(Clone, Copy)]
pub(super) struct KeyCheck<'a> {
    pub requirement: KeyRequirement,
    pub index: IndexNumber,
    pub key: &'a [u8],
    pub lock: LockId,
}

impl KeyCheck<'_> {
    pub(super) fn row_name<'a>(&'a self, index: &'a Index) -> RowName<'a> {
        RowName {
            lock: self.lock,
            index: &index.ranges,
            key: self.key,
        }
    }
}

/// An operation on one index.
#[derive(Clone, Copy)]
pub(super) struct IndexOperation<'a> {
    pub index: IndexNumber,
    /// Whether the operation adds a key that may be new to the index.
    pub is_insert: bool,
    pub write: WriteOperation<'a>,
}

impl<'a> IndexOperation<'a> {
    pub(super) fn new(
        index: IndexNumber,
        file: FileId,
        operation: Operation,
        key: &'a [u8],
        value: &'a [u8],
    ) -> Self {
        Self {
            index,
            is_insert: operation == Operation::Put,
            write: WriteOperation {
                file,
                operation,
                key,
                value,
            },
        }
    }
}

/// The checks and operations of one row's write.
pub(super) struct RowPlan<'a> {
    indexes: &'a [Arc<Index>],
    pub checks: SmallVec<[KeyCheck<'a>; 4]>,
    pub operations: SmallVec<[IndexOperation<'a>; 8]>,
    /// Whether a write that fails because its row exists locks the existing row.
    pub locks_duplicate: bool,
}

impl<'a> RowPlan<'a> {
    pub(super) fn new(indexes: &'a [Arc<Index>]) -> Self {
        Self {
            indexes,
            checks: SmallVec::new(),
            operations: SmallVec::new(),
            locks_duplicate: false,
        }
    }

    /// An index of the table.
    ///
    /// # Errors
    /// `NoSuchIndex`.
    pub(super) fn index(&self, number: IndexNumber) -> EngineResult<&'a Arc<Index>> {
        index_at(self.indexes, number)
    }

    /// Whether its write is logged. Indexes of a table are all temporary or none.
    #[inline]
    pub(super) fn is_logged(&self) -> bool {
        self.indexes.first().is_none_or(|rows| !rows.is_temporary())
    }

    pub(super) fn file_of(&self, index: IndexNumber) -> EngineResult<FileId> {
        Ok(self.index(index)?.entry.file)
    }

    pub(super) fn check(
        &mut self,
        requirement: KeyRequirement,
        index: IndexNumber,
        file: FileId,
        key: &'a [u8],
    ) {
        self.checks.push(KeyCheck {
            requirement,
            index,
            key,
            lock: LockId::new(file, key),
        });
    }

    /// Returns an error if an entry or the row is too large; otherwise its size in memtables.
    pub(super) fn check_sizes(&self) -> EngineResult<u64> {
        check_sizes(
            self.operations
                .iter()
                .map(|one| (one.write.key, one.write.value)),
        )
    }

    /// Puts the operations into the order in which every transaction takes the
    /// write guards of a table.
    pub(super) fn sort(&mut self) {
        if !self.operations.is_sorted_by_key(|one| one.index) {
            self.operations.sort_by_key(|one| one.index);
        }
    }
}

/// Returns an error if one of the entries of a row, or the row, is too large; otherwise the size of
/// the entries in memtables.
pub(crate) fn check_sizes<'a>(
    entries: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> EngineResult<u64> {
    let mut bytes = 0usize;
    for (key, value) in entries {
        if key.len() > KEY_BYTES_MAX {
            return Err(too_large("key", key.len(), KEY_BYTES_MAX));
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(too_large("value", value.len(), VALUE_BYTES_MAX));
        }
        bytes += key.len() + value.len() + ENTRY_BYTES;
    }
    if bytes > LOG_ROW_BYTES_MAX {
        return Err(too_large("row", bytes, LOG_ROW_BYTES_MAX));
    }
    Ok(bytes as u64)
}

fn too_large(what: &'static str, bytes: usize, limit: usize) -> EngineError {
    EngineError::Storage(StorageError::TooLarge {
        what,
        bytes: bytes as u64,
        limit: limit as u64,
    })
}
