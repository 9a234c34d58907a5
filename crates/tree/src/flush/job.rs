//! A job: background work on a part of the tree. The caller provides the thread.

use super::claim::Claim;
use super::context::{JobContext, Target};
use super::hidden::can_drop;
use super::inputs::is_aborted;
use super::install::JobOutcome;
use super::report::{FlushReport, JobKind};
use super::threads::{JobThreads, OneThread};
use super::{child, leaf, memtable, relocate};
use crate::node::{Key, Node, RunRef};
use crate::run::MovedBlocks;
use crate::tree::Tree;
use crate::version::{MemtableSlot, TreeVersion};
use std::sync::Arc;
use teak_base::visibility::{Horizon, WriteRangeStatus};
use teak_base::{KeyVersion, StorageResult};
use teak_block_file::BlockAddress;

/// The part of the tree that a job works on.
#[derive(Debug)]
pub(super) enum Work {
    Memtable(Arc<MemtableSlot>),
    Child(Target, Arc<Node>),
    Consolidate(Target),
    Leaf(Target),
    Mark(Target),
    /// The runs of a child, to be moved before this offset of the file.
    Relocate(Target, u64),
    /// The runs of a child, of which those are written again that are not encrypted with this key, and the node of the child.
    ChangeKey(Target, Option<KeyVersion>, Option<BlockAddress>),
}

impl Work {
    /// The input runs of a merge that contain only aborted writes, if any.
    fn aborted_runs(&self, horizon: &dyn Horizon) -> Option<Target> {
        let target = match self {
            Work::Child(target, _) | Work::Consolidate(target) | Work::Leaf(target) => target,
            Work::Memtable(_) | Work::Mark(_) | Work::Relocate(..) | Work::ChangeKey(..) => {
                return None;
            }
        };
        let runs = target.runs.iter();
        let runs = runs.filter(|run| is_aborted(horizon, run.handle.only_write_ids()));
        let runs: Vec<RunRef> = runs.cloned().collect();
        (!runs.is_empty()).then(|| Target {
            runs,
            ..target.clone()
        })
    }
}

/// A claimed job. Dropping it without running it releases the claim.
#[derive(Debug)]
pub struct FlushJob {
    claim: Claim,
    version: Arc<TreeVersion>,
    work: Work,
    is_optional: bool,
    /// The key for which deletes under an old snapshot are moved down or dropped, if this is the
    /// only purpose of the job.
    hidden: Option<Key>,
}

impl FlushJob {
    pub(super) fn new(claim: Claim, version: Arc<TreeVersion>, work: Work) -> Self {
        Self {
            claim,
            version,
            work,
            is_optional: false,
            hidden: None,
        }
    }

    /// Restricts the job to moving down and dropping deletes, if no snapshot needs them.
    pub(super) fn for_hidden(mut self, key: Key) -> Self {
        self.hidden = Some(key);
        self
    }

    /// Marks a job that is not due, so that what such jobs write is bounded (see
    /// [`Tree::affords_optional_jobs`]).
    pub(super) fn optional(mut self) -> Self {
        self.is_optional = self.kind() != JobKind::Memtable;
        self
    }

    /// The kind of the job.
    #[must_use]
    pub fn kind(&self) -> JobKind {
        match &self.work {
            Work::Memtable(_) => JobKind::Memtable,
            Work::Child(..) => JobKind::Child,
            Work::Consolidate(_) => JobKind::Consolidate,
            Work::Leaf(_) => JobKind::Leaf,
            Work::Mark(_) => JobKind::Mark,
            Work::Relocate(..) | Work::ChangeKey(..) => JobKind::Relocate,
        }
    }

    /// Runs the job on this thread.
    ///
    /// # Errors
    /// As [`FlushJob::run_on`].
    pub fn run(self, horizon: &dyn Horizon) -> StorageResult<FlushReport> {
        self.run_on(&OneThread, horizon)
    }

    /// Runs the job. Large merges are divided over `threads`. Holds the install lock only while the
    /// result is installed.
    ///
    /// # Errors
    /// `NoSpace`, `Io`, `Corrupt`; the tree is then unchanged and the claim is
    /// released.
    pub fn run_on(
        self,
        threads: &dyn JobThreads,
        horizon: &dyn Horizon,
    ) -> StorageResult<FlushReport> {
        let tree = &self.claim.tree;
        if let (Some(key), Work::Child(target, _) | Work::Leaf(target)) = (&self.hidden, &self.work)
            && !can_drop(target, horizon)
        {
            tree.retry_hidden(key);
            return Ok(FlushReport::default());
        }
        let run = JobContext {
            tree,
            version: &self.version,
            options: tree.options(),
            horizon,
            claim: &self.claim,
            threads,
        };
        let report = match (self.work.aborted_runs(horizon), &self.work) {
            (Some(aborted), _) => drop_runs(&run, aborted),
            (None, Work::Memtable(slot)) => memtable::run(&run, slot),
            (None, Work::Child(target, below)) => child::push_down(&run, target, below),
            (None, Work::Consolidate(target)) => child::consolidate(&run, target),
            (None, Work::Leaf(target)) => leaf::merge(&run, target),
            (None, Work::Mark(target)) => mark(&run, target),
            (None, Work::Relocate(target, limit)) => {
                relocate::run(&run, target, MovedBlocks::After(*limit))
            }
            (None, Work::ChangeKey(target, wanted, node)) => {
                change_key(&run, target, *wanted, *node)
            }
        };
        if let (Err(_), Some(key)) = (&report, &self.hidden) {
            tree.retry_hidden(key);
        }
        let report = report?;
        tree.counters.count(self.kind(), &report);
        if self.is_optional {
            tree.counters.count_optional(&report);
        }
        Ok(report)
    }
}

/// Drops runs that contain only aborted writes. The other runs of the child are not merged; a later
/// job does that if a merge is still due.
fn drop_runs(job: &JobContext<'_>, aborted: Target) -> StorageResult<FlushReport> {
    job.install(JobOutcome {
        consumed: Some(aborted),
        ..JobOutcome::default()
    })?;
    Ok(FlushReport::default())
}

/// Marks runs as settled if all their writes are settled and
/// `RunHandle::can_be_marked` allows it. Marks other runs as purged if no decided write is aborted.
fn mark(job: &JobContext<'_>, target: &Target) -> StorageResult<FlushReport> {
    for run in &target.runs {
        let description = run.handle.description();
        if let Some((min, max)) = description.write_ids
            && run.handle.can_be_marked()
            && job.horizon.range_status(min, max) == WriteRangeStatus::Settled
        {
            run.handle.mark_settled();
        } else if run.handle.can_be_marked_purged(job.horizon) {
            run.handle.mark_purged(job.horizon.decided_below());
        }
    }
    // Installs the child with the same runs, so that its summary and its node block are updated.
    job.install(JobOutcome {
        consumed: Some(target.clone()),
        replacements: target.runs.clone(),
        ..JobOutcome::default()
    })?;
    Ok(FlushReport::default())
}

/// Writes what is encrypted with another key again. The checkpoint writes the node, if the child is installed again.
fn change_key(
    job: &JobContext<'_>,
    target: &Target,
    wanted: Option<KeyVersion>,
    node: Option<BlockAddress>,
) -> StorageResult<FlushReport> {
    let report = relocate::run(job, target, MovedBlocks::OtherKey(wanted))?;
    let other_key = MovedBlocks::OtherKey(wanted);
    if report.runs_moved == 0
        && let Some(node) = node
        && other_key.concerns(&job.tree.file, node)?
    {
        job.install(JobOutcome {
            consumed: Some(target.clone()),
            replacements: target.runs.clone(),
            ..JobOutcome::default()
        })?;
    }
    Ok(report)
}

impl Tree {
    /// Runs jobs, even if they are not due, until there are none. If no other thread runs jobs, all
    /// flushed entries are then in bottom runs.
    ///
    /// # Errors
    /// As [`FlushJob::run`].
    pub fn settle(self: &Arc<Self>, horizon: &dyn Horizon) -> StorageResult<()> {
        loop {
            let job = match self.next_job()? {
                Some(job) => Some(job),
                None => self.next_idle_job(horizon)?,
            };
            match job {
                Some(job) => job.run(horizon)?,
                None => return Ok(()),
            };
        }
    }
}
