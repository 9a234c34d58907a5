//! Memory, threads, spill files and errors of the sorts of loads, ALTER and REPAIR.

use super::EngineCore;
use super::index::Index;
use super::job_threads::JobThreadCounts;
use crate::catalogue::IndexEntry;
use crate::error::{EngineError, EngineResult};
use crate::name::SPILL_PREFIX;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{SendError, channel};
use std::thread;
use teak_base::{Encryption, StorageError};
use teak_bulk_load::{
    BulkLoadError, BulkLoadResult, MemoryReservation, SorterOptions, SpillDirectory, Task, Worker,
    Workers,
};
use teak_disk::SharedIoScope;

/// Memory for the sorts of a table in a statement, taken from the budget. Returned when the last part
/// is dropped.
pub(crate) struct SortMemory {
    core: Arc<EngineCore>,
    bytes: u64,
}

impl SortMemory {
    /// `tables`: how many tables the statement loads.
    pub(crate) fn take(core: &Arc<EngineCore>, tables: u32) -> Arc<Self> {
        Arc::new(Self {
            core: Arc::clone(core),
            bytes: core.budget.begin_sort(tables.into()),
        })
    }

    /// One of several equal parts.
    pub(crate) fn part(self: &Arc<Self>, parts: usize) -> Box<dyn MemoryReservation> {
        self.eighths(8, parts)
    }

    /// So many eighths of one of several equal parts.
    pub(crate) fn eighths(
        self: &Arc<Self>,
        eighths: usize,
        parts: usize,
    ) -> Box<dyn MemoryReservation> {
        let bytes = usize::try_from(self.bytes).unwrap_or(usize::MAX) / parts.max(1) / 8 * eighths;
        Box::new(Part {
            bytes,
            _whole: Arc::clone(self),
        })
    }
}

impl Drop for SortMemory {
    fn drop(&mut self) {
        self.core.budget.end_sort(self.bytes);
    }
}

struct Part {
    bytes: usize,
    _whole: Arc<SortMemory>,
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").finish_non_exhaustive()
    }
}

impl MemoryReservation for Part {
    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Creates a thread for a task while flushers are idle.
struct SortThreads(Arc<JobThreadCounts>);

impl Workers for SortThreads {
    fn claim(&self) -> Option<Worker> {
        let working = self.0.begin_sort_task()?;
        let (sender, tasks) = channel::<Task>();
        let io = SharedIoScope::of_this_thread();
        let run = move || {
            // Otherwise the claim was dropped.
            if let Ok(task) = tasks.recv() {
                let deliver = {
                    let _io = io.begin();
                    task()
                };
                drop(working);
                deliver();
            }
        };
        let builder = thread::Builder::new().name("teak-sort".into());
        // The thread exists before there is a task for it: some tasks wait for what the caller does next.
        builder.spawn(run).ok()?;
        Some(Box::new(move |task| {
            if let Err(SendError(task)) = sender.send(task) {
                task()();
            }
        }))
    }
}

/// The threads for tasks of sorts and loads.
pub(crate) fn sort_workers(core: &EngineCore) -> Arc<dyn Workers> {
    Arc::new(SortThreads(Arc::clone(&core.job_threads)))
}

/// What a sort of entries of an index with this memory needs.
pub(crate) fn sorter_options(
    core: &EngineCore,
    entry: &IndexEntry,
    memory: Box<dyn MemoryReservation>,
) -> SorterOptions {
    let configured = core.options.spill_directory.as_ref();
    SorterOptions {
        directory: SpillDirectory {
            disk: Arc::clone(&core.files.disk),
            path: configured.unwrap_or(&core.files.directory).clone(),
            file_prefix: SPILL_PREFIX,
            // A start removes what a crash has left in the data directory.
            without_names: configured.is_some(),
            encryption: Encryption {
                key: entry.encryption_key,
                ..core.files.log_encryption.clone()
            },
            next: Arc::clone(&core.next_spill),
        },
        memory,
        workers: sort_workers(core),
    }
}

/// Converts the result of a step of a build; reports damage of the index file.
pub(crate) fn checked<T>(
    core: &EngineCore,
    index: &Index,
    result: BulkLoadResult<T>,
) -> EngineResult<T> {
    result.map_err(|error| match error {
        BulkLoadError::Index(error) => {
            core.messages.report_damage(index, &error);
            EngineError::Storage(error)
        }
        BulkLoadError::NotInOrder => EngineError::InvalidArgument(error.to_string()),
        error => error.into(),
    })
}

/// The error of a sort as a failure of the index that it builds.
pub(crate) fn storage_error_of(error: &BulkLoadError) -> StorageError {
    match error {
        BulkLoadError::Spill(error) | BulkLoadError::Index(error) => error.clone(),
        _ => StorageError::Interrupted,
    }
}

/// Entries between two progress reports.
const PROGRESS_ENTRIES: u64 = 16 * 1024;

/// Whether progress is to be reported when the number of written entries grows.
pub(crate) fn is_report_due(before: u64, after: u64) -> bool {
    after / PROGRESS_ENTRIES > before / PROGRESS_ENTRIES
}

/// The error of an index that is not unique and got a key twice.
pub(crate) fn added_twice() -> EngineError {
    let reason = "a key was added twice to an index that is not unique";
    EngineError::InvalidArgument(reason.into())
}
