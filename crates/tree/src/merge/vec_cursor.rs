//! A cursor over entries in a vector, for tests of merges and heaps.

use crate::{StoredValue, VersionCursor};
use teak_base::{Operation, StorageResult, WriteId};

/// Key, write, operation, value.
pub(crate) type Entry = (Vec<u8>, WriteId, Operation, Vec<u8>);

/// Entries in key order, newest first within a key.
#[derive(Debug, Default)]
pub(crate) struct VecCursor {
    entries: Vec<Entry>,
    position: Option<usize>,
}

impl VecCursor {
    pub(crate) fn new(entries: Vec<Entry>) -> Self {
        assert!(entries.is_sorted_by(|a, b| a.0 <= b.0));
        Self {
            entries,
            position: None,
        }
    }

    fn set(&mut self, position: usize) {
        self.position = (position < self.entries.len()).then_some(position);
    }

    fn entry(&self) -> &Entry {
        &self.entries[self.position.expect("the cursor is on an entry")]
    }
}

impl VersionCursor for VecCursor {
    fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        self.set(self.entries.partition_point(|e| e.0.as_slice() < key));
        Ok(())
    }
    fn seek_first(&mut self) -> StorageResult<()> {
        self.set(0);
        Ok(())
    }
    fn seek_last(&mut self) -> StorageResult<()> {
        match self.entries.last().map(|e| e.0.clone()) {
            Some(key) => self.seek(&key),
            None => Ok(()),
        }
    }
    fn seek_before(&mut self, key: &[u8]) -> StorageResult<()> {
        let end = self.entries.partition_point(|e| e.0.as_slice() < key);
        self.position = None;
        if let Some(last) = end.checked_sub(1) {
            let key = self.entries[last].0.clone();
            self.seek(&key)?;
        }
        Ok(())
    }
    fn valid(&self) -> bool {
        self.position.is_some()
    }
    fn key(&self) -> &[u8] {
        &self.entry().0
    }
    fn write_id(&self) -> WriteId {
        self.entry().1
    }
    fn operation(&self) -> Operation {
        self.entry().2
    }
    fn value(&self) -> StoredValue<'_> {
        StoredValue::Inline(&self.entry().3)
    }
    fn next_version(&mut self) -> StorageResult<()> {
        let next = self.position.expect("the cursor is on an entry") + 1;
        self.set(next);
        Ok(())
    }
    fn previous_key(&mut self) -> StorageResult<()> {
        let key = self.key().to_vec();
        self.seek_before(&key)
    }
}
