//! A piece of background work, claimed and run by whoever has a thread.

use crate::tree::Tree;
use crate::visibility::Horizon;
use std::sync::Arc;
use teak_base::StorageResult;

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobKind {
    /// Flushes the oldest frozen memtable.
    Memtable,
    /// Pushes the runs of an inner child down to the children below it.
    Child,
    /// Merges the runs of an inner child or the pending runs of a leaf among
    /// themselves.
    Consolidate,
    /// Merges the pending runs of a leaf with its data.
    Leaf,
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

/// A claimed job. Dropping it gives the claim back.
#[derive(Debug)]
pub struct FlushJob {
    tree: Arc<Tree>,
    kind: JobKind,
    priority: f64,
}

impl FlushJob {
    /// The tree that the job works on.
    #[must_use]
    pub fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// What the job does.
    #[must_use]
    pub fn kind(&self) -> JobKind {
        self.kind
    }

    /// How urgent the job is: memtables, which writers may wait for, come
    /// above 1000; else 1 is due and more is overdue.
    #[must_use]
    pub fn priority(&self) -> f64 {
        self.priority
    }

    /// Runs the job. Takes no lock but for the instant of installing the
    /// result.
    ///
    /// # Errors
    /// `NoSpace`, `Io`, `Corrupt`; the tree is then as before and the claim is
    /// given back.
    pub fn run(self, _horizon: &dyn Horizon) -> StorageResult<FlushReport> {
        Ok(FlushReport::default())
    }
}

impl Tree {
    /// Claims the most urgent work that is due: the oldest frozen memtable, or
    /// else a child with enough to push down. Jobs claimed at the same time
    /// touch disjoint parts and may run in parallel.
    pub fn next_job(self: &Arc<Self>) -> Option<FlushJob> {
        None
    }

    /// Claims work that is not due but brings the tree nearer to leaves alone:
    /// for times without anything else to do. `None`: the tree has settled as
    /// far as the horizon allows.
    pub fn next_idle_job(self: &Arc<Self>, _horizon: &dyn Horizon) -> Option<FlushJob> {
        None
    }

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

    /// Raw bytes above the leaves, beyond what the tree's shape allows to wait
    /// there: a measure of how far flushing is behind.
    #[must_use]
    pub fn pending_work_bytes(&self) -> u64 {
        self.load_version().root.summary.upper_bytes
    }
}
