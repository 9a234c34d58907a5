//! Lookups that are divided into a part that reads blocks and a part that does not.

use crate::common::settled::*;
use crate::common::{Random, Subject, key};
use std::sync::Arc;
use teak_base::{Operation, WriteId};
use teak_disk::MemoryDisk;
use teak_tree::{OlderVersions, StoredValue, TreeOptions, Visit};

type Newest = Option<(Operation, Vec<u8>)>;

fn subject() -> Subject {
    Subject::create(Arc::new(MemoryDisk::new()), TreeOptions::tiny())
}

fn write(subject: &Subject, operation: Operation, number: usize, value: &str) {
    let guard = subject.tree.write_guard();
    guard.insert(WriteId(1), operation, &key(number), value.as_bytes());
}

fn put(subject: &Subject, number: usize, value: &str) {
    write(subject, Operation::Put, number, value);
}

/// A visitor that stops at the newest version.
fn first(newest: &mut Newest) -> impl FnMut(WriteId, Operation, StoredValue<'_>) -> Visit {
    move |_, operation, value| {
        *newest = Some((operation, value.to_vec().unwrap()));
        Visit::Stop
    }
}

fn newest(subject: &Subject, number: usize) -> Newest {
    let mut found = None;
    subject
        .tree
        .visit(&key(number), &mut first(&mut found))
        .unwrap();
    found
}

/// The value, unless the version is a delete, which merges may drop.
fn live(newest: Newest) -> Option<Vec<u8>> {
    let (operation, value) = newest?;
    (operation == Operation::Put).then_some(value)
}

fn older(subject: &Subject, number: usize) -> (OlderVersions, Newest) {
    let mut found = None;
    let visited = subject
        .tree
        .visit_older(&key(number), &mut first(&mut found));
    (visited.unwrap(), found)
}

/// The newest version, found in both parts; `None` if the second part reports that it is not
/// complete.
fn in_parts(
    subject: &Subject,
    number: usize,
    (visited, older): &(OlderVersions, Newest),
) -> Option<Newest> {
    let mut found = None;
    let reads = subject.tree.file_statistics().blocks_read;
    let complete = subject
        .tree
        .visit_newer(visited, &key(number), &mut first(&mut found));
    assert_eq!(subject.tree.file_statistics().blocks_read, reads);
    complete.then(|| found.or_else(|| older.clone()))
}

#[test]
fn a_lookup_in_memory_reads_no_block() {
    let mut subject = subject();
    for number in 0..2000 {
        put(&subject, number, "value");
    }
    settle(&subject);
    subject.checkpoint().unwrap();
    subject.open_again();
    put(&subject, 7, "newer");
    let reads = || subject.tree.file_statistics().blocks_read;
    let in_memory = |number: usize| {
        let (mut found, before) = (None, reads());
        let complete = subject
            .tree
            .visit_in_memory(&key(number), &mut first(&mut found))
            .unwrap();
        assert_eq!(reads(), before);
        (complete, found.map(|(_, value)| value))
    };
    assert_eq!(in_memory(7), (true, Some(b"newer".to_vec())));
    // First a node is missing, then an index block, then the page.
    assert_eq!(in_memory(8), (false, None));
    assert!(newest(&subject, 1500).is_some());
    assert_eq!(in_memory(8), (false, None));
    assert!(newest(&subject, 8).is_some());
    assert_eq!(in_memory(8), (true, Some(b"value".to_vec())));
    // The filter excludes most absent keys without a page.
    let absent = |number: usize| [key(number), b"+".to_vec()].concat();
    let complete = (0..2000).filter(|number| {
        let visitor = &mut |_, _, _: StoredValue<'_>| Visit::Continue;
        subject.tree.get(&absent(*number), &SeesAll).unwrap();
        subject
            .tree
            .visit_in_memory(&absent(*number), visitor)
            .unwrap()
    });
    assert!(complete.count() > 1800);
}

#[test]
fn the_newer_part_follows_switches_and_flushes_of_memtables() {
    let subject = subject();
    put(&subject, 1, "a");
    flush(&subject);
    let text = |value: &str| Some(Some((Operation::Put, value.as_bytes().to_vec())));
    let visited = older(&subject, 1);
    assert_eq!(in_parts(&subject, 1, &visited), text("a"));
    put(&subject, 2, "other");
    assert_eq!(in_parts(&subject, 1, &visited), text("a"));
    put(&subject, 1, "b");
    assert_eq!(in_parts(&subject, 1, &visited), text("b"));
    // The memtable is flushed, but it is still in memory.
    flush(&subject);
    assert_eq!(in_parts(&subject, 1, &visited), text("b"));
    put(&subject, 2, "other");
    write(&subject, Operation::Delete, 1, "");
    let deleted = Some(Some((Operation::Delete, Vec::new())));
    assert_eq!(in_parts(&subject, 1, &visited), deleted);
    // The next memtable is flushed, too: its entries are in runs.
    flush(&subject);
    assert_eq!(in_parts(&subject, 1, &visited), None);
    let visited = older(&subject, 1);
    assert_eq!(in_parts(&subject, 1, &visited), deleted);
    put(&subject, 1, "c");
    subject.tree.freeze(|| teak_base::Lsn(0));
    assert_eq!(in_parts(&subject, 1, &visited), text("c"));
    let frozen = older(&subject, 1);
    assert_eq!(in_parts(&subject, 1, &frozen), text("c"));
    settle(&subject);
    assert_eq!(in_parts(&subject, 1, &frozen), text("c"));
    assert_eq!(in_parts(&subject, 1, &visited), text("c"));
}

#[test]
fn both_parts_find_the_newest_version_or_report_that_they_may_not() {
    const KEYS: usize = 40;
    let subject = subject();
    let mut random = Random(3);
    let mut visited: Vec<(usize, (OlderVersions, Newest))> = Vec::new();
    let (mut complete, mut incomplete) = (0, 0);
    for number in 0..20_000 {
        let target = random.below(KEYS);
        match random.below(100) {
            0..2 => flush(&subject),
            2..4 => {
                subject.tree.freeze(|| teak_base::Lsn(0));
            }
            4..14 => visited.push((target, older(&subject, target))),
            14..20 => write(&subject, Operation::Delete, target, ""),
            20..60 => put(&subject, target, &number.to_string()),
            _ => {
                let Some((key, parts)) = visited.get(random.below(visited.len().max(1))) else {
                    continue;
                };
                match in_parts(&subject, *key, parts) {
                    Some(found) => {
                        assert_eq!(live(found), live(newest(&subject, *key)));
                        complete += 1;
                    }
                    None => incomplete += 1,
                }
            }
        }
        if visited.len() > 5 {
            visited.remove(0);
        }
    }
    assert!(
        complete > 1000 && incomplete > 100,
        "{complete}, {incomplete}"
    );
}
