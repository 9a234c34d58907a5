//! A piece of background work, claimed and run by whoever has a thread.

use super::install::{InstallState, Outcome};
use super::output::Written;
use super::{child, is_aborted, leaf, memtable};
use crate::TreeOptions;
use crate::node::{ChildId, KeyRange, Node, RunRef};
use crate::tree::Tree;
use crate::version::{MemtableSlot, TreeVersion};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use teak_base::StorageResult;
use teak_base::visibility::{Horizon, WriteRangeStatus};

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JobKind {
    /// Flushes the oldest frozen memtable.
    Memtable,
    /// Pushes the runs of an inner child down to the children below it.
    Child,
    /// Merges the runs of an inner child or the pending runs of a leaf among
    /// themselves.
    Consolidate,
    /// Merges everything in a leaf.
    Leaf,
    /// Marks runs of a leaf as settled, without rewriting them.
    Mark,
}

/// What a job did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlushReport {
    /// Entries read.
    pub entries_read: u64,
    /// Entries written.
    pub entries_written: u64,
    /// Raw bytes written.
    pub raw_bytes_written: u64,
    /// Bytes written to the file, headers and padding included.
    pub stored_bytes_written: u64,
    /// Runs written.
    pub runs_written: u64,
    /// Runs moved down without being rewritten.
    pub runs_moved: u64,
}

impl FlushReport {
    pub(super) fn of(written: &Written, entries_read: u64) -> Self {
        Self {
            entries_read,
            entries_written: written.entries,
            raw_bytes_written: written.raw_bytes,
            stored_bytes_written: written.stored_bytes,
            runs_written: written.runs,
            runs_moved: 0,
        }
    }
}

/// A child as it was when it was claimed.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) id: ChildId,
    pub(super) range: KeyRange,
    /// Newest first.
    pub(super) runs: Vec<RunRef>,
}

impl Target {
    pub(super) fn raw_bytes(&self) -> u64 {
        self.runs.iter().map(RunRef::raw_bytes).sum()
    }
}

/// What a job works on.
#[derive(Debug)]
pub(super) enum Work {
    Memtable(Arc<MemtableSlot>),
    Child(Target, Arc<Node>),
    Consolidate(Target),
    Leaf(Target),
    Mark(Target),
}

impl Work {
    /// Those runs of a merge in which everything was rolled back, if any.
    fn aborted_runs(&self, horizon: &dyn Horizon) -> Option<Target> {
        let target = match self {
            Work::Child(target, _) | Work::Consolidate(target) | Work::Leaf(target) => target,
            Work::Memtable(_) | Work::Mark(_) => return None,
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

/// The exclusive right to consume the runs of a child (or the memtables).
#[derive(Debug)]
pub(super) struct Claim {
    tree: Arc<Tree>,
    id: ChildId,
    held: AtomicBool,
}

impl Claim {
    pub(super) fn take(tree: &Arc<Tree>, install: &mut InstallState, id: ChildId) -> Self {
        let new = install.claimed.insert(id);
        assert!(new, "a child is claimed once");
        Self {
            tree: Arc::clone(tree),
            id,
            held: AtomicBool::new(true),
        }
    }

    pub(super) fn id(&self) -> ChildId {
        self.id
    }

    pub(super) fn give_back(&self, install: &mut InstallState) {
        self.held.store(false, Ordering::Relaxed);
        install.claimed.remove(&self.id);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.held.load(Ordering::Relaxed) {
            self.tree.install.lock().claimed.remove(&self.id);
        }
    }
}

/// A claimed job. Dropping it gives the claim back.
#[derive(Debug)]
pub struct FlushJob {
    claim: Claim,
    version: Arc<TreeVersion>,
    work: Work,
}

/// What a running job sees.
pub(super) struct JobRun<'a> {
    pub(super) tree: &'a Tree,
    /// The version in which the work was claimed.
    pub(super) version: &'a TreeVersion,
    pub(super) options: Arc<TreeOptions>,
    pub(super) horizon: &'a dyn Horizon,
    pub(super) claim: &'a Claim,
}

impl FlushJob {
    pub(super) fn new(claim: Claim, version: Arc<TreeVersion>, work: Work) -> Self {
        Self {
            claim,
            version,
            work,
        }
    }

    /// What the job does.
    #[must_use]
    pub fn kind(&self) -> JobKind {
        match &self.work {
            Work::Memtable(_) => JobKind::Memtable,
            Work::Child(..) => JobKind::Child,
            Work::Consolidate(_) => JobKind::Consolidate,
            Work::Leaf(_) => JobKind::Leaf,
            Work::Mark(_) => JobKind::Mark,
        }
    }

    /// Runs the job. Takes no lock but for the instant of installing the
    /// result.
    ///
    /// # Errors
    /// `NoSpace`, `Io`, `Corrupt`; the tree is then as before and the claim is
    /// given back.
    pub fn run(self, horizon: &dyn Horizon) -> StorageResult<FlushReport> {
        let tree = &self.claim.tree;
        let run = JobRun {
            tree,
            version: &self.version,
            options: tree.options(),
            horizon,
            claim: &self.claim,
        };
        let report = match (self.work.aborted_runs(horizon), &self.work) {
            (Some(aborted), _) => drop_runs(&run, aborted),
            (None, Work::Memtable(slot)) => memtable::run(&run, slot),
            (None, Work::Child(target, below)) => child::push_down(&run, target, below),
            (None, Work::Consolidate(target)) => child::consolidate(&run, target),
            (None, Work::Leaf(target)) => leaf::merge(&run, target),
            (None, Work::Mark(target)) => mark(&run, target),
        }?;
        tree.counters.count(self.kind(), &report);
        Ok(report)
    }
}

/// Drops runs that nobody sees. What else there is to do is offered again.
fn drop_runs(job: &JobRun<'_>, aborted: Target) -> StorageResult<FlushReport> {
    job.install(Outcome {
        consumed: Some(aborted),
        ..Outcome::default()
    })?;
    Ok(FlushReport::default())
}

/// Marks runs as settled that have turned out to be so.
fn mark(job: &JobRun<'_>, target: &Target) -> StorageResult<FlushReport> {
    for run in &target.runs {
        let description = run.handle.description();
        if let Some((least, greatest)) = description.write_ids
            && description.puts == description.keys
            && description.entries() == description.keys
            && job.horizon.range_status(least, greatest) == WriteRangeStatus::Settled
        {
            run.handle.mark_settled();
        }
    }
    // The leaf is made anew, so that its summary and its node block follow.
    job.install(Outcome {
        consumed: Some(target.clone()),
        replacements: target.runs.clone(),
        ..Outcome::default()
    })?;
    Ok(FlushReport::default())
}

impl Tree {
    /// Runs jobs, due or not, until none is left: everything frozen and
    /// flushed has then settled in leaves, as far as the horizon allows.
    ///
    /// # Errors
    /// As [`FlushJob::run`].
    pub fn settle(self: &Arc<Self>, horizon: &dyn Horizon) -> StorageResult<()> {
        while let Some(job) = self.next_job().or_else(|| self.next_idle_job(horizon)) {
            job.run(horizon)?;
        }
        Ok(())
    }
}
