//! Compares the memtable with a sorted map, with and without concurrent writers. Miri runs these
//! tests with smaller numbers.

use super::*;
use crate::VersionCursor;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;

type Version = (WriteId, Operation, Vec<u8>);

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<u8>, u64, u8, Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>, u64),
}

/// The model: all insertions and range deletions, oldest first.
#[derive(Default)]
struct Model {
    steps: Vec<Step>,
}

impl Model {
    /// All versions of a key, newest first, including tombstones older than all its entries.
    fn versions(&self, key: &[u8]) -> Vec<Version> {
        let versions = self.steps.iter().rev().filter_map(|step| match step {
            Step::Insert(k, id, operation, value) if k == key => {
                let operation = Operation::from_number(*operation).unwrap();
                Some((WriteId(*id), operation, value.clone()))
            }
            Step::DeleteRange(start, end, id)
                if start.as_slice() <= key && (end.is_empty() || key < end.as_slice()) =>
            {
                Some((WriteId(*id), Operation::Delete, vec![]))
            }
            _ => None,
        });
        versions.collect()
    }

    /// The versions of each key that cursors return: entries, and tombstones newer than at least
    /// one of them.
    fn entries(&self) -> BTreeMap<Vec<u8>, Vec<Version>> {
        let mut entries = BTreeMap::new();
        for (at, step) in self.steps.iter().enumerate() {
            if let Step::Insert(key, ..) = step {
                entries.entry(key.clone()).or_insert_with(|| {
                    let oldest = Model {
                        steps: self.steps[at..].to_vec(),
                    };
                    oldest.versions(key)
                });
            }
        }
        entries
    }
}

/// Short keys, some of them prefixes of others, and keys with long common
/// prefixes.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let long = (0usize..3, proptest::collection::vec(0u8..2, 0..11));
    prop_oneof![
        proptest::collection::vec(0u8..3, 0..5),
        proptest::collection::vec(0u8..2, 7..11),
        long.prop_map(|(common, end)| [&[1; 25][..common * 12], &end].concat()),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let value = proptest::collection::vec(any::<u8>(), 0..20);
    prop_oneof![
        20 => (key(), 0u64..9, 1u8..=2, value).prop_map(|(k, id, op, v)| Step::Insert(k, id, op, v)),
        1 => (key(), key(), 1u64..9).prop_map(|(a, b, id)| Step::DeleteRange(a, b, id)),
    ]
}

pub(crate) fn config() -> ProptestConfig {
    ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn build(steps: Vec<Step>) -> (Arc<Memtable>, Model) {
    let memtable = Arc::new(Memtable::new());
    for step in &steps {
        match step {
            Step::Insert(key, id, operation, value) => {
                let operation = Operation::from_number(*operation).unwrap();
                memtable.insert(WriteId(*id), operation, key, value);
            }
            Step::DeleteRange(start, end, id) => memtable.delete_range(WriteId(*id), start, end),
        }
    }
    (memtable, Model { steps })
}

fn current(cursor: &MemtableCursor) -> Version {
    let value = cursor.inline_value().to_vec();
    (cursor.write_id(), cursor.operation(), value)
}

fn newest<'a>(entry: Option<(&'a Vec<u8>, &'a Vec<Version>)>) -> Option<(&'a [u8], &'a Version)> {
    entry.map(|(key, versions)| (key.as_slice(), &versions[0]))
}

fn assert_at(cursor: &MemtableCursor, expected: Option<(&[u8], &Version)>) {
    assert_eq!(cursor.valid(), expected.is_some());
    if let Some((key, version)) = expected {
        assert_eq!((cursor.key(), &current(cursor)), (key, version));
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn cursor_shows_every_version_in_order(
        steps in proptest::collection::vec(step(), 0..if cfg!(miri) { 60 } else { 400 }),
    ) {
        let (memtable, model) = build(steps);
        let entries = model.entries();
        let mut cursor = memtable.cursor();
        prop_assert!(!cursor.valid());
        cursor.seek_first()?;
        for (key, versions) in &entries {
            for version in versions {
                assert_at(&cursor, Some((key, version)));
                cursor.next_version()?;
            }
        }
        prop_assert!(!cursor.valid());
        cursor.seek_last()?;
        for (key, versions) in entries.iter().rev() {
            assert_at(&cursor, Some((key, &versions[0])));
            cursor.previous_key()?;
        }
        prop_assert!(!cursor.valid());
        let inserts = |step: &&Step| matches!(step, Step::Insert(..));
        let points = model.steps.iter().filter(inserts).count();
        prop_assert_eq!(memtable.entries(), points as u64);
        let mut rows = std::collections::BTreeMap::new();
        for step in &model.steps {
            if let Step::Insert(key, _, operation, _) = step {
                let is_delete = Operation::from_number(*operation) == Some(Operation::Delete);
                let row = rows.entry(key.clone()).or_insert((i64::from(is_delete), 0));
                row.1 = i64::from(!is_delete);
            }
        }
        prop_assert_eq!(memtable.keys(), rows.len() as u64);
        let more: i64 = rows.values().map(|(before, after)| after - before).sum();
        prop_assert_eq!(memtable.rows(), more);
        prop_assert_eq!(memtable.range_tombstones().len(), model.steps.len() - points);
        prop_assert_eq!(memtable.is_empty(), model.steps.is_empty());
    }

    #[test]
    fn seeks_find_neighbours(
        steps in proptest::collection::vec(step(), 0..if cfg!(miri) { 40 } else { 400 }),
        probes in proptest::collection::vec((key(), 0usize..4), 1..8),
    ) {
        let (memtable, model) = build(steps);
        let entries = model.entries();
        let mut cursor = memtable.cursor();
        for (probe, moves) in probes {
            cursor.seek(&probe)?;
            let mut at = entries.range(probe.clone()..).next();
            assert_at(&cursor, newest(at));
            for _ in 0..moves {
                let Some((key, _)) = at else { break };
                at = entries.range(..key.clone()).next_back();
                cursor.previous_key()?;
                assert_at(&cursor, newest(at));
            }
            cursor.seek_before(&probe)?;
            assert_at(&cursor, newest(entries.range(..probe.clone()).next_back()));

            let mut seen = Vec::new();
            let end = memtable.visit(&probe, &mut |id, operation, value| {
                seen.push((id, operation, value.to_vec()));
                Visit::Continue
            });
            prop_assert_eq!(end, Visit::Continue);
            let versions = model.versions(&probe);
            prop_assert_eq!(&seen, &versions);
            if !versions.is_empty() {
                let end = memtable.visit(&probe, &mut |_, _, _| Visit::Stop);
                prop_assert_eq!(end, Visit::Stop);
            }
        }
    }
}

#[test]
fn empty_memtable_costs_no_entry_memory() {
    let memtable = Arc::new(Memtable::new());
    assert_eq!((memtable.bytes(), memtable.entries()), (0, 0));
    assert_eq!(memtable.write_id_range(), None);
    let mut cursor = memtable.cursor();
    cursor.seek_last().unwrap();
    assert!(!cursor.valid());
    cursor.seek_before(b"a").unwrap();
    assert!(!cursor.valid());
}

#[test]
fn large_values_are_kept_whole() {
    let memtable = Arc::new(Memtable::new());
    let value = vec![7u8; 300_000];
    memtable.insert(WriteId(3), Operation::Put, b"a", &value);
    memtable.insert(WriteId(5), Operation::Put, b"b", b"small");
    let mut cursor = memtable.cursor();
    cursor.seek(b"a").unwrap();
    assert_eq!(cursor.inline_value(), value);
    assert!(memtable.bytes() >= 300_000 && memtable.bytes() < 310_000);
    assert_eq!(memtable.write_id_range(), Some((WriteId(3), WriteId(5))));
}

#[test]
fn an_open_cursor_sees_later_insertions() {
    let memtable = Arc::new(Memtable::new());
    let put = |key: &[u8]| memtable.insert(WriteId(1), Operation::Put, key, key);
    put(b"b");
    put(b"f");
    let mut cursor = memtable.cursor();
    cursor.seek_last().unwrap();
    put(b"d");
    cursor.previous_key().unwrap();
    assert_eq!(cursor.key(), b"d");
    put(b"c");
    cursor.previous_key().unwrap();
    assert_eq!(cursor.key(), b"c");
    put(b"cc");
    memtable.delete_range(WriteId(2), b"cc", b"e");
    cursor.next_version().unwrap();
    assert_eq!(
        (cursor.key(), cursor.operation(), cursor.write_id()),
        (b"cc".as_slice(), Operation::Delete, WriteId(2))
    );
    put(b"ccc");
    cursor.next_version().unwrap();
    assert_eq!(
        (cursor.key(), cursor.operation()),
        (b"cc".as_slice(), Operation::Put)
    );
    cursor.next_version().unwrap();
    assert_eq!(
        (cursor.key(), cursor.operation()),
        (b"ccc".as_slice(), Operation::Put)
    );
}

#[test]
fn estimates_are_near_the_truth() {
    let memtable = Memtable::new();
    let count = if cfg!(miri) { 200u64 } else { 50_000 };
    for number in 0..count {
        let key = (number.wrapping_mul(0x9e37_79b9) % count).to_be_bytes();
        memtable.insert(WriteId(1), Operation::Put, &key, b"");
    }
    let bound = |number: u64| number.to_be_bytes();
    for (from, to) in [
        (0, count),
        (count / 4, count / 2),
        (count / 2, count / 2 + 10),
    ] {
        let estimate =
            memtable.estimate(Bound::Included(&bound(from)), Bound::Excluded(&bound(to)));
        let truth = to - from;
        assert!(
            estimate >= truth / 3 && estimate <= truth * 3,
            "{estimate} for {truth}"
        );
    }
    assert_eq!(memtable.estimate(Bound::Unbounded, Bound::Unbounded), count);
}

/// Each writer has its own keys: numbers with the same remainder modulo `writers`. It writes
/// several versions of each, with ascending values. In-order and scattered keys alternate.
fn write(memtable: &Memtable, writer: u64, writers: u64, rounds: u64, done: &AtomicUsize) {
    for round in 0..rounds {
        let scattered = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let number = if round % 2 == 0 { round } else { scattered };
        let key = (number * writers + writer).to_be_bytes();
        for version in 1..=2u64 {
            let value = (round * 2 + version).to_be_bytes();
            memtable.insert(WriteId(round + 1), Operation::Put, &key, &value);
        }
        done.fetch_add(2, Ordering::Release);
    }
}

fn scan(memtable: &Arc<Memtable>, at_least: usize) {
    let mut cursor = memtable.cursor();
    cursor.seek_first().unwrap();
    let mut count = 0;
    let mut last: Option<(Vec<u8>, Vec<u8>)> = None;
    while cursor.valid() {
        let here = (cursor.key().to_vec(), cursor.inline_value().to_vec());
        if let Some((key, value)) = &last {
            assert!(*key < here.0 || (*key == here.0 && *value > here.1));
        }
        last = Some(here);
        count += 1;
        cursor.next_version().unwrap();
    }
    assert!(
        count >= at_least,
        "{count} entries seen, {at_least} inserted"
    );
    cursor.seek_last().unwrap();
    let mut last: Option<Vec<u8>> = None;
    while cursor.valid() {
        if let Some(last) = &last {
            assert!(last.as_slice() > cursor.key());
        }
        let key = cursor.key().to_vec();
        memtable.visit(&key, &mut |_, _, newest| {
            assert!(newest >= cursor.inline_value());
            Visit::Stop
        });
        last = Some(key);
        cursor.previous_key().unwrap();
    }
}

#[test]
fn readers_see_whole_ordered_lists_while_writers_insert() {
    let (writers, rounds) = if cfg!(miri) { (2, 20) } else { (4, 20_000) };
    let memtable = Arc::new(Memtable::new());
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let (memtable, done) = (&memtable, &done);
            scope.spawn(move || write(memtable, writer, writers, rounds, done));
        }
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let at_least = done.load(Ordering::Acquire);
                    scan(&memtable, at_least);
                    if at_least as u64 == writers * rounds * 2 {
                        break;
                    }
                }
            });
        }
    });
    assert_eq!(memtable.entries(), writers * rounds * 2);
    scan(&memtable, done.load(Ordering::Acquire));
}
