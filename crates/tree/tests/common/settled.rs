//! A horizon and a visibility under which all writes are committed and visible.

use super::Subject;
use teak_base::{CommitSequence, Lsn, WriteId};
use teak_tree::{Horizon, Visibility, WriteStatus};

pub struct AllSettled([CommitSequence; 1]);

impl Horizon for AllSettled {
    fn status(&self, _id: WriteId) -> WriteStatus {
        WriteStatus::Committed(CommitSequence(1))
    }
    fn snapshots(&self) -> &[CommitSequence] {
        &self.0
    }
}

pub const SETTLED: AllSettled = AllSettled([CommitSequence(1)]);

pub struct SeesAll;

impl Visibility for SeesAll {
    fn is_visible(&self, _id: WriteId) -> bool {
        true
    }
}

/// Freezes the memtable, and runs all jobs that are due.
pub fn flush(subject: &Subject) {
    subject.tree.freeze(|| Lsn(0));
    while let Some(job) = subject.tree.next_job().unwrap() {
        job.run(&SETTLED).unwrap();
    }
}

/// Merges everything into leaves.
pub fn settle(subject: &Subject) {
    subject.tree.freeze(|| Lsn(0));
    subject.tree.settle(&SETTLED).unwrap();
}

/// The number of rows that a scan returns.
pub fn count(subject: &Subject) -> u64 {
    let mut cursor = subject.tree.cursor(SeesAll);
    let mut count = 0;
    let mut more = cursor.seek_first().unwrap();
    while more {
        count += 1;
        more = cursor.next().unwrap();
    }
    count
}
