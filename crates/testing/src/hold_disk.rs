//! A disk on which writes and syncs of chosen files wait or fail until a test
//! allows them.

use parking_lot::{Condvar, Mutex};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::{StorageError, StorageResult};
use teak_disk::{Disk, DiskFile, DiskLock};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Wait,
    Fail,
    FailSyncs,
}

#[derive(Debug)]
struct Gate {
    /// The gate is for files whose paths contain this, and for threads of this
    /// name.
    part: String,
    mode: Mode,
    arrived: usize,
    /// How many of those that wait may pass.
    admitted: usize,
}

#[derive(Debug, Default)]
struct Gates {
    closed: Mutex<Vec<Gate>>,
    changed: Condvar,
}

impl Gates {
    fn pass(&self, path: &Path, is_sync: bool) -> StorageResult<()> {
        let mut closed = self.closed.lock();
        let text = path.to_string_lossy();
        let current = std::thread::current();
        let thread = current.name();
        let mut has_arrived = false;
        loop {
            let is_for =
                |gate: &&mut Gate| text.contains(&gate.part) || thread == Some(gate.part.as_str());
            let Some(gate) = closed.iter_mut().find(is_for) else {
                return Ok(());
            };
            match gate.mode {
                Mode::FailSyncs if !is_sync => return Ok(()),
                Mode::Fail | Mode::FailSyncs => {
                    let operation = if is_sync { "sync" } else { "write" };
                    let cause = std::io::Error::other("the gate is closed");
                    return Err(StorageError::from_io(operation, path, cause));
                }
                Mode::Wait => {}
            }
            if !std::mem::replace(&mut has_arrived, true) {
                gate.arrived += 1;
                self.changed.notify_all();
            }
            if gate.admitted > 0 {
                gate.admitted -= 1;
                return Ok(());
            }
            self.changed.wait(&mut closed);
        }
    }
}

/// A disk over another one, with gates. Clones share the gates.
#[derive(Clone, Debug)]
pub struct HoldDisk {
    disk: Arc<dyn Disk>,
    gates: Arc<Gates>,
}

impl HoldDisk {
    /// A disk whose gates are open.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        Self {
            disk,
            gates: Arc::default(),
        }
    }

    fn close(&self, part: &str, mode: Mode) {
        self.open_gate(part);
        self.gates.closed.lock().push(Gate {
            part: part.to_owned(),
            mode,
            arrived: 0,
            admitted: 0,
        });
    }

    /// From now on, writes and syncs of files whose paths contain `part`, and of
    /// threads whose name it is, wait.
    pub fn hold(&self, part: &str) {
        self.close(part, Mode::Wait);
    }

    /// From now on, writes and syncs of files whose paths contain `part` fail.
    pub fn fail(&self, part: &str) {
        self.close(part, Mode::Fail);
    }

    /// From now on, syncs of files whose paths contain `part` fail.
    pub fn fail_syncs(&self, part: &str) {
        self.close(part, Mode::FailSyncs);
    }

    /// Ends [`HoldDisk::hold`] and the like. Those that wait continue.
    pub fn open_gate(&self, part: &str) {
        self.gates.closed.lock().retain(|gate| gate.part != part);
        self.gates.changed.notify_all();
    }

    /// Lets one operation pass the gate.
    pub fn admit_one(&self, part: &str) {
        let mut closed = self.gates.closed.lock();
        if let Some(gate) = closed.iter_mut().find(|gate| gate.part == part) {
            gate.admitted += 1;
        }
        self.gates.changed.notify_all();
    }

    /// Waits until `count` operations have arrived at the gate.
    ///
    /// # Panics
    /// When the gate is not closed.
    pub fn wait_for_arrivals(&self, part: &str, count: usize) {
        let mut closed = self.gates.closed.lock();
        loop {
            let mut gates = closed.iter();
            let arrived = gates
                .find(|gate| gate.part == part)
                .map(|gate| gate.arrived);
            assert!(arrived.is_some(), "the gate is closed");
            if arrived >= Some(count) {
                return;
            }
            self.gates.changed.wait(&mut closed);
        }
    }

    /// Waits until an operation has arrived at the gate.
    ///
    /// # Panics
    /// When the gate is not closed.
    pub fn wait_for_arrival(&self, part: &str) {
        self.wait_for_arrivals(part, 1);
    }

    fn wrap(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(HeldFile {
            file,
            gates: Arc::clone(&self.gates),
        })
    }
}

impl Disk for HoldDisk {
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
struct HeldFile {
    file: Arc<dyn DiskFile>,
    gates: Arc<Gates>,
}

impl DiskFile for HeldFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> StorageResult<()> {
        self.gates.pass(self.path(), false)?;
        self.file.write_all_at(bytes, offset)
    }

    fn sync(&self) -> StorageResult<()> {
        self.gates.pass(self.path(), true)?;
        self.file.sync()
    }

    fn len(&self) -> StorageResult<u64> {
        self.file.len()
    }

    fn set_len(&self, bytes: u64) -> StorageResult<()> {
        self.gates.pass(self.path(), false)?;
        self.file.set_len(bytes)
    }

    fn reserve(&self, bytes: u64) -> StorageResult<()> {
        self.file.reserve(bytes)
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}
