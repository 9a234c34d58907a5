//! Histograms of commits and statements, and the longest wait of each kind.

use crate::common::*;
use std::time::Duration;

/// The line of the status report that begins with `kind`.
fn line(text: &str, kind: &str) -> String {
    let found = text.lines().find(|line| line.starts_with(kind));
    found.unwrap_or_else(|| panic!("{kind}: {text}")).to_owned()
}

#[test]
fn commits_and_statements_are_counted_by_their_time() {
    let (engine, table) = fresh();
    let before = engine.statistics();
    assert_eq!(before.statement_times.count(), 0);
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    // Without writes there is nothing to log.
    begin(&engine).commit().unwrap();
    for microseconds in [3, 100, 100, 9000] {
        engine.count_statement(Duration::from_micros(microseconds));
    }
    let after = engine.statistics();
    assert_eq!(after.commit_times.count(), before.commit_times.count() + 1);
    let statements = after.statement_times;
    assert_eq!(statements.count(), 4);
    assert_eq!(statements.total_microseconds, 9203);
    assert_eq!(statements.buckets[7], 2);
    assert_eq!(statements.quantile_microseconds(500), 128);
    assert_eq!(statements.longest_microseconds, 9000);
    let text = engine.status_text();
    let histogram = line(&text, "histogram of statements");
    assert_eq!(
        histogram,
        "histogram of statements, below 4 us: 1, below 128 us: 2, below 16384 us: 1"
    );
    let times = line(&text, "statements: 4, average 2300 us, longest 9000 us, ");
    assert!(times.ends_with(" s ago"), "{times}");
}

#[test]
fn the_report_has_a_line_for_each_kind_of_wait() {
    let (engine, table) = fresh();
    for key in ["a", "b", "c"] {
        commit(&engine, |t| insert(t, &table, key, "1").unwrap());
    }
    engine.checkpoint().unwrap();
    let mut locking = begin(&engine);
    insert(&mut locking, &table, "d", "1").unwrap();
    let mut waiting = begin(&engine);
    assert!(is_timeout(insert(&mut waiting, &table, "d", "2")));
    let text = engine.status_text();
    for kind in [
        "delays by memory: 0",
        "delays by debt: 0",
        "delays by runs: 0",
        "delays by log: 0",
        "waits for log buffer: ",
        "log segment changes: ",
        "waits for a row latch: 0",
        "waits of writers for a new memtable: 0",
        "log syncs: ",
        "lock waits: 1, average ",
        "lock waits of freezes and installations: ",
        "captures of checkpoints: ",
    ] {
        line(&text, kind);
    }
}
