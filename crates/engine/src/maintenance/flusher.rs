//! Flush and compaction jobs of all indexes.
//!
//! The order of jobs: first those for readers that skip many tombstones; then flushes of frozen
//! memtables, those of the index with the most frozen bytes first; then jobs that move runs to
//! lower levels. While merges are behind, half of the flushers prefer the last kind. A job that
//! fails leaves its tree unchanged and is retried later. The index stores the error. A writer that
//! is stopped until the work is done returns the error.

use super::divided_job::PartThreads;
use crate::core::EngineCore;
use crate::core::aborted_load::AbortedLoad;
use crate::core::budget::Budget;
use crate::core::checkpoint_progress::CheckpointProgress;
use crate::core::checkpoint_queue::CheckpointQueue;
use crate::core::counts::EngineCounts;
use crate::core::delays::Delays;
use crate::core::file_set::FileSet;
use crate::core::index::Index;
use crate::core::job_threads::JobThreadCounts;
use crate::core::log_stalls::LogStalls;
use crate::core::memory::MemoryContext;
use crate::core::messages::Messages;
use crate::core::running_jobs::{RunningJobs, RunningKind};
use crate::core::signals::Signals;
use crate::core::work::WorkQueue;
use crate::core::work_kind::WorkKind;
use crate::core::written::WrittenIndexes;
use crate::error::{EngineError, EngineResult};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use teak_base::{StorageError, StorageResult};
use teak_disk::{IoJob, IoPacer, IoPurpose, IoUrgency};
use teak_transactions::TransactionSystem;
use teak_tree::{FlushJob, FlushReport, JobKind, MemtableMemory, PageCache};
use teak_write_ahead_log::WriteAheadLog;

/// Maximum time for which a thread waits for jobs of other threads before it looks for a job again.
const POLL_PERIOD: Duration = Duration::from_millis(500);

/// The parts of an engine that flushing needs.
#[derive(Clone, Copy)]
pub(crate) struct FlushContext<'a> {
    pub log: &'a WriteAheadLog,
    pub transactions: &'a TransactionSystem,
    pub written: &'a WrittenIndexes,
    pub work: &'a WorkQueue,
    pub too_large: &'a FileSet,
    pub changed: &'a FileSet,
    pub failing: &'a FileSet,
    pub cache: &'a PageCache,
    pub delays: &'a Delays,
    pub job_threads: &'a JobThreadCounts,
    pub running_jobs: &'a RunningJobs,
    pub pacer: &'a Arc<IoPacer>,
    pub log_stalls: &'a LogStalls,
    pub aborted: &'a AbortedLoad,
    pub budget: &'a Budget,
    pub signals: &'a Signals,
    pub counts: &'a EngineCounts,
    pub checkpoints: &'a CheckpointQueue,
    pub progress: &'a CheckpointProgress,
    pub memory: MemoryContext<'a>,
    pub messages: &'a Messages,
}

impl<'a> From<&'a EngineCore> for FlushContext<'a> {
    fn from(core: &'a EngineCore) -> Self {
        Self {
            log: &core.log,
            transactions: &core.transactions,
            written: &core.written,
            work: &core.work,
            too_large: &core.too_large,
            changed: &core.changed,
            failing: &core.failing,
            cache: &core.files.cache,
            delays: &core.delays,
            job_threads: &core.job_threads,
            running_jobs: &core.running_jobs,
            pacer: &core.pacer,
            log_stalls: &core.log_stalls,
            aborted: &core.aborted,
            budget: &core.budget,
            signals: &core.signals,
            counts: &core.counts,
            checkpoints: &core.checkpoint_queue,
            progress: &core.checkpoints,
            memory: core.memory(),
            messages: &core.messages,
        }
    }
}

/// Which jobs a flusher prefers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefer {
    /// Flush frozen memtables first: writers may wait for their memory.
    Memtables,
    /// Move runs to lower levels first. While merges are behind, every second flusher does this,
    /// even if many memtables wait to be flushed.
    Runs,
}

impl FlushContext<'_> {
    /// Claims a job of an index that has frozen memtables: of any kind, or only the
    /// flush of a memtable if a merge of its runs has failed recently.
    fn claim_any(&self, index: &Arc<Index>, now: Instant) -> Option<FlushJob> {
        if index.attempts(WorkKind::Runs).may_try(now)
            && let Some(job) = self.found(index, index.tree.next_job())
        {
            return Some(job);
        }
        match self.must_merge_first(index, now) {
            true => None,
            false => index.tree.next_memtable_job(),
        }
    }

    /// Whether the memtables of an index wait for merges. If merges fail, flushes continue: the writers
    /// of the index are stopped, and its log records must not be needed for ever.
    fn must_merge_first(&self, index: &Index, now: Instant) -> bool {
        index.tree.holds_memtables_back() && index.attempts(WorkKind::Runs).may_try(now)
    }

    /// Claims the flush of a memtable of an index, or a merge that it waits for.
    fn claim_flush(&self, index: &Arc<Index>, now: Instant) -> Option<FlushJob> {
        match self.must_merge_first(index, now) {
            true => self.claim_any(index, now),
            false => index.tree.next_memtable_job(),
        }
    }

    /// Claims a job of an index that moves runs down.
    fn claim_runs(&self, index: &Arc<Index>) -> Option<FlushJob> {
        let job = self.found(index, index.tree.next_job())?;
        if job.kind() != JobKind::Memtable {
            return Some(job);
        }
        // While its memtable is claimed, the tree offers its runs.
        let memtable = job;
        let job = self.found(index, index.tree.next_job());
        drop(memtable);
        job
    }

    /// The job that planning has found. If planning could not read a node, this counts as a failed
    /// merge of the index.
    pub(super) fn found(
        &self,
        index: &Arc<Index>,
        job: StorageResult<Option<FlushJob>>,
    ) -> Option<FlushJob> {
        job.unwrap_or_else(|error| {
            self.failed(index, WorkKind::Runs, &error);
            None
        })
    }

    /// The memory of all memtables.
    pub(crate) fn memtables(&self) -> &MemtableMemory {
        self.cache.memtables()
    }

    /// Freezes the active memtable of an index, so that it can be flushed. Returns false
    /// if the memtable was empty.
    pub(crate) fn freeze(&self, index: &Arc<Index>) -> bool {
        let has_frozen = index.tree.freeze(|| self.log.end());
        if has_frozen {
            self.note_change(index);
        }
        has_frozen
    }

    /// Called after the frozen memtables or the runs of an index have changed:
    /// updates its place among the indexes with work, and the pressure on its
    /// writers.
    pub(crate) fn note_change(&self, index: &Arc<Index>) {
        let debt_bytes = self.budget.debt_bytes();
        index.load.refresh(Instant::now(), &index.tree, debt_bytes);
        self.work.update(index);
    }

    /// The most urgent job of all trees.
    pub(super) fn next_job(&self, prefer: Prefer) -> Option<(Arc<Index>, FlushJob)> {
        if let Some(job) = self.reader_job() {
            return Some(job);
        }
        let kinds = match prefer {
            Prefer::Memtables => [WorkKind::Memtables, WorkKind::Runs],
            Prefer::Runs => [WorkKind::Runs, WorkKind::Memtables],
        };
        kinds.into_iter().find_map(|kind| self.claim(kind))
    }

    /// Claims a job of the most urgent index that has one.
    fn claim(&self, kind: WorkKind) -> Option<(Arc<Index>, FlushJob)> {
        let now = Instant::now();
        let settled = self.transactions.ids().settled_below();
        let mut below = None;
        // If all jobs of an index are claimed, the next index is tried.
        while let Some((place, index)) = self.work.next(kind, below, now, settled) {
            let is_possible = !index.is_dropped() && index.attempts(kind).may_try(now);
            index.tree.note_settled(settled);
            let job = match kind {
                _ if !is_possible => None,
                WorkKind::Memtables => self.claim_any(&index, now),
                WorkKind::Runs => self.claim_runs(&index),
            };
            if let Some(job) = job {
                return Some((index, job));
            }
            below = Some(place);
        }
        None
    }

    /// Claims a job of a tree whose readers skip many tombstones.
    fn reader_job(&self) -> Option<(Arc<Index>, FlushJob)> {
        let mut found = None;
        for file in self.memtables().take_slow_reads() {
            let Some(index) = self.written.by_file(file) else {
                continue;
            };
            if !index.may_try(Instant::now()) {
                continue;
            }
            if index.tree.memtable_slows_readers() {
                self.freeze(&index);
            }
            if found.is_some() {
                // The next call claims the job of this tree.
                index.tree.repeat_reader_request();
                continue;
            }
            let job = index.tree.next_reader_job(&self.transactions.horizon());
            found = self.found(&index, job).map(|job| (index, job));
        }
        found
    }

    /// Whether half of the flushers should prefer merges: many bytes are due to be
    /// moved down, or writers are delayed because of merges.
    pub(super) fn is_behind(&self) -> bool {
        self.work.mergeable_bytes() > self.budget.debt_bytes() / 2 || self.work.delays_writers()
    }

    /// Reports the memory of memtables after a flush may have released some.
    fn note_memory(&self) {
        let used = self.budget.without_unflushable(self.memtables().used());
        let written = self.memtables().written();
        let pacer = &self.budget.memtable_pacer;
        pacer.report(Instant::now(), written, used.live());
        self.fit_budget();
    }

    /// Computes how much of the memtables cannot be flushed now.
    pub(super) fn note_unflushable(&self) {
        let files = self.failing.files().into_iter();
        let indexes = files.filter_map(|file| self.written.by_file(file));
        let failing = indexes.filter(|index| {
            !index.is_dropped() && index.attempts(WorkKind::Memtables).is_failing()
        });
        let bytes = failing.map(|index| index.tree.frozen_charged_bytes()).sum();
        self.budget.set_unflushable(bytes);
    }

    /// Gives the page cache what everything else leaves of the budget. Small
    /// changes are ignored, because each one makes the cache evict blocks. If
    /// nothing is left, memtables get less too.
    pub(crate) fn fit_budget(&self) {
        let used = self.memory.measure();
        self.budget.fit_memtables(&used);
        self.budget.lend_to_page_cache(&used, Instant::now());
        let capacity = self.budget.page_cache_bytes_with(&used);
        let current = self.cache.capacity_bytes();
        if capacity.abs_diff(current) > self.budget.total() / 128 {
            self.cache.set_capacity(capacity);
        }
    }

    /// Whether everything else leaves the page cache less than half of its share.
    pub(super) fn is_page_cache_short(&self) -> bool {
        let capacity = self.budget.page_cache_bytes_with(&self.memory.measure());
        capacity < self.budget.page_cache_bytes() / 2
    }

    /// Runs a job that is due and records its failure in the index.
    pub(super) fn run_job(&self, index: &Arc<Index>, job: FlushJob) -> StorageResult<()> {
        self.run_job_for(index, job, IoPurpose::Merging, IoUrgency::Due)
    }

    /// Runs a job and records its failure in the index.
    pub(super) fn run_job_for(
        &self,
        index: &Arc<Index>,
        job: FlushJob,
        purpose: IoPurpose,
        urgency: IoUrgency,
    ) -> StorageResult<()> {
        let kind = WorkKind::of(job.kind());
        let began = Instant::now();
        let outcome = match self.run_unrecorded_job(index, job, purpose, urgency) {
            Ok(report) => {
                if kind == WorkKind::Memtables {
                    let pacer = &self.budget.memtable_pacer;
                    pacer.note_job(report.raw_bytes_written, began.elapsed());
                }
                self.succeeded(index, kind, &report);
                self.check_space(index);
                Ok(())
            }
            Err(error) => {
                self.failed(index, kind, &error);
                Err(error)
            }
        };
        self.note_change(index);
        self.note_memory();
        self.signals.space_available();
        outcome
    }

    /// Runs a job without recording a failure in the index.
    pub(super) fn run_unrecorded_job(
        &self,
        index: &Arc<Index>,
        job: FlushJob,
        purpose: IoPurpose,
        urgency: IoUrgency,
    ) -> StorageResult<FlushReport> {
        let horizon = self.transactions.horizon();
        let io = IoJob {
            purpose,
            urgency,
            file: index.entry.file,
        };
        let kind = RunningKind::Tree(job.kind(), purpose);
        let running = self.running_jobs.begin(kind, index);
        let progress = &running.job.io;
        let threads = PartThreads {
            counts: self.job_threads,
            pacer: self.pacer,
            io,
            progress,
        };
        let working = self.job_threads.begin();
        let scope = self.pacer.begin_counted(io, progress);
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| job.run_on(&threads, &horizon)));
        drop((scope, working, running));
        self.note_change(index);
        outcome.unwrap_or_else(|_| {
            let path = &index.entry.path;
            Err(StorageError::corrupt(path, 0, "merging it panicked"))
        })
    }

    fn succeeded(&self, index: &Index, kind: WorkKind, report: &FlushReport) {
        self.counts.add_flush(report);
        if index.attempts(kind).recover() && index.failure().is_none() {
            let path = index.entry.path.display();
            self.messages.note(&format!("flushing {path} works again"));
        }
    }

    fn failed(&self, index: &Index, kind: WorkKind, error: &StorageError) {
        self.counts.flush_failures.fetch_add(1, Ordering::Relaxed);
        if index.failure().is_none() {
            let path = index.entry.path.display();
            let text = format!("flushing {path} failed: {error}");
            self.messages.error(&text);
        }
        self.messages.report_damage(index, error);
        if error.is_no_space() {
            self.counts.full_disks.fetch_add(1, Ordering::Relaxed);
            // Frees the space of the failed job's output.
            index.tree.truncate_free_tail();
        }
        let is_first = !index.attempts(kind).is_failing();
        index.attempts(kind).fail(error.clone());
        self.failing.add(index.entry.file);
        if is_first {
            self.note_unflushable();
        }
    }

    /// Runs one flush job on this thread. `false` when there is none now.
    pub(super) fn step_flush(&self) -> bool {
        match self.next_job(Prefer::Memtables) {
            Some((index, job)) => {
                // The index stores the error; the caller checks whether it prevents progress.
                let _ = self.run_job(&index, job);
                true
            }
            None => false,
        }
    }

    /// Flushes memtables, together with the flusher threads. When a flush fails, continues with the
    /// other indexes.
    ///
    /// # Errors
    /// The first failure of an index.
    pub(crate) fn flush(&self, targets: FlushTargets) -> EngineResult<()> {
        let FlushTargets {
            mut indexes,
            ignore_backoff,
        } = targets;
        let mut failed = None;
        loop {
            let now = Instant::now();
            indexes.retain(|target| {
                if target.is_flushed() {
                    return false;
                }
                let attempts = target.index.attempts(WorkKind::Memtables);
                let skipped = !ignore_backoff && !attempts.may_try(now);
                if skipped {
                    failed = failed.take().or_else(|| attempts.failure());
                }
                !skipped
            });
            if indexes.is_empty() {
                return failed.map_or(Ok(()), |error| Err(EngineError::Storage(error)));
            }
            let claimed = indexes.iter().enumerate().find_map(|(place, target)| {
                let job = self.claim_flush(&target.index, now)?;
                Some((place, Arc::clone(&target.index), job))
            });
            match claimed {
                Some((place, index, job)) => {
                    let is_flush = job.kind() == JobKind::Memtable;
                    if let Err(error) = self.run_job(&index, job)
                        && is_flush
                    {
                        failed.get_or_insert(error);
                        indexes.swap_remove(place);
                    }
                }
                None if self.signals.has_threads() => self.signals.wait_for_space(POLL_PERIOD),
                None => {
                    let text = "a memtable cannot be flushed".into();
                    return Err(EngineError::Internal(text));
                }
            }
        }
    }
}

/// Memtables to be flushed: of each index, those that were frozen when the index
/// was added. Memtables that are frozen later are not included.
pub(crate) struct FlushTargets {
    indexes: Vec<FlushTarget>,
    /// Whether indexes that failed recently are tried too.
    ignore_backoff: bool,
}

struct FlushTarget {
    index: Arc<Index>,
    /// The target is reached when the tree has flushed this many memtables since it was opened.
    count: u64,
}

impl FlushTarget {
    fn is_flushed(&self) -> bool {
        self.index.is_dropped() || self.index.tree.memtables_flushed() >= self.count
    }
}

impl FlushTargets {
    pub(crate) fn new(ignore_backoff: bool) -> Self {
        Self {
            indexes: Vec::new(),
            ignore_backoff,
        }
    }

    /// Adds the memtables of an index that are frozen now.
    pub(crate) fn add(&mut self, index: &Arc<Index>) {
        self.indexes.push(FlushTarget {
            index: Arc::clone(index),
            count: index.tree.memtables_frozen(),
        });
    }

    /// The index that was added first.
    pub(crate) fn first(&self) -> Option<&Arc<Index>> {
        self.indexes.first().map(|target| &target.index)
    }
}

/// Ends background work on an index that no longer belongs to its table, or that
/// an alteration was building and will not complete. A second call has no effect.
pub(crate) fn abandon_index(context: FlushContext<'_>, index: &Arc<Index>) {
    if index.dropped.swap(true, Ordering::AcqRel) {
        return;
    }
    context.written.remove(index);
    index.tree.abandon();
    context.work.update(index);
}

#[cfg(feature = "testing")]
impl FlushContext<'_> {
    /// Runs one background job on this thread.
    pub(crate) fn step(&self) -> EngineResult<bool> {
        if let Some((index, job)) = self.next_job(Prefer::Memtables) {
            self.run_job(&index, job)?;
            return Ok(true);
        }
        Ok(self.log.write_pending()?)
    }

    /// Flushes and compacts as far as possible, even if no job is due.
    pub(crate) fn settle(&self) -> EngineResult<()> {
        self.transactions.prune();
        for index in self.written.snapshot() {
            if index.is_dropped() {
                continue;
            }
            self.freeze(&index);
            loop {
                let horizon = self.transactions.horizon();
                let job = match index.tree.next_job()? {
                    Some(job) => Some(job),
                    None => index.tree.next_idle_job(&horizon)?,
                };
                match job {
                    Some(job) => self.run_job(&index, job)?,
                    None if index.tree.frozen_memtables() > 0 && self.signals.has_threads() => {
                        self.signals.wait_for_space(POLL_PERIOD);
                    }
                    None => break,
                }
            }
        }
        Ok(())
    }
}
