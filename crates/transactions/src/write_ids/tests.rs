//! Tests of the table of write ids.

mod model;

use super::*;

const OWNER: TransactionId = TransactionId(5);

fn fresh() -> WriteIdTable {
    WriteIdTable::new(WriteId(1), &WriteIdRanges::default())
}

fn list(ids: &[u64]) -> WriteIdRanges {
    ids.iter().copied().map(WriteId).collect()
}

fn commit(table: &WriteIdTable, id: WriteId, sequence: u64) {
    table.commit(&[WriteIdRange::one(id)], CommitSequence(sequence));
}

fn abort(table: &WriteIdTable, id: WriteId) {
    table.abort(&[WriteIdRange::one(id)]);
}

fn prune(table: &WriteIdTable, snapshots: &[u64]) -> WriteId {
    let snapshots: Vec<_> = snapshots.iter().copied().map(CommitSequence).collect();
    table.prune(&snapshots)
}

#[test]
fn statuses_survive_pruning() {
    let table = fresh();
    let ids: Vec<WriteId> = (0..100_000).map(|_| table.allocate(OWNER)).collect();
    for (n, id) in ids.iter().enumerate() {
        match n % 3 {
            0 => abort(&table, *id),
            _ => commit(&table, *id, n as u64 + 1),
        }
    }
    assert_eq!(prune(&table, &[9000, 200_000]), WriteId(9002));
    for (n, id) in ids.iter().enumerate() {
        match (n % 3, table.status(*id)) {
            (0, status) => assert_eq!(status, WriteStatus::Aborted),
            (_, WriteStatus::Committed(at)) => assert_eq!(at.0 <= 9000, n < 9000),
            (_, WriteStatus::Active(_) | WriteStatus::Aborted) => panic!("id {id}"),
        }
    }
    assert_eq!(table.aborted_below(table.next()).len(), 33_334);
    assert_eq!(table.counts().aborted, 33_334);
    assert_eq!(table.ranges_aborted(), 33_334);
    assert!((25_000..33_334).contains(&table.aborted_ranges()));
    assert_eq!(table.newest_aborted(), Some(WriteId(100_000)));
}

#[test]
fn an_active_id_stops_the_settled_watermark() {
    let table = fresh();
    let first = table.allocate(OWNER);
    let second = table.allocate(OWNER);
    commit(&table, second, 1);
    assert_eq!(prune(&table, &[1]), first);
    assert_eq!(table.active_below(table.next()), list(&[first.0]));
    assert_eq!(table.active_owner(first), Some(OWNER));
    abort(&table, first);
    assert_eq!(prune(&table, &[1]), WriteId(3));
}

#[test]
fn forgotten_ids_count_as_settled() {
    let table = fresh();
    let id = table.allocate(OWNER);
    let kept = table.allocate(OWNER);
    table.abort(list(&[id.0, kept.0]).ranges());
    prune(&table, &[0]);
    table.forget_aborted(kept, &WriteIdRanges::default());
    assert_eq!(table.status(id), WriteStatus::Committed(CommitSequence(0)));
    assert_eq!(table.status(kept), WriteStatus::Aborted);
}

#[test]
fn aborted_ids_can_be_forgotten_while_a_snapshot_is_older() {
    let table = fresh();
    let ids: Vec<WriteId> = (0..5).map(|_| table.allocate(OWNER)).collect();
    commit(&table, ids[0], 2);
    abort(&table, ids[1]);
    commit(&table, ids[2], 3);
    abort(&table, ids[4]);
    // The snapshot sees none of the commits.
    assert_eq!(prune(&table, &[1, 3]), ids[0]);
    assert_eq!(table.decided_below(), ids[3]);
    assert_eq!(table.newest_aborted(), Some(ids[1]));
    table.forget_aborted(table.next(), &WriteIdRanges::default());
    assert_eq!(
        table.status(ids[1]),
        WriteStatus::Committed(CommitSequence(0))
    );
    assert_eq!(table.status(ids[4]), WriteStatus::Aborted);
    commit(&table, ids[3], 4);
    assert_eq!(table.decided_below(), table.next());
    table.reactivate(list(&[ids[0].0]).ranges(), OWNER);
    assert_eq!(table.decided_below(), ids[0]);
}

#[test]
fn recovery_restores_active_ids() {
    let table = WriteIdTable::new(WriteId(9), &list(&[2, 6]));
    table.reactivate(list(&[7]).ranges(), OWNER);
    table.adopt(WriteIdRange::one(WriteId(6)), OWNER);
    table.adopt(WriteIdRange::one(WriteId(50_000)), OWNER);
    assert_eq!(table.status(WriteId(2)), WriteStatus::Aborted);
    assert_eq!(table.status(WriteId(6)), WriteStatus::Aborted);
    assert_eq!(table.status(WriteId(7)), WriteStatus::Active(OWNER));
    assert_eq!(
        table.status(WriteId(8)),
        WriteStatus::Committed(CommitSequence(0))
    );
    assert_eq!(table.status(WriteId(50_000)), WriteStatus::Active(OWNER));
    assert_eq!(table.next(), WriteId(50_001));
    assert_eq!(table.unowned_below(table.next()).len(), 50_000 - 9);
}

#[test]
fn an_old_active_id_of_a_recovered_table_takes_no_memory_for_the_others() {
    let next = 5_000_000_000;
    let table = WriteIdTable::new(WriteId(next), &list(&[2, 6, 4_900_000_000]));
    let prepared = list(&[3, 4, 4_500_000_000]);
    table.reactivate(prepared.ranges(), OWNER);
    assert!(table.memory_bytes() < 256 << 10);
    assert_eq!(prune(&table, &[1]), WriteId(3));
    assert_eq!(table.active_below(WriteId(next)), prepared);
    table.commit(prepared.ranges(), CommitSequence(2));
    assert_eq!(
        table.status(WriteId(4)),
        WriteStatus::Committed(CommitSequence(2))
    );
    assert_eq!(table.status(WriteId(4_900_000_000)), WriteStatus::Aborted);
    assert_eq!(prune(&table, &[2]), WriteId(next));
    assert_eq!(table.counts().aborted, 3);
}

/// Runs statements that each commit separately; one in 1000 aborts.
fn run_statements(table: &WriteIdTable, count: u64, sequence: &mut u64, snapshots: &mut [u64; 2]) {
    for n in 0..count {
        let id = table.allocate(OWNER);
        if n % 1000 == 999 {
            abort(table, id);
        } else {
            *sequence += 1;
            commit(table, id, *sequence);
        }
        if WriteIdTable::begins_chunk(WriteIdRange::one(id)) {
            snapshots[1] = *sequence;
            table.compact_step(&snapshots.map(CommitSequence));
        }
    }
}

#[test]
fn memory_does_not_grow_with_the_statements_after_an_idle_snapshot() {
    let statements = if cfg!(debug_assertions) {
        2_000_000
    } else {
        50_000_000
    };
    let table = fresh();
    let mut sequence = 0;
    run_statements(&table, 10, &mut sequence, &mut [0, 0]);
    let held = sequence;
    let before = table.next();
    run_statements(&table, statements, &mut sequence, &mut [held, 0]);
    let counts = table.counts();
    assert_eq!(prune(&table, &[held, sequence]), before);
    assert_eq!(counts.aborted, statements / 1000);
    assert!(counts.whole_chunks < 16, "{counts:?}");
    assert!(counts.bytes < (1 << 20) + statements / 50, "{counts:?}");
    assert!(counts.bytes < 16 << 20, "{counts:?}");
    // The older snapshot ends.
    table.forget_aborted(table.next(), &WriteIdRanges::default());
    assert_eq!(prune(&table, &[sequence]), table.next());
    table.forget_aborted(table.next(), &WriteIdRanges::default());
    prune(&table, &[sequence]);
    let counts = table.counts();
    assert_eq!((counts.aborted, counts.unsettled), (0, 0));
    assert!(counts.pieces < 8, "{counts:?}");
}

#[test]
fn a_long_transaction_between_others_takes_a_bit_for_each_of_their_ids() {
    let table = fresh();
    let mut long = WriteIdRanges::default();
    for n in 1..=200_000 {
        long.push(table.allocate(TransactionId(1)));
        let id = table.allocate(OWNER);
        commit(&table, id, n);
        if n % 1000 == 0 {
            prune(&table, &[n]);
        }
    }
    let bytes = table.memory_bytes();
    assert!(bytes < 400_000, "{bytes} bytes");
    assert_eq!(table.settled_below(), WriteId(1));
    assert_eq!(table.active_below(table.next()), long);
    table.commit(long.ranges(), CommitSequence(300_000));
    let at = WriteStatus::Committed(CommitSequence(300_000));
    assert!(long.iter().all(|id| table.status(id) == at));
    assert_eq!(prune(&table, &[300_000]), table.next());
    assert!(table.counts().pieces < 4);
}

#[test]
fn commits_in_bulk_are_visible_as_a_whole() {
    let table = fresh();
    let ids: WriteIdRanges = (0..300_000).map(|_| table.allocate(OWNER)).collect();
    prune(&table, &[1]);
    assert!(table.is_bulk(&ids));
    let committed = WriteStatus::Committed(CommitSequence(2));
    let all = || {
        ids.iter()
            .step_by(7)
            .all(|id| table.status(id) == committed)
    };
    table.commit_in_bulk(ids.ranges(), OWNER, |begin| {
        assert_eq!(table.status(WriteId(300_000)), WriteStatus::Active(OWNER));
        begin(CommitSequence(2));
        assert!(all());
        assert_eq!(
            table.status_for(WriteId(1), OWNER),
            WriteStatus::Active(OWNER)
        );
        CommitSequence(2)
    });
    assert!(all());
}

#[test]
fn a_commit_in_bulk_does_not_wait_for_another() {
    let table = fresh();
    let (one, other) = (TransactionId(1), TransactionId(2));
    let mut ids = (WriteIdRanges::default(), WriteIdRanges::default());
    for _ in 0..1000 {
        ids.0.push(table.allocate(one));
        ids.1.push(table.allocate(other));
    }
    let at = |sequence| WriteStatus::Committed(CommitSequence(sequence));
    std::thread::scope(|scope| {
        let (done, has_committed) = std::sync::mpsc::channel();
        let (first, second) = (WriteId(1), WriteId(2));
        let (table, others) = (&table, ids.1.ranges());
        table.commit_in_bulk(ids.0.ranges(), one, |begin| {
            begin(CommitSequence(2));
            scope.spawn(move || {
                table.commit_in_bulk(others, other, |begin| {
                    begin(CommitSequence(3));
                    assert_eq!([table.status(first), table.status(second)], [at(2), at(3)]);
                    CommitSequence(3)
                });
                done.send(()).unwrap();
            });
            let waited = has_committed.recv_timeout(std::time::Duration::from_secs(30));
            assert_eq!(waited, Ok(()));
            assert_eq!([table.status(first), table.status(second)], [at(2), at(3)]);
            CommitSequence(2)
        });
    });
    assert!(ids.0.iter().all(|id| table.status(id) == at(2)));
    assert!(ids.1.iter().all(|id| table.status(id) == at(3)));
}

#[test]
fn readers_never_see_a_wrong_status_while_the_table_is_pruned() {
    let table = fresh();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 1..120_000u64 {
                let id = table.allocate(OWNER);
                if n % 7 == 0 {
                    abort(&table, id);
                } else {
                    commit(&table, id, n);
                }
                if n % 1000 == 0 {
                    prune(&table, &[n / 2, n]);
                }
            }
        });
        while !writer.is_finished() {
            let next = table.next().0;
            for id in next.saturating_sub(40_000).max(1)..next {
                let aborted = table.status(WriteId(id)) == WriteStatus::Aborted;
                if aborted {
                    assert_eq!(id % 7, 0);
                } else if id + 1 < next {
                    assert_ne!(id % 7, 0, "id {id}");
                }
            }
        }
    });
}

#[test]
fn no_status_is_lost_while_chunks_are_replaced() {
    let table = fresh();
    std::thread::scope(|scope| {
        let pruner = scope.spawn(|| {
            while table.next().0 < 400_000 {
                prune(&table, &[0]);
            }
        });
        let writers: Vec<_> = (1..=2)
            .map(|writer| {
                let table = &table;
                scope.spawn(move || {
                    let mut active = std::collections::VecDeque::new();
                    while table.next().0 < 400_000 {
                        active.push_back(table.allocate(TransactionId(writer)));
                        // Ids whose chunks are replaced at this moment.
                        if active.len() > 10_000
                            && let Some(id) = active.pop_front()
                        {
                            commit(table, id, 1);
                        }
                    }
                    active
                })
            })
            .collect();
        let mut active: Vec<u64> = Vec::new();
        for writer in writers {
            active.extend(writer.join().unwrap().iter().map(|id| id.0));
        }
        pruner.join().unwrap();
        active.sort_unstable();
        assert_eq!(table.active_below(table.next()), list(&active));
    });
}
