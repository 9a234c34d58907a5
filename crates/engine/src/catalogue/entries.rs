//! The catalogue's content: tables, indexes, prepared transactions, and the
//! positions that recovery starts from.

use crate::definition::IndexDefinition;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use teak_base::{Codec, EncryptionState, FileId, KeyId, Lsn, WriteId, WriteIdRange, WriteIdRanges};
use teak_tree::{EMPTY_FILE_BYTES, FilterKeys, PageColumns, TreeOptions};

/// Maximum length of the part of a value that is stored column by column, in bytes.
pub(super) const VALUE_FIXED_BYTES_MAX: u32 = 64 << 10;

/// The smallest id of temporary tables and of their files. Neither the catalogue
/// nor the log contains such ids, so they are allocated again after a restart.
pub(crate) const TEMPORARY_ID_MIN: u64 = 1 << 61;

/// A prepared transaction in the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PreparedEntry {
    /// The transaction's XID.
    pub xid: Vec<u8>,
    /// Its writes.
    pub write_ids: Arc<WriteIdRanges>,
}

/// Sizes of an index when the catalogue was captured or the index file was closed.
/// They are only reported, while the files of the table are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexSizes {
    /// Estimated number of live entries.
    pub entries: u64,
    /// Number of delete entries and range tombstones.
    pub tombstones: u64,
    /// Uncompressed bytes of the entries.
    pub raw_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of the file that neither live blocks nor superblocks use.
    pub unused_bytes: u64,
    /// Levels of nodes.
    pub height: u64,
    /// Number of runs.
    pub runs: u64,
}

impl IndexSizes {
    /// The sizes of a new file.
    pub(crate) const EMPTY: Self = Self {
        entries: 0,
        tombstones: 0,
        raw_bytes: 0,
        file_bytes: EMPTY_FILE_BYTES,
        unused_bytes: 0,
        height: 1,
        runs: 0,
    };
}

/// One index of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// The file's id; ids are never reused.
    pub file: FileId,
    /// The file's path, relative to the data directory.
    pub path: PathBuf,
    /// The label of the definition.
    pub label: String,
    /// The codec of bottom runs.
    pub codec: Codec,
    /// Uncompressed bytes of a page; zero for the default.
    pub page_bytes: u32,
    /// The key with which the file is encrypted; `None`: it is not.
    pub encryption_key: Option<KeyId>,
    /// The parts of keys that are in filters.
    pub filter_keys: FilterKeys,
    /// Number of leading bytes of each value that contain columns of fixed width.
    pub value_fixed_bytes: u32,
    /// The columns of keys and values.
    pub columns: PageColumns,
    /// The oldest write id of which the file may have had entries, although the write was aborted or
    /// could still be, when the catalogue was captured or the file was closed; zero if there was
    /// none.
    pub oldest_write_id: WriteId,
    /// The number of the file's last durable checkpoint at that time; zero: unknown.
    /// The log is trimmed, and aborted ids are forgotten, only as far as this checkpoint
    /// permits. So a file whose superblock is older is damaged.
    pub durable_generation: u64,
    /// How the blocks were encrypted at that time.
    pub encryption: EncryptionState,
    /// The index's sizes at that time.
    pub sizes: IndexSizes,
}

impl IndexEntry {
    /// The entry of a file with this definition.
    pub(crate) fn new(file: FileId, path: PathBuf, definition: IndexDefinition) -> Self {
        Self {
            file,
            path,
            label: definition.label,
            codec: definition.codec,
            page_bytes: definition.page_bytes,
            encryption_key: definition.encryption_key,
            filter_keys: definition.filter_keys,
            value_fixed_bytes: definition.value_fixed_bytes.min(VALUE_FIXED_BYTES_MAX),
            columns: definition.columns,
            oldest_write_id: WriteId::SETTLED,
            durable_generation: 0,
            encryption: EncryptionState::default(),
            sizes: IndexSizes::EMPTY,
        }
    }

    /// Whether the file belongs to a temporary table.
    #[inline]
    pub(crate) fn is_temporary(&self) -> bool {
        self.file.0 >= TEMPORARY_ID_MIN
    }

    /// The file may have entries of this write, too.
    pub(crate) fn note_older_write(&mut self, id: WriteId) {
        if self.oldest_write_id.is_settled() || id < self.oldest_write_id {
            self.oldest_write_id = id;
        }
    }

    /// The entry of the same file with another definition.
    pub(crate) fn redefined(&self, definition: &IndexDefinition) -> Self {
        Self {
            oldest_write_id: self.oldest_write_id,
            durable_generation: self.durable_generation,
            encryption: self.encryption,
            sizes: self.sizes,
            ..Self::new(self.file, self.path.clone(), definition.clone())
        }
    }

    pub(crate) fn definition(&self) -> IndexDefinition {
        IndexDefinition {
            label: self.label.clone(),
            codec: self.codec,
            page_bytes: self.page_bytes,
            encryption_key: self.encryption_key,
            filter_keys: self.filter_keys,
            value_fixed_bytes: self.value_fixed_bytes,
            columns: self.columns.clone(),
        }
    }

    /// Sets the options of a tree that the entry determines.
    pub(crate) fn apply_to(&self, options: &mut TreeOptions) {
        options.codec = self.codec;
        options.encryption_key = self.encryption_key;
        options.filter_keys = self.filter_keys;
        options.value_planes = self.value_fixed_bytes;
        options.columns = self.columns.clone();
        if self.page_bytes != 0 {
            options.page_bytes = self.page_bytes;
        }
    }
}

/// The write ids that the files and the retained log records of an unavailable or
/// read-only table may contain. While the records are retained, the aborted ids
/// among them are not forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetainedIds {
    /// The oldest of these ids.
    pub oldest: WriteId,
    /// The first id that was allocated after them.
    pub next: WriteId,
}

impl RetainedIds {
    pub(crate) fn range(self) -> WriteIdRange {
        WriteIdRange {
            first: self.oldest,
            count: self.next.0.saturating_sub(self.oldest.0),
        }
    }
}

/// One table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableEntry {
    /// The table's id; ids are never reused.
    pub id: u64,
    /// Its name, normalised: relative, without a leading `./`.
    pub name: String,
    /// Bytes stored for the caller.
    pub metadata: Vec<u8>,
    /// Its indexes; the first contains the rows.
    pub indexes: Vec<IndexEntry>,
    /// Set while log records of the table are retained in a file of their own, because recovery
    /// could not read one of its index files, or one could not be written.
    pub retained: Option<RetainedIds>,
    /// Durable counters by number, except those that are zero.
    pub counters: BTreeMap<u8, u64>,
    /// When the table was last written, as the caller reported it; zero: unknown.
    pub written_at: u64,
}

/// The content of the catalogue file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Catalogue {
    /// Identifies the instance. The log contains the same value.
    pub instance: u64,
    /// The position from which recovery reads the log.
    pub replay_from: Lsn,
    /// Table changes and counters before this position are in the catalogue.
    pub tables_lsn: Lsn,
    /// The next table's id.
    pub next_table: u64,
    /// The next index file's id.
    pub next_file: u64,
    /// The next write id.
    pub next_write_id: WriteId,
    /// Ids below `next_write_id` that were active. After a crash, an id is committed
    /// if the log contains its commit record. Otherwise it remains active if it
    /// belongs to a prepared transaction, and is aborted if not.
    pub active: WriteIdRanges,
    /// Aborted ids whose entries may still be in an index.
    pub aborted: WriteIdRanges,
    /// Transactions prepared for two-phase commit.
    pub prepared: Vec<PreparedEntry>,
    /// The tables by id.
    pub tables: BTreeMap<u64, TableEntry>,
    /// Files that belong to no table and are to be removed: those of dropped or replaced indexes.
    pub unowned: BTreeSet<FileId>,
}

impl Catalogue {
    /// The catalogue of a new, empty instance.
    #[must_use]
    pub(crate) fn new(instance: u64) -> Self {
        Self {
            instance,
            replay_from: Lsn(0),
            tables_lsn: Lsn(0),
            next_table: 1,
            next_file: 1,
            next_write_id: WriteId(1),
            active: WriteIdRanges::default(),
            aborted: WriteIdRanges::default(),
            prepared: Vec::new(),
            tables: BTreeMap::new(),
            unowned: BTreeSet::new(),
        }
    }
}
