//! Compares runs with a sorted list of the same entries.

use super::*;
use crate::cache::Priority;
use crate::{FilterKeys, KeySuffix, PageColumns, RangeTombstone, VersionCursor, Visit};
use proptest::prelude::*;
use std::ops::Bound;
use std::path::Path;
use teak_base::{Codec, FileId, Operation, WriteId};
use teak_disk::{Disk, MemoryDisk};

type Entry = (Vec<u8>, u64, u8);

fn write(entries: &[Entry], page_bytes: usize, filter_keys: FilterKeys) -> (BlockFile, Arc<Run>) {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let file = BlockFile::create(&disk, Path::new("/t"), FileId(3), b"").unwrap();
    let cache = Arc::new(PageCache::new(1 << 20));
    let options = RunWriterOptions {
        page_bytes,
        page_bytes_min: page_bytes / 4,
        codec: Codec::Lz4,
        expected_bytes: 0,
        filter_keys,
        is_upper: false,
        value_planes: 0,
        columns: PageColumns::default(),
        separate: None,
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
    file.publish(finished.written, &[]);
    let run = Arc::new(Run::open(&file, &cache, finished.description));
    (file, run)
}

fn shown(cursor: &RunCursor) -> Option<Entry> {
    cursor.valid().then(|| {
        assert_eq!(cursor.key(), cursor.value().to_vec().unwrap());
        let operation = cursor.operation().number();
        (cursor.key().to_vec(), cursor.write_id().0, operation)
    })
}

fn entries_strategy() -> impl Strategy<Value = Vec<Entry>> {
    let key = proptest::collection::vec(0u8..4, 0..4);
    proptest::collection::vec((key, 0u64..9, 1u8..=2), 1..120).prop_map(|mut entries| {
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        entries
    })
}

fn filter_keys() -> impl Strategy<Value = FilterKeys> {
    prop_oneof![
        Just(FilterKeys::None),
        Just(FilterKeys::Whole),
        Just(FilterKeys::WithoutSuffix(KeySuffix::Fixed(1))),
        Just(FilterKeys::WithoutSuffix(KeySuffix::Counted)),
    ]
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
        filter_keys in filter_keys(),
    ) {
        let (_file, run) = write(&entries, page_bytes, filter_keys);
        prop_assert_eq!(run.description().entries(), entries.len() as u64);
        for mode in [ReadPattern::Sequential, ReadPattern::Random] {
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
        for key in &keys {
            // A key that starts with the prefix must have it in filters.
            let mut prefixed = entries.iter().filter(|entry| entry.0.starts_with(key)).peekable();
            let mut cursor = run.cursor(ReadPattern::Random);
            let prefix = KeyPrefix::new(key, filter_keys);
            let is_excluded = !cursor.may_have_prefix(&prefix).unwrap();
            prop_assert!(
                !is_excluded
                    || prefixed.peek().is_none()
                    || prefixed.any(|entry| filter_keys.part(&entry.0) != key.as_slice())
            );
        }
        let all = run.estimate(Bound::Unbounded, Bound::Unbounded, None);
        prop_assert_eq!(all.unwrap(), entries.len() as u64);
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
        page_bytes_min: 100,
        codec: Codec::None,
        expected_bytes: 0,
        filter_keys: FilterKeys::None,
        is_upper: false,
        value_planes: 1,
        columns: PageColumns::default(),
        separate: None,
    };
    let mut writer = RunWriter::new(&file, &cache, options);
    for (key, ..) in &entries {
        writer.push(key, WriteId(0), Operation::Put, key).unwrap();
    }
    let finished = writer.finish().unwrap().unwrap();
    file.publish(finished.written, &[]);
    let run = Arc::new(Run::open(&file, &cache, finished.description));
    let block = run
        .index_block(0, ReadPattern::Random, Priority::Normal)
        .unwrap();
    let address = block.pages()[0].address;
    let raw = disk.open(Path::new("/t")).unwrap();
    raw.write_all_at(&[0xee], address.offset + 60).unwrap();
    let mut cursor = run.cursor(ReadPattern::Random);
    let error = cursor.seek_first().unwrap_err();
    assert!(error.is_corrupt(), "{error}");
    assert!(error.to_string().contains(&address.offset.to_string()));
    assert!(!cursor.valid());
    cursor.seek(&[199]).unwrap();
    assert!(cursor.valid());
}

fn options() -> RunWriterOptions {
    RunWriterOptions {
        page_bytes: 200,
        page_bytes_min: 200,
        codec: Codec::None,
        expected_bytes: 0,
        filter_keys: FilterKeys::Whole,
        is_upper: false,
        value_planes: 0,
        columns: PageColumns::default(),
        separate: None,
    }
}

fn write_into(
    file: &BlockFile,
    cache: &Arc<PageCache>,
    keys: std::ops::Range<u8>,
    value: &[u8],
) -> Arc<Run> {
    let mut writer = RunWriter::new(file, cache, options());
    for key in keys {
        writer
            .push(&[key], WriteId(0), Operation::Put, value)
            .unwrap();
    }
    let finished = writer.finish().unwrap().unwrap();
    file.publish(finished.written, &[]);
    Arc::new(Run::open(file, cache, finished.description))
}

fn value_of(run: &Run, key: u8) -> Option<Vec<u8>> {
    let mut found = None;
    run.visit(&LookupKey::new(&[key]), &mut |_, _, value| {
        found = Some(value.to_vec().unwrap());
        Visit::Stop
    })
    .unwrap();
    found
}

#[test]
fn blocks_written_to_a_used_place_are_not_hidden_by_the_cache() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let file = BlockFile::create(&disk, Path::new("/t"), FileId(3), b"").unwrap();
    let cache = Arc::new(PageCache::new(1 << 20));
    let old = write_into(&file, &cache, 0..100, b"old");
    let old_addresses = old.addresses().unwrap();
    assert!((0..100).all(|key| value_of(&old, key).unwrap() == b"old"));
    drop(old);
    // The run was never part of a checkpoint, so its space is free immediately.
    file.publish(Vec::new(), &old_addresses);
    let new = write_into(&file, &cache, 0..100, b"new");
    assert_eq!(new.addresses().unwrap(), old_addresses);
    assert!((0..100).all(|key| value_of(&new, key).unwrap() == b"new"));
}

#[test]
fn sequential_reads_leave_the_cache_alone() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let file = BlockFile::create(&disk, Path::new("/t"), FileId(3), b"").unwrap();
    let cache = Arc::new(PageCache::new(1 << 20));
    let run = write_into(&file, &cache, 0..100, b"value");
    let mut cursor = run.cursor(ReadPattern::Sequential);
    cursor.seek_first().unwrap();
    while cursor.valid() {
        cursor.next_version().unwrap();
    }
    assert_eq!(cache.statistics().blocks, 0);
    let mut cursor = run.cursor(ReadPattern::Random);
    cursor.seek_first().unwrap();
    // The index block and the page.
    assert_eq!(cache.statistics().blocks, 2);
}

#[test]
fn filters_keep_absent_keys_from_reading_pages() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let file = BlockFile::create(&disk, Path::new("/t"), FileId(3), b"").unwrap();
    let cache = Arc::new(PageCache::new(1 << 20));
    let mut writer = RunWriter::new(&file, &cache, options());
    for number in 0..500u32 {
        let key = (2 * number).to_be_bytes();
        writer
            .push(&key, WriteId(0), Operation::Put, b"value")
            .unwrap();
    }
    let finished = writer.finish().unwrap().unwrap();
    file.publish(finished.written, &[]);
    let run = Run::open(&file, &cache, finished.description);
    for number in 0..499u32 {
        let key = (2 * number + 1).to_be_bytes();
        let key = LookupKey::new(&key);
        let end = run.visit(&key, &mut |_, _, _| Visit::Stop).unwrap();
        assert_eq!(end, Visit::Continue);
    }
    let statistics = cache.statistics();
    assert_eq!(statistics.filter_checks, 499);
    assert!(statistics.filter_negatives > 480);
    assert!(file.statistics().blocks_read < 20);
    let filters = cache.blocks_in_memory().file_filters(FileId(3));
    assert_eq!(filters.checks.checks, 499);
    assert_eq!(filters.checks.negatives, statistics.filter_negatives);
    let index = &run.description().index;
    let blocks = (0..index.len()).map(|block| run.stored_index_block(block).unwrap());
    let bytes: usize = blocks.map(|block| block.filter_bytes()).sum();
    assert_eq!((filters.bytes, filters.entries), (bytes as u64, 500));
}

#[test]
fn concurrent_requests_read_a_block_once() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let file = BlockFile::create(&disk, Path::new("/t"), FileId(3), b"").unwrap();
    let cache = Arc::new(PageCache::new(1 << 20));
    let run = write_into(&file, &cache, 0..100, b"value");
    let index = &run.description().index;
    let blocks = index.pages() + index.len() as u64;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!((0..100).all(|key| value_of(&run, key).is_some())));
        }
    });
    assert_eq!(file.statistics().blocks_read, blocks);
}

#[test]
fn a_cut_cache_keeps_within_its_capacity() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let file = BlockFile::create(&disk, Path::new("/t"), FileId(3), b"").unwrap();
    let cache = Arc::new(PageCache::new(1 << 20));
    let run = write_into(&file, &cache, 0..100, b"value");
    assert!((0..100).all(|key| value_of(&run, key).is_some()));
    let held = cache.statistics().bytes;
    cache.set_capacity(held / 2);
    let statistics = cache.statistics();
    assert!(
        statistics.bytes <= statistics.capacity_bytes,
        "{statistics:?}"
    );
    assert!((0..100).all(|key| value_of(&run, key).is_some()));
    assert!(cache.statistics().bytes <= statistics.capacity_bytes);
}

#[test]
fn the_first_page_is_divided_when_small_pages_are_chosen() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let file = BlockFile::create(&disk, Path::new("/t"), FileId(3), b"").unwrap();
    let cache = Arc::new(PageCache::new(1 << 20));
    let options = RunWriterOptions {
        page_bytes: 1 << 16,
        page_bytes_min: 1 << 14,
        separate: Some(SeparateOptions {
            bytes_min: 5000,
            codec: Codec::None,
        }),
        ..options()
    };
    // With versions of a key on several pages, and separate values on some.
    let entry = |number: u32| {
        let key = (number / 40).to_be_bytes();
        let bytes = if number % 150 == 7 { 6000 } else { 300 };
        let id = WriteId(u64::from(20_000 - number));
        (key, id, vec![number.to_le_bytes()[0]; bytes])
    };
    let mut writer = RunWriter::new(&file, &cache, options);
    // The second run is smaller than a page.
    for (first, end) in [(0, 2000), (2000, 2040)] {
        for (key, id, value) in (first..end).map(entry) {
            writer.push(&key, id, Operation::Put, &value).unwrap();
        }
        let finished = writer.finish().unwrap().unwrap();
        file.publish(finished.written, &[]);
        let run = Arc::new(Run::open(&file, &cache, finished.description));
        let index = &run.description().index;
        for number in 0..index.len() {
            let block = run.stored_index_block(number).unwrap();
            let sizes = block.pages().iter().map(|page| page.raw_bytes);
            assert!(sizes.max().unwrap() <= 1 << 14);
        }
        assert_eq!(index.pages() > 1, first == 0);
        let mut cursor = run.cursor(ReadPattern::Sequential);
        cursor.seek_first().unwrap();
        for (key, id, value) in (first..end).map(entry) {
            assert_eq!((cursor.key(), cursor.write_id()), (&key[..], id));
            assert_eq!(cursor.value().to_vec().unwrap(), value);
            cursor.next_version().unwrap();
        }
        assert!(!cursor.valid());
    }
}

/// A run whose keys are two bytes and a suffix of two bytes: three entries for each even number.
fn write_prefixed(file: &BlockFile, cache: &Arc<PageCache>, filter_keys: FilterKeys) -> Arc<Run> {
    let options = RunWriterOptions {
        filter_keys,
        ..options()
    };
    let mut writer = RunWriter::new(file, cache, options);
    for number in 0..500u16 {
        for suffix in 0..3u16 {
            let key = [(2 * number).to_be_bytes(), suffix.to_be_bytes()].concat();
            writer
                .push(&key, WriteId(0), Operation::Put, b"value")
                .unwrap();
        }
    }
    let finished = writer.finish().unwrap().unwrap();
    file.publish(finished.written, &[]);
    Arc::new(Run::open(file, cache, finished.description))
}

#[test]
fn filters_exclude_prefixes_without_reading_pages() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let file = BlockFile::create(&disk, Path::new("/t"), FileId(3), b"").unwrap();
    let cache = Arc::new(PageCache::new(1 << 20));
    let filter_keys = FilterKeys::WithoutSuffix(KeySuffix::Fixed(2));
    let run = write_prefixed(&file, &cache, filter_keys);
    let blocks = run.description().index.len();
    assert!(blocks > 10, "{blocks} index blocks");
    let may_have = |number: u16, keys| {
        let prefix = KeyPrefix::new(&number.to_be_bytes(), keys);
        let mut cursor = run.cursor(ReadPattern::Random);
        cursor.may_have_prefix(&prefix).unwrap()
    };
    let present = (0..500).filter(|number| may_have(2 * number, filter_keys));
    assert_eq!(present.count(), 500);
    let absent = (0..499).filter(|number| may_have(2 * number + 1, filter_keys));
    assert!(absent.count() < 20);
    // Only index blocks were read.
    assert_eq!(file.statistics().blocks_read, blocks as u64);
    // A filter of other parts of the keys cannot exclude a prefix.
    let other = FilterKeys::WithoutSuffix(KeySuffix::Fixed(1));
    assert!((0..499).all(|number| may_have(2 * number + 1, other)));
    // The range of the run excludes others.
    assert!(!may_have(999, other));
}

#[test]
fn a_lookup_reads_one_index_block_and_one_page() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let file = BlockFile::create(&disk, Path::new("/t"), FileId(3), b"").unwrap();
    let cache = Arc::new(PageCache::new(0));
    let run = write_prefixed(&file, &cache, FilterKeys::Whole);
    for number in 0..500u16 {
        let before = file.statistics().blocks_read;
        let key = [(2 * number).to_be_bytes(), [0, 1]].concat();
        let mut found = 0;
        run.visit(&LookupKey::new(&key), &mut |_, _, _| {
            found += 1;
            Visit::Stop
        })
        .unwrap();
        assert_eq!(found, 1);
        assert_eq!(file.statistics().blocks_read - before, 2);
    }
}

#[test]
fn bounds_of_long_keys_are_a_small_part_of_the_run() {
    // The bound between two of these keys is the whole key.
    let key = |number: u32| [vec![b'x'; 3000], number.to_be_bytes().to_vec()].concat();
    let entries: Vec<Entry> = (0..3000).map(|number| (key(number), 0, 1)).collect();
    let (_file, run) = write(&entries, 64 << 10, FilterKeys::Whole);
    let description = run.description();
    assert!(description.index.len() > 2);
    let mut encoded = Vec::new();
    description.index.encode(&mut encoded);
    assert!(
        (encoded.len() as u64) < description.raw_bytes / 500,
        "{} of {} bytes",
        encoded.len(),
        description.raw_bytes
    );
    for number in [0, 1, 1499, 2999] {
        let mut found = 0;
        run.visit(&LookupKey::new(&key(number)), &mut |_, _, _| {
            found += 1;
            Visit::Continue
        })
        .unwrap();
        assert_eq!(found, 1);
    }
}
