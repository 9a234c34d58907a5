//! The events of the journal.

use crate::types::{EntryKey, IndexSource, TableId, Value};
use std::collections::BTreeMap;

/// One permanent change of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A table was created.
    Created {
        /// The table.
        table: TableId,
        /// Its name.
        name: String,
        /// The number of its indexes.
        indexes: usize,
    },
    /// A table was dropped.
    Dropped {
        /// The table.
        table: TableId,
    },
    /// A table was renamed.
    Renamed {
        /// The table.
        table: TableId,
        /// The new name.
        name: String,
    },
    /// A table was emptied.
    Truncated {
        /// The table.
        table: TableId,
    },
    /// A table got other indexes.
    Altered {
        /// The table.
        table: TableId,
        /// Its new indexes.
        indexes: Vec<IndexSource>,
    },
    /// A transaction committed.
    Committed {
        /// Its last write of each key.
        writes: Writes,
    },
    /// A transaction was prepared: it survives a crash until it is ended.
    Prepared {
        /// Its name.
        name: String,
        /// Its last write of each key.
        writes: Writes,
    },
    /// A prepared transaction ended.
    Ended {
        /// Its name.
        name: String,
        /// Whether it committed.
        committed: bool,
    },
}

/// The last write of a transaction to each key; `None` is a deletion.
pub type Writes = BTreeMap<EntryKey, Option<Value>>;
