//! Threads, memory and directories for tests.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use teak_bulk_load::{
    BulkLoadResult, Interrupted, MemoryReservation, SortProgress, Sorter, SorterOptions,
    SpillDirectory, Worker, Workers,
};
use teak_disk::Disk;

pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// At most so many threads at the same time.
#[derive(Clone)]
pub struct Threads(pub Arc<AtomicUsize>);

impl Threads {
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self(Arc::new(AtomicUsize::new(max))))
    }
}

impl Workers for Threads {
    fn claim(&self) -> Option<Worker> {
        let less = |idle: usize| idle.checked_sub(1);
        let (relaxed, idle) = (Ordering::SeqCst, Arc::clone(&self.0));
        idle.fetch_update(relaxed, relaxed, less).ok()?;
        Some(Box::new(move |task| {
            std::thread::spawn(move || {
                let deliver = task();
                idle.fetch_add(1, Ordering::SeqCst);
                deliver();
            });
        }))
    }
}

/// Counts reservations that were not returned.
#[derive(Clone, Debug, Default)]
pub struct Budget(pub Arc<AtomicUsize>);

#[derive(Debug)]
struct Reserved {
    bytes: usize,
    count: Arc<AtomicUsize>,
}

impl MemoryReservation for Reserved {
    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Budget {
    pub fn take(&self, bytes: usize) -> Box<dyn MemoryReservation> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::new(Reserved {
            bytes,
            count: Arc::clone(&self.0),
        })
    }

    pub fn reserved(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

pub const DIRECTORY: &str = "/spills";

pub fn directory(disk: &Arc<dyn Disk>) -> SpillDirectory {
    disk.create_directories(Path::new(DIRECTORY)).unwrap();
    SpillDirectory {
        disk: Arc::clone(disk),
        path: DIRECTORY.into(),
        file_prefix: "sort.",
        without_names: false,
        encryption: teak_base::Encryption::default(),
        next: Arc::default(),
    }
}

/// A sort of up to `bytes` of memory with up to `threads` workers.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub bytes: usize,
    pub threads: usize,
}

pub fn options(directory: &SpillDirectory, budget: &Budget, size: Size) -> SorterOptions {
    SorterOptions {
        directory: directory.clone(),
        memory: budget.take(size.bytes),
        workers: Threads::new(size.threads),
    }
}

/// Sorts entries. Returns them with the progress at the end.
pub fn sort(
    options: SorterOptions,
    entries: &Entries,
    interrupted: &Interrupted,
) -> BulkLoadResult<(Entries, SortProgress)> {
    let mut sorter = Sorter::new(options);
    for (key, value) in entries {
        sorter.add(key, value, interrupted)?;
    }
    assert_eq!(sorter.entries(), entries.len() as u64);
    let mut sorted = sorter.finish(interrupted)?;
    let mut found = Vec::new();
    while let Some((key, value)) = sorted.entry() {
        found.push((key.to_vec(), value.to_vec()));
        sorted.advance(interrupted)?;
    }
    Ok((found, sorted.progress()))
}

/// Scattered keys of eight bytes; values that tell equal keys apart.
pub fn scattered(count: u64, modulus: u64) -> Entries {
    let mixed = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % modulus;
    let entry = |n| (mixed(n).to_be_bytes().to_vec(), n.to_be_bytes().to_vec());
    (0..count).map(entry).collect()
}
