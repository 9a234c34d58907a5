//! A disk with gates: reads, writes or syncs of chosen files wait, take longer or
//! fail until the test opens the gate. Simulates a disk that is too slow, or on which
//! some files cannot be written.

use crate::random::Random;
use parking_lot::{Condvar, Mutex};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use teak_base::{StorageError, StorageResult};
use teak_disk::{Disk, DiskFile, DiskLock};

/// Maximum time for which a test waits for operations, and these at a gate. Longer than any test
/// takes on a busy machine: a test that waits longer has failed, and must not wait for ever.
const WAIT_MAX: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    Read,
    /// Includes changes of the length.
    Write,
    Sync,
}

const READS: &[Operation] = &[Operation::Read];
const WRITES: &[Operation] = &[Operation::Write];
const SYNCS: &[Operation] = &[Operation::Sync];
const CHANGES: &[Operation] = &[Operation::Write, Operation::Sync];

/// What happens to an operation at a gate.
#[derive(Clone, Copy, Debug)]
enum Effect {
    /// It waits, unless `operations_max` operations have arrived before it.
    Wait { operations_max: usize },
    /// It waits for a random time below `max`.
    Delay { max: Duration },
    /// It fails with an I/O error.
    Fail,
    /// It fails with `NoSpace`.
    NoSpace,
}

#[derive(Debug)]
struct Gate {
    /// The gate is for files whose paths contain this text, and for threads with this name.
    part: String,
    operations: &'static [Operation],
    effect: Effect,
    arrived: usize,
    /// The number of waiting operations that may pass.
    admitted: usize,
    delayed_now: usize,
    overlaps: usize,
    delays: Random,
}

#[derive(Debug, Default)]
struct Gates {
    closed: Mutex<Vec<Gate>>,
    changed: Condvar,
    /// The paths of handles that were closed with unsynced writes.
    closed_unsynced: Mutex<Vec<PathBuf>>,
}

impl Gates {
    fn pass(&self, path: &Path, operation: Operation) -> StorageResult<()> {
        let text = path.to_string_lossy();
        let current = std::thread::current();
        let thread = current.name();
        let is_for = |gate: &Gate| {
            gate.operations.contains(&operation)
                && (text.contains(&gate.part) || thread == Some(gate.part.as_str()))
        };
        let mut has_arrived = false;
        let deadline = Instant::now() + WAIT_MAX;
        let mut closed = self.closed.lock();
        while let Some(gate) = closed.iter_mut().find(|gate| is_for(gate)) {
            let arrives = !std::mem::replace(&mut has_arrived, true);
            if arrives {
                gate.arrived += 1;
                self.changed.notify_all();
            }
            match gate.effect {
                Effect::Fail => {
                    let cause = std::io::Error::other("the gate is closed");
                    return Err(StorageError::from_io(name(operation), path, cause));
                }
                Effect::NoSpace => {
                    return Err(StorageError::NoSpace {
                        path: path.to_path_buf(),
                    });
                }
                Effect::Delay { max } => {
                    let part = gate.part.clone();
                    let max = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX);
                    let delay = Duration::from_nanos(gate.delays.below(max));
                    gate.overlaps += usize::from(gate.delayed_now > 0);
                    gate.delayed_now += 1;
                    drop(closed);
                    std::thread::sleep(delay);
                    // Another gate may have replaced this one.
                    self.change(&part, |gate| {
                        gate.delayed_now = gate.delayed_now.saturating_sub(1);
                    });
                    return Ok(());
                }
                Effect::Wait { operations_max } if arrives && gate.arrived > operations_max => {
                    return Ok(());
                }
                Effect::Wait { .. } => {}
            }
            if gate.admitted > 0 {
                gate.admitted -= 1;
                return Ok(());
            }
            if self.changed.wait_until(&mut closed, deadline).timed_out() {
                // No panic: threads of the engine survive panics, and would arrive again.
                let (operation, path) = (name(operation), path.display());
                eprintln!("{path}: a {operation} waited too long at a gate");
                std::process::abort();
            }
        }
        Ok(())
    }

    fn change(&self, part: &str, change: impl FnOnce(&mut Gate)) {
        let mut closed = self.closed.lock();
        if let Some(gate) = closed.iter_mut().find(|gate| gate.part == part) {
            change(gate);
        }
        self.changed.notify_all();
    }
}

fn name(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::Sync => "sync",
    }
}

/// A disk over another one, with gates. Clones share the gates.
///
/// A gate is for files whose paths contain a text, and for threads with this text as
/// their name. Each text has at most one gate: a later gate replaces it, and then
/// applies to the operations that wait at the old one.
#[derive(Clone, Debug)]
pub struct GateDisk {
    disk: Arc<dyn Disk>,
    gates: Arc<Gates>,
}

impl GateDisk {
    /// A disk whose gates are open.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        Self {
            disk,
            gates: Arc::default(),
        }
    }

    fn close(&self, part: &str, operations: &'static [Operation], effect: Effect) {
        let mut closed = self.gates.closed.lock();
        closed.retain(|gate| gate.part != part);
        closed.push(Gate {
            part: part.to_owned(),
            operations,
            effect,
            arrived: 0,
            admitted: 0,
            delayed_now: 0,
            overlaps: 0,
            delays: Random::new(1),
        });
        self.gates.changed.notify_all();
    }

    fn close_waiting(&self, part: &str, operations: &'static [Operation]) {
        let operations_max = usize::MAX;
        self.close(part, operations, Effect::Wait { operations_max });
    }

    /// From now on, writes and syncs wait.
    pub fn hold(&self, part: &str) {
        self.close_waiting(part, CHANGES);
    }

    /// From now on, reads wait.
    pub fn hold_reads(&self, part: &str) {
        self.close_waiting(part, READS);
    }

    /// From now on, syncs wait.
    pub fn hold_syncs(&self, part: &str) {
        self.close_waiting(part, SYNCS);
    }

    /// The next sync waits. Later ones pass.
    pub fn hold_next_sync(&self, part: &str) {
        let operations_max = 1;
        self.close(part, SYNCS, Effect::Wait { operations_max });
    }

    /// From now on, each sync takes up to `max` longer.
    pub fn delay_syncs(&self, part: &str, max: Duration) {
        self.close(part, SYNCS, Effect::Delay { max });
    }

    /// From now on, writes and syncs fail.
    pub fn fail(&self, part: &str) {
        self.close(part, CHANGES, Effect::Fail);
    }

    /// From now on, syncs fail.
    pub fn fail_syncs(&self, part: &str) {
        self.close(part, SYNCS, Effect::Fail);
    }

    /// From now on, writes fail as on a full disk.
    pub fn fill_up(&self, part: &str) {
        self.close(part, WRITES, Effect::NoSpace);
    }

    /// Removes the gate. Operations that wait at it continue.
    pub fn open_gate(&self, part: &str) {
        self.gates.closed.lock().retain(|gate| gate.part != part);
        self.gates.changed.notify_all();
    }

    /// Lets one operation pass the gate: one that waits, or else the next one that arrives.
    pub fn admit_one(&self, part: &str) {
        self.gates.change(part, |gate| gate.admitted += 1);
    }

    /// Waits until `count` operations have arrived at the gate.
    ///
    /// # Panics
    /// When the gate is not closed, and after a long time. Then all gates are opened, so the test
    /// can end.
    pub fn wait_for_arrivals(&self, part: &str, count: usize) {
        let deadline = Instant::now() + WAIT_MAX / 2;
        let mut closed = self.gates.closed.lock();
        loop {
            let gate = closed.iter().find(|gate| gate.part == part);
            let arrived = gate.map(|gate| gate.arrived);
            assert!(arrived.is_some(), "the gate is closed");
            if arrived >= Some(count) {
                return;
            }
            let waited = self.gates.changed.wait_until(&mut closed, deadline);
            if waited.timed_out() {
                closed.clear();
                self.gates.changed.notify_all();
            }
            assert!(
                !waited.timed_out(),
                "{arrived:?} operations have arrived at the gate {part}, not {count}"
            );
        }
    }

    /// Waits until an operation has arrived at the gate.
    ///
    /// # Panics
    /// As [`GateDisk::wait_for_arrivals`].
    pub fn wait_for_arrival(&self, part: &str) {
        self.wait_for_arrivals(part, 1);
    }

    /// The number of operations that arrived while another one was delayed at the gate.
    #[must_use]
    pub fn overlaps(&self, part: &str) -> usize {
        let closed = self.gates.closed.lock();
        let gate = closed.iter().find(|gate| gate.part == part);
        gate.map_or(0, |gate| gate.overlaps)
    }

    /// The paths of handles that were closed with unsynced writes. An operating system may not
    /// report a failure of such writes.
    #[must_use]
    pub fn closed_unsynced(&self) -> Vec<PathBuf> {
        self.gates.closed_unsynced.lock().clone()
    }

    fn wrap(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(GateFile {
            file,
            is_unsynced: AtomicBool::new(false),
            gates: Arc::clone(&self.gates),
        })
    }
}

impl Disk for GateDisk {
    fn create(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        Ok(self.wrap(self.disk.create(path)?))
    }

    fn open(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        Ok(self.wrap(self.disk.open(path)?))
    }

    fn remove(&self, path: &Path) -> StorageResult<()> {
        self.disk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> StorageResult<()> {
        self.disk.rename(from, to)
    }

    fn exists(&self, path: &Path) -> StorageResult<bool> {
        self.disk.exists(path)
    }

    fn list(&self, directory: &Path) -> StorageResult<Vec<PathBuf>> {
        self.disk.list(directory)
    }

    fn create_directories(&self, directory: &Path) -> StorageResult<()> {
        self.disk.create_directories(directory)
    }

    fn sync_directory(&self, directory: &Path) -> StorageResult<()> {
        self.disk.sync_directory(directory)
    }

    fn lock(&self, path: &Path) -> StorageResult<DiskLock> {
        self.disk.lock(path)
    }
}

#[derive(Debug)]
struct GateFile {
    file: Arc<dyn DiskFile>,
    is_unsynced: AtomicBool,
    gates: Arc<Gates>,
}

impl GateFile {
    fn pass(&self, operation: Operation) -> StorageResult<()> {
        self.gates.pass(self.file.path(), operation)
    }
}

impl DiskFile for GateFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        self.pass(Operation::Read)?;
        self.file.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> StorageResult<()> {
        self.pass(Operation::Write)?;
        self.is_unsynced.store(true, Ordering::Release);
        self.file.write_all_at(bytes, offset)
    }

    fn sync(&self) -> StorageResult<()> {
        self.pass(Operation::Sync)?;
        self.is_unsynced.store(false, Ordering::Release);
        self.file.sync()
    }

    fn len(&self) -> StorageResult<u64> {
        self.file.len()
    }

    fn set_len(&self, bytes: u64) -> StorageResult<()> {
        self.pass(Operation::Write)?;
        self.file.set_len(bytes)
    }

    fn reserve(&self, bytes: u64) -> StorageResult<()> {
        self.file.reserve(bytes)
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

impl Drop for GateFile {
    fn drop(&mut self) {
        if *self.is_unsynced.get_mut() {
            let path = self.file.path().to_path_buf();
            self.gates.closed_unsynced.lock().push(path);
        }
    }
}
