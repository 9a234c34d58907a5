//! The steps of a round of checkpoints, which several threads share.
//!
//! The thread that makes the round adds steps and runs them; background threads
//! help. The steps in the queue at one time are for different indexes.

use super::index::Index;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use teak_base::StorageResult;
use teak_tree::TreeCheckpoint;

/// One step of the checkpoint of one index.
pub(crate) enum CheckpointStep {
    /// Capture the tree and write its nodes.
    Capture,
    /// Write and sync the superblock.
    Commit(Box<TreeCheckpoint>),
}

/// A step, and the index that it is for.
pub(crate) struct QueuedStep {
    pub index: Arc<Index>,
    pub step: CheckpointStep,
}

/// The outcome of a step: the captured checkpoint, which waits to be committed;
/// `None` after a commit, or when there was nothing to do.
pub(crate) struct StepOutcome {
    pub index: Arc<Index>,
    pub outcome: StorageResult<Option<Box<TreeCheckpoint>>>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<QueuedStep>,
    running: usize,
    outcomes: Vec<StepOutcome>,
}

/// The steps that wait for a thread.
pub(crate) struct CheckpointQueue {
    /// Limits the background threads that help at the same time: a sync may take
    /// long, and the others must flush.
    helpers_max: usize,
    state: Mutex<State>,
    ended: Condvar,
}

impl CheckpointQueue {
    pub(crate) fn new(flusher_count: usize) -> Self {
        Self {
            helpers_max: flusher_count.div_ceil(2),
            state: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    /// Adds steps. Only one thread does so at a time.
    pub(crate) fn add(&self, steps: impl IntoIterator<Item = QueuedStep>) {
        self.state.lock().waiting.extend(steps);
    }

    /// Takes a step, for the thread that added it.
    pub(crate) fn take(&self) -> Option<QueuedStep> {
        self.take_below(usize::MAX)
    }

    /// Takes a step, for a background thread, unless enough of them help.
    pub(crate) fn take_to_help(&self) -> Option<QueuedStep> {
        self.take_below(self.helpers_max)
    }

    fn take_below(&self, running_max: usize) -> Option<QueuedStep> {
        let mut state = self.state.lock();
        if state.running > running_max {
            return None;
        }
        let step = state.waiting.pop_front()?;
        state.running += 1;
        Some(step)
    }

    /// Ends a step that was taken.
    pub(crate) fn finish(&self, outcome: StepOutcome) {
        let mut state = self.state.lock();
        state.running -= 1;
        state.outcomes.push(outcome);
        if state.running == 0 {
            self.ended.notify_all();
        }
    }

    /// Waits until no step is running, and returns all outcomes. The caller has
    /// found no step to take.
    pub(crate) fn wait(&self) -> Vec<StepOutcome> {
        let mut state = self.state.lock();
        self.ended.wait_while(&mut state, |state| state.running > 0);
        std::mem::take(&mut state.outcomes)
    }
}
