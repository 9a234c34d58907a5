//! Scans that pass over pages without rows that match a condition.

use crate::common::column_rows::*;
use crate::common::*;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use teak_engine::aggregate::{Condition, TextRules};
use teak_engine::{
    Engine, EngineError, EngineTransaction, IndexNumber, PageFilter, ReadColumn, ReadMode,
    TableHandle,
};
use teak_testing::Random;

const ROWS: u32 = 20_000;

struct Rules;

impl TextRules for Rules {
    fn weigh(&mut self, _key: usize, _text: &[u8], _out: &mut Vec<u8>) {}

    fn accepts(&mut self, condition: usize, text: &[u8]) -> bool {
        condition == 0 && text == b"wanted"
    }
}

type Contents = BTreeMap<u32, Vec<u8>>;

/// A filter that reads only the columns of its condition, fewer than the scan.
fn filter(table: &TableHandle, condition: Condition) -> PageFilter {
    let columns = match condition {
        Condition::Within { .. } => &[ReadColumn::Value(1)][..],
        _ => &[ReadColumn::Value(1), ReadColumn::Value(2)],
    };
    let filter = table.page_filter(IndexNumber::ROWS, &[FORM], columns, condition);
    filter.unwrap()
}

/// Rows whose numbers are in this range. The engine's numbers of unsigned integers of eight bytes are less by 2^63.
fn within(min: u64, max: u64) -> Condition {
    let number = |number: u64| (number ^ 1 << 63).cast_signed();
    Condition::Within {
        column: 0,
        min: number(min),
        max: number(max),
    }
}

/// Inserts rows whose numbers are their keys, one of `distance` keys, and merges them.
fn fill(
    engine: &Engine,
    table: &TableHandle,
    distance: usize,
    text: impl Fn(u32) -> &'static str,
) -> Contents {
    let mut rows = Contents::new();
    commit(engine, |t| {
        for key in (0..ROWS).step_by(distance) {
            let value = current(u64::from(key), text(key));
            put(t, table, key, &value);
            rows.insert(key, value);
        }
    });
    engine.settle().unwrap();
    rows
}

/// The rows that a scan with this filter returns.
fn scan(t: &mut EngineTransaction, table: &TableHandle, filter: &mut PageFilter) -> Contents {
    scan_range(t, table, filter, None)
}

/// The same of a range of keys.
fn scan_range(
    t: &mut EngineTransaction,
    table: &TableHandle,
    filter: &mut PageFilter,
    range: Option<Range<u32>>,
) -> Contents {
    let mut cursor = t
        .cursor(table, IndexNumber::ROWS, ReadMode::Snapshot)
        .unwrap();
    if let Some(range) = range {
        let (lower, upper) = (range.start.to_be_bytes(), range.end.to_be_bytes());
        cursor.set_bounds(Some(&lower), Some(&upper));
    }
    let mut found = Contents::new();
    let mut add = |key: &[u8], value: &[u8]| {
        let key = u32::from_be_bytes(key.try_into().unwrap());
        assert!(found.last_key_value().is_none_or(|(last, _)| *last < key));
        found.insert(key, value.to_vec());
    };
    if let Some(row) = cursor.first(t).unwrap() {
        add(row.key, row.value);
    }
    let mut passed = 0;
    while let Some(rows) = cursor
        .next_matching_rows(t, filter, &mut Rules, passed, 32)
        .unwrap()
    {
        rows.iter().for_each(|row| add(row.key, row.value));
        passed = rows.len() - 1;
    }
    found
}

/// Whether a scan returned all rows that match, and no rows that do not exist.
fn check(found: &Contents, rows: &Contents, matches: impl Fn(&[u8]) -> bool) {
    for (key, value) in found {
        assert_eq!(rows.get(key), Some(value));
    }
    for (key, value) in rows.iter().filter(|(_, value)| matches(value)) {
        assert_eq!(found.get(key), Some(value));
    }
}

fn number_of(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[1..9].try_into().unwrap())
}

#[test]
fn pages_without_matching_rows_are_passed_over() {
    let (engine, table) = paged_table();
    let rows = fill(&engine, &table, 1, |key| {
        if key == 17_000 { "wanted" } else { "other" }
    });
    let mut t = begin(&engine);
    let mut narrow = filter(&table, within(9000, 9100));
    let found = scan(&mut t, &table, &mut narrow);
    check(&found, &rows, |value| {
        (9000..=9100).contains(&number_of(value))
    });
    assert!(narrow.passed_pages() > 0 && found.len() < rows.len() / 2);
    // Numbers ascend with the keys.
    assert!(narrow.unread_pages() * 10 > narrow.passed_pages() * 9);
    let accepted = Condition::Accepted {
        column: 1,
        condition: 0,
    };
    let mut strings = filter(&table, accepted);
    let found = scan(&mut t, &table, &mut strings);
    check(&found, &rows, |value| value.ends_with(b"wanted"));
    assert!(strings.passed_pages() > 0 && found.len() < rows.len() / 2);
    assert_eq!(strings.unread_pages(), 0);
    // No row matches: only the first page is read by row.
    let found = scan(
        &mut t,
        &table,
        &mut filter(&table, within(1 << 40, 1 << 41)),
    );
    assert!(!found.is_empty() && found.len() < rows.len() / 2);
    // All rows match.
    let mut wide = filter(&table, within(0, u64::MAX));
    assert_eq!(scan(&mut t, &table, &mut wide), rows);
    assert_eq!(wide.passed_pages(), 0);
}

#[test]
fn pages_of_ranges_are_passed_over() {
    let (engine, table) = paged_table();
    let rows = fill(&engine, &table, 1, |_| "other");
    let mut t = begin(&engine);
    let mut whole = filter(&table, within(1 << 40, 1 << 41));
    scan(&mut t, &table, &mut whole);
    for (range, numbers) in [
        (5000..15_000, 9000..9100),
        (5000..15_000, 0..5100),
        (0..ROWS / 2, 1 << 40..1 << 41),
    ] {
        let of_range: Contents = rows
            .range(range.clone())
            .map(|(key, value)| (*key, value.clone()))
            .collect();
        let mut chosen = filter(&table, within(numbers.start, numbers.end));
        let found = scan_range(&mut t, &table, &mut chosen, Some(range));
        check(&found, &of_range, |value| {
            numbers.contains(&number_of(value))
        });
        assert!(found.len() < of_range.len() / 2);
        // Not those after the end of the range, where no row matches either.
        let passed = chosen.passed_pages();
        let all = whole.passed_pages();
        assert!(passed > 0 && passed <= all * 6 / 10, "{passed} of {all}");
        assert!(chosen.unread_pages() * 10 > passed * 9);
    }
}

#[test]
fn each_transaction_finds_all_matching_rows_that_it_sees() {
    let (engine, table) = paged_table();
    let mut random = Random::new(5);
    let mut rows = fill(&engine, &table, 2, |_| "a");
    let (mut passed, mut unread) = (0, 0);
    for round in 0..12 {
        let mut old = begin(&engine);
        let before = rows.clone();
        // The snapshot is taken.
        scan(&mut old, &table, &mut filter(&table, within(0, 0)));
        commit(&engine, |t| {
            for _ in 0..random.below(6) {
                let key = random.below(u64::from(ROWS)) as u32;
                let value = current(random.below(u64::from(ROWS)), "b");
                match rows.contains_key(&key) {
                    true => update_row(t, &table, key, &value),
                    false => put(t, &table, key, &value),
                }
                rows.insert(key, value);
            }
        });
        if round % 4 == 3 {
            engine.settle().unwrap();
        }
        let mut new = begin(&engine);
        let mut own = rows.clone();
        if round % 3 == 0 {
            let (key, value) = (random.below(u64::from(ROWS)) as u32 | 1, current(77, "own"));
            if let Entry::Vacant(place) = own.entry(key) {
                put(&mut new, &table, key, &value);
                place.insert(value);
            }
        }
        for (t, rows) in [(&mut old, &before), (&mut new, &own)] {
            let min = random.below(u64::from(ROWS));
            let mut chosen = filter(&table, within(min, min + 500));
            let found = scan(t, &table, &mut chosen);
            check(&found, rows, |value| {
                (min..=min + 500).contains(&number_of(value))
            });
            passed += chosen.passed_pages();
            unread += chosen.unread_pages();
            let from = random.below(u64::from(ROWS)) as u32;
            let to = from + random.below(u64::from(ROWS)) as u32;
            let of_range = rows.range(from..to);
            let of_range = of_range.map(|(key, value)| (*key, value.clone()));
            let found = scan_range(t, &table, &mut chosen, Some(from..to));
            check(&found, &of_range.collect(), |value| {
                (min..=min + 500).contains(&number_of(value))
            });
        }
        new.rollback();
        old.rollback();
    }
    assert!(passed >= unread && unread > 0);
}

#[test]
fn unsuitable_filters_are_errors() {
    let (_engine, table) = table();
    let open = |columns: &[usize], condition| {
        let columns: Vec<_> = columns.iter().copied().map(ReadColumn::Value).collect();
        let filter = table.page_filter(IndexNumber::ROWS, &[FORM], &columns, condition);
        filter.map(|_| ())
    };
    let accepted = |column| Condition::Accepted {
        column,
        condition: 0,
    };
    assert!(open(&[1, 2], within(0, 1)).is_ok());
    for (columns, condition) in [
        (&[2][..], within(0, 1)),
        (&[1], accepted(0)),
        (&[1], accepted(1)),
        (&[3], within(0, 1)),
    ] {
        let refused = open(columns, condition);
        assert!(matches!(refused, Err(EngineError::InvalidArgument(_))));
    }
}
