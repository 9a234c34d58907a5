//! Prints the nanoseconds of operations on one run of 8 MiB on the memory disk, with index and
//! pages in the cache except for the bench named `uncached`: `cargo bench -p teak-tree --bench
//! run`. Keys have 8 bytes, or 20 bytes with a common prefix of 10; entries have 30 or 200 bytes.

// Benches may panic, and run where usize has 64 bits.
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod common;

use common::bench;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use teak_base::{Codec, FileId, Operation, StorageResult, WriteId};
use teak_block_file::BlockFile;
use teak_disk::{Disk, MemoryDisk};
use teak_tree::{
    FilterKeys, LookupKey, PageCache, PageColumns, ReadPattern, Run, RunWriter, RunWriterOptions,
    VersionCursor, Visit,
};

const RUN_BYTES: usize = 8 << 20;
const PAGE_BYTES: usize = 64 * 1024;
const CACHE_BYTES: u64 = 64 << 20;

/// The entries: the sizes of keys and entries, and whether all are settled.
#[derive(Clone, Copy)]
struct Shape {
    key_bytes: usize,
    entry_bytes: usize,
    settled: bool,
}

impl Shape {
    fn entries(self) -> u64 {
        (RUN_BYTES / self.entry_bytes) as u64
    }

    /// Even numbers are keys of the run; odd numbers are absent keys between them.
    fn key(self, number: u64) -> Vec<u8> {
        let mut key = vec![b'k'; self.key_bytes];
        let at = if self.key_bytes > 8 { 10 } else { 0 };
        key[at..at + 8].copy_from_slice(&number.wrapping_mul(0x1_0001).to_be_bytes());
        key
    }

    /// Half of a value is the same in all values.
    fn value(self, number: u64) -> Vec<u8> {
        let mut value = vec![b'v'; self.entry_bytes - self.key_bytes];
        for (at, chunk) in value.chunks_mut(8).step_by(2).enumerate() {
            let bits = scattered(number * 100 + at as u64, u64::MAX).to_be_bytes();
            chunk.copy_from_slice(&bits[..chunk.len()]);
        }
        value
    }

    fn keys(self) -> Vec<Vec<u8>> {
        (0..self.entries())
            .map(|number| self.key(2 * number))
            .collect()
    }
}

/// A number below `count`, scattered.
fn scattered(number: u64, count: u64) -> u64 {
    let bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (bits ^ (bits >> 29)) % count
}

struct Place {
    file: BlockFile,
    cache: Arc<PageCache>,
}

impl Place {
    fn new() -> Self {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let Ok(file) = BlockFile::create(&disk, Path::new("/bench"), FileId(1), b"") else {
            unreachable!("the memory disk does not fail");
        };
        Self {
            file,
            cache: Arc::new(PageCache::new(CACHE_BYTES)),
        }
    }
}

/// A run being written.
struct Writing<'a> {
    writer: RunWriter<'a>,
    values: Vec<Vec<u8>>,
    pushed: u64,
}

impl Shape {
    fn start(self, place: &Place, codec: Codec, filter_keys: FilterKeys) -> Writing<'_> {
        let options = RunWriterOptions {
            page_bytes: PAGE_BYTES,
            page_bytes_min: PAGE_BYTES,
            codec,
            expected_bytes: RUN_BYTES as u64,
            filter_keys,
            is_upper: false,
            value_planes: 0,
            columns: PageColumns::default(),
            separate: None,
        };
        Writing {
            writer: RunWriter::new(&place.file, &place.cache, options),
            values: (0..997).map(|number| self.value(number)).collect(),
            pushed: 0,
        }
    }
}

impl Writing<'_> {
    fn push(&mut self, shape: Shape, key: &[u8]) -> StorageResult<()> {
        self.pushed += 1;
        let id = match shape.settled {
            true => WriteId::SETTLED,
            false => WriteId(self.pushed.div_ceil(100)),
        };
        let value = &self.values[self.pushed as usize % self.values.len()];
        self.writer.push(key, id, Operation::Put, value)
    }
}

fn write(place: &Place, shape: Shape, keys: &[Vec<u8>], filter_keys: FilterKeys) -> Arc<Run> {
    let mut writing = shape.start(place, Codec::Lz4, filter_keys);
    for key in keys {
        assert!(writing.push(shape, key).is_ok());
    }
    let Ok(Some(finished)) = writing.writer.finish() else {
        unreachable!("the memory disk does not fail");
    };
    place.file.publish(finished.written, &[]);
    let run = Run::open(&place.file, &place.cache, finished.description);
    Arc::new(run)
}

fn writes(shape: Shape, keys: &[Vec<u8>]) {
    for (name, codec, filter_keys) in [
        ("write, no codec, no filters", Codec::None, FilterKeys::None),
        ("write, no codec, filters", Codec::None, FilterKeys::Whole),
        ("write, lz4, filters", Codec::Lz4, FilterKeys::Whole),
    ] {
        let place = Place::new();
        let start = || shape.start(&place, codec, filter_keys);
        bench(name, keys.len() as u64, start, |writing, number| {
            let key = &keys[number as usize];
            assert!(writing.push(shape, key).is_ok());
        });
    }
}

fn reads(shape: Shape, keys: &[Vec<u8>]) {
    let place = Place::new();
    let run = write(&place, shape, keys, FilterKeys::Whole);
    let bare = write(&place, shape, keys, FilterKeys::None);
    let count = keys.len() as u64;
    println!(
        "stored: {} bytes, {} pages",
        run.description().stored_bytes,
        run.description().index.pages()
    );
    let uncached = Arc::new(PageCache::new(0));
    let cold = Run::open(&place.file, &uncached, run.description().clone());
    let cold = Arc::new(cold);
    let scan = |run: &Arc<Run>, mode| {
        let mut cursor = run.cursor(mode);
        assert!(cursor.seek_first().is_ok());
        cursor
    };
    for (name, run, mode) in [
        ("cursor forward, uncached", &cold, ReadPattern::Sequential),
        ("cursor forward", &run, ReadPattern::Random),
    ] {
        let start = || scan(run, mode);
        bench(name, count, start, |cursor, _| {
            black_box((cursor.key(), cursor.value(), cursor.write_id()));
            assert!(cursor.next_version().is_ok());
        });
    }
    let last = || {
        let mut cursor = run.cursor(ReadPattern::Random);
        assert!(cursor.seek_last().is_ok());
        cursor
    };
    bench("cursor backward", count, last, |cursor, _| {
        black_box((cursor.key(), cursor.value(), cursor.write_id()));
        assert!(cursor.previous_key().is_ok());
    });
    let present: Vec<Vec<u8>> = (0..count)
        .map(|number| shape.key(2 * scattered(number, count)))
        .collect();
    let absent: Vec<Vec<u8>> = (0..count)
        .map(|number| shape.key(2 * scattered(number, count) + 1))
        .collect();
    let key_of = |keys: &[Vec<u8>], number: u64| keys[number as usize].clone();
    bench(
        "(making a key)",
        count,
        || (),
        |(), number| {
            black_box(key_of(&present, number));
        },
    );
    bench(
        "hash",
        count,
        || (),
        |(), number| {
            black_box(LookupKey::new(&key_of(&present, number)));
        },
    );
    let first = || scan(&run, ReadPattern::Random);
    bench("cursor seek", count, first, |cursor, number| {
        assert!(cursor.seek(&key_of(&present, number)).is_ok());
    });
    for (name, run, keys) in [
        ("visit, present", &run, &present),
        ("visit, absent", &run, &absent),
        ("visit, absent, no filters", &bare, &absent),
    ] {
        bench(
            name,
            count,
            || (),
            |(), number| {
                let key = key_of(keys, number);
                let visited = run.visit(&LookupKey::new(&key), &mut |_, _, value| {
                    black_box(value);
                    Visit::Stop
                });
                assert!(visited.is_ok());
            },
        );
    }
}

fn main() {
    for (key_bytes, entry_bytes, settled) in [
        (8, 30, true),
        (8, 30, false),
        (20, 30, true),
        (20, 200, false),
    ] {
        let state = if settled { "settled" } else { "unsettled" };
        println!("-- key {key_bytes}, entry {entry_bytes} bytes, {state}");
        let shape = Shape {
            key_bytes,
            entry_bytes,
            settled,
        };
        let keys = shape.keys();
        writes(shape, &keys);
        reads(shape, &keys);
    }
}
