//! The state of an open file that its handles, writers, pins and checkpoints
//! share.

use crate::epochs::{BackupEpochs, EpochMap};
use crate::extents::Extent;
use crate::space::Space;
use crate::statistics::BlockFileCounters;
use crate::superblock::{SUPERBLOCK_BYTES, SuperblockInfo, SuperblockSlot};
use arc_swap::ArcSwap;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use teak_base::cipher::is_current;
use teak_base::{Encryption, EncryptionState, FileId, KeyVersion, StorageError, StorageResult};
use teak_disk::DiskFile;

#[derive(Debug)]
pub(crate) struct SharedFile {
    pub file: Arc<dyn DiskFile>,
    /// See [`DiskFile::is_direct`].
    pub is_direct: bool,
    pub id: FileId,
    /// How blocks are encrypted.
    encryption: ArcSwap<Encryption>,
    pub counters: Arc<BlockFileCounters>,
    /// Length of the file, in bytes; an upper bound during a write and after a failed one.
    pub file_bytes: AtomicU64,
    state: Mutex<FileState>,
    checkpoint_ended: Condvar,
    truncated: Condvar,
}

#[derive(Debug)]
pub(crate) struct FileState {
    pub space: Space,
    /// The slot of the last durable superblock.
    pub durable_slot: SuperblockSlot,
    /// Whether it is known that the superblock in `durable_slot` is durable, and not only
    /// its copy in the other slot.
    is_slot_durable: bool,
    /// The version of the file that the last durable superblock describes.
    durable_version: u64,
    /// The last durable superblock; `None` if the file was opened without one.
    durable: Option<Arc<SuperblockInfo>>,
    /// Pins of the last durable checkpoint.
    durable_pins: usize,
    /// The space maps of older checkpoints that are pinned.
    pinned_maps: Vec<PinnedMap>,
    /// The highest generation that may be in the file.
    pub generation: u64,
    /// The space of the last durable superblock's space map.
    pub map: Vec<Extent>,
    /// Whether a checkpoint may list its new blocks instead of syncing them
    /// first: the last captured state is durable in `durable_slot`. Then `space`
    /// has recorded all later blocks, and the other slot can be overwritten.
    pub may_list_new_blocks: bool,
    /// Whether a checkpoint of this file is in progress.
    checkpoint_running: bool,
    /// Whether the file is being truncated: no space is allocated at the same time.
    truncating: bool,
    /// When the blocks of ranges were published.
    pub epochs: EpochMap,
    /// The epochs of the data directory; `None` if it has no backups.
    pub counts_epochs: Option<Arc<BackupEpochs>>,
    /// See [`SuperblockInfo::encryption`]; of the blocks of now.
    pub encryption: EncryptionState,
    /// The last change of the key.
    pub key_change: Option<KeyChange>,
    /// The error that every later checkpoint returns.
    pub refusal: Option<StorageError>,
}

/// A change of the key that is in progress, or the last one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyChange {
    pub wanted: Option<KeyVersion>,
    /// Whether blocks with another key were published since it began.
    pub is_missed: bool,
}

/// The space of the space map of a checkpoint that is pinned and no longer the last durable one.
#[derive(Debug)]
struct PinnedMap {
    generation: u64,
    map: Vec<Extent>,
    pins: usize,
}

impl SharedFile {
    pub fn new(
        file: Arc<dyn DiskFile>,
        id: FileId,
        file_bytes: u64,
        state: FileState,
    ) -> Arc<Self> {
        Arc::new(Self {
            is_direct: file.is_direct(),
            file,
            id,
            encryption: ArcSwap::default(),
            counters: Arc::default(),
            file_bytes: AtomicU64::new(file_bytes),
            state: Mutex::new(state),
            checkpoint_ended: Condvar::new(),
            truncated: Condvar::new(),
        })
    }

    /// How blocks are encrypted that are written from now on.
    pub fn encryption(&self) -> Arc<Encryption> {
        self.encryption.load_full()
    }

    pub fn set_encryption(&self, encryption: Encryption) {
        self.encryption.store(Arc::new(encryption));
    }

    /// Locks the state, for a short time. No I/O happens under this lock.
    pub fn state(&self) -> MutexGuard<'_, FileState> {
        self.state.lock()
    }

    /// Waits until no other checkpoint is in progress, and begins one.
    pub fn begin_checkpoint(&self) {
        let mut state = self.state.lock();
        self.checkpoint_ended
            .wait_while(&mut state, |state| state.checkpoint_running);
        state.checkpoint_running = true;
    }

    pub fn end_checkpoint(&self) {
        self.state.lock().checkpoint_running = false;
        self.checkpoint_ended.notify_one();
    }

    /// The checkpoint with this superblock, captured at `version`, is durable in `slot`,
    /// with its space map in `map`.
    pub fn made_durable(
        &self,
        slot: SuperblockSlot,
        superblock: SuperblockInfo,
        version: u64,
        map: Vec<Extent>,
    ) {
        let mut state = self.state.lock();
        state.durable_slot = slot;
        state.is_slot_durable = true;
        let old_generation = state.durable_generation();
        state.durable_version = version;
        state.durable = Some(Arc::new(superblock));
        state.may_list_new_blocks = true;
        let mut old_map = std::mem::replace(&mut state.map, map);
        let pins = std::mem::take(&mut state.durable_pins);
        if pins > 0 {
            state.pinned_maps.push(PinnedMap {
                generation: old_generation,
                map: std::mem::take(&mut old_map),
                pins,
            });
        }
        state.space.made_durable(version, old_map);
        drop(state);
        self.reclaim();
    }

    /// Frees what ended pins and checkpoints have retained. Takes the lock repeatedly,
    /// each time briefly, because publications need it.
    pub fn reclaim(&self) {
        while self.state.lock().space.reclaim() {}
    }

    /// Reserves space; see [`Space::allocate`] and, with a limit,
    /// [`Space::allocate_below`].
    pub fn allocate(&self, min: u64, wanted: u64, limit: Option<u64>) -> Option<Extent> {
        let mut state = self.state_to_allocate();
        match limit {
            Some(limit) => state.space.allocate_below(limit, min, wanted),
            None => Some(state.space.allocate(min, wanted)),
        }
    }

    /// Reserves space directly after `at`; see [`Space::extend`].
    pub fn extend(&self, at: u64, min: u64, wanted: u64, limit: Option<u64>) -> Option<Extent> {
        let mut state = self.state_to_allocate();
        let limit = limit.unwrap_or(u64::MAX);
        state.space.extend(at, min, wanted, limit)
    }

    fn state_to_allocate(&self) -> MutexGuard<'_, FileState> {
        let mut state = self.state.lock();
        self.truncated
            .wait_while(&mut state, |state| state.truncating);
        state
    }

    /// Writes bytes into reserved space.
    pub fn write(&self, bytes: &[u8], offset: u64) -> StorageResult<()> {
        // Before the write, because a failed one may also have made the file longer.
        let end = offset + bytes.len() as u64;
        self.file_bytes.fetch_max(end, Ordering::Relaxed);
        self.file.write_all_at(bytes, offset)
    }

    /// Makes all writes durable. After a failure all later checkpoints fail:
    /// the operating system may have dropped the data, and a later sync would
    /// not report that.
    pub fn sync(&self) -> StorageResult<()> {
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        self.file.sync().inspect_err(|error| {
            let first = error.to_string();
            self.state().refuse(StorageError::Poisoned {
                path: self.file.path().to_path_buf(),
                first,
            });
        })
    }

    /// Writes the superblock in `durable_slot` again, unless it is known to be durable
    /// there; the next sync makes it durable. A sync that failed in an earlier process
    /// may have dropped it, although it is read correctly.
    pub fn rewrite_superblock(&self) -> StorageResult<()> {
        let (slot, is_durable) = {
            let state = self.state();
            (state.durable_slot, state.is_slot_durable)
        };
        if is_durable {
            return Ok(());
        }
        let mut superblock = vec![0; SUPERBLOCK_BYTES];
        self.file.read_exact_at(&mut superblock, slot.offset())?;
        self.file.write_all_at(&superblock, slot.offset())
    }

    /// Truncates the file after the last byte in use, if that makes it shorter by
    /// at least `min_bytes`, which is a function of the new length. Only allocations
    /// of space wait until it is truncated.
    pub fn truncate_free_tail(&self, min_bytes: impl FnOnce(u64) -> u64) {
        let mut state = self.state.lock();
        let end = state.space.end();
        let file_bytes = self.file_bytes.load(Ordering::Relaxed);
        if state.truncating || file_bytes.saturating_sub(end) < min_bytes(end) {
            return;
        }
        state.truncating = true;
        drop(state);
        if self.file.set_len(end).is_ok() {
            self.file_bytes.store(end, Ordering::Relaxed);
        }
        self.state.lock().truncating = false;
        self.truncated.notify_all();
    }
}

impl FileState {
    /// The state of a file whose last superblock is in `durable_slot`, and has its space map in
    /// `map`. `is_slot_durable`: whether that slot is durable, and not only the copy of the
    /// superblock in the other slot. `durable` is `None` if no superblock is valid.
    pub fn new(
        space: Space,
        durable_slot: SuperblockSlot,
        durable: Option<SuperblockInfo>,
        map: Vec<Extent>,
        is_slot_durable: bool,
    ) -> Self {
        let generation = durable.as_ref().map_or(0, |durable| durable.generation);
        let encryption = durable.as_ref().map(|durable| durable.encryption);
        Self {
            encryption: encryption.unwrap_or_default(),
            key_change: None,
            durable_version: space.version(),
            space,
            durable_slot,
            is_slot_durable,
            durable: durable.map(Arc::new),
            durable_pins: 0,
            pinned_maps: Vec::new(),
            generation,
            map,
            may_list_new_blocks: is_slot_durable,
            checkpoint_running: false,
            truncating: false,
            epochs: EpochMap::default(),
            counts_epochs: None,
            refusal: None,
        }
    }

    /// The generation of the last durable superblock; 0 if the file was opened without one.
    pub fn durable_generation(&self) -> u64 {
        self.durable
            .as_ref()
            .map_or(0, |durable| durable.generation)
    }

    /// Pins the last durable checkpoint: retains its blocks and its space map. Returns its
    /// superblock and its version; `None` if there is no valid superblock.
    pub fn pin_durable(&mut self) -> Option<(Arc<SuperblockInfo>, u64)> {
        let superblock = Arc::clone(self.durable.as_ref()?);
        self.space.pin_version(self.durable_version);
        self.durable_pins += 1;
        Some((superblock, self.durable_version))
    }

    /// Ends a pin of the checkpoint `generation`, whose version is `version`.
    pub fn unpin_durable(&mut self, generation: u64, version: u64) {
        self.space.unpin(version);
        if generation == self.durable_generation() {
            self.durable_pins -= 1;
            return;
        }
        let position = self
            .pinned_maps
            .iter()
            .position(|pinned| pinned.generation == generation);
        if let Some(position) = position
            && let Some(pinned) = self.pinned_maps.get_mut(position)
        {
            pinned.pins -= 1;
            if pinned.pins == 0 {
                for extent in self.pinned_maps.swap_remove(position).map {
                    self.space.release(extent);
                }
            }
        }
    }

    /// Notes that blocks are published now.
    pub fn note_published(&mut self, written: &[Extent]) {
        if let Some(epochs) = &self.counts_epochs {
            for extent in written {
                self.epochs.note(*extent, epochs);
            }
        }
    }

    /// Notes with which key published blocks are encrypted.
    pub fn note_key(&mut self, key: Option<KeyVersion>) {
        self.encryption.is_mixed |= !is_current(key, self.encryption.with);
        if let Some(change) = &mut self.key_change {
            change.is_missed |= !is_current(key, change.wanted);
        }
    }

    /// The epochs of the file, encoded; `None` if there are none. They are those of now, which are not
    /// lower than those of any captured state.
    pub fn encoded_epochs(&mut self) -> Option<Vec<u8>> {
        if let Some(epochs) = &self.counts_epochs {
            self.epochs.forget(epochs);
        }
        self.epochs.encode()
    }

    /// The bytes of space maps that only pins need.
    pub fn pinned_map_bytes(&self) -> u64 {
        let maps = self.pinned_maps.iter().flat_map(|pinned| &pinned.map);
        maps.map(|extent| extent.bytes).sum()
    }

    /// Makes all later checkpoints fail with this error, or with that of an earlier call.
    pub fn refuse(&mut self, error: StorageError) {
        self.refusal.get_or_insert(error);
    }

    /// # Errors
    /// The error that later checkpoints return, if there is one.
    pub fn check(&self) -> StorageResult<()> {
        self.refusal.clone().map_or(Ok(()), Err)
    }
}
