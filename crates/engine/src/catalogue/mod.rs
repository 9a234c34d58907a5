//! What tables there are, and what recovery must know: the content of the file
//! `teak.catalogue`.
//!
//! The file is a whole snapshot, replaced atomically. The log holds what
//! happened since: table changes from `tables_lsn` on, everything else from
//! `replay_from` on.

mod codec;
mod file;

pub(crate) use codec::{
    AlteredTable, ID_MAX, UNNAMED_IDS_MAX, decode_indexes_changed, decode_paths,
    decode_tables_altered, encode_indexes_changed, encode_paths, encode_tables_altered,
};
#[cfg(feature = "fuzzing")]
pub(crate) use file::encode_catalogue;
pub use file::{CATALOGUE_FILE, CATALOGUE_VERSION, decode_catalogue};
pub(crate) use file::{read_catalogue, write_catalogue};

pub use crate::prepared::PreparedEntry;
use std::collections::BTreeMap;
use std::path::PathBuf;
use teak_base::{Codec, FileId, Lsn, WriteId};

/// Most leading bytes of values that are kept column by column.
pub(crate) const VALUE_FIXED_BYTES_MAX: u32 = 64 << 10;

/// One index of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// The file's id, never used again.
    pub file: FileId,
    /// The file's path, relative to the data directory.
    pub path: PathBuf,
    /// The label the caller gave.
    pub label: String,
    /// The codec of its bottom pages.
    pub codec: Codec,
    /// Raw bytes of a page.
    pub page_bytes: u32,
    /// Whether whole keys are looked up, so that filters pay.
    pub exact_lookups: bool,
    /// Leading bytes of values that hold columns of fixed width.
    pub value_fixed_bytes: u32,
    /// The oldest unsettled write id in the file when the catalogue was
    /// written; zero when all was settled.
    pub oldest_write_id: WriteId,
}

impl IndexEntry {
    /// The entry of the same file under another definition.
    pub(crate) fn redefined(&self, definition: &crate::IndexDefinition) -> Self {
        Self {
            file: self.file,
            path: self.path.clone(),
            label: definition.label.clone(),
            codec: definition.codec,
            page_bytes: definition.page_bytes,
            exact_lookups: definition.exact_lookups,
            value_fixed_bytes: definition.value_fixed_bytes.min(VALUE_FIXED_BYTES_MAX),
            oldest_write_id: self.oldest_write_id,
        }
    }
}

/// One table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEntry {
    /// Its id, never used again.
    pub id: u64,
    /// Its name, as [`crate::name::TableName`] normalises it.
    pub name: String,
    /// Bytes kept for the caller.
    pub metadata: Vec<u8>,
    /// Its indexes; the first holds the rows.
    pub indexes: Vec<IndexEntry>,
    /// Whether recovery has passed over log records of this table, because its
    /// files were missing or damaged. Truncating it mends that.
    pub incomplete: bool,
    /// Durable counters by number; those that are zero are left out.
    pub counters: BTreeMap<u8, u64>,
}

/// The content of the catalogue file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalogue {
    /// Names the instance; the log carries it too.
    pub instance: u64,
    /// Recovery reads the log from here.
    pub replay_from: Lsn,
    /// Table changes and counters before this position are in the snapshot.
    pub tables_lsn: Lsn,
    /// The next table's id.
    pub next_table: u64,
    /// The next index file's id.
    pub next_file: u64,
    /// The next write id.
    pub next_write_id: WriteId,
    /// Ids below `next_write_id` that were undecided: committed if the log
    /// says so, else aborted.
    pub active: Vec<WriteId>,
    /// Ids that are visible to nobody, some index may hold their writes.
    pub aborted: Vec<WriteId>,
    /// Transactions prepared for two-phase commit.
    pub prepared: Vec<PreparedEntry>,
    /// The tables by id.
    pub tables: BTreeMap<u64, TableEntry>,
}

impl Catalogue {
    /// The catalogue of a new, empty instance.
    #[must_use]
    pub fn new(instance: u64) -> Self {
        Self {
            instance,
            replay_from: Lsn(0),
            tables_lsn: Lsn(0),
            next_table: 1,
            next_file: 1,
            next_write_id: WriteId(1),
            active: Vec::new(),
            aborted: Vec::new(),
            prepared: Vec::new(),
            tables: BTreeMap::new(),
        }
    }
}
