//! Runs against a sorted list of the same entries.

use super::*;
use crate::{RangeTombstone, VersionCursor};
use proptest::prelude::*;
use std::path::Path;
use teak_base::{Codec, FileId};
use teak_disk::{Disk, MemoryDisk};

type Entry = (Vec<u8>, u64, u8);

fn write(entries: &[Entry], page_bytes: usize) -> (BlockFile, Arc<Run>) {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let file = BlockFile::create(&disk, Path::new("/t"), FileId(3), b"").unwrap();
    let cache = Arc::new(PageCache::new(1 << 20));
    let options = RunWriterOptions {
        page_bytes,
        codec: Codec::Lz4,
        schema_version: 0,
        expected_bytes: 0,
        filters: true,
        value_planes: 0,
    };
    let mut writer = RunWriter::new(&file, &cache, options);
    for (key, id, operation) in entries {
        let operation = Operation::from_number(*operation).unwrap();
        writer.push(key, WriteId(*id), operation, key).unwrap();
    }
    writer.add_range_tombstone(RangeTombstone {
        start: vec![1],
        end: vec![2],
        write_id: WriteId(77),
    });
    let finished = writer.finish().unwrap().unwrap();
    file.publish(finished.written.into_iter().collect(), &[]);
    let run = Arc::new(Run::open(&file, &cache, finished.description));
    (file, run)
}

fn shown(cursor: &RunCursor) -> Option<Entry> {
    cursor.valid().then(|| {
        assert_eq!(cursor.key(), cursor.value());
        let operation = cursor.operation().number();
        (cursor.key().to_vec(), cursor.write_id().0, operation)
    })
}

fn entries_strategy() -> impl Strategy<Value = Vec<Entry>> {
    let key = proptest::collection::vec(0u8..4, 0..4);
    proptest::collection::vec((key, 0u64..9, 1u8..4), 1..120).prop_map(|mut entries| {
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        entries
    })
}

/// The newest version of the last key before `key`.
fn before(entries: &[Entry], key: &[u8]) -> Option<Entry> {
    let last = entries.iter().rfind(|entry| entry.0.as_slice() < key)?;
    entries.iter().find(|entry| entry.0 == last.0).cloned()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn cursors_and_lookups_agree_with_a_list(
        entries in entries_strategy(),
        page_bytes in prop_oneof![Just(1usize), Just(60), Just(4000)],
        keys in proptest::collection::vec(proptest::collection::vec(0u8..5, 0..5), 1..20),
    ) {
        let (_file, run) = write(&entries, page_bytes);
        prop_assert_eq!(run.description().entries(), entries.len() as u64);
        for mode in [ReadMode::Sequential, ReadMode::Cached] {
            let mut cursor = run.cursor(mode);
            cursor.seek_first().unwrap();
            for entry in &entries {
                prop_assert_eq!(shown(&cursor), Some(entry.clone()));
                cursor.next_version().unwrap();
            }
            prop_assert!(!cursor.valid());
            cursor.seek_last().unwrap();
            let mut expected = before(&entries, &[9]);
            while let Some(entry) = expected {
                prop_assert_eq!(shown(&cursor), Some(entry.clone()));
                cursor.previous_key().unwrap();
                expected = before(&entries, &entry.0);
            }
            prop_assert!(!cursor.valid());
            for key in &keys {
                cursor.seek(key).unwrap();
                let expected = entries.iter().find(|entry| &entry.0 >= key);
                prop_assert_eq!(shown(&cursor), expected.cloned());
                cursor.seek_before(key).unwrap();
                prop_assert_eq!(shown(&cursor), before(&entries, key));
            }
        }
        for key in keys.iter().chain(entries.iter().map(|entry| &entry.0)) {
            let mut found = Vec::new();
            run.visit(&LookupKey::new(key), &mut |id, operation, _| {
                found.push((key.clone(), id.0, operation.number()));
                Visit::Continue
            }).unwrap();
            let mut expected: Vec<Entry> =
                entries.iter().filter(|entry| &entry.0 == key).cloned().collect();
            if key.as_slice() >= [1].as_slice() && key.as_slice() < [2].as_slice() {
                expected.push((key.clone(), 77, 2));
            }
            prop_assert_eq!(found, expected);
        }
        let all = run.estimate(Bound::Unbounded, Bound::Unbounded).unwrap();
        prop_assert_eq!(all, entries.len() as u64);
    }
}

#[test]
fn a_damaged_page_is_an_error_with_its_place() {
    let entries: Vec<Entry> = (0..200u8).map(|n| (vec![n], 0, 1)).collect();
    let disk = Arc::new(MemoryDisk::new());
    let shared: Arc<dyn Disk> = disk.clone();
    let file = BlockFile::create(&shared, Path::new("/t"), FileId(3), b"").unwrap();
    let cache = Arc::new(PageCache::new(1 << 20));
    let options = RunWriterOptions {
        page_bytes: 100,
        codec: Codec::None,
        schema_version: 0,
        expected_bytes: 0,
        filters: false,
        value_planes: 1,
    };
    let mut writer = RunWriter::new(&file, &cache, options);
    for (key, ..) in &entries {
        writer.push(key, WriteId(0), Operation::Put, key).unwrap();
    }
    let finished = writer.finish().unwrap().unwrap();
    file.publish(finished.written.into_iter().collect(), &[]);
    let run = Arc::new(Run::open(&file, &cache, finished.description));
    let address = run.addresses().unwrap()[0];
    let raw = disk.open(Path::new("/t")).unwrap();
    raw.write_all_at(&[0xee], address.offset + 60).unwrap();
    let mut cursor = run.cursor(ReadMode::Cached);
    let error = cursor.seek_first().unwrap_err();
    assert!(error.is_corrupt(), "{error}");
    assert!(error.to_string().contains(&address.offset.to_string()));
    assert!(!cursor.valid());
    cursor.seek(&[199]).unwrap();
    assert!(cursor.valid());
}
