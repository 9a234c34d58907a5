//! The checkpoint of one index, in two steps.

use super::flusher::FlushContext;
use crate::core::checkpoint_queue::{CheckpointStep, QueuedStep, StepOutcome};
use crate::core::index::Index;
use crate::core::running_jobs::RunningKind;
use crate::error::{EngineError, EngineResult};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::{StorageError, StorageResult};
use teak_tree::TreeCheckpoint;

/// Captures the current state of an index; `None` when the index was dropped, or
/// when its last checkpoint, which is durable, contains this state.
fn capture(
    context: &FlushContext<'_>,
    index: &Arc<Index>,
) -> StorageResult<Option<Box<TreeCheckpoint>>> {
    if index.is_dropped() {
        return Ok(None);
    }
    let kind = RunningKind::CheckpointCapture;
    let _running = context.running_jobs.begin(kind, index);
    // During this turn no other checkpoint of the index is in progress. So its last captured
    // state is durable, or the tree still needs a checkpoint.
    let turn = index.tree.begin_checkpoint();
    if !index.tree.needs_checkpoint() {
        return Ok(None);
    }
    // Read before the capture, and `decided` first. An entry that is in the tree by
    // then counts for the oldest id. An entry that is inserted later has an active id,
    // which is not below `decided`.
    let decided = context.transactions.ids().decided_below();
    let oldest = index.tree.oldest_unpurged_write_id();
    index.may_contain(oldest.map_or(decided, |oldest| oldest.min(decided)));
    Ok(Some(Box::new(turn.capture()?)))
}

/// Makes a captured state durable. Unless the table is temporary, the whole log was
/// synced after the capture, and not only up to the position of the entries:
/// merges settle committed writes, whose commit records may be later.
fn commit(
    context: &FlushContext<'_>,
    index: &Index,
    mut checkpoint: Box<TreeCheckpoint>,
) -> StorageResult<()> {
    let kind = RunningKind::CheckpointCommit;
    let _running = context.running_jobs.begin(kind, index);
    checkpoint.commit()?;
    index.contains_from(checkpoint.oldest_unpurged_write_id());
    // Ends the turn: the next checkpoint of the index may begin.
    drop(checkpoint);
    Ok(())
}

impl FlushContext<'_> {
    /// Makes the flushed content of one index durable.
    pub(crate) fn checkpoint_index(&self, index: &Arc<Index>) -> EngineResult<()> {
        let outcome = match capture(self, index) {
            Ok(Some(checkpoint)) if index.is_temporary() => commit(self, index, checkpoint),
            Ok(Some(checkpoint)) => self
                .log
                .sync(self.log.end())
                .and_then(|()| commit(self, index, checkpoint)),
            Ok(None) => return Ok(()),
            Err(error) => Err(error),
        };
        self.end_checkpoint(index, &outcome);
        outcome.map_err(EngineError::Storage)
    }

    /// Runs a step for the thread that makes a round of checkpoints. Returns false
    /// if there is no step to run.
    pub(super) fn help_checkpoint(&self) -> bool {
        let Some(step) = self.checkpoints.take_helper_step() else {
            return false;
        };
        self.run_checkpoint_step(step);
        self.checkpoints.end_helper_step();
        true
    }

    pub(super) fn run_checkpoint_step(&self, queued: QueuedStep) {
        let QueuedStep { index, step } = queued;
        let run = || match step {
            CheckpointStep::Capture => capture(self, &index),
            CheckpointStep::Commit(checkpoint) => commit(self, &index, checkpoint).map(|()| None),
        };
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
            let path = &index.entry.path;
            Err(StorageError::corrupt(path, 0, "checkpointing it panicked"))
        });
        self.checkpoints.finish(StepOutcome { index, outcome });
    }

    /// Records the outcome of a checkpoint in the index. A failed checkpoint is tried
    /// again later; until then the log records that the index needs are not trimmed.
    pub(super) fn end_checkpoint(&self, index: &Index, outcome: &StorageResult<()>) {
        let path = index.entry.path.display();
        match outcome {
            Ok(()) => {
                self.progress.indexes.fetch_add(1, Ordering::Relaxed);
                if index.checkpoint_retry.recover() {
                    let text = format!("checkpointing {path} works again");
                    self.messages.note(&text);
                }
            }
            Err(error) => {
                self.progress.failures.fetch_add(1, Ordering::Relaxed);
                if index.checkpoint_retry.failure().is_none() {
                    let text = format!("checkpointing {path} failed: {error}");
                    self.messages.error(&text);
                }
                self.messages.report_damage(index, error);
                if error.is_no_space() {
                    self.counts.full_disks.fetch_add(1, Ordering::Relaxed);
                    index.tree.truncate_free_tail();
                }
                index.checkpoint_retry.fail(error.clone());
                self.failing.add(index.entry.file);
            }
        }
    }
}
