//! The one interface of everything that holds entries in order: memtables,
//! runs and what merges them.

use teak_base::{Operation, StorageResult, WriteId};

/// Whether a visitor of versions wants the next older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// Go on with the next older version.
    Continue,
    /// Enough was seen.
    Stop,
}

/// A position over entries ordered by key, ascending, and within a key by age,
/// newest first.
///
/// A new cursor is not valid. A cursor that moved past either end is not
/// valid and stays so until the next seek. After an error the cursor is not
/// valid.
///
/// [`VersionCursor::key`], [`VersionCursor::write_id`],
/// [`VersionCursor::operation`], [`VersionCursor::value`],
/// [`VersionCursor::next_version`] and [`VersionCursor::previous_key`] require
/// a valid cursor and panic otherwise.
pub trait VersionCursor {
    /// Moves to the newest version of the first key at or after `key`.
    ///
    /// # Errors
    /// Those of reading blocks.
    fn seek(&mut self, key: &[u8]) -> StorageResult<()>;

    /// Moves to the newest version of the first key.
    ///
    /// # Errors
    /// Those of reading blocks.
    fn seek_first(&mut self) -> StorageResult<()>;

    /// Moves to the newest version of the last key.
    ///
    /// # Errors
    /// Those of reading blocks.
    fn seek_last(&mut self) -> StorageResult<()>;

    /// Moves to the newest version of the last key before `key`.
    ///
    /// # Errors
    /// Those of reading blocks.
    fn seek_before(&mut self, key: &[u8]) -> StorageResult<()>;

    /// Whether the cursor stands on an entry.
    fn valid(&self) -> bool;

    /// The key of the entry.
    fn key(&self) -> &[u8];

    /// The write that made the entry.
    fn write_id(&self) -> WriteId;

    /// What the entry does.
    fn operation(&self) -> Operation;

    /// The value; empty for a delete.
    fn value(&self) -> &[u8];

    /// Moves to the next entry: an older version of the key or else the newest
    /// version of the next key.
    ///
    /// # Errors
    /// Those of reading blocks.
    fn next_version(&mut self) -> StorageResult<()>;

    /// Moves to the newest version of the previous key.
    ///
    /// # Errors
    /// Those of reading blocks.
    fn previous_key(&mut self) -> StorageResult<()>;
}
