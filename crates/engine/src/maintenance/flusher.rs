//! Flush and compaction jobs of all indexes.
//!
//! Jobs that unblock writers run first: flushes of frozen memtables, starting with the largest,
//! then jobs that move runs to lower levels. A job that fails leaves its tree unchanged and is
//! retried later. The index stores the error. Writers return it if they cannot get memory.

use crate::core::EngineCore;
use crate::core::budget::Budget;
use crate::core::counts::EngineCounts;
use crate::core::index::Index;
use crate::core::messages::Messages;
use crate::core::signals::Signals;
use crate::core::written::WrittenIndexes;
use crate::error::{EngineError, EngineResult};
use std::cmp::Reverse;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use teak_base::{StorageError, StorageResult};
use teak_transactions::TransactionSystem;
use teak_tree::{FlushJob, FlushReport, JobKind};
use teak_write_ahead_log::WriteAheadLog;

/// Maximum wait for another thread's job before the next look for work.
const POLL_PERIOD: Duration = Duration::from_millis(500);

/// The parts of an engine that flushing needs.
#[derive(Clone, Copy)]
pub(crate) struct FlushContext<'a> {
    pub log: &'a WriteAheadLog,
    pub transactions: &'a TransactionSystem,
    pub written: &'a WrittenIndexes,
    pub budget: &'a Budget,
    pub signals: &'a Signals,
    pub counts: &'a EngineCounts,
    pub messages: &'a Messages,
}

impl<'a> From<&'a EngineCore> for FlushContext<'a> {
    fn from(core: &'a EngineCore) -> Self {
        Self {
            log: &core.log,
            transactions: &core.transactions,
            written: &core.written,
            budget: &core.budget,
            signals: &core.signals,
            counts: &core.counts,
            messages: &core.messages,
        }
    }
}

/// Which jobs a flusher prefers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefer {
    /// Flush frozen memtables first: writers may wait for their memory.
    Memtables,
    /// Move runs to lower levels first. At least one flusher does this, even if many memtables wait
    /// to be flushed.
    Runs,
}

type Candidates = Vec<(u64, Arc<Index>)>;

fn claim_any(candidates: &Candidates) -> Option<(Arc<Index>, FlushJob)> {
    let mut candidates = candidates.iter();
    candidates.find_map(|(_, index)| Some((Arc::clone(index), index.tree.next_job()?)))
}

fn claim_runs(candidates: &Candidates) -> Option<(Arc<Index>, FlushJob)> {
    candidates.iter().find_map(|(_, index)| {
        let mut job = index.tree.next_job()?;
        if job.kind() == JobKind::Memtable {
            // While this job claims the memtable, the tree offers a job on its runs.
            let memtable = job;
            job = index.tree.next_job()?;
            drop(memtable);
        }
        Some((Arc::clone(index), job))
    })
}

impl FlushContext<'_> {
    /// Freezes the active memtable of an index, so that it can be flushed.
    pub(crate) fn freeze(&self, index: &Index) -> bool {
        index.tree.freeze(|| self.log.end())
    }

    /// The most urgent job of all trees.
    pub(super) fn next_job(&self, prefer: Prefer) -> Option<(Arc<Index>, FlushJob)> {
        let now = Instant::now();
        let (mut frozen, mut due) = (Candidates::new(), Candidates::new());
        for index in self.written.snapshot() {
            if !index.may_try(now) {
                continue;
            }
            if index.tree.slows_readers() {
                self.freeze(&index);
            }
            if index.tree.frozen_memtables() > 0 {
                frozen.push((index.tree.frozen_bytes(), Arc::clone(&index)));
            }
            let bytes = index.tree.pending_work_bytes();
            if bytes > 0 {
                due.push((bytes, index));
            }
        }
        for candidates in [&mut frozen, &mut due] {
            candidates.sort_by_key(|(bytes, _)| Reverse(*bytes));
        }
        match prefer {
            Prefer::Memtables => claim_any(&frozen).or_else(|| claim_any(&due)),
            Prefer::Runs => claim_runs(&due).or_else(|| claim_any(&frozen)),
        }
    }

    /// Whether the compaction debt is so large that half of the flushers should only reduce it.
    pub(super) fn is_behind(&self) -> bool {
        self.written.memtable_use().debt > self.budget.debt_bytes() / 2
    }

    /// Runs a job and records its failure in the index.
    pub(super) fn run_job(&self, index: &Index, job: FlushJob) -> StorageResult<()> {
        let outcome = match self.run_unrecorded_job(index, job) {
            Ok(report) => {
                self.succeeded(index, &report);
                self.check_space(index);
                Ok(())
            }
            Err(error) => {
                self.failed(index, &error);
                Err(error)
            }
        };
        self.signals.space_available();
        outcome
    }

    /// Runs a job.
    pub(super) fn run_unrecorded_job(
        &self,
        index: &Index,
        job: FlushJob,
    ) -> StorageResult<FlushReport> {
        let horizon = self.transactions.horizon();
        std::panic::catch_unwind(AssertUnwindSafe(|| job.run(&horizon))).unwrap_or_else(|_| {
            let path = &index.entry.path;
            Err(StorageError::corrupt(path, 0, "merging it panicked"))
        })
    }

    fn succeeded(&self, index: &Index, report: &FlushReport) {
        self.counts.add_flush(report);
        if index.recover() {
            let path = index.entry.path.display();
            self.messages.note(&format!("flushing {path} works again"));
        }
    }

    fn failed(&self, index: &Index, error: &StorageError) {
        self.counts.flush_failures.fetch_add(1, Ordering::Relaxed);
        if index.failure().is_none() {
            let path = index.entry.path.display();
            let text = format!("flushing {path} failed: {error}");
            self.messages.error(&text);
        }
        self.messages.report_damage(index, error);
        if error.is_no_space() {
            // Frees the space of the failed job's output.
            index.tree.give_back_tail();
        }
        index.fail(error.clone());
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

    /// Flushes all frozen memtables, together with the flusher threads.
    pub(crate) fn flush_frozen(&self) -> EngineResult<()> {
        loop {
            let has_frozen = |index: &Arc<Index>| index.tree.frozen_memtables() > 0;
            let waiting: Vec<Arc<Index>> = self.written.live().filter(has_frozen).collect();
            if waiting.is_empty() {
                return Ok(());
            }
            let claimed = waiting
                .iter()
                .find_map(|index| index.tree.next_job().map(|job| (index, job)));
            match claimed {
                Some((index, job)) => self.run_job(index, job)?,
                None => self.wait_for_flushers(&waiting)?,
            }
        }
    }

    /// Flushes the frozen memtables of one index, together with the flusher
    /// threads.
    pub(crate) fn flush_index(&self, index: &Arc<Index>) -> EngineResult<()> {
        while index.tree.frozen_memtables() > 0 {
            match index.tree.next_job() {
                Some(job) => self.run_job(index, job)?,
                None => self.wait_for_flushers(std::slice::from_ref(index))?,
            }
        }
        Ok(())
    }

    /// Waits while other threads flush `indexes`.
    fn wait_for_flushers(&self, indexes: &[Arc<Index>]) -> EngineResult<()> {
        if let Some(error) = indexes.iter().find_map(|index| index.failure()) {
            return Err(error.into());
        }
        if !self.signals.has_threads() {
            return Err(EngineError::Internal("a memtable cannot be flushed".into()));
        }
        self.signals.wait_for_space(POLL_PERIOD);
        Ok(())
    }
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
                let job = index.tree.next_job();
                match job.or_else(|| index.tree.next_idle_job(&horizon)) {
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
