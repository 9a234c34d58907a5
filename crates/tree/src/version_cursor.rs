//! The common cursor interface of memtables and runs.

use crate::StoredValue;
use teak_base::{Operation, StorageResult, WriteId};

/// Whether a visitor wants the next older version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// Continue with the next older version, if there is one.
    Continue,
    /// Do not continue.
    Stop,
}

/// A cursor over entries that are ordered by key, ascending, and within a key
/// by age, newest first.
///
/// A new cursor is not valid. A cursor that moved past either end, or whose
/// last operation failed, is not valid until the next seek.
///
/// [`VersionCursor::key`], [`VersionCursor::write_id`],
/// [`VersionCursor::operation`], [`VersionCursor::value`], [`VersionCursor::is_separate`],
/// [`VersionCursor::next_version`] and [`VersionCursor::previous_key`] require
/// a valid cursor and panic otherwise.
pub trait VersionCursor {
    /// Moves to the newest version of the first key at or after `key`.
    ///
    /// # Errors
    /// Errors of reading blocks.
    fn seek(&mut self, key: &[u8]) -> StorageResult<()>;

    /// Moves to the newest version of the first key.
    ///
    /// # Errors
    /// Errors of reading blocks.
    fn seek_first(&mut self) -> StorageResult<()>;

    /// Moves to the newest version of the last key.
    ///
    /// # Errors
    /// Errors of reading blocks.
    fn seek_last(&mut self) -> StorageResult<()>;

    /// Moves to the newest version of the last key before `key`.
    ///
    /// # Errors
    /// Errors of reading blocks.
    fn seek_before(&mut self, key: &[u8]) -> StorageResult<()>;

    /// Whether the cursor is on an entry.
    fn valid(&self) -> bool;

    /// The key of the entry.
    fn key(&self) -> &[u8];

    /// The write id of the entry.
    fn write_id(&self) -> WriteId;

    /// The operation of the entry.
    fn operation(&self) -> Operation;

    /// The value; empty for a delete.
    fn value(&self) -> StoredValue<'_>;

    /// Whether the value is separate. Cheaper than `value`.
    fn is_separate(&self) -> bool {
        matches!(self.value(), StoredValue::Separate(..))
    }

    /// Whether the cursor reads sequentially and found the page of the entry in the page cache.
    fn is_cached(&self) -> bool {
        false
    }

    /// Moves to the next entry: an older version of the key, otherwise the
    /// newest version of the next key.
    ///
    /// # Errors
    /// Errors of reading blocks.
    fn next_version(&mut self) -> StorageResult<()>;

    /// Moves to the newest version of the previous key.
    ///
    /// # Errors
    /// Errors of reading blocks.
    fn previous_key(&mut self) -> StorageResult<()>;
}
