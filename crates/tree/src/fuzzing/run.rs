//! Fuzz target of runs: a run is written in the codec that the input selects, and read by scans in
//! both directions and by lookups.

use crate::filter_keys::KeyPrefix;
use crate::{
    FilterKeys, KeySuffix, LookupKey, PageCache, PageColumns, ReadPattern, Run, RunWriter,
    RunWriterOptions, VersionCursor, Visit,
};
use std::path::Path;
use std::sync::Arc;
use teak_base::fuzzing::Input;
use teak_base::{Codec, FileId, Operation, StorageResult, WriteId};
use teak_block_file::BlockFile;
use teak_disk::{Disk, MemoryDisk};

/// All kinds of filters.
pub(super) const FILTER_KEYS: [FilterKeys; 4] = [
    FilterKeys::None,
    FilterKeys::Whole,
    FilterKeys::WithoutSuffix(KeySuffix::Fixed(1)),
    FilterKeys::WithoutSuffix(KeySuffix::Counted),
];

type Entry = (Vec<u8>, WriteId, Operation, Vec<u8>);

/// The input contains options of the run, then its entries (see `entry`).
pub(super) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let page_bytes = usize::from(input.u8()) * 8;
    let codec = input.one_of(&Codec::ALL);
    let options = RunWriterOptions {
        // LZMA has a high cost per page.
        page_bytes: match codec {
            Codec::Lzma => page_bytes + 4096,
            _ => page_bytes,
        },
        page_bytes_min: page_bytes / 4,
        codec,
        expected_bytes: u64::from(input.u16()),
        filter_keys: input.one_of(&FILTER_KEYS),
        is_upper: input.below(2) == 1,
        value_planes: u32::from(input.below(5)),
        columns: PageColumns::default(),
        separate: None,
    };
    let mut entries: Vec<Entry> = Vec::new();
    while !input.is_empty() && entries.len() < 500 {
        let before = entries.last().map_or(&[][..], |entry| &entry.0);
        let mut entry = entry(&mut input, before);
        // No older version may follow a settled entry of a key.
        if let Some((key, id, _, _)) = entries.last()
            && *key == entry.0
            && id.is_settled()
        {
            entry.0.push(0);
        }
        entries.push(entry);
    }
    check(&options, &entries).expect("every run fits on the memory disk");
}

/// An entry whose key is the previous key with its last bytes increased, or the
/// same key.
fn entry(input: &mut Input<'_>, before: &[u8]) -> Entry {
    let kept = before.len() - usize::from(input.below(3)).min(before.len());
    let (front, end) = before.split_at(kept);
    let mut key = front.to_vec();
    match end.first() {
        Some(byte) if *byte < u8::MAX => {
            let step = 1 + input.below(u8::MAX - *byte);
            key.push(byte + step);
        }
        Some(_) => key.extend_from_slice(end),
        None => {}
    }
    let more = usize::from(input.below(4));
    key.extend_from_slice(input.bytes(more));
    let operation = input.one_of(&Operation::ALL);
    let id = match input.below(3) {
        0 => 0,
        1 => u64::from(input.u8()),
        _ => input.u64(),
    };
    (key, WriteId(id), operation, input.short_bytes().to_vec())
}

fn check(options: &RunWriterOptions, entries: &[Entry]) -> StorageResult<()> {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let file = BlockFile::create(&disk, Path::new("/fuzz.teak"), FileId(1), &[])?;
    let cache = Arc::new(PageCache::new(1 << 20));
    let mut writer = RunWriter::new(&file, &cache, options.clone());
    for (key, id, operation, value) in entries {
        writer.push(key, *id, *operation, value)?;
    }
    let Some(finished) = writer.finish()? else {
        assert!(entries.is_empty());
        return Ok(());
    };
    file.publish(finished.written, &[]);
    let run = Arc::new(Run::open(&file, &cache, finished.description));
    for mode in [ReadPattern::Sequential, ReadPattern::Random] {
        let mut cursor = run.cursor(mode);
        cursor.seek_first()?;
        for (key, id, operation, value) in entries {
            assert!(cursor.valid() && cursor.key() == key && cursor.value().to_vec()? == *value);
            assert_eq!((cursor.write_id(), cursor.operation()), (*id, *operation));
            cursor.next_version()?;
        }
        assert!(!cursor.valid());
    }
    let mut keys: Vec<&[u8]> = entries.iter().map(|entry| entry.0.as_slice()).collect();
    keys.dedup();
    let mut cursor = run.cursor(ReadPattern::Random);
    cursor.seek_last()?;
    for key in keys.iter().rev() {
        assert!(cursor.valid() && cursor.key() == *key);
        cursor.previous_key()?;
    }
    assert!(!cursor.valid());
    for key in keys {
        let filter_keys = options.filter_keys;
        let part = filter_keys.part(key);
        let mut prefixed = entries.iter().filter(|entry| entry.0.starts_with(part));
        if prefixed.all(|entry| filter_keys.part(&entry.0) == part) {
            let prefix = KeyPrefix::new(part, filter_keys);
            let mut cursor = run.cursor(ReadPattern::Random);
            assert!(
                cursor.may_have_prefix(&prefix)?,
                "the prefix of a key is found"
            );
        }
        let versions = entries.iter().filter(|entry| entry.0 == key);
        let mut versions = versions.map(|(_, id, operation, value)| (*id, *operation, value));
        run.visit(&LookupKey::new(key), &mut |id, operation, value| {
            let expected = versions.next().expect("no version too many");
            let found = value.to_vec().expect("no disk fails");
            assert!(expected == (id, operation, &found));
            Visit::Continue
        })?;
        assert!(versions.next().is_none(), "no version too few");
    }
    Ok(())
}

pub(super) fn run_seeds() -> Vec<Vec<u8>> {
    (0..12u8)
        .map(|number| {
            let mut seed = vec![12 + number, number % 6, 0, 2, number % 2, number % 5];
            for row in 0..40u8 {
                // The last byte increased, or more bytes; mostly a put.
                seed.extend([u8::from(row % 3 == 0), 2, 1, row, row % 5 / 4, row % 2, row]);
                seed.push(6);
                seed.extend([row; 6]);
            }
            seed
        })
        .collect()
}
