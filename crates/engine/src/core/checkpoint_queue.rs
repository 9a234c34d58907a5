//! The steps of a round of checkpoints, which several threads share.
//!
//! The thread that makes the round adds steps and runs them; background threads
//! help. The steps in the queue at one time are for different indexes.

use super::index::Index;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use teak_base::{FileId, StorageResult};
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

/// The outcome of a step: the captured checkpoint, which must be committed next;
/// `None` after a commit, or when there was nothing to do.
pub(crate) struct StepOutcome {
    pub index: Arc<Index>,
    pub outcome: StorageResult<Option<Box<TreeCheckpoint>>>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<QueuedStep>,
    running: usize,
    /// Background threads that run a step.
    helpers: usize,
    outcomes: Vec<StepOutcome>,
}

/// The steps of a round that wait for a thread, and the outcomes of those that have ended.
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

    /// The files of the indexes whose steps wait, and whether the step is a commit.
    pub(crate) fn waiting(&self) -> Vec<(FileId, bool)> {
        let state = self.state.lock();
        let steps = state.waiting.iter();
        steps
            .map(|queued| {
                let is_commit = matches!(queued.step, CheckpointStep::Commit(_));
                (queued.index.entry.file, is_commit)
            })
            .collect()
    }

    /// Takes a step, for the thread that added it.
    pub(crate) fn take(&self) -> Option<QueuedStep> {
        let mut state = self.state.lock();
        let step = state.waiting.pop_front()?;
        state.running += 1;
        Some(step)
    }

    /// Takes a step, for a background thread, unless enough of them help. After the end of the
    /// step the thread calls [`CheckpointQueue::end_helper_step`].
    pub(crate) fn take_helper_step(&self) -> Option<QueuedStep> {
        let mut state = self.state.lock();
        if state.helpers >= self.helpers_max {
            return None;
        }
        let step = state.waiting.pop_front()?;
        state.running += 1;
        state.helpers += 1;
        Some(step)
    }

    /// Called by a background thread that has run a step.
    pub(crate) fn end_helper_step(&self) {
        self.state.lock().helpers -= 1;
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::catalogue::IndexEntry;
    use crate::definition::IndexDefinition;
    use std::path::Path;
    use teak_disk::{Disk, MemoryDisk};
    use teak_tree::{PageCache, Tree, TreeOptions};

    fn index() -> Arc<Index> {
        let memory = MemoryDisk::new();
        memory.create_directories(Path::new("/d")).unwrap();
        let disk: Arc<dyn Disk> = Arc::new(memory);
        let cache = Arc::new(PageCache::new(1 << 20));
        let path = Path::new("/d/f");
        let tree = Tree::create(&disk, path, FileId(1), TreeOptions::default(), &cache);
        let definition = IndexDefinition::of_rows();
        let entry = IndexEntry::new(FileId(1), "f".into(), definition);
        Arc::new(Index::new(entry, tree.unwrap(), &Arc::default()))
    }

    #[test]
    fn the_number_of_helping_threads_is_limited() {
        for (flusher_count, helpers_max) in [(1, 1), (2, 1), (3, 2), (4, 2), (8, 4)] {
            let queue = CheckpointQueue::new(flusher_count);
            let index = index();
            queue.add((0..20).map(|_| QueuedStep {
                index: Arc::clone(&index),
                step: CheckpointStep::Capture,
            }));
            let end = |step: QueuedStep| {
                queue.finish(StepOutcome {
                    index: step.index,
                    outcome: Ok(None),
                });
            };
            // First only helping threads take steps, then the thread that added them takes one.
            let mut helping = Vec::new();
            helping.extend(std::iter::from_fn(|| queue.take_helper_step()));
            assert_eq!(helping.len(), helpers_max, "{flusher_count}");
            let own = queue.take().unwrap();
            assert!(queue.take_helper_step().is_none());
            end(own);
            assert!(queue.take_helper_step().is_none());
            helping.drain(..).for_each(|step| {
                end(step);
                queue.end_helper_step();
            });
            assert!(queue.take_helper_step().is_some());
        }
    }
}
