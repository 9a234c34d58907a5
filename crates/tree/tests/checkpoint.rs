//! A checkpoint that writes slowly delays neither freezes nor jobs.

use crate::common::*;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use teak_base::{Lsn, Operation, WriteId};
use teak_disk::{Disk, MemoryDisk};
use teak_testing::GateDisk;
use teak_tree::{Tree, TreeOptions};

const CHECKPOINT: &str = "checkpoint";

/// Limit of a wait that ends earlier unless the test fails.
const FOREVER: Duration = Duration::from_secs(120);

/// Writes a few rows, and flushes them.
fn write_and_flush(tree: &Arc<Tree>, first: u32) {
    for n in first..first + 20 {
        let guard = tree.write_guard();
        guard.set_lsn(Lsn(u64::from(n)));
        guard.insert(WriteId::SETTLED, Operation::Put, &n.to_be_bytes(), b"value");
    }
    assert!(tree.freeze(|| Lsn(u64::from(first + 20))));
    let horizon = Model::new(1).horizon();
    while let Some(job) = tree.next_job().unwrap() {
        job.run(&horizon).unwrap();
    }
}

#[test]
fn freezes_and_jobs_do_not_wait_for_the_writes_of_a_checkpoint() {
    let gate = GateDisk::new(Arc::new(MemoryDisk::new()));
    let disk: Arc<dyn Disk> = Arc::new(gate.clone());
    let mut subject = Subject::create(Arc::clone(&disk), TreeOptions::tiny());
    let tree = Arc::clone(&subject.tree);
    write_and_flush(&tree, 0);
    gate.hold(CHECKPOINT);
    let checkpoint = {
        let tree = Arc::clone(&tree);
        let named = std::thread::Builder::new().name(CHECKPOINT.into());
        named.spawn(move || tree.checkpoint(&|_| Ok(()))).unwrap()
    };
    // While the checkpoint writes its first nodes, flushes create others. The later writes of the
    // checkpoint are also held, one after the other.
    gate.wait_for_arrival(CHECKPOINT);
    write_and_flush(&tree, 100);
    let (sender, done) = channel();
    let writer = Arc::clone(&tree);
    let held = gate.clone();
    std::thread::spawn(move || {
        for arrival in 2..=4 {
            held.admit_one(CHECKPOINT);
            held.wait_for_arrivals(CHECKPOINT, arrival);
            write_and_flush(&writer, arrival as u32 * 100);
        }
        let _ = sender.send(());
    });
    done.recv_timeout(FOREVER).expect("freezes and jobs go on");
    gate.open_gate(CHECKPOINT);
    let durable = checkpoint.join().unwrap().unwrap();
    // The checkpoint contains the two flushes before its capture.
    assert_eq!(durable, Lsn(120));
    assert!(tree.needs_checkpoint());
    tree.verify(&mut |_| true).unwrap();
    drop(tree);
    subject.open_again();
    assert_eq!(subject.tree.flushed_lsn(), durable);
    assert_eq!(subject.tree.entries(), 40);
    subject.checkpoint().unwrap();
    let report = subject.tree.verify(&mut |_| true).unwrap();
    let live = subject.tree.file_statistics().live_bytes;
    assert_eq!(report.block_bytes, live, "no space is lost");
}
