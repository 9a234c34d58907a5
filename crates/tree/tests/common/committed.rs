//! A horizon and a visibility under which each write is committed at the sequence number that
//! equals its id.

use super::Subject;
use teak_base::{CommitSequence, Lsn, WriteId};
use teak_tree::{Horizon, Visibility, WriteStatus};

/// The horizon of these snapshots, in ascending order.
pub struct Snapshots(pub Vec<CommitSequence>);

impl Horizon for Snapshots {
    fn status(&self, id: WriteId) -> WriteStatus {
        WriteStatus::Committed(CommitSequence(id.0))
    }
    fn snapshots(&self) -> &[CommitSequence] {
        &self.0
    }
}

/// One snapshot, which sees every write.
pub fn newest() -> Snapshots {
    Snapshots(vec![CommitSequence(1 << 40)])
}

/// A reader at a snapshot.
#[derive(Clone, Copy)]
pub struct At(pub u64);

impl Visibility for At {
    fn is_visible(&self, id: WriteId) -> bool {
        id.0 <= self.0
    }
}

/// Freezes the memtable, and runs all jobs that are due.
pub fn flush(subject: &Subject, horizon: &Snapshots) {
    subject.tree.freeze(|| Lsn(0));
    while let Some(job) = subject.tree.next_job().unwrap() {
        job.run(horizon).unwrap();
    }
}
