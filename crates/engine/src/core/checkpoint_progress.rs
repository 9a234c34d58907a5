//! What checkpoints do now, and how long they took.

use parking_lot::Mutex;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// What a round of checkpoints is waiting for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Flushes of memtables; the path is that of one of the indexes.
    Flush(String),
    /// Captures of trees, which write nodes.
    Capture,
    /// A sync of the log.
    LogSync,
    /// Syncs of index files; the path is that of one of them.
    Commit(String),
    /// The write of the catalogue, and the trim of the log.
    Catalogue,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flush(path) => write!(f, "flushing memtables ({path})"),
            Self::Capture => write!(f, "writing nodes"),
            Self::LogSync => write!(f, "syncing the log"),
            Self::Commit(path) => write!(f, "syncing index files ({path})"),
            Self::Catalogue => write!(f, "writing the catalogue"),
        }
    }
}

/// A round in progress.
#[derive(Clone, Debug)]
pub(crate) struct RunningRound {
    pub since: Instant,
    pub started: SystemTime,
    /// The indexes of the round, and those that are done.
    pub indexes: usize,
    pub done: usize,
    pub waiting: Waiting,
}

/// The round of checkpoints in progress, and counts of those that ended.
#[derive(Debug, Default)]
pub(crate) struct CheckpointProgress {
    running: Mutex<Option<RunningRound>>,
    /// Rounds completed.
    pub rounds: AtomicU64,
    /// Index files whose checkpoints were completed.
    pub indexes: AtomicU64,
    /// Index files whose checkpoints failed.
    pub failures: AtomicU64,
    /// Durations of rounds, in microseconds.
    pub last_microseconds: AtomicU64,
    pub longest_microseconds: AtomicU64,
}

impl CheckpointProgress {
    /// A round of checkpoints begins; `indexes` is the number of indexes.
    pub(crate) fn begin(&self, indexes: usize) {
        *self.running.lock() = Some(RunningRound {
            since: Instant::now(),
            started: SystemTime::now(),
            indexes,
            done: 0,
            waiting: Waiting::Capture,
        });
    }

    /// The round in progress.
    pub(crate) fn running(&self) -> Option<RunningRound> {
        self.running.lock().clone()
    }

    /// Sets what the round is waiting for.
    pub(crate) fn wait_for(&self, waiting: Waiting) {
        if let Some(running) = &mut *self.running.lock() {
            running.waiting = waiting;
        }
    }

    /// Counts more indexes as done in the current round.
    pub(crate) fn add_done(&self, indexes: usize) {
        if let Some(running) = &mut *self.running.lock() {
            running.done += indexes;
        }
    }

    /// The round ended; `completed` unless it failed as a whole.
    pub(crate) fn end(&self, completed: bool) {
        let Some(running) = self.running.lock().take() else {
            return;
        };
        let spent = microseconds(running.since.elapsed());
        self.last_microseconds.store(spent, Ordering::Relaxed);
        self.longest_microseconds
            .fetch_max(spent, Ordering::Relaxed);
        if completed {
            self.rounds.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The round in progress, as text for the status report.
impl fmt::Display for CheckpointProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.running.lock() {
            Some(running) => write!(
                f,
                "{} of {} indexes done in {:.1} s, now {}",
                running.done,
                running.indexes,
                running.since.elapsed().as_secs_f64(),
                running.waiting
            ),
            None => write!(f, "none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_says_what_a_round_waits_for() {
        let progress = CheckpointProgress::default();
        assert_eq!(progress.to_string(), "none");
        progress.begin(10);
        progress.add_done(4);
        progress.wait_for(Waiting::Flush("db/t.PRIMARY".into()));
        let text = progress.to_string();
        assert!(text.starts_with("4 of 10 indexes done in "), "{text}");
        assert!(
            text.ends_with("flushing memtables (db/t.PRIMARY)"),
            "{text}"
        );
        progress.end(false);
        assert_eq!(progress.rounds.load(Ordering::Relaxed), 0);
        assert_eq!(progress.to_string(), "none");
    }
}
