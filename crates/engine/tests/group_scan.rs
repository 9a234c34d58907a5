//! Aggregates of the rows of an index.

use crate::common::column_rows::*;
use crate::common::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use teak_engine::aggregate::{Aggregate, Condition, Expression, Key, Query, Step, TextRules};
use teak_engine::{
    Column, ColumnKind, Engine, EngineError, EngineTransaction, GroupScan, GroupScanCaller,
    GroupedTable, IndexNumber, PageColumns, ReadColumn, TableHandle,
};
use teak_testing::FaultDisk;

#[derive(Default)]
struct Caller {
    converted: Vec<u8>,
    weighed: usize,
    /// How many rows of each table were converted.
    tables: BTreeMap<usize, usize>,
}

impl TextRules for Caller {
    fn weigh(&mut self, key: usize, text: &[u8], out: &mut Vec<u8>) {
        assert_eq!(key, 0);
        self.weighed += 1;
        out.extend(text.iter().map(u8::to_ascii_lowercase));
    }

    /// Counts as `weigh`.
    fn accepts(&mut self, condition: usize, text: &[u8]) -> bool {
        self.weighed += 1;
        condition == 1 && text.first() == Some(&b'a')
    }
}

impl GroupScanCaller for Caller {
    fn convert(&mut self, table: usize, key: &[u8], value: &[u8]) -> Option<&[u8]> {
        assert_eq!(key.len(), 4);
        *self.tables.entry(table).or_default() += 1;
        let text = std::str::from_utf8(value.strip_prefix(&[1])?).ok()?;
        self.converted = current(1, text);
        Some(&self.converted)
    }
}

fn grouped(table: &TableHandle) -> GroupedTable<'_> {
    GroupedTable {
        table,
        beginning: &[FORM],
    }
}

/// Groups by the string, without its case: the number of rows, and the sum of the numbers that are at least `min`.
fn open_scan(
    t: &mut EngineTransaction,
    table: &TableHandle,
    min: u64,
    memory_max: usize,
) -> GroupScan {
    open_scan_of(t, &[grouped(table)], min, memory_max)
}

fn open_scan_of(
    t: &mut EngineTransaction,
    tables: &[GroupedTable<'_>],
    min: u64,
    memory_max: usize,
) -> GroupScan {
    let expression = Expression::new(vec![Step::Column(0)]).unwrap();
    let query = Query {
        columns: 2,
        condition: Some(Condition::Within {
            column: 0,
            min: (min ^ 1 << 63).cast_signed(),
            max: i64::MAX,
        }),
        keys: vec![Key {
            column: 1,
            is_weighed: true,
        }],
        aggregates: vec![
            Aggregate::CountRows,
            Aggregate::Sum(expression),
            Aggregate::Max(0),
        ],
    };
    let scan = t.group_scan(
        tables,
        IndexNumber::ROWS,
        &[1, 2].map(ReadColumn::Value),
        query,
        memory_max,
    );
    scan.unwrap()
}

type Groups = BTreeMap<String, (u64, u64, u64)>;

fn groups(t: &mut EngineTransaction, scan: &mut GroupScan) -> Groups {
    let mut caller = Caller::default();
    let mut groups = Groups::new();
    while let Some(group) = scan.next(t, &mut caller).unwrap() {
        let key = String::from_utf8(scan.key(group, 0).unwrap()).unwrap();
        let sum = u64::try_from(scan.sum(group, 1).unwrap()).unwrap();
        let max = scan.extreme(group, 2).unwrap().try_into().unwrap();
        let found = (scan.count(group, 0).unwrap(), sum, u64::from_le_bytes(max));
        assert_eq!(scan.sum(group, 0), None);
        let before = groups.insert(key.to_ascii_lowercase(), found);
        assert!(before.is_none());
    }
    groups
}

fn expected(rows: &BTreeMap<u32, (u64, String)>, min: u64) -> Groups {
    let mut groups = Groups::new();
    for (number, text) in rows.values().filter(|(number, _)| *number >= min) {
        let group = groups.entry(text.to_ascii_lowercase()).or_default();
        *group = (group.0 + 1, group.1 + number, group.2.max(*number));
    }
    groups
}

/// The rows of all tables, each with a form of its own, are in the same groups.
#[test]
fn tables_are_aggregated_together() {
    const OTHER_FORM: u8 = 3;
    let (engine, table) = table();
    let other = other_table(&engine);
    let text = |key: u32| format!("{}{}", ["A", "a"][key as usize % 2], key % 40);
    let mut rows = BTreeMap::new();
    commit(&engine, |t| {
        for key in 0..3000u32 {
            put(t, &table, key, &current(u64::from(key), &text(key)));
            let mut value = current(7, &text(key).to_ascii_lowercase());
            value[0] = OTHER_FORM;
            put(t, &other, key, &value);
            rows.insert(key, (u64::from(key), text(key)));
            rows.insert(10_000 + key, (7, text(key)));
        }
        // Of an earlier form.
        put(t, &other, 5000, &[&[1], &b"a0"[..]].concat());
        rows.insert(15_000, (1, "a0".to_owned()));
    });
    engine.settle().unwrap();
    let mut t = begin(&engine);
    let tables = [
        grouped(&table),
        GroupedTable {
            table: &other,
            beginning: &[OTHER_FORM],
        },
    ];
    for memory_max in [0, 1 << 20] {
        let mut scan = open_scan_of(&mut t, &tables, 0, memory_max);
        for _ in 0..2 {
            assert_eq!(groups(&mut t, &mut scan), expected(&rows, 0));
            scan.rewind();
        }
    }
    let mut scan = open_scan_of(&mut t, &tables, 0, 1 << 20);
    let mut caller = Caller::default();
    while let Some(group) = scan.next(&mut t, &mut caller).unwrap() {
        let found = scan.key(group, 0).unwrap();
        let number: u32 = String::from_utf8(found[1..].to_vec())
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(found, text(number).into_bytes(), "the first table's text");
    }
    assert_eq!(caller.tables, BTreeMap::from([(1, 1)]));
    let query = Query {
        columns: 0,
        condition: None,
        keys: vec![],
        aggregates: vec![Aggregate::CountRows],
    };
    let none = t.group_scan(&[], IndexNumber::ROWS, &[], query, 0);
    assert!(matches!(none.err(), Some(EngineError::InvalidArgument(_))));
}

#[test]
fn pages_that_the_condition_excludes_are_not_read() {
    let (engine, table) = paged_table();
    let mut rows = BTreeMap::new();
    commit(&engine, |t| {
        for key in 0..5000u32 {
            put(t, &table, key, &current(u64::from(key), "a"));
            rows.insert(key, (u64::from(key), "a".to_owned()));
        }
    });
    engine.settle().unwrap();
    let mut t = begin(&engine);
    let mut all = open_scan(&mut t, &table, 0, 1 << 20);
    assert_eq!(groups(&mut t, &mut all), expected(&rows, 0));
    assert_eq!(all.unread_pages(), 0);
    let mut few = open_scan(&mut t, &table, 4900, 1 << 20);
    assert_eq!(groups(&mut t, &mut few), expected(&rows, 4900));
    assert!(few.unread_pages() > 0);
    // An uncommitted row among the rows of a page that would be excluded.
    update_row(&mut t, &table, 17, &current(5000, "b"));
    rows.insert(17, (5000, "b".to_owned()));
    let mut own = open_scan(&mut t, &table, 4900, 1 << 20);
    assert_eq!(groups(&mut t, &mut own), expected(&rows, 4900));
    assert!(own.unread_pages() > 0);
}

#[test]
fn a_row_that_a_statement_has_changed_twice_is_counted_once() {
    let (engine, table) = paged_table();
    let mut rows = BTreeMap::new();
    let mut t = begin(&engine);
    for key in 0..20_000u32 {
        put(&mut t, &table, key, &current(u64::from(key), "a"));
        rows.insert(key, (u64::from(key), "a".to_owned()));
    }
    for key in (0..20_000).step_by(7) {
        update_row(&mut t, &table, key, &current(u64::from(key) + 1, "b"));
        rows.insert(key, (u64::from(key) + 1, "b".to_owned()));
    }
    // Merges retain both versions: they have the same write, which is active.
    engine.settle().unwrap();
    t.commit().unwrap();
    let mut t = begin(&engine);
    for min in [0, 19_000] {
        let mut scan = open_scan(&mut t, &table, min, 1 << 20);
        assert_eq!(groups(&mut t, &mut scan), expected(&rows, min));
    }
    assert_eq!(t.count_rows(&table).unwrap(), Some(20_000));
}

#[test]
fn each_transaction_aggregates_the_rows_that_it_sees() {
    let (engine, table) = table();
    let mut rows = BTreeMap::new();
    commit(&engine, |t| {
        for key in 0..4000u32 {
            let (number, text) = (
                u64::from(key) << 40,
                format!("{}{}", ["a", "B", "b"][key as usize % 3], key % 50),
            );
            put(t, &table, key, &current(number, &text));
            rows.insert(key, (number, text));
        }
    });
    engine.settle().unwrap();
    let mut old = begin(&engine);
    let mut scan = open_scan(&mut old, &table, 1 << 45, 1 << 20);
    let before = expected(&rows, 1 << 45);
    assert_eq!(groups(&mut old, &mut scan), before);
    commit(&engine, |t| {
        for key in (0..4000).step_by(700) {
            // A row of an earlier form.
            let (number, text) = match key % 1400 {
                0 => (1, "c".to_owned()),
                _ => (u64::MAX - 1, format!("d{key}")),
            };
            let value = match number {
                1 => [&[1], text.as_bytes()].concat(),
                _ => current(number, &text),
            };
            update_row(t, &table, key, &value);
            rows.insert(key, (number, text));
        }
    });
    scan.rewind();
    assert_eq!(groups(&mut old, &mut scan), before);
    let mut new = begin(&engine);
    for memory_max in [0, 1 << 20] {
        for min in [0, 1 << 45, u64::MAX - 1, u64::MAX] {
            let mut scan = open_scan(&mut new, &table, min, memory_max);
            assert_eq!(groups(&mut new, &mut scan), expected(&rows, min));
        }
    }
    // After the rows are in pages again.
    drop(scan);
    old.rollback();
    engine.settle().unwrap();
    let mut scan = open_scan(&mut new, &table, 0, 1 << 20);
    assert_eq!(groups(&mut new, &mut scan), expected(&rows, 0));
}

#[test]
fn columns_of_keys_are_read_and_strings_are_judged_once() {
    let (engine, table) = table();
    let text = |key: u32| format!("{}{}", ["a", "B", "b"][key as usize % 3], key % 50);
    commit(&engine, |t| {
        for key in 0..4000u32 {
            put(t, &table, key, &current(7, &text(key)));
        }
    });
    engine.settle().unwrap();
    // Some rows are read one by one.
    commit(&engine, |t| {
        for key in (0..4000).step_by(900) {
            update_row(t, &table, key, &current(7, "a"));
        }
    });
    let mut t = begin(&engine);
    let sum = Expression::new(vec![Step::Column(0)]).unwrap();
    let query = Query {
        columns: 2,
        condition: Some(Condition::All(vec![
            Condition::Accepted {
                column: 1,
                condition: 1,
            },
            Condition::Within {
                column: 0,
                min: i64::from(i32::MIN) + 10,
                max: -1,
            },
        ])),
        keys: vec![],
        aggregates: vec![Aggregate::Sum(sum), Aggregate::Min(0), Aggregate::Max(0)],
    };
    let key = ReadColumn::Key {
        number: 0,
        value: Column::new(ColumnKind::SignedLittle, 4).unwrap(),
    };
    let read = [key, ReadColumn::Value(2)];
    let mut scan = t
        .group_scan(&[grouped(&table)], IndexNumber::ROWS, &read, query, 0)
        .unwrap();
    let mut caller = Caller::default();
    assert_eq!(scan.next(&mut t, &mut caller).unwrap(), Some(0));
    let is_changed = |key: u32| key.is_multiple_of(900);
    let kept = |key: &u32| *key >= 10 && (is_changed(*key) || text(*key).starts_with('a'));
    let numbers = (0..4000u32).filter(kept);
    let numbers: Vec<i32> = numbers.map(|key| i32::MIN + key.cast_signed()).collect();
    let total: i64 = numbers.iter().copied().map(i64::from).sum();
    assert_eq!(scan.sum(0, 0), Some(total.into()));
    let bytes = |number: &i32| Some(number.to_le_bytes().to_vec());
    assert_eq!(scan.extreme(0, 1), bytes(numbers.first().unwrap()));
    assert_eq!(scan.extreme(0, 2), bytes(numbers.last().unwrap()));
    let different: std::collections::BTreeSet<_> = (0..4000).map(text).collect();
    assert!(caller.weighed <= different.len() + 1, "{}", caller.weighed);
}

#[test]
fn malformed_rows_and_unsuitable_queries_are_errors() {
    let (engine, table) = table();
    commit(&engine, |t| put(t, &table, 1, &[9, 9]));
    let mut t = begin(&engine);
    let mut scan = open_scan(&mut t, &table, 0, 1 << 20);
    let mut caller = Caller::default();
    let error = scan.next(&mut t, &mut caller).unwrap_err();
    assert!(error.to_string().contains("malformed"), "{error}");
    let mut open = |columns: &[usize], aggregate| {
        let query = Query {
            columns: columns.len(),
            condition: None,
            keys: vec![],
            aggregates: vec![aggregate],
        };
        let columns: Vec<_> = columns.iter().copied().map(ReadColumn::Value).collect();
        let scan = t.group_scan(&[grouped(&table)], IndexNumber::ROWS, &columns, query, 0);
        scan.map(|_| ())
    };
    let sum = |steps| Aggregate::Sum(Expression::new(steps).unwrap());
    assert!(open(&[1], sum(vec![Step::Column(0)])).is_ok());
    let twice = vec![Step::Column(0), Step::Column(0), Step::Add];
    for (columns, aggregate) in [
        (&[1][..], sum(twice)),
        (&[2], sum(vec![Step::Column(0)])),
        (&[2], Aggregate::Max(0)),
        (&[1], Aggregate::Max(1)),
        (&[0], Aggregate::CountRows),
        (&[3], Aggregate::CountRows),
    ] {
        let refused = open(columns, aggregate);
        assert!(matches!(refused, Err(EngineError::InvalidArgument(_))));
    }
}

/// A table with a double, a float and a small integer.
fn table_of_floats() -> (Engine, TableHandle) {
    let disk = Arc::new(FaultDisk::new(1));
    let engine = open(&disk);
    let mut definition = definition("./db/t");
    definition.indexes.truncate(1);
    let column = |kind, width| Column::new(kind, width).unwrap();
    definition.indexes[0].columns = PageColumns::new(
        vec![],
        vec![
            column(ColumnKind::Bytes, 1),
            column(ColumnKind::Float, 8),
            column(ColumnKind::Float, 4),
            column(ColumnKind::UnsignedLittle, 1),
        ],
    );
    engine.create_table(&definition).unwrap();
    let table = engine.open_table("./db/t").unwrap();
    (engine, table)
}

/// The floats of a row.
#[expect(clippy::cast_possible_truncation, reason = "a float is rounded")]
fn floats(key: u32, factor: f64) -> (f64, f32) {
    let double = f64::from(key) * factor / 7.0 - 100.0;
    (double, (double / 3.0) as f32)
}

fn value_of_floats(key: u32, factor: f64) -> Vec<u8> {
    let (double, single) = floats(key, factor);
    let mut value = vec![FORM];
    value.extend_from_slice(&double.to_le_bytes());
    value.extend_from_slice(&single.to_le_bytes());
    value.push((key % 3) as u8);
    value
}

fn query_of_floats(keys: &[usize], aggregates: Vec<Aggregate>) -> Query {
    let keys = keys.iter().map(|column| Key {
        column: *column,
        is_weighed: false,
    });
    Query {
        columns: 3,
        condition: None,
        keys: keys.collect(),
        aggregates,
    }
}

#[test]
fn floats_are_added_in_the_order_of_the_rows() {
    let (engine, table) = table_of_floats();
    // Some rows are in pages, and newer versions of others in memtables.
    commit(&engine, |t| {
        (0..5000).for_each(|key| put(t, &table, key, &value_of_floats(key, 1.0)))
    });
    engine.checkpoint().unwrap();
    engine.run_background_until_idle().unwrap();
    commit(&engine, |t| {
        (0..5000)
            .step_by(700)
            .for_each(|key| update_row(t, &table, key, &value_of_floats(key, -2.0)))
    });
    let rows: Vec<(f64, f32, u32)> = (0..5000)
        .map(|key| {
            let (double, single) = floats(key, if key % 700 == 0 { -2.0 } else { 1.0 });
            (double, single, key % 3)
        })
        .collect();

    let mut t = begin(&engine);
    let mut caller = Caller::default();
    let aggregates = || {
        vec![
            Aggregate::SumFloats(0),
            Aggregate::SumFloats(1),
            Aggregate::MinFloat(1),
            Aggregate::MaxFloat(0),
        ]
    };
    for keys in [&[][..], &[2]] {
        let groups = if keys.is_empty() { 1 } else { 3 };
        let mut scan = t
            .group_scan(
                &[grouped(&table)],
                IndexNumber::ROWS,
                &[1, 2, 3].map(ReadColumn::Value),
                query_of_floats(keys, aggregates()),
                1 << 20,
            )
            .unwrap();
        for _ in 0..groups {
            let group = scan.next(&mut t, &mut caller).unwrap().unwrap();
            let number = scan.key(group, 0).map(|bytes| u32::from(bytes[0]));
            let of_group = || {
                rows.iter()
                    .filter(|row| number.is_none_or(|number| row.2 == number))
            };
            let doubles = of_group().fold(-0.0, |sum, row| sum + row.0);
            let singles = of_group().fold(-0.0, |sum, row| sum + f64::from(row.1));
            assert_eq!(scan.sum_of_floats(group, 0), Some(doubles));
            assert_eq!(scan.sum_of_floats(group, 1), Some(singles));
            assert_eq!(scan.sum_of_floats(group, 2), None);
            let min = of_group().map(|row| row.1).fold(f32::INFINITY, f32::min);
            let max = of_group()
                .map(|row| row.0)
                .fold(f64::NEG_INFINITY, f64::max);
            assert_eq!(scan.extreme(group, 2), Some(min.to_le_bytes().to_vec()));
            assert_eq!(scan.extreme(group, 3), Some(max.to_le_bytes().to_vec()));
            assert_eq!(scan.extreme(group, 0), None);
        }
        assert_eq!(scan.next(&mut t, &mut caller).unwrap(), None);
    }
}

#[test]
fn floats_are_only_aggregated() {
    let (engine, table) = table_of_floats();
    let mut t = begin(&engine);
    let sum = Expression::new(vec![Step::Column(0)]).unwrap();
    for (keys, aggregate) in [
        (&[0][..], Aggregate::CountRows),
        (&[], Aggregate::Sum(sum)),
        (&[], Aggregate::Max(1)),
        (&[], Aggregate::SumFloats(2)),
        (&[], Aggregate::MinFloat(2)),
        (&[], Aggregate::MaxFloat(3)),
    ] {
        let query = query_of_floats(keys, vec![aggregate]);
        let columns = [1, 2, 3].map(ReadColumn::Value);
        let refused = t.group_scan(&[grouped(&table)], IndexNumber::ROWS, &columns, query, 0);
        assert!(matches!(
            refused.err(),
            Some(EngineError::InvalidArgument(_))
        ));
    }
}
