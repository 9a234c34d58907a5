//! The open file: creating, opening, reading, publishing, pins and checkpoints.

use crate::address::BlockAddress;
use crate::block::{Block, BlockKind};
use crate::checkpoint::{CheckpointTurn, PreparedCheckpoint};
use crate::checkpoint_pin::CheckpointPin;
use crate::epochs::BackupEpochs;
use crate::extents::ExtentSet;
use crate::file_map::FileMap;
use crate::layout::BLOCKS_START;
use crate::mover::BlockMover;
use crate::pin::Pin;
use crate::publication::Publication;
use crate::reader::{read_block, read_key, read_space_map};
use crate::shared::{FileState, KeyChange, SharedFile};
use crate::space::Space;
use crate::statistics::{BlockFileCounters, BlockFileStatistics};
use crate::superblock::{SuperblockInfo, SuperblockSlot, not_before, read_both, valid};
use crate::writer::{BlockWriter, WrittenBlocks};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::{Encryption, EncryptionState, FileId, KeyVersion, StorageError, StorageResult};
use teak_disk::{Disk, DiskFile};

/// One open index file. Clones are handles of the same file. All functions may
/// be called from many threads concurrently; reads do not lock the state of the file.
#[derive(Clone, Debug)]
pub struct BlockFile {
    shared: Arc<SharedFile>,
}

impl BlockFile {
    /// Creates a file without blocks whose superblock has `payload`. The superblock is durable on
    /// return; the caller must sync the directory to make the name of the file durable.
    ///
    /// # Errors
    /// `AlreadyExists`, `NoSpace`, `Io`; `TooLarge` for a payload over
    /// [`crate::PAYLOAD_BYTES_MAX`]. Removes the new file after an error, if possible.
    pub fn create(
        disk: &Arc<dyn Disk>,
        path: &Path,
        file_id: FileId,
        payload: &[u8],
    ) -> StorageResult<Self> {
        Self::create_encrypted(disk, path, file_id, payload, None)
    }

    /// As [`BlockFile::create`], for a file whose blocks will be encrypted with this key or a newer version of it. See
    /// [`BlockFile::set_encryption`].
    ///
    /// # Errors
    /// As [`BlockFile::create`].
    pub fn create_encrypted(
        disk: &Arc<dyn Disk>,
        path: &Path,
        file_id: FileId,
        payload: &[u8],
        encrypted_with: Option<KeyVersion>,
    ) -> StorageResult<Self> {
        let mut created = SuperblockInfo::new(file_id, 1, payload);
        created.encryption.with = encrypted_with;
        let superblock = created.encode()?;
        let file = disk.create(path)?;
        let written = SuperblockSlot::BOTH
            .iter()
            .try_for_each(|slot| file.write_all_at(&superblock, slot.offset()))
            .and_then(|()| file.sync());
        if let Err(error) = written {
            // Ignores an error here and returns the first one. Recovery removes a remaining file.
            let _ = disk.remove(path);
            return Err(error);
        }
        let space = Space::opened(BLOCKS_START, &ExtentSet::default(), &[]);
        let state = FileState::new(
            space,
            SuperblockSlot::First,
            Some(created),
            Vec::new(),
            true,
        );
        Ok(Self {
            shared: SharedFile::new(file, file_id, BLOCKS_START, state),
        })
    }

    /// Opens a file in the state of its last checkpoint and returns that
    /// checkpoint's payload.
    ///
    /// Makes the superblock durable first, unless both slots have it: an earlier process may have
    /// written it without a sync, and space may be reused only if the superblock is durable.
    ///
    /// # Errors
    /// `Corrupt` when superblocks, space map or length are not valid, or the file
    /// is not the `expected` one; `UnsupportedFormat`, `NotFound`, `Io`.
    pub fn open(
        disk: &Arc<dyn Disk>,
        path: &Path,
        expected: Option<FileId>,
    ) -> StorageResult<(Self, Vec<u8>)> {
        Self::open_file(disk, path, expected, 0)
    }

    /// As [`BlockFile::open`], for a file whose checkpoint `generation_min` is known to
    /// have been durable. An older state is not used: its blocks may have been
    /// overwritten since, and the log records that it lacks may have been removed. A
    /// file that has only such a state is not changed.
    ///
    /// # Errors
    /// Those of [`BlockFile::open`]; `Corrupt` also if the last valid checkpoint is older.
    pub fn open_not_before(
        disk: &Arc<dyn Disk>,
        path: &Path,
        expected: FileId,
        generation_min: u64,
    ) -> StorageResult<(Self, Vec<u8>)> {
        Self::open_file(disk, path, Some(expected), generation_min)
    }

    fn open_file(
        disk: &Arc<dyn Disk>,
        path: &Path,
        expected: Option<FileId>,
        generation_min: u64,
    ) -> StorageResult<(Self, Vec<u8>)> {
        let file = disk.open(path)?;
        let both = read_both(&*file);
        // A superblock is copied to the other slot after it is durable. So if both slots are
        // equal, one of them is durable, but it is not known which.
        let settled = matches!(&both, [Ok(first), Ok(second)] if first == second);
        let found = valid(path, both)?;
        let generation = found.first().map_or(0, |(_, newest)| newest.generation);
        let corrupt = |offset, reason: &str| StorageError::corrupt(path, offset, reason);
        for (_, superblock) in &found {
            if let Some(expected) = expected.filter(|expected| *expected != superblock.file) {
                let found = superblock.file;
                let reason = format!("the file names itself {found}, but {expected} was expected");
                return Err(corrupt(0, &reason));
            }
        }
        let found = not_before(path, found, generation_min)?;
        let (slot, superblock) = if settled {
            found.into_iter().next()
        } else {
            settle(&*file, found)?
        }
        .ok_or_else(|| corrupt(0, "the blocks of the last checkpoint are damaged"))?;
        let file_bytes = file.len()?;
        if superblock.end > file_bytes {
            let reason = format!(
                "the file has {file_bytes} bytes, but its blocks reach byte {}",
                superblock.end
            );
            return Err(corrupt(slot.offset(), &reason));
        }
        let map = read_space_map(&*file, &superblock)?;
        let space = Space::opened(superblock.end, &map.free, &map.places);
        let payload = superblock.payload.clone();
        let id = superblock.file;
        let mut state = FileState::new(space, slot, Some(superblock), map.places, !settled);
        state.epochs = map.epochs;
        state.generation = generation;
        let shared = SharedFile::new(file, id, file_bytes, state);
        Ok((Self { shared }, payload))
    }

    pub(crate) fn from_shared(shared: Arc<SharedFile>) -> Self {
        Self { shared }
    }

    pub(crate) fn shared(&self) -> &SharedFile {
        &self.shared
    }

    /// The id of the file.
    #[must_use]
    pub fn file_id(&self) -> FileId {
        self.shared.id
    }

    /// The number of the last durable checkpoint: the file opens in its state or in a
    /// later one, unless it is damaged. See [`BlockFile::open_not_before`].
    #[must_use]
    pub fn durable_generation(&self) -> u64 {
        self.shared.state().durable_generation()
    }

    /// The path that the file was opened with.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.shared.file.path()
    }

    /// Reads, verifies, decrypts and decompresses one block. The caller must prevent the reuse of its space
    /// during the call, for example with a [`Pin`].
    ///
    /// # Errors
    /// `Corrupt` when the bytes are not a block of that kind, written at that
    /// address of this file; `Io`; `Key` when its key is missing or wrong.
    pub fn read_block(&self, address: BlockAddress, kind: BlockKind) -> StorageResult<Block> {
        let shared = &*self.shared;
        let file_bytes = shared.file_bytes.load(Ordering::Relaxed);
        let place = (address, kind);
        let encryption = shared.encryption();
        let block = read_block(&*shared.file, &encryption, shared.id, file_bytes, place)?;
        let counters = &shared.counters;
        counters.blocks_read.fetch_add(1, Ordering::Relaxed);
        counters
            .bytes_read
            .fetch_add(u64::from(address.bytes), Ordering::Relaxed);
        Ok(block)
    }

    /// Sets the cipher of blocks that are read, and the key of those that are written from now on by new writers. The space map
    /// and the superblocks are not encrypted: they contain offsets, sizes and options.
    pub fn set_encryption(&self, encryption: Encryption) {
        self.shared.set_encryption(encryption);
    }

    /// How all blocks but those of the space map are encrypted. While they are being written again with another key, this is the
    /// old state.
    #[must_use]
    pub fn encryption_state(&self) -> EncryptionState {
        self.shared.state().encryption
    }

    /// Begins to write all blocks again that are not encrypted with `wanted`. Returns false if there are none.
    #[must_use]
    pub fn begin_key_change(&self, wanted: Option<KeyVersion>) -> bool {
        let mut state = self.shared.state();
        if state.encryption.is_current(wanted) {
            return false;
        }
        state.key_change = Some(KeyChange {
            wanted,
            is_missed: false,
        });
        true
    }

    /// Ends the change. All blocks but those of the space map are encrypted as wanted, unless a writer that began before the
    /// change has published others: then another change is needed. The next checkpoint makes the key durable.
    pub fn end_key_change(&self) {
        let mut state = self.shared.state();
        if let Some(change) = state.key_change
            && !change.is_missed
        {
            state.encryption = EncryptionState {
                with: change.wanted,
                is_mixed: false,
            };
        }
    }

    /// The key with which a block is encrypted; `None`: it is not. Reads the header of the block only, so its checksum is not
    /// verified. The caller must prevent the reuse of its space during the call.
    ///
    /// # Errors
    /// `Corrupt` if no block of this file begins there; `Io`.
    pub fn block_key(&self, address: BlockAddress) -> StorageResult<Option<KeyVersion>> {
        read_key(&*self.shared.file, self.shared.id, address)
    }

    /// How blocks are encrypted that are written from now on.
    #[must_use]
    pub fn encryption(&self) -> Arc<Encryption> {
        self.shared.encryption()
    }

    /// Whether I/O bypasses the system's cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.shared.is_direct
    }

    /// Begins to read a block in the background, see [`DiskFile::prefetch`]. The address need not be
    /// that of a block.
    pub fn prefetch(&self, address: BlockAddress) {
        let shared = &*self.shared;
        if shared.is_direct || address.end() > shared.file_bytes.load(Ordering::Relaxed) {
            return;
        }
        shared
            .file
            .prefetch(address.offset, u64::from(address.bytes));
        let prefetched = &shared.counters.blocks_prefetched;
        prefetched.fetch_add(1, Ordering::Relaxed);
    }

    /// Starts writing a sequence of blocks. `expected_bytes`, an estimate of the
    /// stored bytes, determines how much space is reserved at a time.
    #[must_use]
    pub fn writer(&self, expected_bytes: u64) -> BlockWriter {
        BlockWriter::new(Arc::clone(&self.shared), expected_bytes)
    }

    /// Starts moving blocks to holes before `limit`, or to anywhere. `expected_bytes`, the
    /// stored bytes of the blocks, determines how much space is reserved at a time.
    #[must_use]
    pub fn mover(&self, limit: Option<u64>, expected_bytes: u64) -> BlockMover {
        BlockMover::new(Arc::clone(&self.shared), limit, expected_bytes)
    }

    /// Records that the current root now refers to the `written` blocks and no longer to the
    /// `freed` ones. The caller installs the root before any thread can take a pin for it.
    ///
    /// If a freed address is not that of a live block, or freed addresses overlap,
    /// the tree is damaged. Such an address is not freed; if two overlap, none is.
    /// Later checkpoints fail with `Corrupt`, so that the damage does not reach the
    /// durable state.
    ///
    /// # Panics
    /// When `written` belongs to another file.
    pub fn publish(&self, written: Vec<WrittenBlocks>, freed: &[BlockAddress]) {
        let changes = Publication::new(&self.shared, written, freed);
        changes.apply(&self.shared, |space| {
            space.publish(&changes.written, &changes.freed)
        });
    }

    /// Prevents the reuse of all space that the current root refers to.
    #[must_use]
    pub fn pin(&self) -> Pin {
        Pin::new(Arc::clone(&self.shared))
    }

    /// Retains the blocks of the last durable checkpoint, so that they can be copied. Does no I/O.
    ///
    /// # Errors
    /// `Corrupt` if the file was opened without a valid superblock.
    pub fn pin_checkpoint(&self) -> StorageResult<CheckpointPin> {
        CheckpointPin::new(Arc::clone(&self.shared))
    }

    /// Notes the epochs of blocks that are published from now on, for incremental backups.
    pub fn count_epochs(&self, epochs: &Arc<BackupEpochs>) {
        self.shared.state().counts_epochs = Some(Arc::clone(epochs));
    }

    /// Waits until no checkpoint of this file is in progress, and begins one.
    #[must_use]
    pub fn begin_checkpoint(&self) -> CheckpointTurn {
        CheckpointTurn::new(Arc::clone(&self.shared))
    }

    /// Begins a checkpoint and captures the current state for it.
    ///
    /// # Errors
    /// As [`CheckpointTurn::capture`].
    pub fn prepare_checkpoint(&self) -> StorageResult<PreparedCheckpoint> {
        self.begin_checkpoint().capture()
    }

    /// The error that every checkpoint returns until the file is opened again,
    /// after a failed sync or damage; `None` if there is none.
    #[must_use]
    pub fn checkpoint_refusal(&self) -> Option<StorageError> {
        self.shared.state().check().err()
    }

    /// Truncates the file after the last block in use. Failed writers may have left unused space
    /// there.
    pub fn truncate_free_tail(&self) {
        self.shared.reclaim();
        self.shared.truncate_free_tail(|_| 1);
    }

    /// Length of the file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.shared.file_bytes.load(Ordering::Relaxed)
    }

    /// The ranges of the file, by offset, that contain neither superblocks nor live blocks: start, and one past the last
    /// byte.
    #[must_use]
    pub fn unused_ranges(&self) -> Vec<(u64, u64)> {
        let state = self.shared.state();
        let holes = state.space.not_live();
        let mut ranges: Vec<_> = holes.map(|hole| (hole.offset, hole.end())).collect();
        let (end, file_bytes) = (state.space.end(), self.file_bytes());
        if end < file_bytes {
            ranges.push((end, file_bytes));
        }
        ranges
    }

    /// The counters, which remain readable when the file is closed.
    #[must_use]
    pub fn counters(&self) -> &Arc<BlockFileCounters> {
        &self.shared.counters
    }

    /// What the parts of the file are used for now.
    #[must_use]
    pub fn map(&self) -> FileMap {
        let (end, extents, space_map) = {
            let state = self.shared.state();
            (state.space.end(), state.space.extents(), state.map.clone())
        };
        FileMap::new(self.file_bytes(), end, extents, space_map)
    }

    /// Sizes and counts.
    #[must_use]
    pub fn statistics(&self) -> BlockFileStatistics {
        let counts = self.shared.counters.read();
        let mut state = self.shared.state();
        let _ = state.space.reclaim();
        BlockFileStatistics {
            file_bytes: self.file_bytes(),
            live_bytes: state.space.live_bytes(),
            free_bytes: state.space.free_bytes(),
            pending_free_bytes: state.space.pending_bytes(),
            pinned_bytes: state.space.pinned_bytes(),
            unavailable_bytes: state.space.unavailable_bytes(),
            blocks_written: counts.blocks_written,
            bytes_written: counts.bytes_written,
            bytes_moved: counts.bytes_moved,
            blocks_read: counts.blocks_read,
            bytes_read: counts.bytes_read,
            blocks_prefetched: counts.blocks_prefetched,
            syncs: counts.syncs,
        }
    }
}

/// Chooses the newest of the superblocks whose listed blocks are complete, and makes
/// it durable. The superblock and the blocks that it lists may exist only in the
/// operating system's cache, because their sync may have failed. So they are written
/// again and synced. The superblock also overwrites newer ones that are incomplete.
fn settle(
    file: &dyn DiskFile,
    found: Vec<(SuperblockSlot, SuperblockInfo)>,
) -> StorageResult<Option<(SuperblockSlot, SuperblockInfo)>> {
    let mut discarded = Vec::new();
    for (slot, superblock) in found {
        let is_complete = match &superblock.new_blocks {
            Some(new) => new.restore(file)?,
            None => true,
        };
        if !is_complete {
            discarded.push(slot);
            continue;
        }
        let bytes = superblock.encode()?;
        for slot in discarded.into_iter().chain([slot]) {
            file.write_all_at(&bytes, slot.offset())?;
        }
        file.sync()?;
        return Ok(Some((slot, superblock)));
    }
    Ok(None)
}
