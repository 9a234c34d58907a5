//! Cursors that need only some columns of the values.

use crate::common::settled::{SETTLED, SeesAll};
use std::path::Path;
use std::sync::Arc;
use teak_base::{FileId, Lsn, Operation, WriteId};
use teak_disk::{Disk, MemoryDisk};
use teak_tree::{
    Column, ColumnKind, PageCache, PageColumns, PageCounts, Projection, Tree, TreeOptions,
    ValueTail,
};

const ROWS: u32 = 5000;

/// A byte that states the form, two numbers, and a string of 40 bytes.
fn value(form: u8, row: u32) -> Vec<u8> {
    let mut value = vec![form];
    value.extend_from_slice(&row.to_le_bytes());
    value.extend_from_slice(&(row * 7).to_le_bytes());
    value.push(40);
    value.extend_from_slice(format!("{:040}", u64::from(row) * 1_000_003 % 65_537).as_bytes());
    value
}

fn columns() -> PageColumns {
    let column = |kind, width| Column::new(kind, width).unwrap();
    let tail = ValueTail {
        optional: vec![],
        variable: vec![None],
    };
    PageColumns::with_tail(
        vec![column(ColumnKind::UnsignedBig, 4)],
        vec![
            column(ColumnKind::Bytes, 1),
            column(ColumnKind::UnsignedLittle, 4),
            column(ColumnKind::UnsignedLittle, 4),
        ],
        tail,
    )
}

/// A tree with all rows at the bottom.
fn tree(form: impl Fn(u32) -> u8) -> (Arc<Tree>, Arc<PageCache>) {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let cache = Arc::new(PageCache::new(8 << 20));
    let options = TreeOptions {
        columns: columns(),
        ..TreeOptions::default()
    };
    let tree = Tree::create(&disk, Path::new("/t"), FileId(1), options, &cache).unwrap();
    for row in 0..ROWS {
        let guard = tree.write_guard();
        let put = (WriteId(1), Operation::Put);
        guard.insert(put.0, put.1, &row.to_be_bytes(), &value(form(row), row));
    }
    tree.freeze(|| Lsn(1));
    tree.settle(&SETTLED).unwrap();
    (tree, cache)
}

fn scan(tree: &Arc<Tree>, projection: Option<&Projection>) -> Vec<Vec<u8>> {
    let mut cursor = tree.cursor(SeesAll);
    cursor.set_projection(projection.cloned());
    let mut values = Vec::new();
    let mut is_there = cursor.seek_first().unwrap();
    while is_there {
        values.push(cursor.value().unwrap().to_vec());
        is_there = cursor.next().unwrap();
    }
    values
}

fn whole(form: impl Fn(u32) -> u8) -> Vec<Vec<u8>> {
    (0..ROWS).map(|row| value(form(row), row)).collect()
}

/// The first number only, and an empty string.
fn is_reduced(values: &[Vec<u8>]) -> bool {
    (0u32..).zip(values).all(|(row, value)| {
        value.len() == 10 && value[0] == 3 && value[1..5] == row.to_le_bytes() && value[9] == 0
    })
}

#[test]
fn other_columns_are_not_decoded_and_whole_values_can_still_be_read() {
    let (tree, cache) = tree(|_| 3);
    let first = Projection::new(columns(), vec![3], vec![0b11]);
    assert!(is_reduced(&scan(&tree, Some(&first))));
    let bytes = cache.statistics().bytes;
    // The pages are in the cache now.
    assert!(is_reduced(&scan(&tree, Some(&first))));
    assert_eq!(cache.statistics().bytes, bytes);
    for row in [0, 1234, ROWS - 1] {
        let found = tree.get(&row.to_be_bytes(), &SeesAll).unwrap();
        assert_eq!(found, Some(value(3, row)));
    }
    assert_eq!(scan(&tree, None), whole(|_| 3));
    assert!(cache.statistics().bytes > bytes * 2);
    // Whole pages have all columns.
    assert_eq!(scan(&tree, Some(&first)), whole(|_| 3));
}

/// Both numbers, and an empty string.
fn is_without_text(values: &[Vec<u8>]) -> bool {
    (0u32..)
        .zip(values)
        .all(|(row, whole)| *whole == [&value(3, row)[..9], &[0]].concat())
}

#[test]
fn a_page_of_other_columns_is_replaced_by_one_with_the_columns_of_both() {
    let (tree, cache) = tree(|_| 3);
    let first = Projection::new(columns(), vec![3], vec![0b11]);
    assert!(is_reduced(&scan(&tree, Some(&first))));
    let second = Projection::new(columns(), vec![3], vec![0b101]);
    let read = cache.statistics().misses;
    for projection in [
        &second,
        &first,
        &Projection::new(columns(), vec![3], vec![0b1]),
    ] {
        assert!(is_without_text(&scan(&tree, Some(projection))));
    }
    assert_eq!(cache.statistics().misses, read);
    // Columns of rows of another form have nothing in common with these.
    let other = Projection::new(columns(), vec![], vec![0b1000]);
    assert_eq!(scan(&tree, Some(&other)), whole(|_| 3));
    assert_eq!(scan(&tree, Some(&first)), whole(|_| 3));
}

#[test]
fn lookups_decode_only_the_columns_that_they_need() {
    let (tree, cache) = tree(|_| 3);
    let lookup = |row: u32, projection: Option<&Projection>| {
        let mut found = Vec::new();
        let key = row.to_be_bytes();
        let is_there = tree.get_into(&key, &SeesAll, projection, &mut found);
        assert!(is_there.unwrap());
        found
    };
    let all = |projection: Option<&Projection>| -> Vec<Vec<u8>> {
        (0..ROWS).map(|row| lookup(row, projection)).collect()
    };
    let first = Projection::new(columns(), vec![3], vec![0b11]);
    assert!(is_reduced(&all(Some(&first))));
    let reduced = cache.statistics().bytes;
    let second = Projection::new(columns(), vec![3], vec![0b101]);
    assert!(is_without_text(&all(Some(&second))));
    assert!(is_without_text(&all(Some(&first))));
    // A lookup without a projection, and one that reads only what is in memory, need the whole value.
    let mut visited = 0;
    let mut visitor = |_, _, _: teak_tree::StoredValue<'_>| {
        visited += 1;
        teak_tree::Visit::Stop
    };
    let key = 17u32.to_be_bytes();
    assert!(!tree.visit_in_memory(&key, &mut visitor).unwrap());
    assert_eq!(lookup(17, None), value(3, 17));
    assert!(tree.visit_in_memory(&key, &mut visitor).unwrap());
    assert_eq!(visited, 1);
    assert_eq!(all(None), whole(|_| 3));
    assert!(cache.statistics().bytes > reduced * 2);
    assert_eq!(all(Some(&first)), whole(|_| 3));
}

#[test]
fn a_page_is_decoded_wholly_after_many_lookups() {
    let (tree, cache) = tree(|_| 3);
    let lookup = |row: u32| tree.get(&row.to_be_bytes(), &SeesAll).unwrap();
    let bytes = |row: u32| {
        assert_eq!(lookup(row), Some(value(3, row)));
        // An index block and a page, in whichever form.
        assert_eq!(cache.statistics().misses, 2);
        cache.statistics().bytes
    };
    let encoded = bytes(17);
    let sizes: Vec<u64> = (0..20).map(bytes).collect();
    assert_eq!(sizes[0], encoded);
    assert!(sizes[19] > encoded);
    assert!(sizes.iter().is_sorted());
    // A scan reads neither the index block nor the page that a lookup has cached.
    let blocks_read = |looks_up: bool| {
        cache.set_capacity(0);
        cache.set_capacity(8 << 20);
        if looks_up {
            assert_eq!(lookup(ROWS - 1), Some(value(3, ROWS - 1)));
        }
        let before = PageCounts::of_thread().read;
        assert_eq!(scan(&tree, None), whole(|_| 3));
        PageCounts::of_thread().read - before
    };
    let all = blocks_read(false);
    assert_eq!(blocks_read(true), all - 2);
    for row in (0..ROWS).rev().step_by(7) {
        assert_eq!(lookup(row), Some(value(3, row)));
    }
}

/// The values of some rows from `start` on, by a cursor over pages that are not in the cache.
fn range(
    (tree, cache): &(Arc<Tree>, Arc<PageCache>),
    start: u32,
    rows: usize,
    is_forward: bool,
    projection: Option<&Projection>,
) -> Vec<Vec<u8>> {
    cache.set_capacity(0);
    cache.set_capacity(8 << 20);
    let mut cursor = tree.cursor(SeesAll);
    cursor.set_projection(projection.cloned());
    let key = start.to_be_bytes();
    let mut is_there = match is_forward {
        true => cursor.seek(&key),
        false => cursor.seek_before(&key),
    };
    let mut values = Vec::new();
    while is_there.unwrap() && values.len() < rows {
        values.push(cursor.value().unwrap().to_vec());
        assert_eq!(cursor.value().unwrap(), values[values.len() - 1]);
        is_there = match is_forward {
            true => cursor.next(),
            false => cursor.previous(),
        };
    }
    values
}

#[test]
fn ranges_of_rows_are_those_of_the_table() {
    let tree = tree(|_| 3);
    let first = Projection::new(columns(), vec![3], vec![0b11]);
    for projection in [None, Some(&first)] {
        let value = |row| match projection {
            None => value(3, row),
            Some(_) => [&value(3, row)[..5], &[0; 5]].concat(),
        };
        for start in (0..=ROWS).step_by(61) {
            for rows in [1, 4, 100, 700] {
                let found = range(&tree, start, rows, true, projection);
                let expected = (start..ROWS).take(rows).map(value);
                assert!(expected.eq(found), "from {start}, {rows} rows");
                let found = range(&tree, start, rows, false, projection);
                let expected = (0..start).rev().take(rows).map(value);
                assert!(expected.eq(found), "before {start}, {rows} rows");
            }
        }
    }
}

#[test]
fn short_ranges_leave_pages_encoded_in_the_cache() {
    let tree = tree(|_| 3);
    let bytes = |rows| {
        range(&tree, 17, rows, true, None);
        tree.1.statistics().bytes
    };
    let encoded = bytes(1);
    // Each value is read twice.
    assert_eq!(bytes(4), encoded);
    assert!(bytes(60) > encoded);
}

#[test]
fn values_of_another_form_are_whole() {
    let form = |row| if row < 4990 { 2 } else { 3 };
    let (tree, _) = tree(form);
    let first = Projection::new(columns(), vec![3], vec![0b11]);
    assert_eq!(scan(&tree, Some(&first)), whole(form));
    let mut others = columns().value().to_vec();
    others.pop();
    let others = PageColumns::with_tail(vec![], others, columns().tail().clone());
    let other = Projection::new(others, vec![], vec![0b1]);
    assert_eq!(scan(&tree, Some(&other)), whole(form));
    let no_tail = PageColumns::new(vec![], columns().value().to_vec());
    let other = Projection::new(no_tail, vec![], vec![0b1]);
    assert_eq!(scan(&tree, Some(&other)), whole(form));
}

#[test]
fn merges_read_whole_values() {
    let (tree, _) = tree(|_| 3);
    let first = Projection::new(columns(), vec![3], vec![0b11]);
    assert!(is_reduced(&scan(&tree, Some(&first))));
    let guard = tree.write_guard();
    for row in (0..ROWS).step_by(3) {
        guard.insert(
            WriteId(1),
            Operation::Put,
            &row.to_be_bytes(),
            &value(3, row),
        );
    }
    drop(guard);
    tree.freeze(|| Lsn(2));
    tree.settle(&SETTLED).unwrap();
    assert_eq!(scan(&tree, None), whole(|_| 3));
}
