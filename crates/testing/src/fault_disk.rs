//! A disk in memory that fails, tears and forgets as real ones do, by plan
//! and from a seed.
//!
//! What the model takes from the world:
//! - A write is durable once a later sync of the file succeeds. Until then a
//!   power loss may lose it, keep it or tear it between 512-byte sectors, each
//!   write apart from the others; writes to one sector keep their order.
//! - A lost write beyond the old end may leave zeros there.
//! - Creations, renames and removals of names are durable once their directory
//!   is synced; before that each may or may not have happened. Directories
//!   themselves are durable at once.
//! - After a failed sync the system may have thrown away what it could not
//!   write, while reads still show it.
//!
//! It does not model slow disks, nor bits that rot by themselves: for those
//! there is [`FaultDisk::flip_bit`].

mod content;
mod file;
mod names;
mod plan;

pub use plan::{SyncFailure, WriteFailure};

use crate::Random;
use content::Content;
use file::FaultFile;
use names::Names;
use parking_lot::{Mutex, MutexGuard};
use plan::Plan;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::{StorageError, StorageResult};
use teak_disk::{Disk, DiskFile, DiskLock, LockTable};

/// Names a file's contents, whatever the file is called.
type ContentId = u64;

/// A disk with planned faults. Clones are handles to the same disk.
#[derive(Clone, Debug)]
pub struct FaultDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    contents: BTreeMap<ContentId, Content>,
    names: Names,
    plan: Plan,
    random: Random,
    next_id: ContentId,
    /// Those of one life: a power loss unlocks everything.
    locks: Arc<LockTable>,
}

fn injected(operation: &'static str, path: &Path) -> StorageError {
    StorageError::from_io(operation, path, io::Error::other("injected fault"))
}

fn no_space(path: &Path) -> StorageError {
    StorageError::NoSpace {
        path: path.to_path_buf(),
    }
}

fn not_found(path: &Path) -> StorageError {
    StorageError::NotFound {
        path: path.to_path_buf(),
    }
}

impl FaultDisk {
    /// An empty disk without planned faults. The seed decides what partial
    /// failures leave behind.
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

    /// The disk as a machine might find it that loses power now; the seed
    /// chooses among what may happen. This disk goes on as if nothing had
    /// happened, so many outcomes can be looked at. The new one has no planned
    /// faults and keeps the capacity.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        let state = self.state.lock();
        let mut random = Random::new(seed);
        let names = state.names.after_power_loss(&mut random);
        let mut contents = BTreeMap::new();
        for (&id, content) in &state.contents {
            // Drawn for every file, so that names do not change the contents.
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

    /// Lets a write or a change of length fail, after that many more.
    pub fn fail_write(&self, after: u64, failure: WriteFailure) {
        self.state.lock().plan.writes.fail(after, failure);
    }

    /// Lets a sync of a file fail, after that many more.
    pub fn fail_sync(&self, after: u64, failure: SyncFailure) {
        self.state.lock().plan.syncs.fail(after, failure);
    }

    /// Lets a read fail, after that many more.
    pub fn fail_read(&self, after: u64) {
        self.state.lock().plan.reads.fail(after, ());
    }

    /// Lets a creation, rename, removal or sync of a directory fail, without
    /// effect, after that many more.
    pub fn fail_name_change(&self, after: u64) {
        self.state.lock().plan.name_changes.fail(after, ());
    }

    /// Takes back all planned failures.
    pub fn clear_failures(&self) {
        let mut state = self.state.lock();
        state.plan.clear_failures();
    }

    /// Cuts the power during a change (of bytes, length, names, or a sync),
    /// after that many more: that one and everything later fails. Whether it
    /// happened shows after [`FaultDisk::crash`].
    pub fn cut_power(&self, after: u64) {
        let mut state = self.state.lock();
        state.plan.power_off_at = Some(state.plan.changes + after);
    }

    /// Changes so far, as [`FaultDisk::cut_power`] counts them.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.state.lock().plan.changes
    }

    /// Bounds what all files take together, with the space set aside for them;
    /// `None` for no bound. A write that does not fit writes what fits and fails
    /// with `NoSpace`.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state.lock().plan.capacity_bytes = bytes;
    }

    /// What all files take together, with the space set aside for them.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.state.lock().used_bytes()
    }

    /// Inverts one bit (0 to 7) of a file, durably.
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

    /// Bytes of writes that no sync has made durable.
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

    /// Locks the state for a change of names, unless that change is to fail.
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

    fn look(&self, operation: &'static str, path: &Path) -> StorageResult<MutexGuard<'_, State>> {
        let state = self.state.lock();
        state.plan.power(operation, path)?;
        Ok(state)
    }
}

/// A change under way; its outcome is an error when the power goes meanwhile.
struct Change<'a> {
    state: MutexGuard<'a, State>,
    outcome: StorageResult<()>,
}

impl State {
    /// Forgets contents that neither a name nor a handle leads to.
    fn forget_unreachable(&mut self, id: ContentId) {
        let open = self.contents.get(&id).is_some_and(|c| c.handles > 0);
        if !open && !self.names.refers_to(id) {
            self.contents.remove(&id);
        }
    }

    fn content(&mut self, id: ContentId, path: &Path) -> StorageResult<&mut Content> {
        self.contents.get_mut(&id).ok_or_else(|| not_found(path))
    }

    /// How far a file may grow now, in bytes.
    fn length_max(&self, id: ContentId) -> u64 {
        let Some(capacity) = self.plan.capacity_bytes else {
            return u64::MAX;
        };
        let own = self.contents.get(&id).map_or(0, Content::taken_bytes);
        own + capacity.saturating_sub(self.used_bytes())
    }

    fn used_bytes(&self) -> u64 {
        // What is only kept for a power loss to bring back takes no space.
        let named = self.names.named();
        let there =
            |(id, content): &(&ContentId, &Content)| content.handles > 0 || named.contains(*id);
        let contents = self.contents.iter().filter(there);
        contents.map(|(_, content)| content.taken_bytes()).sum()
    }
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
        let mut state = self.look("open", path)?;
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
        Ok(self.look("stat", path)?.names.exists(path))
    }

    fn list(&self, directory: &Path) -> StorageResult<Vec<PathBuf>> {
        Ok(self.look("list", directory)?.names.list(directory))
    }

    fn create_directories(&self, directory: &Path) -> StorageResult<()> {
        let Change { mut state, outcome } = self.change("create", directory)?;
        state.names.create_directories(directory);
        outcome
    }

    fn sync_directory(&self, directory: &Path) -> StorageResult<()> {
        let Change { mut state, outcome } = self.change("sync", directory)?;
        if outcome.is_ok() {
            for id in state.names.sync(directory) {
                state.forget_unreachable(id);
            }
        }
        outcome
    }

    fn lock(&self, path: &Path) -> StorageResult<DiskLock> {
        self.look("lock", path)?.locks.lock(path)
    }
}
