//! A round of checkpoints: many indexes, in batches, the oldest first.
//!
//! For each batch:
//! 1. Freeze the memtables that must be flushed, and wait until they and those
//!    frozen before are flushed. Memtables that are frozen later are left to the
//!    next round, so a round ends however fast others write.
//! 2. Capture the trees and write their nodes.
//! 3. Sync the log once.
//! 4. Write and sync the index files. Flusher threads help in 2 and 4.
//! 5. If enough of the log can be trimmed: write the catalogue and trim the log
//!    (in `checkpoint`).
//!
//! An index that fails is tried again later. The log is kept from the oldest
//! record that it needs; other indexes are not affected.

use super::checkpoint_plan::{Planned, Scope};
use super::flusher::{FlushContext, FlushTargets};
use crate::core::checkpoint_progress::Waiting;
use crate::core::checkpoint_queue::{CheckpointStep, QueuedStep, StepOutcome};
use crate::core::index::Index;
use crate::error::{EngineError, EngineResult};
use std::sync::Arc;
use teak_base::StorageError;

/// Indexes in a batch. Captured states take memory, and the file of each is
/// kept open.
pub(super) const BATCH_INDEXES: usize = 128;

fn path_of(index: &Index) -> String {
    index.entry.path.display().to_string()
}

impl FlushContext<'_> {
    /// Checkpoints some indexes. Returns the first error of an index.
    ///
    /// # Errors
    /// Those of the log.
    pub(super) fn checkpoint_batch(
        &self,
        batch: &[Planned],
        scope: Scope,
    ) -> EngineResult<Option<StorageError>> {
        let indexes: Vec<(bool, Arc<Index>)> = batch
            .iter()
            .filter_map(|planned| Some((planned.flush, planned.index.upgrade()?)))
            .collect();
        let mut failed = self.flush_batch(&indexes, scope)?;
        let captures = indexes.into_iter().map(|(_, index)| QueuedStep {
            index,
            step: CheckpointStep::Capture,
        });
        self.progress.wait_for(Waiting::Capture);
        let mut commits = Vec::new();
        for StepOutcome { index, outcome } in self.run_checkpoint_steps(captures) {
            match outcome {
                Ok(Some(checkpoint)) => commits.push(QueuedStep {
                    index,
                    step: CheckpointStep::Commit(checkpoint),
                }),
                Ok(None) => {}
                Err(error) => {
                    self.end_checkpoint(&index, &Err(error.clone()));
                    failed.get_or_insert(error);
                }
            }
        }
        let Some(first) = commits.first() else {
            return Ok(failed);
        };
        let path = path_of(&first.index);
        self.progress.wait_for(Waiting::LogSync);
        self.log.sync(self.log.end())?;
        self.progress.wait_for(Waiting::Commit(path));
        for StepOutcome { index, outcome } in self.run_checkpoint_steps(commits) {
            let outcome = outcome.map(|_| ());
            self.end_checkpoint(&index, &outcome);
            if let Err(error) = outcome {
                failed.get_or_insert(error);
            }
        }
        Ok(failed)
    }

    /// Freezes and flushes the memtables of those indexes of a batch that need it.
    fn flush_batch(
        &self,
        indexes: &[(bool, Arc<Index>)],
        scope: Scope,
    ) -> EngineResult<Option<StorageError>> {
        let mut targets = FlushTargets::new(scope == Scope::All);
        for (flush, index) in indexes {
            if *flush {
                self.freeze(index);
                targets.add(index);
            }
        }
        let Some(first) = targets.first() else {
            return Ok(None);
        };
        self.progress.wait_for(Waiting::Flush(path_of(first)));
        self.signals.wake_flushers();
        match self.flush(targets) {
            Err(EngineError::Storage(error)) => Ok(Some(error)),
            outcome => outcome.map(|()| None),
        }
    }

    /// Runs steps on this thread and on flusher threads, and waits for all.
    fn run_checkpoint_steps(
        &self,
        steps: impl IntoIterator<Item = QueuedStep>,
    ) -> Vec<StepOutcome> {
        self.checkpoints.add(steps);
        self.signals.wake_flushers();
        while let Some(step) = self.checkpoints.take() {
            self.run_checkpoint_step(step);
        }
        self.checkpoints.wait()
    }
}
