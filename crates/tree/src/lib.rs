//! The write-optimised tree of one index. New entries go to memtables, are
//! flushed to sorted runs and merged down into leaves. The crate starts no
//! threads and depends on neither transactions nor SQL.

mod block_map;
mod block_memory;
mod cache;
mod checkpoint;
mod counters;
mod cursor;
mod estimate;
mod filter;
mod filter_counts;
mod filter_keys;
mod flush;
mod hidden_deletes;
mod huge_chunk;
mod inspect;
mod install_state;
mod key_search;
mod live_versions;
mod lock_times;
mod lookup;
mod lost_part;
mod memory;
mod memtable;
mod merge;
mod node;
mod node_memory;
mod options;
mod overlap;
mod page;
mod page_counts;
mod page_sample;
mod payload;
mod range_tombstone;
mod recent_uses;
mod run;
mod salvage;
mod shared_runs;
mod source;
mod space;
mod statistics;
#[cfg(test)]
mod test_support;
mod tree;
mod value;
mod verify;
mod version;
mod version_cursor;
mod write;

#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;

pub use block_map::{MappedRange, RangeKind, RunPlace};
pub use block_memory::BlockMemory;
pub use cache::{CacheStatistics, PageCache};
pub use checkpoint::{TreeCheckpoint, TreeCheckpointTurn};
pub use cursor::{KeyCursor, NextKey, PageRows, TreeCursor};
pub use filter::LookupKey;
pub use filter_counts::{FilterChecks, FilterStatistics};
pub use filter_keys::{FilterKeys, KeySuffix};
pub use flush::{
    BulkLoad, FlushJob, FlushReport, JobKind, JobThreads, KeyChange, KeyChangeStep, LoadedEntries,
    OneThread, PausedLoad, RequiredNode, TreeBacklog,
};
pub use inspect::{LevelShape, PartTotals, TreeInspection};
pub use key_search::key_order;
pub use live_versions::LiveVersions;
pub use lock_times::LockTimes;
pub use lookup::OlderVersions;
pub use lost_part::{LostKind, LostPart};
pub use memory::{MemtableMemory, MemtableUse};
pub use memtable::{Memtable, MemtableCursor};
pub use node_memory::{NodeMemory, NodeStatistics};
pub use options::TreeOptions;
pub use page::{
    ColumnChoice, ColumnPage, OptionalColumn, Page, PageBuilder, PageColumns, Projection,
    ReadColumn, ValueTail,
};
pub use page::{PagePart, PartSize};
pub use page_counts::PageCounts;
pub use range_tombstone::RangeTombstone;
pub use run::{
    ColumnRows, FinishedRun, IndexTable, PageZone, ReadPattern, Run, RunCursor, RunDescription,
    RunWriter, RunWriterOptions, SeparateOptions, SeparateTotals, ZoneReader,
};
pub use salvage::{FoundVersion, SalvageCursor, SalvagedEntry};
pub use space::{SpaceAction, SpaceGoal};
pub use statistics::{TreeSizes, TreeStatistics};
pub use teak_base::visibility::{Horizon, Visibility, WriteRangeStatus, WriteStatus};
/// Bytes of the file of an empty tree.
pub use teak_block_file::BLOCKS_START as EMPTY_FILE_BYTES;
pub use teak_block_file::{
    BackupEpochs, BlockFileCounters, BlockFileCounts, CheckpointPin, RangeUse,
};
pub use teak_block_file::{BlockRecord, SUPERBLOCK_SIZE, verify_superblock};
pub use teak_columns::{Column, Decimal, Kind as ColumnKind};
pub use tree::Tree;
pub use value::{EncodedReference, ReadSeparate, SeparateValue, StoredValue, ValueReference};
pub use verify::VerifyReport;
pub use version_cursor::{VersionCursor, Visit};
pub use write::WriteGuard;
