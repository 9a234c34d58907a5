//! Options of an engine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use teak_base::Encryption;
use teak_transactions::WaitListener;
use teak_tree::TreeOptions;

/// The severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Information.
    Note,
    /// A failure or a condition with which the engine continues.
    Warning,
    /// A failure that needs the operator's attention.
    Error,
}

/// Receives the engine's messages.
pub type MessageSink = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// The allocator of the engine, if it has one of its own.
pub trait Heap: Send + Sync {
    /// Bytes that are allocated now.
    fn allocated_bytes(&self) -> u64;

    /// Returns freed memory that was not used for some time to the system.
    /// Called by each maintenance pass, about twice per second.
    fn release_unused(&self);
}

/// How an engine is opened.
#[derive(Clone)]
#[non_exhaustive]
pub struct EngineOptions {
    /// The data directory. It contains the catalogue, the log and the
    /// directories of tables.
    pub directory: PathBuf,
    /// The whole memory budget, in bytes.
    pub cache_bytes: u64,
    /// Limit of the memory for row and range locks, in bytes; zero for an
    /// eighth of the memory budget.
    pub lock_bytes_max: u64,
    /// Limit of the memory for the sorts of a statement, in bytes, at most a quarter of the memory
    /// budget; zero for an eighth of the budget, at most 256 MiB.
    pub sort_bytes_max: u64,
    /// The directory of spill files of sorts; `None`: the data directory. Other processes may use it,
    /// too: the files have no names.
    pub spill_directory: Option<PathBuf>,
    /// Limit of open file descriptors for index and log files; zero: no limit. At the limit, the
    /// least recently used files are closed; their next use opens them again.
    pub open_files: usize,
    /// Size of a log segment, in bytes. When a segment has this size, the log continues in a
    /// new file.
    pub log_segment_bytes: u64,
    /// Maximum number of ranges of write ids in one log record. A longer list continues in other
    /// records.
    pub log_id_ranges_max: usize,
    /// Bound of the ranges of aborted write ids that are registered until no file
    /// contains their entries. From an eighth of it on, maintenance does more to
    /// remove them; from half of it on writers are slowed, and at the bound they
    /// stop. The newest ids, some 20,000, are not counted.
    pub aborted_ranges_max: u64,
    /// Bound of the log's size, in bytes. A checkpoint begins at a quarter of it, writers are
    /// slowed from half of it on, and wait for a checkpoint from about fifteen sixteenths on.
    pub log_bytes_max: u64,
    /// Number of flusher threads. Zero: the engine starts no threads at all,
    /// and writers do the work of flushers.
    pub background_threads: usize,
    /// Limit of the bytes per second that background jobs read and write; zero: no limit. Jobs that
    /// writers wait for are not limited. An engine without threads has no limit.
    pub io_bytes_per_second: u64,
    /// Time between checkpoints.
    pub checkpoint_period: Duration,
    /// Whether commits are durable on return.
    pub commit_sync: bool,
    /// Time within which the log is synced after commits that did not wait for it. Zero: no limit.
    /// New segments, durable commits, checkpoints and 16 MiB of unsynced records sync the log, too.
    pub log_sync_period: Duration,
    /// How long a transaction waits for a lock, unless it sets another timeout.
    pub lock_timeout: Duration,
    /// Receives messages; without it they are dropped.
    pub messages: Option<MessageSink>,
    /// Called when a transaction starts to wait for another one, if both have owners.
    pub wait_listener: Option<Arc<dyn WaitListener>>,
    /// The engine's allocator, if no other part of the process uses it. Then
    /// memory that the engine's own counters do not include is part of the
    /// budget, too.
    pub heap: Option<Arc<dyn Heap>>,
    /// The cipher of encrypted tables, and the key of the log; without a key, the log is not encrypted.
    pub encryption: Encryption,
    /// Identifies a new instance; `None`: derived from the clock.
    pub instance: Option<u64>,
    /// Options of trees. The definition of an index replaces the codec, the use of filters, the
    /// byte planes, and the page size unless that is zero.
    pub tree: TreeOptions,
    /// Smallest memtable that is frozen to free memory, in bytes.
    pub memtable_bytes_min: u64,
    /// Memory of nodes above which nodes are evicted, in bytes; `None`: an eighth of the cache.
    pub node_bytes_max: Option<u64>,
    /// Number of open tables above which the files of tables without a handle are closed.
    pub open_tables_kept: usize,
    /// Time between sweeps over the open tables. A sweep closes the files of tables that were not
    /// used since the sweep before, even while they have handles. Tables with changes that are not
    /// in their files yet remain open.
    pub table_idle_period: Duration,
}

const MIB: u64 = 1 << 20;

impl EngineOptions {
    /// The default options for a data directory.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            cache_bytes: 256 * MIB,
            lock_bytes_max: 0,
            sort_bytes_max: 0,
            spill_directory: None,
            open_files: 0,
            log_segment_bytes: 64 * MIB,
            log_id_ranges_max: 1 << 16,
            aborted_ranges_max: 1 << 20,
            log_bytes_max: 1024 * MIB,
            background_threads: std::thread::available_parallelism().map_or(2, usize::from),
            io_bytes_per_second: 256 * MIB,
            checkpoint_period: Duration::from_secs(60),
            commit_sync: true,
            log_sync_period: Duration::from_secs(1),
            lock_timeout: Duration::from_secs(4),
            messages: None,
            wait_listener: None,
            heap: None,
            encryption: Encryption::default(),
            instance: None,
            tree: TreeOptions::default(),
            memtable_bytes_min: MIB,
            node_bytes_max: None,
            open_tables_kept: 400,
            table_idle_period: Duration::from_secs(60),
        }
    }
}
