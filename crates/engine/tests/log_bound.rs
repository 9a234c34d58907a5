//! The bound of the log: writers wait for a checkpoint, can be interrupted, and
//! commits do not wait.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod common;

use common::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use teak_base::StorageResult;
use teak_disk::{Disk, DiskFile, DiskLock, MemoryDisk};
use teak_engine::{Engine, EngineError, EngineOptions, TableHandle, TransactionHandle, WaitError};

/// A disk whose index files cannot be synced while a gate is closed.
#[derive(Debug, Default)]
struct GatedDisk {
    inner: MemoryDisk,
    closed: Arc<AtomicBool>,
}

#[derive(Debug)]
struct GatedFile {
    inner: Arc<dyn DiskFile>,
    closed: Arc<AtomicBool>,
}

impl GatedDisk {
    fn gated(&self, file: StorageResult<Arc<dyn DiskFile>>) -> StorageResult<Arc<dyn DiskFile>> {
        let inner = file?;
        if inner.path().extension().is_none_or(|it| it != "teak") {
            return Ok(inner);
        }
        let closed = Arc::clone(&self.closed);
        Ok(Arc::new(GatedFile { inner, closed }))
    }
}

impl Disk for GatedDisk {
    fn create(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        self.gated(self.inner.create(path))
    }
    fn open(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        self.gated(self.inner.open(path))
    }
    fn remove(&self, path: &Path) -> StorageResult<()> {
        self.inner.remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> StorageResult<()> {
        self.inner.rename(from, to)
    }
    fn exists(&self, path: &Path) -> StorageResult<bool> {
        self.inner.exists(path)
    }
    fn list(&self, directory: &Path) -> StorageResult<Vec<PathBuf>> {
        self.inner.list(directory)
    }
    fn create_directories(&self, directory: &Path) -> StorageResult<()> {
        self.inner.create_directories(directory)
    }
    fn sync_directory(&self, directory: &Path) -> StorageResult<()> {
        self.inner.sync_directory(directory)
    }
    fn lock(&self, path: &Path) -> StorageResult<DiskLock> {
        self.inner.lock(path)
    }
}

impl DiskFile for GatedFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        self.inner.read_exact_at(buffer, offset)
    }
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> StorageResult<()> {
        self.inner.write_all_at(bytes, offset)
    }
    fn sync(&self) -> StorageResult<()> {
        while self.closed.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        self.inner.sync()
    }
    fn len(&self) -> StorageResult<u64> {
        self.inner.len()
    }
    fn set_len(&self, bytes: u64) -> StorageResult<()> {
        self.inner.set_len(bytes)
    }
    fn reserve(&self, bytes: u64) -> StorageResult<()> {
        self.inner.reserve(bytes)
    }
    fn path(&self) -> &Path {
        self.inner.path()
    }
}

fn small_log() -> EngineOptions {
    let mut options = options();
    options.cache_bytes = 8 << 20;
    options.background_threads = 2;
    options.log_bytes_max = 2 << 20;
    options
}

fn open_with(disk: &Arc<GatedDisk>, options: EngineOptions) -> (Engine, TableHandle) {
    let disk: Arc<dyn Disk> = Arc::clone(disk) as Arc<dyn Disk>;
    let engine = Engine::open(disk, options).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    (engine, table)
}

fn write_rows(engine: &Engine, table: &TableHandle, writer: usize, rows: usize) {
    let value = "v".repeat(400);
    for n in 0..rows {
        commit(engine, |t| {
            insert(t, table, &format!("w{writer} k{n:06}"), &value).unwrap();
        });
    }
}

#[test]
fn several_writers_stay_within_the_bound() {
    let disk = Arc::new(GatedDisk::default());
    let (engine, table) = open_with(&disk, small_log());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (engine, table, done) = (&engine, &table, &done);
        let writers: Vec<_> = (0..4)
            .map(|writer| scope.spawn(move || write_rows(engine, table, writer, 4000)))
            .collect();
        scope.spawn(move || {
            while !done.load(Ordering::SeqCst) {
                let found = engine.statistics();
                assert!(found.log_bytes_used <= found.log_bytes_limit);
                thread::sleep(Duration::from_millis(1));
            }
        });
        let outcomes: Vec<_> = writers.into_iter().map(|w| w.join()).collect();
        done.store(true, Ordering::SeqCst);
        assert!(outcomes.iter().all(Result::is_ok));
    });
    assert_eq!(engine.statistics().log_bytes_limit, 2 << 20);
    assert!(engine.statistics().log_bytes_appended > 8 << 20);
}

#[test]
fn stopped_writers_wait_for_a_checkpoint_and_can_be_interrupted() {
    let disk = Arc::new(GatedDisk::default());
    let mut options = small_log();
    let heard = listening(&mut options);
    let (engine, table) = open_with(&disk, options);
    let mut open = begin(&engine);
    insert(&mut open, &table, "open", "1").unwrap();
    disk.closed.store(true, Ordering::SeqCst);
    thread::scope(|scope| {
        let (engine, table) = (&engine, &table);
        let writer = scope.spawn(move || write_rows(engine, table, 0, 8000));
        let mut interrupted = begin(engine);
        let handle: Arc<TransactionHandle> = Arc::clone(interrupted.handle());
        let victim = scope.spawn(move || {
            let value = "v".repeat(400);
            (0..).find_map(|n| insert(&mut interrupted, table, &format!("v{n:06}"), &value).err())
        });
        while engine.statistics().log_stops == 0 && engine.statistics().log_stop_microseconds == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        handle.interrupt();
        let error = victim.join().unwrap().unwrap();
        let expected = WaitError::Interrupted;
        assert!(matches!(error, EngineError::Wait(found) if found == expected));
        // A running transaction ends while the log is full.
        open.commit().unwrap();
        disk.closed.store(false, Ordering::SeqCst);
        writer.join().unwrap();
    });
    let found = engine.statistics();
    assert!(found.log_stops > 0 && found.log_slowdowns > 0);
    let heard = heard.lock().unwrap();
    let has = |text: &str| heard.iter().any(|message| message.contains(text));
    assert!(has("the log has reached its bound"), "{heard:?}");
    assert!(has("writers continue"), "{heard:?}");
}

#[test]
fn a_writer_of_an_engine_without_threads_runs_the_checkpoint() {
    let disk = Arc::new(GatedDisk::default());
    let mut options = small_log();
    options.background_threads = 0;
    let (engine, table) = open_with(&disk, options);
    write_rows(&engine, &table, 0, 20_000);
    let found = engine.statistics();
    assert!(found.log_bytes_used <= found.log_bytes_limit);
    assert!(found.log_stops > 0 && found.checkpoints > 0);
}
