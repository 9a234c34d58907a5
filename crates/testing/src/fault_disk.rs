//! A disk in memory with planned faults and power losses, which a seed reproduces.
//!
//! The model of a real disk:
//! - A write is durable once a later sync of the file succeeds. Until then a
//!   power loss may lose it, keep it or tear it between 512-byte sectors,
//!   independently of the other writes; writes to one sector keep their order.
//! - A lost write beyond the old end may leave zeros there.
//! - Creations, renames and removals of names are durable once their directory
//!   is synced; before that, a power loss may keep or lose each of them.
//! - The same is true for a new directory: if it is lost, everything in it is
//!   lost, synced or not. Directories in the root are durable immediately.
//! - After a failed sync the operating system may have dropped the writes, although reads still
//!   return them.
//!
//! Slow disks are not modelled. Bit rot is simulated with
//! [`FaultDisk::flip_bit`].

mod content;
mod errors;
mod file;
mod names;
mod plan;
mod state;

pub use plan::{FileFailure, SyncFailure, WriteFailure};

use crate::random::Random;
use content::Content;
use errors::{injected, not_found};
use file::FaultFile;
use names::{ContentId, Names};
use parking_lot::{Mutex, MutexGuard};
use plan::Plan;
use state::State;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::{StorageError, StorageResult};
use teak_disk::{Disk, DiskFile, DiskLock};

/// A disk with planned faults. Clones are handles to the same disk.
#[derive(Clone, Debug)]
pub struct FaultDisk {
    state: Arc<Mutex<State>>,
}

impl FaultDisk {
    /// An empty disk without planned faults. The seed determines the results of
    /// partial failures.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::with(State {
            contents: BTreeMap::new(),
            names: Names::default(),
            plan: Plan::default(),
            random: Random::new(seed),
            next_id: 1,
            locks: Arc::default(),
        })
    }

    fn with(state: State) -> Self {
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// A disk as it would be after a power loss now. The seed selects one of the possible outcomes.
    /// This disk does not change, so a test can check many outcomes. The new disk has no planned
    /// faults and the same capacity.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        let state = self.state.lock();
        let mut random = Random::new(seed);
        let names = state.names.after_power_loss(&mut random);
        let mut contents = BTreeMap::new();
        for (&id, content) in &state.contents {
            // Computed for every file, so that the random sequence does not depend on names.
            let content = content.after_power_loss(&mut random);
            if names.refers_to(id) {
                contents.insert(id, content);
            }
        }
        let mut plan = Plan::default();
        plan.capacity_bytes = state.plan.capacity_bytes;
        Self::with(State {
            contents,
            names,
            plan,
            random,
            next_id: state.next_id,
            locks: Arc::default(),
        })
    }

    /// Plans the failure of a write or change of length, after `after` other writes and changes.
    pub fn fail_write(&self, after: u64, failure: WriteFailure) {
        self.state.lock().plan.writes.fail(after, failure);
    }

    /// Plans the failure of a sync of a file, after `after` other ones.
    pub fn fail_sync(&self, after: u64, failure: SyncFailure) {
        self.state.lock().plan.syncs.fail(after, failure);
    }

    /// Plans the failure of a read, after `after` other ones.
    pub fn fail_read(&self, after: u64) {
        self.state.lock().plan.reads.fail(after, ());
    }

    /// Plans the failure of a creation, rename or removal, or of a sync of a directory,
    /// after `after` other ones. The operation that fails has no effect.
    pub fn fail_name_change(&self, after: u64) {
        self.state.lock().plan.name_changes.fail(after, ());
    }

    /// From now on, the operations that `failure` names fail on one file.
    pub fn fail_file(&self, path: &Path, failure: FileFailure) {
        let mut state = self.state.lock();
        state.plan.failing.insert(path.to_path_buf(), failure);
    }

    /// Clears all planned failures.
    pub fn clear_failures(&self) {
        let mut state = self.state.lock();
        state.plan.clear_failures();
    }

    /// Plans a power loss during a change (of bytes, length, reserved space or names, or a sync),
    /// after `after` other ones. That change and all later operations fail. [`FaultDisk::crash`]
    /// determines whether a change of bytes, length or names took effect.
    pub fn cut_power(&self, after: u64) {
        let mut state = self.state.lock();
        state.plan.power_off_at = Some(state.plan.changes + after);
    }

    /// Changes so far, as [`FaultDisk::cut_power`] counts them.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.state.lock().plan.changes
    }

    /// Syncs of files and of directories so far.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.state.lock().plan.sync_calls
    }

    /// Bytes of files that were read so far.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.state.lock().plan.bytes_read
    }

    /// Limits the space of all files, reserved space included; `None` for no
    /// limit. A write that does not fit writes the part that fits and fails with
    /// `NoSpace`.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state.lock().plan.capacity_bytes = bytes;
    }

    /// The space of all files, reserved space included.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.state.lock().used_bytes()
    }

    /// Inverts one bit (0 to 7) of the byte at `offset` of a file, durably.
    ///
    /// # Errors
    /// `NotFound`; `Corrupt` beyond the end.
    pub fn flip_bit(&self, path: &Path, offset: u64, bit: u8) -> StorageResult<()> {
        let mut state = self.state.lock();
        let id = state.names.get(path).ok_or_else(|| not_found(path))?;
        let content = state.contents.get_mut(&id);
        match content.map(|content| content.flip_bit(offset, bit)) {
            Some(true) => Ok(()),
            _ => Err(StorageError::corrupt(path, offset, "no such byte")),
        }
    }

    /// Bytes of all writes that are not synced.
    #[must_use]
    pub fn unsynced_bytes(&self) -> u64 {
        let state = self.state.lock();
        state.contents.values().map(Content::unsynced_bytes).sum()
    }

    fn handle(&self, state: &mut State, id: ContentId, path: &Path) -> Arc<dyn DiskFile> {
        if let Some(content) = state.contents.get_mut(&id) {
            content.handles += 1;
        }
        Arc::new(FaultFile::new(Arc::clone(&self.state), id, path))
    }

    /// Locks the state for a change of names, unless its failure is planned.
    fn change(&self, operation: &'static str, path: &Path) -> StorageResult<Change<'_>> {
        let mut state = self.state.lock();
        state.plan.power(operation, path)?;
        let cut = state.plan.change();
        if state.plan.name_changes.next().is_some() {
            return Err(injected(operation, path));
        }
        Ok(Change {
            state,
            outcome: if cut {
                Err(injected(operation, path))
            } else {
                Ok(())
            },
        })
    }

    fn read_state(
        &self,
        operation: &'static str,
        path: &Path,
    ) -> StorageResult<MutexGuard<'_, State>> {
        let state = self.state.lock();
        state.plan.power(operation, path)?;
        Ok(state)
    }
}

/// A change in progress; its outcome is an error if the power is lost during the change.
struct Change<'a> {
    state: MutexGuard<'a, State>,
    outcome: StorageResult<()>,
}

impl Disk for FaultDisk {
    fn create(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        let Change { mut state, outcome } = self.change("create", path)?;
        if state.names.get(path).is_some() {
            return Err(StorageError::AlreadyExists {
                path: path.to_path_buf(),
            });
        }
        let id = state.next_id;
        state.next_id += 1;
        state.contents.insert(id, Content::default());
        state.names.create(path, id);
        outcome.map(|()| self.handle(&mut state, id, path))
    }

    fn open(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        let mut state = self.read_state("open", path)?;
        let id = state.names.get(path).ok_or_else(|| not_found(path))?;
        Ok(self.handle(&mut state, id, path))
    }

    fn remove(&self, path: &Path) -> StorageResult<()> {
        let Change { mut state, outcome } = self.change("remove", path)?;
        let id = state.names.remove(path).ok_or_else(|| not_found(path))?;
        state.forget_unreachable(id);
        outcome
    }

    fn rename(&self, from: &Path, to: &Path) -> StorageResult<()> {
        let Change { mut state, outcome } = self.change("rename", from)?;
        state.plan.rename_of(from)?;
        let replaced = state.names.get(to);
        if !state.names.rename(from, to) {
            return Err(not_found(from));
        }
        if let Some(id) = replaced {
            state.forget_unreachable(id);
        }
        outcome
    }

    fn exists(&self, path: &Path) -> StorageResult<bool> {
        Ok(self.read_state("stat", path)?.names.exists(path))
    }

    fn list(&self, directory: &Path) -> StorageResult<Vec<PathBuf>> {
        Ok(self.read_state("list", directory)?.names.list(directory))
    }

    fn create_directories(&self, directory: &Path) -> StorageResult<()> {
        let Change { mut state, outcome } = self.change("create", directory)?;
        state.names.create_directories(directory);
        outcome
    }

    fn sync_directory(&self, directory: &Path) -> StorageResult<()> {
        let Change { mut state, outcome } = self.change("sync", directory)?;
        state.plan.sync_calls += 1;
        if outcome.is_ok() {
            for id in state.names.sync(directory) {
                state.forget_unreachable(id);
            }
        }
        outcome
    }

    fn lock(&self, path: &Path) -> StorageResult<DiskLock> {
        self.read_state("lock", path)?.locks.lock(path)
    }
}
