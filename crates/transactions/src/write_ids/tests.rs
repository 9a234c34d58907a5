//! Tests of the table of write ids.

use super::*;
use proptest::prelude::*;

const OWNER: TransactionId = TransactionId(5);

fn fresh() -> WriteIdTable {
    WriteIdTable::new(WriteId(1), WriteId(1), &[])
}

#[test]
fn statuses_survive_pruning() {
    let table = fresh();
    let ids: Vec<WriteId> = (0..10_000).map(|_| table.allocate(OWNER)).collect();
    for (n, id) in ids.iter().enumerate() {
        match n % 3 {
            0 => table.abort(&[*id]),
            _ => table.commit(&[*id], CommitSequence(n as u64 + 1)),
        }
    }
    assert_eq!(table.prune(CommitSequence(9000)), WriteId(9002));
    for (n, id) in ids.iter().enumerate() {
        match (n % 3, table.status(*id)) {
            (0, status) => assert_eq!(status, WriteStatus::Aborted),
            (_, WriteStatus::Committed(CommitSequence(0))) => assert!(id.0 < 9002),
            (_, status) => assert_eq!(status, WriteStatus::Committed(CommitSequence(n as u64 + 1))),
        }
    }
    assert_eq!(table.aborted_below(table.next()).len(), 3334);
}

#[test]
fn an_active_id_stops_the_settled_watermark() {
    let table = fresh();
    let first = table.allocate(OWNER);
    let second = table.allocate(OWNER);
    table.commit(&[second], CommitSequence(1));
    assert_eq!(table.prune(CommitSequence(1)), first);
    assert_eq!(table.active_below(table.next()), [first]);
    assert_eq!(table.active_owner(first), Some(OWNER));
    table.abort(&[first]);
    assert_eq!(table.prune(CommitSequence(1)), WriteId(3));
}

#[test]
fn forgotten_ids_count_as_settled() {
    let table = fresh();
    let id = table.allocate(OWNER);
    let kept = table.allocate(OWNER);
    table.abort(&[id, kept]);
    table.prune(CommitSequence(0));
    table.forget_aborted(kept);
    assert_eq!(table.status(id), WriteStatus::Committed(CommitSequence(0)));
    assert_eq!(table.status(kept), WriteStatus::Aborted);
}

#[test]
fn recovery_restores_active_ids() {
    let table = WriteIdTable::new(WriteId(5), WriteId(9), &[WriteId(2), WriteId(6)]);
    table.reactivate(WriteId(7), OWNER);
    table.adopt(WriteId(6), OWNER);
    table.adopt(WriteId(50_000), OWNER);
    assert_eq!(table.status(WriteId(2)), WriteStatus::Aborted);
    assert_eq!(table.status(WriteId(6)), WriteStatus::Aborted);
    assert_eq!(table.status(WriteId(7)), WriteStatus::Active(OWNER));
    assert_eq!(
        table.status(WriteId(8)),
        WriteStatus::Committed(CommitSequence(0))
    );
    assert_eq!(table.status(WriteId(50_000)), WriteStatus::Active(OWNER));
    assert_eq!(table.next(), WriteId(50_001));
}

#[test]
fn readers_never_see_a_wrong_status_while_the_table_is_pruned() {
    let table = fresh();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 1..60_000u64 {
                let id = table.allocate(OWNER);
                if n % 7 == 0 {
                    table.abort(&[id]);
                } else {
                    table.commit(&[id], CommitSequence(n));
                }
                if n % 1000 == 0 {
                    table.prune(CommitSequence(n));
                }
            }
        });
        while !writer.is_finished() {
            let next = table.next().0;
            for id in next.saturating_sub(9000).max(1)..next {
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

proptest! {
    #[test]
    fn table_agrees_with_a_plain_map(steps in proptest::collection::vec(0u8..4, 1..300)) {
        let table = fresh();
        let mut model: Vec<(WriteId, WriteStatus)> = Vec::new();
        let mut sequence = 0;
        for step in steps {
            match step {
                0 | 1 => model.push((table.allocate(OWNER), WriteStatus::Active(OWNER))),
                2 => {
                    if let Some(open) = model.iter_mut().find(|(_, status)| matches!(status, WriteStatus::Active(_))) {
                        sequence += 1;
                        table.commit(&[open.0], CommitSequence(sequence));
                        open.1 = WriteStatus::Committed(CommitSequence(sequence));
                    }
                }
                _ => {
                    if let Some(open) = model.iter_mut().rev().find(|(_, status)| matches!(status, WriteStatus::Active(_))) {
                        table.abort(&[open.0]);
                        open.1 = WriteStatus::Aborted;
                    }
                    table.prune(CommitSequence(sequence / 2));
                }
            }
            for (id, status) in &model {
                let found = table.status(*id);
                let settled = found == WriteStatus::Committed(CommitSequence(0))
                    && matches!(status, WriteStatus::Committed(s) if s.0 <= sequence / 2);
                prop_assert!(found == *status || settled);
            }
        }
    }
}
