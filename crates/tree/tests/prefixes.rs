//! Reads of the keys with a prefix, in a tree whose filters have the keys without a suffix.

use crate::common::settled::*;
use crate::common::{Random, Subject};
use std::ops::Bound;
use std::sync::Arc;
use teak_base::bytes::prefix_successor;
use teak_base::{Operation, WriteId};
use teak_disk::MemoryDisk;
use teak_tree::{FilterKeys, KeySuffix, TreeOptions};

/// The keys of the groups with an even number exist.
const GROUPS: u32 = 600;

fn options(filter_keys: FilterKeys) -> TreeOptions {
    TreeOptions {
        filter_keys,
        ..TreeOptions::tiny()
    }
}

fn prefix(group: u32) -> Vec<u8> {
    // Some have a common prefix, and a zero byte ends each, so none is a prefix of another one.
    let text = format!("{:x}\0", group.reverse_bits() >> 16);
    text.into_bytes()
}

/// A key with a suffix of 1 to 3 bytes and the length of the suffix.
fn key(group: u32, row: u32) -> Vec<u8> {
    let mut key = prefix(group);
    let suffix_bytes = 1 + row as usize % 3;
    key.extend(std::iter::repeat_n(row as u8, suffix_bytes));
    key.extend((suffix_bytes as u16).to_be_bytes());
    key
}

/// Rows of the groups in runs of all levels and in the memtable, some of them deleted again.
fn load(subject: &Subject) {
    let mut random = Random(7);
    for number in 0..6000 {
        let group = 2 * random.below(GROUPS as usize / 2) as u32;
        let operation = match random.one_in(5) {
            true => Operation::Delete,
            false => Operation::Put,
        };
        let value = match operation {
            Operation::Put => b"a value of some bytes".as_slice(),
            Operation::Delete => &[],
        };
        let guard = subject.tree.write_guard();
        let key = key(group, random.below(12) as u32);
        guard.insert(WriteId(1), operation, &key, value);
        drop(guard);
        if number % 150 == 100 {
            flush(subject);
        }
    }
    subject.tree.verify(&mut |_| true).unwrap();
}

/// The keys of a group by cursors without a prefix.
fn expected(subject: &Subject, group: u32) -> Vec<Vec<u8>> {
    let (lower, upper) = (prefix(group), prefix_successor(&prefix(group)));
    let mut cursor = subject.tree.cursor(SeesAll);
    cursor.set_limits(Some(&lower), upper.as_deref());
    let mut keys = Vec::new();
    let mut more = cursor.seek(&lower).unwrap();
    while more {
        keys.push(cursor.key().to_vec());
        more = cursor.next().unwrap();
    }
    keys
}

fn with_prefix(subject: &Subject, group: u32, is_forward: bool) -> Vec<Vec<u8>> {
    let mut cursor = subject.tree.cursor(SeesAll);
    cursor.set_prefix(Some(&prefix(group)));
    let mut keys = Vec::new();
    let mut more = match is_forward {
        true => cursor.seek_first().unwrap(),
        false => cursor.seek_last().unwrap(),
    };
    while more {
        keys.push(cursor.key().to_vec());
        more = match is_forward {
            true => cursor.next().unwrap(),
            false => cursor.previous().unwrap(),
        };
    }
    if !is_forward {
        keys.reverse();
    }
    keys
}

fn estimate(subject: &Subject, group: u32) -> u64 {
    let (lower, upper) = (prefix(group), prefix_successor(&prefix(group)).unwrap());
    let (lower, upper) = (Bound::Included(&*lower), Bound::Excluded(&*upper));
    subject.tree.estimate_range(lower, upper, SeesAll).unwrap()
}

#[test]
fn reads_of_a_prefix_find_the_same_keys_as_reads_of_its_range() {
    for filter_keys in [
        FilterKeys::WithoutSuffix(KeySuffix::Counted),
        FilterKeys::Whole,
        FilterKeys::None,
    ] {
        let subject = Subject::create(Arc::new(MemoryDisk::new()), options(filter_keys));
        load(&subject);
        for merged in [false, true] {
            if merged {
                settle(&subject);
            }
            let mut rows = 0;
            for group in 0..GROUPS {
                let expected = expected(&subject, group);
                assert!(group % 2 == 0 || expected.is_empty());
                assert_eq!(with_prefix(&subject, group, true), expected);
                assert_eq!(with_prefix(&subject, group, false), expected);
                let estimated = subject.tree.estimate_prefix(&prefix(group), SeesAll);
                assert_eq!(estimated.unwrap(), estimate(&subject, group));
                rows += expected.len();
            }
            assert_eq!(rows as u64, count(&subject));
        }
    }
}

#[test]
fn a_cursor_changes_its_prefix_and_direction() {
    let keys = FilterKeys::WithoutSuffix(KeySuffix::Counted);
    let subject = Subject::create(Arc::new(MemoryDisk::new()), options(keys));
    load(&subject);
    let mut cursor = subject.tree.cursor(SeesAll);
    let mut turns = 0;
    for group in (0..GROUPS).chain((0..GROUPS).rev()) {
        let expected = expected(&subject, group);
        cursor.set_prefix(Some(&prefix(group)));
        assert!(!cursor.valid() && !cursor.next().unwrap());
        assert_eq!(cursor.seek_first().unwrap(), !expected.is_empty());
        if let [first, second, ..] = expected.as_slice() {
            assert!(cursor.next().unwrap() && cursor.key() == second);
            assert!(cursor.previous().unwrap() && cursor.key() == first);
            assert!(!cursor.previous().unwrap());
            assert!(cursor.next().unwrap() && cursor.key() == first);
            turns += 1;
        }
    }
    assert!(turns > 100);
    // Without the prefix the same cursor returns all rows.
    cursor.set_prefix(None);
    let mut rows = 0;
    let mut more = cursor.seek_first().unwrap();
    while more {
        rows += 1;
        more = cursor.next().unwrap();
    }
    assert_eq!(rows, count(&subject));
}

#[test]
fn filters_exclude_most_absent_prefixes_before_pages_are_read() {
    let keys = FilterKeys::WithoutSuffix(KeySuffix::Counted);
    let subject = Subject::create(Arc::new(MemoryDisk::new()), options(keys));
    load(&subject);
    settle(&subject);
    // Each use of a block reads it.
    subject.cache.set_capacity(0);
    let reads_of = |read: &dyn Fn(u32)| {
        let before = subject.tree.file_statistics().blocks_read;
        (1..GROUPS).step_by(2).for_each(read);
        subject.tree.file_statistics().blocks_read - before
    };
    let absent = u64::from(GROUPS / 2);
    let by_prefix = reads_of(&|group| assert!(with_prefix(&subject, group, true).is_empty()));
    let by_range = reads_of(&|group| assert!(expected(&subject, group).is_empty()));
    // An index block of the leaf's run, and without the prefix a page, too.
    let by_prefix_max = absent + absent / 10;
    assert!(by_prefix <= by_prefix_max, "{by_prefix} of {absent}");
    assert!(by_range > by_prefix + absent / 2, "{by_range}, {by_prefix}");
    let estimated = reads_of(&|group| {
        let rows = subject.tree.estimate_prefix(&prefix(group), SeesAll);
        assert_eq!(rows.unwrap(), 0);
    });
    assert!(estimated <= by_prefix_max, "{estimated} of {absent}");
}
