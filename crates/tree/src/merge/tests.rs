//! Compares merges with a reader without garbage collection: every snapshot must read the same
//! before and after a merge.

// The numbers of the tests are small.
#![allow(clippy::cast_possible_truncation)]

use super::vec_cursor::{Entry, VecCursor};
use super::*;
use crate::{RangeTombstone, StoredValue};
use proptest::prelude::*;
use teak_base::visibility::{Horizon, WriteStatus};
use teak_base::{CommitSequence, Operation, StorageResult, TransactionId, WriteId};

struct Statuses {
    statuses: Vec<WriteStatus>,
    snapshots: Vec<CommitSequence>,
}

impl Horizon for Statuses {
    fn status(&self, id: WriteId) -> WriteStatus {
        self.statuses[id.0 as usize - 1]
    }
    fn snapshots(&self) -> &[CommitSequence] {
        &self.snapshots
    }
}

#[derive(Clone, Debug, Default)]
struct Container {
    entries: Vec<Entry>,
    tombstones: Vec<RangeTombstone>,
}

impl Container {
    fn versions(&self, key: &[u8]) -> Vec<(WriteId, Operation, Vec<u8>)> {
        let points = self.entries.iter().filter(|entry| entry.0 == key);
        let mut versions: Vec<_> = points.map(|e| (e.1, e.2, e.3.clone())).collect();
        for tombstone in &self.tombstones {
            if tombstone.covers(key) {
                versions.push((tombstone.write_id, Operation::Delete, Vec::new()));
            }
        }
        versions
    }
}

fn read(containers: &[Container], key: &[u8], sees: &dyn Fn(WriteId) -> bool) -> Option<Vec<u8>> {
    let versions = containers.iter().flat_map(|c| c.versions(key));
    let mut seen = versions.filter(|(id, ..)| id.is_settled() || sees(*id));
    let (_, operation, value) = seen.next()?;
    (operation == Operation::Put).then_some(value)
}

#[derive(Default)]
struct Collect {
    entries: Vec<Entry>,
}

impl MergeSink for Collect {
    fn push(
        &mut self,
        key: &[u8],
        id: WriteId,
        operation: Operation,
        value: StoredValue<'_>,
        starts_key: bool,
    ) -> StorageResult<()> {
        let new = self.entries.last().is_none_or(|last| last.0 != key);
        assert_eq!(starts_key, new, "starts_key marks the first entry of a key");
        self.entries
            .push((key.to_vec(), id, operation, value.to_vec()?));
        Ok(())
    }
}

fn merge(
    containers: &[Container],
    horizon: &Statuses,
    level: MergeLevel,
    cut: Option<&[u8]>,
) -> Container {
    let cursors = containers.iter().map(|c| VecCursor::new(c.entries.clone()));
    let tombstones: Vec<_> = containers.iter().map(|c| c.tombstones.clone()).collect();
    let mut merger = Merger::new(horizon, cursors.collect(), &tombstones);
    let mut sink = Collect::default();
    merger.seek(None).unwrap();
    let mut carried = Vec::new();
    if let Some(cut) = cut {
        merger.merge_until(Some(cut), level, &mut sink).unwrap();
        carried = merger.retained_tombstones(None, Some(cut), level);
    }
    merger.merge_until(None, level, &mut sink).unwrap();
    carried.extend(merger.retained_tombstones(cut, None, level));
    assert!(merger.next_key().is_none());
    Container {
        entries: sink.entries,
        tombstones: carried,
    }
}

const KEYS: u8 = 6;

fn key(number: u8) -> Vec<u8> {
    // Long common prefixes, so that comparing the eight-byte prefixes is not enough.
    let mut key = if number.is_multiple_of(2) {
        b"shared-beginning".to_vec()
    } else {
        Vec::new()
    };
    key.push(number);
    key
}

#[derive(Clone, Debug)]
enum Step {
    Write {
        key: u8,
        write: usize,
        operation: u8,
    },
    DeleteRange {
        from: u8,
        to: u8,
        write: usize,
    },
    NextContainer,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..KEYS, 0..8usize, 0..4u8).prop_map(|(key, write, operation)| Step::Write { key, write, operation }),
        1 => (0..KEYS, 0..KEYS, 0..8usize).prop_map(|(from, to, write)| Step::DeleteRange { from, to, write }),
        2 => Just(Step::NextContainer),
    ]
}

/// Builds containers, newest first, from steps in time order. As the locks of the engine ensure,
/// the writes of a key are in the order of their statuses: first settled and committed writes in
/// commit order, then active ones. Aborted writes may be anywhere.
fn build(steps: &[Step], statuses: &[WriteStatus]) -> Vec<Container> {
    let mut containers = vec![Container::default()];
    let mut newest = [0u64; KEYS as usize];
    let order = |write: usize| match statuses[write] {
        WriteStatus::Committed(at) => at.0,
        WriteStatus::Active(_) => 1_000 + write as u64,
        WriteStatus::Aborted => 0,
    };
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::NextContainer => containers.insert(0, Container::default()),
            Step::Write {
                key: k,
                write,
                operation,
            } => {
                let rank = order(*write);
                if rank != 0 && rank < newest[*k as usize] {
                    continue;
                }
                newest[*k as usize] = newest[*k as usize].max(rank);
                let id = WriteId(*write as u64 + 1);
                let value = number.to_string().into_bytes();
                let (operation, value) = match operation {
                    0 => (Operation::Delete, Vec::new()),
                    _ => (Operation::Put, value),
                };
                let entries = &mut containers[0].entries;
                let at = entries.partition_point(|e| e.0 < key(*k));
                entries.insert(at, (key(*k), id, operation, value));
            }
            Step::DeleteRange { from, to, write } => {
                let rank = order(*write);
                let end = if *to == 0 { Vec::new() } else { key(*to) };
                let start = key(*from);
                if !end.is_empty() && start >= end {
                    continue;
                }
                let tombstone = RangeTombstone {
                    start,
                    end,
                    write_id: WriteId(*write as u64 + 1),
                };
                let covered: Vec<u8> = (0..KEYS).filter(|k| tombstone.covers(&key(*k))).collect();
                if covered
                    .iter()
                    .any(|k| rank != 0 && rank < newest[*k as usize])
                {
                    continue;
                }
                for k in covered {
                    newest[k as usize] = newest[k as usize].max(rank);
                    // Placed in front of older entries, as a memtable cursor does.
                    let entries = &mut containers[0].entries;
                    let at = entries.partition_point(|e| e.0 < key(k));
                    if entries.get(at).is_some_and(|e| e.0 == key(k)) {
                        entries.insert(
                            at,
                            (key(k), tombstone.write_id, Operation::Delete, Vec::new()),
                        );
                    }
                }
                containers[0].tombstones.push(tombstone);
            }
        }
    }
    containers
}

fn status() -> impl Strategy<Value = WriteStatus> {
    prop_oneof![
        6 => (1..40u64).prop_map(|at| WriteStatus::Committed(CommitSequence(at))),
        1 => Just(WriteStatus::Active(TransactionId(1))),
        1 => Just(WriteStatus::Aborted),
    ]
}

proptest! {
    #![proptest_config(crate::test_support::proptest_config(2000))]
    #[test]
    fn every_snapshot_reads_the_same_after_a_merge(
        steps in proptest::collection::vec(step(), 0..40),
        statuses in proptest::collection::vec(status(), 8),
        snapshots in proptest::collection::btree_set(1..40u64, 1..4),
        from in 0..8usize,
        count in 1..8usize,
        cut in proptest::option::of(0..KEYS),
        own in 0..8usize,
    ) {
        let before = build(&steps, &statuses);
        let horizon = Statuses {
            statuses: statuses.clone(),
            snapshots: snapshots.iter().map(|&at| CommitSequence(at)).collect(),
        };
        let from = from % before.len();
        let to = (from + count).min(before.len());
        let level = if to == before.len() { MergeLevel::Bottom } else { MergeLevel::Upper };
        let cut = cut.map(key);
        let merged = merge(&before[from..to], &horizon, level, cut.as_deref());
        if level == MergeLevel::Bottom {
            prop_assert!(merged.tombstones.is_empty());
            for entry in &merged.entries {
                prop_assert!(!(entry.1.is_settled() && entry.2 == Operation::Delete), "a settled delete reached the bottom");
            }
        }
        for k in 0..KEYS {
            let committed = |id: &WriteId| matches!(statuses[id.0 as usize - 1], WriteStatus::Committed(_));
            let versions: Vec<_> = merged.entries.iter().filter(|entry| entry.0 == key(k)).collect();
            if let Some(last) = versions.last() && level == MergeLevel::Bottom && !last.1.is_settled() {
                prop_assert!(last.2 == Operation::Put || !committed(&last.1), "a delete without older versions");
            }
            // Explicit deletes of a merge with a range tombstone are not added twice.
            let deletes = |entries: &[Entry], id: WriteId| {
                let of_key = entries.iter().filter(|entry| entry.0 == key(k) && entry.1 == id);
                of_key.filter(|entry| entry.2 == Operation::Delete).count()
            };
            for (_, id, ..) in versions.iter().filter(|entry| !entry.1.is_settled()) {
                let given: usize = before[from..to].iter().map(|container| deletes(&container.entries, *id)).sum();
                prop_assert!(deletes(&merged.entries, *id) <= given.max(1), "{id:?} deletes the key twice");
            }
        }
        for pair in merged.entries.windows(2) {
            let closes = pair[0].1.is_settled();
            prop_assert!(!(closes && pair[0].0 == pair[1].0), "something older than a settled version was kept");
        }
        // A writer looks for the newest version, so range tombstones must be in order.
        let newer_first = |a: WriteId, b: WriteId| match (a.is_settled(), b.is_settled()) {
            (_, true) => true,
            (true, false) => false,
            _ => match (statuses[a.0 as usize - 1], statuses[b.0 as usize - 1]) {
                (WriteStatus::Committed(a), WriteStatus::Committed(b)) => a >= b,
                (newer, _) => !matches!(newer, WriteStatus::Committed(_)),
            },
        };
        for k in 0..KEYS {
            let covering = merged.tombstones.iter().filter(|tombstone| tombstone.covers(&key(k)));
            let ids: Vec<WriteId> = covering.map(|tombstone| tombstone.write_id).collect();
            for pair in ids.windows(2) {
                prop_assert!(newer_first(pair[0], pair[1]), "key {k}: {ids:?}");
            }
        }
        let mut after = before[..from].to_vec();
        after.push(merged);
        after.extend_from_slice(&before[to..]);
        // The readers: the live snapshots, later snapshots, and a snapshot with its own write.
        let newest = *snapshots.last().unwrap();
        for snapshot in snapshots.iter().copied().chain(newest..45) {
            for own in [None, Some(own)] {
                let sees = |id: WriteId| {
                    let index = id.0 as usize - 1;
                    match statuses[index] {
                        WriteStatus::Committed(at) => at.0 <= snapshot,
                        WriteStatus::Active(_) => own == Some(index),
                        WriteStatus::Aborted => false,
                    }
                };
                for k in 0..KEYS {
                    prop_assert_eq!(
                        read(&before, &key(k), &sees),
                        read(&after, &key(k), &sees),
                        "key {} at {}, own {:?}", k, snapshot, own
                    );
                }
            }
        }
    }
}

fn settled_horizon() -> Statuses {
    Statuses {
        statuses: vec![WriteStatus::Committed(CommitSequence(1)); 8],
        snapshots: vec![CommitSequence(10)],
    }
}

#[test]
fn a_settled_range_tombstone_drops_covered_entries_and_is_kept() {
    let newer = Container {
        entries: vec![(key(3), WriteId(2), Operation::Put, b"new".to_vec())],
        tombstones: vec![RangeTombstone {
            start: key(1),
            end: key(5),
            write_id: WriteId(2),
        }],
    };
    let older = Container {
        entries: [1, 3, 5]
            .map(|k| (key(k), WriteId(1), Operation::Put, b"old".to_vec()))
            .to_vec(),
        tombstones: Vec::new(),
    };
    let merged = merge(&[newer, older], &settled_horizon(), MergeLevel::Upper, None);
    let kept: Vec<_> = merged
        .entries
        .iter()
        .map(|e| (e.0.clone(), e.3.clone()))
        .collect();
    assert_eq!(
        kept,
        vec![(key(3), b"new".to_vec()), (key(5), b"old".to_vec())]
    );
    assert_eq!(merged.tombstones.len(), 1);
    assert!(merged.tombstones[0].write_id.is_settled());
}

/// Merges the versions of a key. Each id is a commit sequence, except 18 (aborted) and 19 (active).
fn merged_deletes(level: MergeLevel, versions: &[(u64, Operation)]) -> Vec<(u64, Operation)> {
    let horizon = Statuses {
        statuses: (1..20)
            .map(|id| match id {
                18 => WriteStatus::Aborted,
                19 => WriteStatus::Active(TransactionId(1)),
                id => WriteStatus::Committed(CommitSequence(id)),
            })
            .collect(),
        snapshots: vec![CommitSequence(5), CommitSequence(12)],
    };
    let entries = versions.iter();
    let entries = entries.map(|&(id, operation)| (key(1), WriteId(id), operation, Vec::new()));
    let container = Container {
        entries: entries.collect(),
        tombstones: Vec::new(),
    };
    let merged = merge(&[container], &horizon, level, None);
    let merged = merged.entries.iter();
    merged.map(|entry| (entry.1.0, entry.2)).collect()
}

#[test]
fn deletes_without_older_versions_are_dropped_at_the_bottom() {
    use Operation::{Delete, Put};
    let bottom = |versions: &[_]| merged_deletes(MergeLevel::Bottom, versions);
    // Inserted and deleted after the old snapshot, and after both.
    assert_eq!(bottom(&[(8, Delete), (7, Put)]), []);
    assert_eq!(bottom(&[(14, Delete), (8, Delete), (7, Put)]), []);
    assert_eq!(bottom(&[(14, Delete)]), []);
    assert_eq!(bottom(&[(14, Put), (13, Delete)]), [(14, Put)]);
    // The only older version was rolled back.
    assert_eq!(bottom(&[(14, Delete), (18, Put)]), []);
    // A snapshot, or a later one, sees an older version.
    let kept = [(8, Delete), (3, Put)];
    assert_eq!(bottom(&kept), [(8, Delete), (0, Put)]);
    let kept = [(14, Delete), (13, Put)];
    assert_eq!(bottom(&kept), kept);
    let kept = [(14, Delete), (8, Put)];
    assert_eq!(bottom(&kept), kept);
    // A delete that is not committed locks the row.
    let kept = [(19, Delete)];
    assert_eq!(bottom(&kept), kept);
    assert_eq!(bottom(&[(19, Delete), (14, Delete)]), kept);
    // At other levels there may be older versions below.
    let kept = [(14, Delete)];
    assert_eq!(merged_deletes(MergeLevel::Upper, &kept), kept);
}

/// A merged upper run has the explicit delete of a range tombstone, and the tombstone.
#[test]
fn a_range_tombstone_is_applied_once_to_a_key() {
    for status in [
        WriteStatus::Active(TransactionId(1)),
        WriteStatus::Committed(CommitSequence(20)),
        WriteStatus::Committed(CommitSequence(7)),
    ] {
        let horizon = Statuses {
            statuses: vec![
                WriteStatus::Committed(CommitSequence(1)),
                WriteStatus::Committed(CommitSequence(6)),
                status,
            ],
            snapshots: vec![CommitSequence(2), CommitSequence(6), CommitSequence(10)],
        };
        let put = |id: u64, value: &[u8]| Container {
            entries: vec![(key(1), WriteId(id), Operation::Put, value.to_vec())],
            tombstones: Vec::new(),
        };
        let deletion = Container {
            entries: Vec::new(),
            tombstones: vec![RangeTombstone {
                start: key(1),
                end: key(5),
                write_id: WriteId(3),
            }],
        };
        let upper = MergeLevel::Upper;
        let once = merge(&[deletion, put(2, b"newer")], &horizon, upper, None);
        let twice = merge(&[once, put(1, b"older")], &horizon, upper, None);
        let ids: Vec<u64> = twice.entries.iter().map(|entry| entry.1.0).collect();
        assert_eq!(ids, [3, 2, 0], "{status:?}");
        assert_eq!(twice.tombstones.len(), 1);
    }
}
