//! How an engine is opened.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use teak_transactions::WaitListener;
use teak_tree::TreeOptions;

/// How much a log message matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Worth knowing.
    Note,
    /// Something went wrong and was dealt with.
    Warning,
    /// Something is wrong and needs somebody.
    Error,
}

/// Where the engine's messages go.
pub type MessageSink = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// How an engine is opened.
#[derive(Clone)]
#[non_exhaustive]
pub struct EngineOptions {
    /// The data directory: catalogue, log and the tables' directories.
    pub directory: PathBuf,
    /// The whole memory budget, in bytes.
    pub cache_bytes: u64,
    /// What row and range locks may take, in bytes; zero for an eighth of the
    /// memory budget.
    pub lock_bytes_max: u64,
    /// Size at which a log segment is followed by a new one.
    pub log_segment_bytes: u64,
    /// Log bytes since the oldest unflushed entry that a checkpoint brings
    /// down.
    pub log_bytes_max: u64,
    /// Threads that flush; zero means that no thread at all is started and
    /// [`crate::Engine::step`] does the background work.
    pub background_threads: usize,
    /// Time between checkpoints.
    pub checkpoint_period: Duration,
    /// Whether commits are durable on return.
    pub commit_sync: bool,
    /// Time in which the log is synced after commits that did not wait for it;
    /// zero when nothing but the log's own growth and checkpoints sync it then.
    pub log_sync_period: Duration,
    /// How long a transaction waits for a row, unless it says otherwise.
    pub lock_timeout: Duration,
    /// Where messages go.
    pub messages: Option<MessageSink>,
    /// Who hears that a transaction begins to wait for another, both having
    /// owners.
    pub wait_listener: Option<Arc<dyn WaitListener>>,
    /// Names a new instance; drawn from the clock when absent.
    pub instance: Option<u64>,
    /// The shape of new and opened trees; codec and page size come from the
    /// table.
    pub tree: TreeOptions,
    /// Smallest memtable that is frozen to make room, in bytes.
    pub memtable_bytes_min: u64,
    /// Tables kept open without a handle, beside those in use.
    pub open_tables_kept: usize,
}

const MIB: u64 = 1 << 20;

impl EngineOptions {
    /// The defaults for a data directory.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            cache_bytes: 256 * MIB,
            lock_bytes_max: 0,
            log_segment_bytes: 64 * MIB,
            log_bytes_max: 512 * MIB,
            background_threads: std::thread::available_parallelism().map_or(2, usize::from),
            checkpoint_period: Duration::from_secs(60),
            commit_sync: true,
            log_sync_period: Duration::from_secs(1),
            lock_timeout: Duration::from_secs(4),
            messages: None,
            wait_listener: None,
            instance: None,
            tree: TreeOptions::default(),
            memtable_bytes_min: MIB,
            open_tables_kept: 400,
        }
    }
}
