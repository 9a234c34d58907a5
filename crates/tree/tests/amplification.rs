//! Bounds of the write, read and space amplification under several workloads, with the planner and
//! the merges of the tree. The model is in `docs/design/compaction.md`.

// Tests fail by panics, and their numbers are small.
use crate::common::amplification::{Amplification, Setup, Workload, simulate};

/// Tables of 100 memtables: sizes of the default options divided by 4096, with memtables of 48 MiB
/// before the division.
fn simulated(workload: Workload, has_snapshot: bool) -> Amplification {
    let result = simulated_tables(workload, has_snapshot, 100);
    assert!(result.height >= 2, "{result}");
    result
}

/// As `simulated`, for tables of this many memtables.
fn simulated_tables(workload: Workload, has_snapshot: bool, memtables: u64) -> Amplification {
    let result = simulate(&Setup {
        workload,
        scale: 4096,
        memtable_bytes: 48 << 20,
        memtables,
        has_snapshot,
    });
    println!("{workload:?} {memtables} {has_snapshot}: {result}");
    result
}

/// Upper bounds of the write, read and space amplification.
#[derive(Clone, Copy)]
struct Bounds {
    write: f64,
    read: f64,
    space: f64,
}

fn assert_bounded(workload: Workload, has_snapshot: bool, bounds: Bounds) -> Amplification {
    let result = simulated(workload, has_snapshot);
    assert!(result.write <= bounds.write, "write {result}");
    assert!(result.read <= bounds.read, "read {result}");
    assert!(result.space_max <= bounds.space, "space {result}");
    result
}

#[test]
fn ordered_inserts_are_written_once() {
    let bounds = Bounds {
        write: 1.1,
        read: 1.0,
        space: 1.1,
    };
    assert_bounded(Workload::OrderedInserts, false, bounds);
    assert_bounded(Workload::OrderedInserts, true, bounds);
}

#[test]
fn random_inserts_are_rewritten_a_few_times() {
    let bounds = Bounds {
        write: 5.0,
        read: 9.0,
        space: 1.1,
    };
    assert_bounded(Workload::RandomInserts, false, bounds);
    assert_bounded(Workload::RandomInserts, true, bounds);
}

/// A merge reads twice as many bytes as it writes if all rows were updated. Leaves that were split
/// by the size of the input would become half as large in each merge.
#[test]
fn updates_of_rows_are_rewritten_a_few_times_and_do_not_split_leaves() {
    let mut bounds = Bounds {
        write: 5.0,
        read: 9.0,
        space: 2.1,
    };
    let result = assert_bounded(Workload::RowUpdates, false, bounds);
    assert!(result.leaf_fill >= 0.7, "{:.2}", result.leaf_fill);
    bounds.space = 1.7;
    let result = assert_bounded(Workload::RowUpdates, true, bounds);
    assert!(result.leaf_fill >= 0.7, "{:.2}", result.leaf_fill);
}

#[test]
fn updates_of_an_indexed_column_are_rewritten_a_few_times() {
    let mut bounds = Bounds {
        write: 5.5,
        read: 9.0,
        space: 2.1,
    };
    let result = assert_bounded(Workload::IndexUpdates, false, bounds);
    assert!(result.leaf_fill >= 0.6, "{:.2}", result.leaf_fill);
    bounds.write = 6.5;
    assert_bounded(Workload::IndexUpdates, true, bounds);
}

#[test]
fn deletes_free_space() {
    let bounds = Bounds {
        write: 3.5,
        read: 9.0,
        space: 2.5,
    };
    assert_bounded(Workload::RandomDeletes, false, bounds);
}

/// Merges of leaves would drop nothing, so the deletes remain in upper runs.
#[test]
fn deletes_under_a_snapshot_are_not_merged() {
    let bounds = Bounds {
        write: 2.5,
        read: 9.0,
        space: 1.2,
    };
    assert_bounded(Workload::RandomDeletes, true, bounds);
}

#[test]
fn a_queue_is_rewritten_about_once() {
    let mut bounds = Bounds {
        write: 1.6,
        read: 3.0,
        space: 1.3,
    };
    assert_bounded(Workload::Queue, false, bounds);
    bounds.read = 5.0;
    assert_bounded(Workload::Queue, true, bounds);
}

/// While an old snapshot is open, each row is inserted and deleted many times. Merges drop the
/// versions that the snapshot does not see.
#[test]
fn a_small_table_under_an_old_snapshot_does_not_grow() {
    for workload in [Workload::IndexUpdates, Workload::Queue] {
        let result = simulated_tables(workload, true, 1);
        assert!(result.space_max <= 2.1, "space {result}");
        assert!(result.write <= 3.0, "write {result}");
    }
}

/// Memtables are small if thousands of indexes are written. Their runs are collected by inner children even if the
/// leaves fit into one node. Otherwise a job would be due on every leaf after a few memtables.
#[test]
fn small_memtables_make_few_jobs() {
    for (workload, write) in [
        (Workload::RandomInserts, 6.5),
        (Workload::IndexUpdates, 5.5),
    ] {
        let result = simulate(&Setup {
            workload,
            scale: 1024,
            memtable_bytes: 1 << 20,
            memtables: 200,
            has_snapshot: false,
        });
        assert!(result.height == 2 && result.leaves <= 30, "{result}");
        assert!(result.write <= write && result.jobs <= 2.5, "{result}");
    }
}
