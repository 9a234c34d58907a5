//! Group commit of several threads, and the errors of waiting threads when the
//! disk fails.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod common;

use common::*;
use parking_lot::{Condvar, Mutex};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use teak_base::{Lsn, StorageError, StorageResult};
use teak_disk::{Disk, DiskFile};

/// A disk whose syncs can be blocked and whose writes or syncs can fail.
#[derive(Debug, Default)]
struct Gate {
    closed: Mutex<bool>,
    /// Whether only the first sync is blocked.
    first_only: AtomicBool,
    held: AtomicBool,
    changed: Condvar,
    /// Syncs that reached the gate.
    arrived: AtomicU64,
    /// Whether syncs take some time, which differs from sync to sync.
    slow: AtomicBool,
    /// Slow syncs in progress.
    in_progress: AtomicU64,
    /// Number of slow syncs that ran concurrently with another one.
    concurrent: AtomicU64,
    fail_syncs: AtomicBool,
    fail_writes: AtomicBool,
}

impl Gate {
    fn set(&self, closed: bool) {
        *self.closed.lock() = closed;
        self.changed.notify_all();
    }

    fn hold_first(&self) {
        self.first_only.store(true, Ordering::SeqCst);
        self.set(true);
    }

    fn pass(&self) {
        let mut closed = self.closed.lock();
        self.arrived.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_all();
        if self.first_only.load(Ordering::SeqCst) && self.held.swap(true, Ordering::SeqCst) {
            return;
        }
        while *closed {
            self.changed.wait(&mut closed);
        }
    }

    fn wait_for_arrivals(&self, count: u64) {
        let mut closed = self.closed.lock();
        while self.arrived.load(Ordering::SeqCst) < count {
            self.changed.wait(&mut closed);
        }
    }
}

#[derive(Debug)]
struct GatedDisk {
    inner: Arc<dyn Disk>,
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct GatedFile {
    inner: Arc<dyn DiskFile>,
    gate: Arc<Gate>,
}

impl GatedDisk {
    fn file(&self, inner: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(GatedFile {
            inner,
            gate: Arc::clone(&self.gate),
        })
    }
}

impl Disk for GatedDisk {
    fn create(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        Ok(self.file(self.inner.create(path)?))
    }
    fn open(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        Ok(self.file(self.inner.open(path)?))
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
    fn lock(&self, path: &Path) -> StorageResult<teak_disk::DiskLock> {
        self.inner.lock(path)
    }
}

impl DiskFile for GatedFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        self.inner.read_exact_at(buffer, offset)
    }
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> StorageResult<()> {
        if self.gate.fail_writes.load(Ordering::SeqCst) {
            return Err(StorageError::NoSpace {
                path: self.path().to_path_buf(),
            });
        }
        self.inner.write_all_at(bytes, offset)
    }
    fn sync(&self) -> StorageResult<()> {
        self.gate.pass();
        if self.gate.slow.load(Ordering::SeqCst) {
            let others = self.gate.in_progress.fetch_add(1, Ordering::SeqCst);
            let many = self.gate.arrived.load(Ordering::SeqCst);
            thread::sleep(Duration::from_micros(many * 7919 % 200));
            let outcome = self.inner.sync();
            self.gate.in_progress.fetch_sub(1, Ordering::SeqCst);
            self.gate.concurrent.fetch_add(others, Ordering::SeqCst);
            return outcome;
        }
        if self.gate.fail_syncs.load(Ordering::SeqCst) {
            let refused = std::io::Error::other("refused");
            return Err(StorageError::from_io("sync", self.path(), refused));
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

fn gated() -> (Arc<Gate>, Arc<dyn Disk>) {
    let gate = Arc::new(Gate::default());
    let disk = GatedDisk {
        inner: memory(),
        gate: Arc::clone(&gate),
    };
    (gate, Arc::new(disk))
}

#[test]
fn followers_of_slow_syncs_share_the_next_one() {
    let (gate, disk) = gated();
    let log = open(&disk, options());
    gate.set(true);
    let arrived = gate.arrived.load(Ordering::SeqCst);
    thread::scope(|scope| {
        let log = &log;
        // The second is synced concurrently with the first.
        for n in 0..2 {
            let (lsn, _) = append_row(log, n);
            scope.spawn(move || log.sync(lsn).unwrap());
            gate.wait_for_arrivals(arrived + n + 1);
        }
        for n in 2..22 {
            let (lsn, _) = append_row(log, n);
            scope.spawn(move || {
                log.sync(lsn).unwrap();
                assert!(log.durable() > lsn);
            });
        }
        while log.statistics().sync_calls < 22 {
            thread::yield_now();
        }
        assert_eq!(log.durable(), Lsn(0));
        gate.set(false);
    });
    assert!((2..=4).contains(&log.statistics().syncs));
    assert!((3..=4).contains(&log.statistics().batches));
    assert_eq!(log.durable(), log.end());
}

#[test]
fn the_later_of_two_syncs_makes_both_groups_durable() {
    let (gate, disk) = gated();
    let log = open(&disk, options());
    let (first, _) = append_row(&log, 0);
    let (second, end) = thread::scope(|scope| {
        let log = &log;
        gate.hold_first();
        let arrived = gate.arrived.load(Ordering::SeqCst);
        let slow = scope.spawn(move || log.sync(first));
        gate.wait_for_arrivals(arrived + 1);
        let (second, _) = append_row(log, 1);
        let end = log.end();
        log.sync(second).unwrap();
        assert_eq!(log.durable(), end);
        // A sync of the first record now returns without waiting.
        log.sync(first).unwrap();
        gate.set(false);
        slow.join().unwrap().unwrap();
        (second, end)
    });
    assert!(second > first);
    assert_eq!(log.durable(), end);
    assert_eq!(list(&disk).unwrap().len(), 2);
}

#[test]
fn every_committer_of_many_threads_is_durable_on_return() {
    commit_from_many_threads(&memory());
}

#[test]
fn every_committer_is_durable_on_return_from_syncs_that_overlap() {
    let (gate, disk) = gated();
    gate.slow.store(true, Ordering::SeqCst);
    commit_from_many_threads(&disk);
    assert!(
        gate.concurrent.load(Ordering::SeqCst) > 0,
        "no two syncs at once"
    );
}

fn commit_from_many_threads(disk: &Arc<dyn Disk>) {
    let mut options = small_segments();
    options.pending_bytes = 2000;
    let log = open(disk, options);
    let acknowledged = Mutex::new(Vec::new());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let log = &log;
        let acknowledged = &acknowledged;
        let done = &done;
        scope.spawn(move || {
            while !done.load(Ordering::SeqCst) {
                // Runs often, so that it interferes with the committing threads at any point.
                thread::yield_now();
                log.write_pending().unwrap();
            }
        });
        let committers: Vec<_> = (0..8u64)
            .map(|thread| {
                scope.spawn(move || {
                    for n in 0..150 {
                        let (lsn, printed) = append_row(log, thread * 1000 + n);
                        if n % 3 > 0 {
                            log.sync(lsn).unwrap();
                            assert!(log.durable() > lsn);
                        }
                        acknowledged.lock().push((lsn, printed));
                    }
                    log.sync(log.end()).unwrap();
                })
            })
            .collect();
        for committer in committers {
            committer.join().unwrap();
        }
        done.store(true, Ordering::SeqCst);
        log.wake();
    });
    let mut expected = acknowledged.into_inner();
    expected.sort();
    let expected: Vec<_> = expected.into_iter().map(|row| row.1).collect();
    assert_eq!(list(disk).unwrap(), expected);
}

#[test]
fn a_failed_sync_fails_every_waiting_thread_and_poisons_the_log() {
    let (gate, disk) = gated();
    let log = open(&disk, options());
    gate.set(true);
    gate.fail_syncs.store(true, Ordering::SeqCst);
    let arrived = gate.arrived.load(Ordering::SeqCst);
    let (first, kept) = append_row(&log, 0);
    thread::scope(|scope| {
        let log = &log;
        let leader = scope.spawn(move || log.sync(first));
        gate.wait_for_arrivals(arrived + 1);
        let (second, _) = append_row(log, 1);
        let same_group = scope.spawn(move || log.sync(first));
        let next_group = scope.spawn(move || log.sync(second));
        gate.set(false);
        let leader = leader.join().unwrap();
        assert!(matches!(leader, Err(StorageError::Io { .. })), "{leader:?}");
        let result = same_group.join().unwrap();
        assert!(
            matches!(result, Err(StorageError::Poisoned { .. })),
            "{result:?}"
        );
        // It may have been synced concurrently with the first group, with its own failure.
        let result = next_group.join().unwrap();
        let is_failed = matches!(
            result,
            Err(StorageError::Poisoned { .. } | StorageError::Io { .. })
        );
        assert!(is_failed, "{result:?}");
    });
    gate.fail_syncs.store(false, Ordering::SeqCst);
    let refused = log.append(&teak_write_ahead_log::Record::IndexesChanged { bytes: b"" });
    assert!(matches!(refused, Err(StorageError::Poisoned { .. })));
    assert!(log.sync(first).is_err());
    assert!(log.write_pending().is_err());
    assert_eq!(log.durable(), Lsn(0));
    drop(log);
    // Opening writes all readable records again and syncs them.
    let (log, found) = open_listing(&disk, options(), 0).unwrap();
    assert_eq!(found.first(), Some(&kept));
    assert_eq!(log.durable(), log.end());
}

#[test]
fn a_full_disk_refuses_waiting_appenders_and_keeps_the_accepted_records() {
    let (gate, disk) = gated();
    let mut options = options();
    options.pending_bytes = 500;
    let log = open(&disk, options);
    gate.fail_writes.store(true, Ordering::SeqCst);
    let record = teak_write_ahead_log::Record::IndexesChanged { bytes: &[7; 100] };
    let taken = std::sync::atomic::AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let refused = (0..1000).find_map(|_| match log.append(&record) {
                    Ok(_) => {
                        taken.fetch_add(1, Ordering::SeqCst);
                        None
                    }
                    Err(error) => Some(error),
                });
                assert!(matches!(refused, Some(StorageError::NoSpace { .. })));
            });
        }
    });
    assert!(matches!(
        log.sync(log.end()),
        Err(StorageError::NoSpace { .. })
    ));
    gate.fail_writes.store(false, Ordering::SeqCst);
    log.sync(log.end()).unwrap();
    log.append(&record).unwrap();
    log.sync(log.end()).unwrap();
    drop(log);
    let taken = taken.load(Ordering::SeqCst);
    assert_eq!(list(&disk).unwrap().len(), taken + 1);
}

#[test]
fn appenders_wait_for_a_leader_when_both_buffers_are_full() {
    let (gate, disk) = gated();
    let mut options = options();
    options.pending_bytes = 300;
    let log = open(&disk, options);
    gate.set(true);
    let arrived = gate.arrived.load(Ordering::SeqCst);
    let (first, _) = append_row(&log, 0);
    thread::scope(|scope| {
        let log = &log;
        scope.spawn(move || log.sync(first).unwrap());
        gate.wait_for_arrivals(arrived + 1);
        for thread in 0..3 {
            scope.spawn(move || {
                for n in 0..30 {
                    append_row(log, thread * 100 + n);
                }
            });
        }
        gate.set(false);
    });
    log.sync(log.end()).unwrap();
    assert_eq!(list(&disk).unwrap().len(), 91);
}

#[test]
fn waiting_for_pending_ends_by_records_by_wake_and_by_time() {
    let disk = memory();
    let mut options = options();
    options.pending_bytes = 800;
    let log = open(&disk, options);
    assert!(!log.wait_for_pending(Duration::from_millis(1)));
    thread::scope(|scope| {
        let waiter = scope.spawn(|| log.wait_for_pending(Duration::from_secs(3600)));
        for n in 0..4 {
            append_row(&log, n);
        }
        assert!(waiter.join().unwrap());
        log.write_pending().unwrap();
        let waiter = scope.spawn(|| log.wait_for_pending(Duration::from_secs(3600)));
        while !waiter.is_finished() {
            log.wake();
            thread::yield_now();
        }
        assert!(!waiter.join().unwrap());
    });
}
