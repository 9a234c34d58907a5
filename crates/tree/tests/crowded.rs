//! Memtables wait while a child of the root has twice as many runs as make a merge due.

use crate::common::Subject;
use crate::common::settled::SETTLED;
use std::sync::Arc;
use teak_base::{Lsn, Operation, WriteId};
use teak_disk::MemoryDisk;
use teak_tree::{JobKind, TreeOptions};

fn freeze(subject: &Subject, round: u64) {
    let guard = subject.tree.write_guard();
    for number in 0..20 {
        guard.insert(WriteId(1), Operation::Put, &[number], b"a value");
    }
    drop(guard);
    subject.tree.freeze(|| Lsn(round));
}

#[test]
fn memtables_wait_for_the_merge_of_a_full_child() {
    let subject = Subject::create(Arc::new(MemoryDisk::new()), TreeOptions::tiny());
    let mut rounds = 0;
    while !subject.tree.holds_memtables_back() {
        rounds += 1;
        freeze(&subject, rounds);
        let job = subject.tree.next_memtable_job().unwrap();
        job.run(&SETTLED).unwrap();
        assert!(rounds < 100, "a child gets full");
    }
    let full = subject.tree.backlog().child_runs;
    freeze(&subject, rounds + 1);
    let merge = subject.tree.next_job().unwrap().unwrap();
    assert_ne!(merge.kind(), JobKind::Memtable);
    // Another thread finds no job while the merge runs, not even an optional one.
    assert!(subject.tree.next_job().unwrap().is_none());
    assert!(subject.tree.next_idle_job(&SETTLED).unwrap().is_none());
    merge.run(&SETTLED).unwrap();
    while subject.tree.frozen_memtables() > 0 {
        let job = subject.tree.next_job().unwrap().unwrap();
        job.run(&SETTLED).unwrap();
    }
    assert!(subject.tree.backlog().child_runs <= full);
}
