//! Prints sizes and costs of runs with pages of several sizes, on the memory disk: bytes before and
//! after compression, microseconds for writing a MiB, for decoding a page (decompressed already),
//! for scanning a MiB that is not cached, and for a look-up of a random key that misses the cache.
//! `cargo bench -p teak-tree --bench pages [-- MIB]`. Times are of this thread's processor time, the
//! minimum of several rounds.

// Benches may panic, and their numbers are small.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss
)]

#[path = "../common/committed.rs"]
#[allow(dead_code)]
mod committed;
mod shapes;

use committed::scatter;
use shapes::Entries;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use teak_base::{Codec, FileId, Operation, WriteId};
use teak_block_file::BlockFile;
use teak_disk::{Disk, MemoryDisk};
use teak_tree::{
    FilterKeys, LookupKey, Page, PageBuilder, PageCache, PageColumns, ReadPattern, Run, RunWriter,
    RunWriterOptions, VersionCursor, Visit,
};

const ROUNDS: usize = 3;
const LOOKUPS: u64 = 500;

/// Microseconds that this thread has run.
fn microseconds_run() -> f64 {
    // The kernel updates the time when the thread is switched.
    std::thread::sleep(Duration::from_nanos(1));
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanoseconds = statistics.split_whitespace().next().unwrap();
    nanoseconds.parse::<f64>().unwrap() / 1e3
}

/// The minimum time of several rounds, in microseconds.
fn measure(mut operation: impl FnMut()) -> f64 {
    let rounds = (0..ROUNDS).map(|_| {
        let start = microseconds_run();
        operation();
        microseconds_run() - start
    });
    rounds.fold(f64::INFINITY, f64::min)
}

fn write(data: &Entries, options: &RunWriterOptions, cache: &PageCache) -> (BlockFile, Arc<Run>) {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let file = BlockFile::create(&disk, Path::new("/bench"), FileId(1), b"").unwrap();
    let mut writer = RunWriter::new(&file, cache, options.clone());
    for (key, value) in &data.entries {
        let id = WriteId(u64::from(options.is_upper) * 300);
        writer.push(key, id, Operation::Put, value).unwrap();
    }
    let finished = writer.finish().unwrap().unwrap();
    file.publish(finished.written, &[]);
    let uncached = Arc::new(PageCache::new(0));
    let run = Arc::new(Run::open(&file, &uncached, finished.description));
    (file, run)
}

/// The raw pages of `page_bytes` of the entries.
fn raw_pages(data: &Entries, page_bytes: usize, id: WriteId, planes: u32) -> Vec<Vec<u8>> {
    let mut builder = PageBuilder::new(planes);
    let mut pages = Vec::new();
    for (key, value) in &data.entries {
        if builder.raw_bytes() + key.len() + value.len() > page_bytes {
            pages.push(Vec::new());
            builder.finish(pages.last_mut().unwrap());
        }
        builder.push(key, id, Operation::Put, value);
    }
    pages
}

fn costs(data: &Entries, options: &RunWriterOptions, label: &str) {
    let cache = PageCache::new(0);
    let mib = data
        .entries
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum::<usize>() as f64
        / f64::from(1 << 20);
    let writing = measure(|| drop(write(data, options, &cache)));
    let (file, run) = write(data, options, &cache);
    let id = WriteId(u64::from(options.is_upper) * 300);
    let pages = raw_pages(data, options.page_bytes, id, options.value_planes);
    let copies = measure(|| pages.iter().for_each(|raw| drop(black_box(raw.clone()))));
    let decoding = measure(|| {
        for raw in &pages {
            black_box(Page::decode(raw.clone()).unwrap());
        }
    });
    let scanning = measure(|| {
        let mut cursor = run.cursor(ReadPattern::Sequential);
        cursor.seek_first().unwrap();
        while cursor.valid() {
            black_box((cursor.key(), cursor.value()));
            cursor.next_version().unwrap();
        }
    });
    let read_before = file.statistics().bytes_read;
    let count = data.entries.len() as u64;
    let looking = measure(|| {
        for number in 0..LOOKUPS {
            let (key, _) = &data.entries[(scatter(number) % count) as usize];
            let visited = run.visit(&LookupKey::new(key), &mut |_, _, value| {
                black_box(value);
                Visit::Stop
            });
            assert_eq!(visited.unwrap(), Visit::Stop);
        }
    });
    let lookups = (LOOKUPS * ROUNDS as u64) as f64;
    let read = (file.statistics().bytes_read - read_before) as f64 / lookups / 1024.0;
    let description = run.description();
    println!(
        "  {label:<12} {:>6} pages {:>9} raw {:>9} stored | {:>6.0} write {:>6.2} decode {:>6.0} scan \
         | {:>6.1} us {:>5.1} KiB look-up",
        description.index.pages(),
        description.raw_bytes,
        description.stored_bytes,
        writing / mib,
        (decoding - copies) / pages.len() as f64,
        scanning / mib,
        looking / LOOKUPS as f64,
        read,
    );
}

fn main() {
    let asked = std::env::args().filter_map(|word| word.parse().ok()).next();
    let bytes: usize = asked.unwrap_or(2) << 20;
    for data in shapes::all(bytes) {
        println!("-- {}, {} entries", data.name, data.entries.len());
        for (form, codec, is_upper) in [("bottom", Codec::Zstd, false), ("upper", Codec::Lz4, true)]
        {
            for (page_kib, min_kib) in [(16, 16), (64, 64), (64, 16)] {
                let options = RunWriterOptions {
                    page_bytes: page_kib << 10,
                    page_bytes_min: min_kib << 10,
                    codec,
                    expected_bytes: bytes as u64,
                    filter_keys: FilterKeys::Whole,
                    is_upper,
                    value_planes: if is_upper { 0 } else { data.value_planes },
                    columns: PageColumns::default(),
                    separate: None,
                };
                let size = match page_kib == min_kib {
                    true => page_kib.to_string(),
                    false => "chosen".to_owned(),
                };
                costs(&data, &options, &format!("{form} {size}"));
            }
        }
    }
}
