//! Definitions of tables and indexes, as the caller passes them.

use crate::error::{EngineError, EngineResult};
use teak_base::{Codec, KeyId};
use teak_tree::{FilterKeys, PageColumns};

/// Maximum number of indexes of a table, those that an alteration is building included.
pub const INDEXES_MAX: usize = 256;

/// Longest metadata of a table, in bytes.
pub const METADATA_BYTES_MAX: usize = 2 * 1024 * 1024;

/// An index to create.
#[derive(Clone, Debug)]
pub struct IndexDefinition {
    /// Part of the file's name, in which `_` replaces characters other than
    /// letters, digits, `_` and `-`.
    pub label: String,
    /// Codec of bottom runs.
    pub codec: Codec,
    /// Uncompressed bytes of a page; zero for the default.
    pub page_bytes: u32,
    /// The key with which the file is encrypted; `None`: it is not. See
    /// [`EngineOptions::encryption`](crate::EngineOptions::encryption).
    pub encryption_key: Option<KeyId>,
    /// The parts of keys that are in filters: whole keys for look-ups of one key
    /// ([`Cursor::get`](crate::Cursor::get)), keys without a suffix for
    /// [`Cursor::set_prefix`](crate::Cursor::set_prefix).
    pub filter_keys: FilterKeys,
    /// Number of leading bytes of each value that contain columns of fixed
    /// width, if all values have them; pages of bottom runs store these bytes as
    /// byte planes. A number above 64 KiB counts as 64 KiB.
    pub value_fixed_bytes: u32,
    /// The columns that keys, and the leading bytes of values, consist of. Pages of bottom runs encode
    /// them by type. Values of earlier rows may have other columns: they are encoded less well.
    pub columns: PageColumns,
}

#[cfg(test)]
impl IndexDefinition {
    /// An index of rows, for unit tests.
    pub(crate) fn of_rows() -> Self {
        Self {
            label: "PRIMARY".into(),
            codec: Codec::Lz4,
            page_bytes: 0,
            encryption_key: None,
            filter_keys: FilterKeys::Whole,
            value_fixed_bytes: 0,
            columns: PageColumns::default(),
        }
    }
}

/// A table to create.
#[derive(Clone, Debug)]
pub struct TableDefinition {
    /// `./database/table`, relative to the data directory.
    pub name: String,
    /// The first index contains the rows.
    pub indexes: Vec<IndexDefinition>,
    /// Bytes stored for the caller.
    pub metadata: Vec<u8>,
}

/// Whether this is a valid page size in uncompressed bytes; zero selects the
/// default.
pub(crate) fn page_bytes_fit(bytes: u32) -> bool {
    bytes == 0 || (1024..=8 << 20).contains(&bytes)
}

/// Returns an error for an invalid definition of an index.
pub(crate) fn check_index(index: &IndexDefinition) -> EngineResult<()> {
    if !page_bytes_fit(index.page_bytes) {
        return Err(EngineError::InvalidArgument(format!(
            "a page cannot have {} bytes",
            index.page_bytes
        )));
    }
    Ok(())
}

/// Returns an error for an invalid definition of a table.
pub(crate) fn check_table(definition: &TableDefinition) -> EngineResult<()> {
    let refuse = |text: String| Err(EngineError::InvalidArgument(text));
    let count = definition.indexes.len();
    if count == 0 || count > INDEXES_MAX {
        return refuse(format!(
            "a table has 1 to {INDEXES_MAX} indexes, not {count}"
        ));
    }
    check_metadata(&definition.metadata)?;
    definition.indexes.iter().try_for_each(check_index)
}

/// Returns an error for metadata that is too long.
pub(crate) fn check_metadata(metadata: &[u8]) -> EngineResult<()> {
    if metadata.len() > METADATA_BYTES_MAX {
        return Err(EngineError::InvalidArgument(format!(
            "metadata exceeds {METADATA_BYTES_MAX} bytes"
        )));
    }
    Ok(())
}
