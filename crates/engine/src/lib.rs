//! The Teak storage engine: tables of ordered indexes with transactions, in one
//! data directory.
//!
//! Programs embed the engine through the crate `teak`. The C interface is built on this crate.
//! Begin with [`Engine::open`]. An [`Engine`] creates and opens tables and begins transactions. An
//! [`EngineTransaction`] reads through a [`Cursor`]. It writes a row by passing the changed entries
//! of all affected indexes of a [`TableHandle`].
//!
//! ```
//! use std::sync::Arc;
//! use teak_engine::*;
//!
//! # fn main() -> EngineResult<()> {
//! let disk = Arc::new(teak_disk::MemoryDisk::new());
//! let engine = Engine::open(disk, EngineOptions::new("/data"))?;
//! engine.create_table(&TableDefinition {
//!     name: "./shop/orders".into(),
//!     indexes: vec![IndexDefinition {
//!         label: "PRIMARY".into(),
//!         codec: Codec::Zstd,
//!         page_bytes: 0,
//!         encryption_key: None,
//!         filter_keys: FilterKeys::Whole,
//!         value_fixed_bytes: 0,
//!         columns: Default::default(),
//!     }],
//!     metadata: Vec::new(),
//! })?;
//! let table = engine.open_table("./shop/orders")?;
//! let mut transaction = engine.begin(Isolation::RepeatableRead);
//! let row = RowEntry { index: IndexNumber::ROWS, unique: true, key: b"1", value: b"tea" };
//! transaction.insert(&table, &[row])?;
//! transaction.commit()?;
//!
//! let mut transaction = engine.begin(Isolation::RepeatableRead);
//! let mut cursor = transaction.cursor(&table, IndexNumber::ROWS, ReadMode::Snapshot)?;
//! let row = cursor.get(&mut transaction, b"1")?;
//! assert_eq!(row.map(|row| row.value.to_vec()), Some(b"tea".to_vec()));
//! # Ok(())
//! # }
//! ```

mod alter;
mod backup;
mod block_map;
mod catalogue;
mod column_list;
mod core;
mod counter_locks;
mod cursor;
mod definition;
mod engine;
mod error;
mod file_system;
mod group_scan;
mod index_list;
mod index_number;
mod inspect;
mod job_list;
mod key_changes;
mod load;
mod lock_absent;
mod lock_row;
mod locks;
mod log_report;
mod maintenance;
mod name;
mod newest_version;
mod open_files;
mod options;
mod prepared;
mod recovery;
mod retained;
mod salvage;
mod statistics;
mod status;
mod stored_tables;
mod table_handle;
mod tables;
mod transaction;
mod visit_tables;
mod write;

#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;

pub use alter::{AddedIndex, Alteration, AlterationPlan, EntryOrder, PlannedIndex};
pub use backup::{
    BACKUP_LIST_FILE, BASE_LIST_FILE, BackupChain, BackupIdentity, BackupList,
    INCREMENT_CATALOGUE_FILE, ListedBlocks, ListedFile, check_base, increment_path,
};
pub use backup::{Backup, BackupFile, BackupProgress, BackupTarget};
pub use backup::{BackupReport, BackupRequest};
pub use block_map::IndexRange;
pub use column_list::{ColumnPlace, ColumnReport};
pub use core::backup_files::BackupLimits;
pub use core::backup_history::BackupId;
pub use core::backup_job::BackupState;
pub use core::counters::COUNTERS;
pub use core::delays::{DelayCause, DelayCounts};
pub use cursor::{
    Cursor, CursorMemory, LockPolicy, PageFilter, ReadMode, Row, RowRetention, Rows, Seek,
};
pub use definition::{INDEXES_MAX, IndexDefinition, METADATA_BYTES_MAX, TableDefinition};
pub use engine::Engine;
pub use error::{EngineError, EngineResult};
pub use file_system::{FileIo, file_system};
pub use group_scan::{GroupScan, GroupScanCaller, GroupedTable};
pub use index_list::IndexReport;
pub use index_number::IndexNumber;
pub use inspect::IndexStatistics;
pub use job_list::{BackgroundJob, BackgroundKind, RunningState, WaitingState};
pub use load::{LoadStream, RowEncoder, RowLoad};
pub use locks::{IndexName, IndexNames};
pub use log_report::{LogLimits, LogNeed, LogReport};
pub use name::TEMPORARY_NAME_PREFIX;
pub use options::{EngineOptions, Heap, Level, MessageSink};
pub use prepared::XID_BYTES_MAX;
pub use salvage::SalvageReport;
pub use statistics::EngineStatistics;
pub use stored_tables::{StoredIndex, StoredStatus, StoredTable, StoredTables};
pub use table_handle::TableHandle;
pub use teak_aggregate as aggregate;
pub use teak_base::latency::{LATENCY_BUCKETS, Latencies};
pub use teak_base::limits::KEY_BYTES_MAX;
pub use teak_base::{Cipher, Encryption, KeyId, KeyVersion};
pub use teak_base::{Codec, CommitSequence, FileId, Lsn, StorageError};
pub use teak_disk::{Disk, IoScope};
pub use teak_transactions::{
    BlockerKind, LockMode, Owner, RangeLockKind, TransactionHandle, TransactionId, WaitError,
    WaitListener, report,
};
pub use teak_tree::{
    Column, ColumnKind, Decimal, FilterKeys, KeySuffix, LostPart, MappedRange, OptionalColumn,
    PageColumns, PageCounts, Projection, RangeKind, RangeUse, ReadColumn, RunPlace, SalvagedEntry,
    TreeOptions, ValueTail,
};
pub use transaction::{Duplicate, EngineTransaction, Isolation};
pub use visit_tables::TableVisitor;
pub use write::{RowChange, RowEntry};
