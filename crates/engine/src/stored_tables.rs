//! What a data directory contains about its tables, for tools.

use crate::catalogue::{Catalogue, IndexEntry, TableEntry, read_catalogue};
use crate::engine::Engine;
use crate::error::EngineResult;
use crate::name::TableName;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::{FileId, StorageResult, WriteId, WriteIdRanges};
use teak_disk::Disk;
use teak_tree::PageColumns;

/// A table of a data directory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoredTable {
    /// The name.
    pub name: String,
    /// Bytes stored for the caller.
    pub metadata: Vec<u8>,
    /// The indexes; the first contains the rows.
    pub indexes: Vec<StoredIndex>,
}

/// An index of a table of a data directory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoredIndex {
    /// The id of the file.
    pub file: FileId,
    /// The file, relative to the data directory.
    pub path: PathBuf,
    /// The label.
    pub label: String,
    /// The columns of keys and values.
    pub columns: PageColumns,
    /// The generation of a durable superblock of the file; zero: unknown.
    pub generation: u64,
    /// Estimated number of live entries.
    pub entries: u64,
}

impl From<&IndexEntry> for StoredIndex {
    fn from(entry: &IndexEntry) -> Self {
        Self {
            file: entry.file,
            path: entry.path.clone(),
            label: entry.label.clone(),
            columns: entry.columns.clone(),
            generation: entry.durable_generation,
            entries: entry.sizes.entries,
        }
    }
}

impl From<&TableEntry> for StoredTable {
    fn from(entry: &TableEntry) -> Self {
        Self {
            name: entry.name.clone(),
            metadata: entry.metadata.clone(),
            indexes: entry.indexes.iter().map(StoredIndex::from).collect(),
        }
    }
}

/// What is known about a write without the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredStatus {
    /// It was committed.
    Committed,
    /// It was rolled back.
    Aborted,
    /// The log contains whether it was committed, or it was active.
    Unknown,
}

/// The catalogue of a data directory, without what only the log contains.
#[derive(Debug)]
pub struct StoredTables {
    tables: Vec<StoredTable>,
    active: WriteIdRanges,
    aborted: WriteIdRanges,
    next_write_id: WriteId,
}

impl StoredTables {
    /// Reads the catalogue of a data directory; `None` if there is none. Changes nothing.
    ///
    /// # Errors
    /// `Corrupt`, `UnsupportedFormat`, `Io`.
    pub fn read(disk: &Arc<dyn Disk>, directory: &Path) -> StorageResult<Option<Self>> {
        Ok(read_catalogue(disk, directory)?.map(Self::of))
    }

    fn of(catalogue: Catalogue) -> Self {
        Self {
            tables: catalogue.tables.values().map(StoredTable::from).collect(),
            active: catalogue.active,
            aborted: catalogue.aborted,
            next_write_id: catalogue.next_write_id,
        }
    }

    /// The tables.
    #[must_use]
    pub fn tables(&self) -> &[StoredTable] {
        &self.tables
    }

    /// The table and the index of a file.
    #[must_use]
    pub fn find(&self, file: FileId) -> Option<(&StoredTable, &StoredIndex)> {
        self.tables.iter().find_map(|table| {
            let index = table.indexes.iter().find(|index| index.file == file)?;
            Some((table, index))
        })
    }

    /// The status of a write of which an index file may have entries.
    #[must_use]
    pub fn status(&self, id: WriteId) -> StoredStatus {
        if self.aborted.contains(id) {
            StoredStatus::Aborted
        } else if id >= self.next_write_id || self.active.contains(id) {
            StoredStatus::Unknown
        } else {
            StoredStatus::Committed
        }
    }
}

impl Engine {
    /// What the catalogue contains about a table now.
    ///
    /// # Errors
    /// `NoSuchTable`; `InvalidArgument` when the name is not a valid table name.
    pub fn stored_table(&self, name: &str) -> EngineResult<StoredTable> {
        let name = TableName::parse(name)?;
        let tables = self.core.tables.lock();
        Ok(StoredTable::from(&*tables.require(&name)?.entry))
    }
}
