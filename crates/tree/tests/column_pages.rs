//! Cursors that return the columns of whole pages return the same rows as those that return rows.

use crate::common::settled::{SETTLED, SeesAll};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use teak_base::bytes::Put;
use teak_base::{CommitSequence, FileId, Lsn, Operation, WriteId};
use teak_columns::{Vector, VectorValues};
use teak_disk::{Disk, MemoryDisk};
use teak_tree::{
    Column, ColumnChoice, ColumnKind, Horizon, OptionalColumn, PageCache, PageColumns, ReadColumn,
    Tree, TreeOptions, ValueTail, Visibility, WriteStatus,
};

const FORM: u8 = 3;

/// Every write is committed, in the order of the ids.
struct InOrder(Vec<CommitSequence>);

impl Horizon for InOrder {
    fn status(&self, id: WriteId) -> WriteStatus {
        WriteStatus::Committed(CommitSequence(id.0))
    }
    fn snapshots(&self) -> &[CommitSequence] {
        &self.0
    }
}

/// Sees the writes up to this one.
struct SeesUntil(u64);

impl Visibility for SeesUntil {
    fn is_visible(&self, id: WriteId) -> bool {
        id.0 <= self.0
    }
}

fn columns() -> PageColumns {
    let column = |kind, width| Column::new(kind, width).unwrap();
    let tail = ValueTail {
        optional: vec![
            OptionalColumn {
                column: column(ColumnKind::SignedLittle, 2),
                null_bit: 8,
            },
            OptionalColumn {
                column: column(ColumnKind::Bytes, 3),
                null_bit: 9,
            },
        ],
        variable: vec![Some(10), None],
    };
    PageColumns::with_tail(
        vec![column(ColumnKind::UnsignedBig, 4)],
        vec![
            column(ColumnKind::Bytes, 2),
            column(ColumnKind::UnsignedLittle, 8),
            column(ColumnKind::Float, 4),
        ],
        tail,
    )
}

/// A value of the form that the columns describe: form, bits of NULL columns, and the columns.
fn value(form: u8, number: u32) -> Vec<u8> {
    let absent = (number % 11) as u8 & 7;
    let mut value = vec![form, absent];
    value.extend_from_slice(&(u64::from(number) << (number % 40)).to_le_bytes());
    value.extend_from_slice(&(number as f32).to_le_bytes());
    if absent & 1 == 0 {
        value.extend_from_slice(&((number * 7) as i16).to_le_bytes());
    }
    if absent & 2 == 0 {
        value.extend_from_slice(&number.to_be_bytes()[1..]);
    }
    let texts = [
        (absent & 4 == 0).then(|| format!("{}", number % 5)),
        Some("x".repeat(number as usize % 40)),
    ];
    for text in texts.iter().flatten() {
        value.put_varint(text.len() as u64);
    }
    for text in texts.iter().flatten() {
        value.extend_from_slice(text.as_bytes());
    }
    value
}

/// The columns 1 to 6 of such a value.
fn expected(number: u32) -> Vec<Option<Vec<u8>>> {
    let absent = (number % 11) as u8 & 7;
    let has = |bit: u8| absent & bit == 0;
    let first = (u64::from(number) << (number % 40)) ^ (1 << 63);
    let second = i64::from((number * 7) as i16);
    vec![
        Some(first.to_le_bytes().to_vec()),
        Some((number as f32).to_le_bytes().to_vec()),
        has(1).then(|| second.to_le_bytes().to_vec()),
        has(2).then(|| number.to_be_bytes()[1..].to_vec()),
        has(4).then(|| format!("{}", number % 5).into_bytes()),
        Some("x".repeat(number as usize % 40).into_bytes()),
    ]
}

/// The same, and the column of the key, as a signed integer.
fn expected_row(key: u32, number: u32) -> Vec<Option<Vec<u8>>> {
    let mut row = expected(number);
    let signed = i64::from(key) - (1 << 31);
    row.push(Some(signed.to_le_bytes().to_vec()));
    row
}

fn key_column() -> ReadColumn {
    ReadColumn::Key {
        number: 0,
        value: Column::new(ColumnKind::SignedLittle, 4).unwrap(),
    }
}

fn tree() -> Arc<Tree> {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let cache = Arc::new(PageCache::new(8 << 20));
    let options = TreeOptions {
        columns: columns(),
        ..TreeOptions::default()
    };
    Tree::create(&disk, Path::new("/t"), FileId(1), options, &cache).unwrap()
}

fn put(tree: &Arc<Tree>, id: u64, key: u32, value: &[u8]) {
    let guard = tree.write_guard();
    guard.insert(WriteId(id), Operation::Put, &key.to_be_bytes(), value);
}

fn add_rows(vectors: &[Vector], rows: &mut Vec<Vec<Option<Vec<u8>>>>) {
    for row in 0..vectors[0].rows() {
        let value = |vector: &Vector| {
            (!vector.is_null(row)).then(|| match vector.values() {
                VectorValues::Numbers(numbers) => numbers[row].to_le_bytes().to_vec(),
                VectorValues::Texts(texts) => texts.get(row).to_vec(),
            })
        };
        rows.push(vectors.iter().map(value).collect());
    }
}

/// The columns of all rows that a reader sees, and the number of rows that were not read one by one.
fn scan(tree: &Arc<Tree>, visibility: impl Visibility) -> (Vec<Vec<Option<Vec<u8>>>>, usize) {
    let mut read = [1, 2, 3, 4, 5, 6].map(ReadColumn::Value).to_vec();
    read.push(key_column());
    let mut choice = ColumnChoice::new(&columns(), &[FORM], &read).unwrap();
    let mut cursor = tree.cursor(visibility);
    cursor.follow_inserts(false);
    cursor.set_projection(Some(choice.projection().clone()));
    let (mut rows, mut in_pages) = (Vec::new(), 0);
    let mut is_there = cursor.seek_first().unwrap();
    while is_there {
        let value = cursor.value().unwrap().to_vec();
        if choice.is_of(&value) {
            let mut vectors = choice.vectors();
            choice.split(cursor.key(), &value, &mut vectors).unwrap();
            add_rows(&vectors, &mut rows);
        } else {
            rows.push(vec![Some(value)]);
        }
        while let Some(mut columns) = cursor.next_columns(&choice).unwrap() {
            let vectors: Vec<Vector> = (0..7).map(|n| columns.vector(n).unwrap()).collect();
            assert!(vectors.iter().all(|vector| vector.rows() == columns.rows()));
            assert!(columns.vector(7).is_err());
            add_rows(&vectors, &mut rows);
            in_pages += columns.rows();
            assert!(cursor.passed_key().is_some() && !cursor.valid());
        }
        is_there = cursor.next().unwrap();
    }
    (rows, in_pages)
}

#[test]
fn whole_pages_are_returned() {
    let tree = tree();
    for row in 0..5000 {
        put(&tree, 1, row, &value(FORM, row));
    }
    tree.freeze(|| Lsn(1));
    tree.settle(&SETTLED).unwrap();
    let (rows, in_pages) = scan(&tree, SeesAll);
    let all = (0..5000).map(|key| expected_row(key, key));
    assert_eq!(rows, all.collect::<Vec<_>>());
    assert!(in_pages > 3000, "{in_pages}");
    // A newer version hides its page from this.
    put(&tree, 2, 2500, &value(FORM, 2501));
    let (rows, fewer) = scan(&tree, SeesAll);
    assert_eq!(rows[2500], expected_row(2500, 2501));
    assert_eq!(rows.len(), 5000);
    assert!(fewer > 0 && fewer < in_pages, "{fewer}");
    // The pages are in the cache.
    let mut cursor = tree.cursor(SeesAll);
    let mut is_there = cursor.seek_first().unwrap();
    while is_there {
        is_there = cursor.next().unwrap();
    }
    assert_eq!(scan(&tree, SeesAll).1, 0);
}

#[test]
fn values_of_another_form_are_read_as_rows() {
    let tree = tree();
    for row in 0..5000 {
        let form = if row < 4000 { FORM } else { 9 };
        put(&tree, 1, row, &value(form, row));
    }
    tree.freeze(|| Lsn(1));
    tree.settle(&SETTLED).unwrap();
    let (rows, in_pages) = scan(&tree, SeesAll);
    assert!(in_pages > 1000 && in_pages < 4000, "{in_pages}");
    for (number, row) in (0..5000).zip(&rows) {
        match number < 4000 {
            true => assert_eq!(*row, expected_row(number, number)),
            false => assert_eq!(*row, vec![Some(value(9, number))]),
        }
    }
}

#[test]
fn a_passed_page_is_followed_and_preceded_by_its_neighbours() {
    let tree = tree();
    for row in 0..5000 {
        put(&tree, 1, row, &value(FORM, row));
    }
    tree.freeze(|| Lsn(1));
    tree.settle(&SETTLED).unwrap();
    let choice = ColumnChoice::new(&columns(), &[FORM], &[ReadColumn::Value(1)]).unwrap();
    let mut cursor = tree.cursor(SeesAll);
    assert!(cursor.seek_first().unwrap());
    assert!(
        cursor.next_columns(&choice).unwrap().is_none(),
        "not on the last row"
    );
    let mut columns = None;
    while columns.is_none() {
        assert!(cursor.next().unwrap());
        columns = cursor.next_columns(&choice).unwrap();
    }
    let last = cursor.passed_key().unwrap().to_vec();
    let last = u32::from_be_bytes(last.try_into().unwrap());
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.key(), (last + 1).to_be_bytes());
    assert!(cursor.previous().unwrap());
    assert_eq!(cursor.key(), last.to_be_bytes());
}

#[test]
fn a_choice_has_each_column_once() {
    let is_possible = |read: &[ReadColumn]| ColumnChoice::new(&columns(), &[FORM], read).is_some();
    let choose = |numbers: &[usize]| {
        let read = numbers.iter().copied().map(ReadColumn::Value);
        is_possible(&read.collect::<Vec<_>>())
    };
    assert!(choose(&[]) && choose(&[6, 1]));
    for numbers in [&[0][..], &[1, 1], &[7], &[70]] {
        assert!(!choose(numbers), "{numbers:?}");
    }
    assert!(is_possible(&[key_column(), ReadColumn::Value(1)]));
    assert!(!is_possible(&[key_column(), key_column()]));
    let of_key = |number, kind, width| ReadColumn::Key {
        number,
        value: Column::new(kind, width).unwrap(),
    };
    assert!(!is_possible(&[of_key(1, ColumnKind::SignedLittle, 4)]));
    assert!(!is_possible(&[of_key(0, ColumnKind::SignedLittle, 3)]));
    assert!(!is_possible(&[of_key(0, ColumnKind::Float, 4)]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_writes_are_seen_by_column_as_by_row(
        writes in proptest::collection::vec((0u32..3000, 1u32..400, 0u8..10, 0u8..8), 1..40),
        snapshot in 1u64..40,
    ) {
        let tree = tree();
        let horizon = InOrder(vec![CommitSequence(snapshot)]);
        // The rows that a reader of the snapshot, and one of the newest versions, see.
        let mut models = [std::collections::BTreeMap::new(), std::collections::BTreeMap::new()];
        for (id, (from, count, kind, flush)) in (1u64..).zip(&writes) {
            let guard = tree.write_guard();
            for key in *from..from + count {
                let number = key.wrapping_mul(id as u32) % 60_000;
                let operation = if *kind == 0 { Operation::Delete } else { Operation::Put };
                let stored = match operation {
                    Operation::Put => value(FORM, number),
                    Operation::Delete => Vec::new(),
                };
                guard.insert(WriteId(id), operation, &key.to_be_bytes(), &stored);
                for (model, sees) in models.iter_mut().zip([id <= snapshot, true]) {
                    match (sees, operation) {
                        (true, Operation::Put) => drop(model.insert(key, number)),
                        (true, Operation::Delete) => drop(model.remove(&key)),
                        (false, _) => {}
                    }
                }
            }
            drop(guard);
            if *flush < 3 {
                tree.freeze(|| Lsn(id));
                while let Some(job) = tree.next_job().unwrap() {
                    job.run(&horizon).unwrap();
                }
            }
            if *flush == 0 {
                tree.settle(&horizon).unwrap();
            }
        }
        for (model, until) in models.iter().zip([snapshot, u64::MAX]) {
            let found = scan(&tree, SeesUntil(until)).0;
            let wanted: Vec<_> = model.iter().map(|(key, number)| expected_row(*key, *number)).collect();
            prop_assert_eq!(found, wanted);
        }
    }
}
