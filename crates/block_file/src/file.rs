//! The open file: creating, opening, reading, publishing, pins and checkpoints.

use crate::address::BlockAddress;
use crate::block::{Block, BlockKind};
use crate::checkpoint::PreparedCheckpoint;
use crate::extents::{ExtentSet, coalesce};
use crate::layout::BLOCKS_START;
use crate::mover::BlockMover;
use crate::pin::Pin;
use crate::reader::{read_block, read_space_map};
use crate::shared::{FileState, SharedFile};
use crate::space::Space;
use crate::statistics::BlockFileStatistics;
use crate::superblock::{SuperblockInfo, SuperblockSlot, choose, read_both};
use crate::writer::{BlockWriter, WrittenBlocks};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use teak_base::{FileId, StorageError, StorageResult};
use teak_disk::Disk;

/// One open index file. Clones are handles of the same file. All functions may
/// be called from many threads concurrently; reads take no lock.
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
    /// [`crate::PAYLOAD_BYTES_MAX`]. No file remains after an error.
    pub fn create(
        disk: &Arc<dyn Disk>,
        path: &Path,
        file_id: FileId,
        payload: &[u8],
    ) -> StorageResult<Self> {
        let superblock = SuperblockInfo {
            file: file_id,
            generation: 1,
            space_map: None,
            end: BLOCKS_START,
            payload: payload.to_vec(),
        }
        .encode()?;
        let file = disk.create(path)?;
        let written = SuperblockSlot::BOTH
            .iter()
            .try_for_each(|slot| file.write_all_at(&superblock, slot.offset()))
            .and_then(|()| file.sync());
        if let Err(error) = written {
            // Ignores this error and returns the first one. Recovery removes a remaining file.
            let _ = disk.remove(path);
            return Err(error);
        }
        let state = FileState {
            space: Space::opened(BLOCKS_START, &ExtentSet::default(), &[]),
            durable_slot: SuperblockSlot::First,
            generation: 1,
            map: Vec::new(),
            checkpoint_running: false,
            refusal: None,
        };
        Ok(Self {
            shared: SharedFile::new(file, file_id, BLOCKS_START, state),
        })
    }

    /// Opens a file in the state of its last checkpoint and returns that
    /// checkpoint's payload.
    ///
    /// Makes the superblock durable first: an earlier process may have written it without a sync,
    /// and space may be reused only if the superblock is durable.
    ///
    /// # Errors
    /// `Corrupt` when superblocks, space map or length are not valid, or the file
    /// is not the `expected` one; `UnsupportedFormat`, `NotFound`, `Io`.
    pub fn open(
        disk: &Arc<dyn Disk>,
        path: &Path,
        expected: Option<FileId>,
    ) -> StorageResult<(Self, Vec<u8>)> {
        let file = disk.open(path)?;
        let both = read_both(&*file);
        // The second copy is written after the first is durable.
        let settled = matches!(&both, [Ok(first), Ok(second)] if first == second);
        let (slot, superblock) = choose(path, both)?;
        if let Some(expected) = expected
            && expected != superblock.file
        {
            let found = superblock.file;
            let reason = format!("the file names itself {found}, but {expected} was expected");
            return Err(StorageError::corrupt(path, slot.offset(), reason));
        }
        let file_bytes = file.len()?;
        if superblock.end > file_bytes {
            let reason = format!(
                "the file has {file_bytes} bytes, but its blocks reach byte {}",
                superblock.end
            );
            return Err(StorageError::corrupt(path, slot.offset(), reason));
        }
        let map = read_space_map(&*file, &superblock)?;
        if !settled {
            // The sync after its last write may have failed, so it may exist only in the operating
            // system's cache. It is written again, so that the next sync includes it.
            file.write_all_at(&superblock.encode()?, slot.offset())?;
            file.sync()?;
        }
        let state = FileState {
            space: Space::opened(superblock.end, &map.free, &map.places),
            durable_slot: slot,
            generation: superblock.generation,
            map: map.places,
            checkpoint_running: false,
            refusal: None,
        };
        let shared = SharedFile::new(file, superblock.file, file_bytes, state);
        Ok((Self { shared }, superblock.payload))
    }

    /// The id of the file.
    #[must_use]
    pub fn file_id(&self) -> FileId {
        self.shared.id
    }

    /// The path that the file was opened with.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.shared.file.path()
    }

    /// Reads, verifies and decompresses one block. The caller must prevent the reuse of the block
    /// during the call, for example with a [`Pin`].
    ///
    /// # Errors
    /// `Corrupt` when the bytes are not a block of that kind, written at that
    /// address of this file; `Io`.
    pub fn read_block(&self, address: BlockAddress, kind: BlockKind) -> StorageResult<Block> {
        let shared = &*self.shared;
        let file_bytes = shared.file_bytes.load(Ordering::Relaxed);
        let block = read_block(&*shared.file, shared.id, file_bytes, address, kind)?;
        let counters = &shared.counters;
        counters.blocks_read.fetch_add(1, Ordering::Relaxed);
        counters
            .bytes_read
            .fetch_add(u64::from(address.bytes), Ordering::Relaxed);
        Ok(block)
    }

    /// Starts writing a sequence of blocks. `expected_bytes`, an estimate of the
    /// stored bytes, sizes the first reservation.
    #[must_use]
    pub fn writer(&self, expected_bytes: u64) -> BlockWriter {
        BlockWriter::new(Arc::clone(&self.shared), expected_bytes)
    }

    /// Starts moving blocks to holes before `limit`. `expected_bytes`, the
    /// stored bytes of the blocks, sizes the reservations.
    #[must_use]
    pub fn mover(&self, limit: u64, expected_bytes: u64) -> BlockMover {
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
        let mut live = Vec::new();
        for blocks in written {
            assert!(
                Arc::ptr_eq(blocks.file(), &self.shared),
                "blocks are published in the file that holds them"
            );
            live.append(&mut blocks.into_extents());
        }
        let mut bad = None;
        let mut extents = Vec::with_capacity(freed.len());
        for address in freed {
            match address.extent() {
                Some(extent) => extents.push(extent),
                None => bad = Some(address.offset),
            }
        }
        let freed = coalesce(extents).unwrap_or_else(|twice| {
            bad = Some(twice.offset);
            Vec::new()
        });
        let mut state = self.shared.state();
        if let Err(error) = state.space.publish(&live, &freed) {
            bad = Some(error.offset);
        }
        if let Some(offset) = bad {
            state.refuse(StorageError::corrupt(
                self.path(),
                offset,
                "the tree frees a block that is not live",
            ));
        }
    }

    /// Prevents the reuse of all space that the current root refers to.
    #[must_use]
    pub fn pin(&self) -> Pin {
        Pin::new(Arc::clone(&self.shared))
    }

    /// Captures the current state as the next checkpoint. `payload` becomes the
    /// payload of the superblock and refers to published blocks only. The
    /// caller prevents publications during this call. Does no I/O, but waits
    /// for a checkpoint of this file that is in progress.
    ///
    /// # Errors
    /// `TooLarge` for a payload over [`crate::PAYLOAD_BYTES_MAX`]; `Poisoned`
    /// after a failed sync; `Corrupt` after a publication that freed a block
    /// that was not live.
    pub fn prepare_checkpoint(&self, payload: Vec<u8>) -> StorageResult<PreparedCheckpoint> {
        PreparedCheckpoint::new(Arc::clone(&self.shared), payload)
    }

    /// Truncates the file after the last block in use. This frees unused space that failed writers
    /// have left.
    pub fn truncate_free_tail(&self) {
        let mut state = self.shared.state();
        state.space.reclaim();
        self.shared.truncate_free_tail(&state, 1);
    }

    /// Length of the file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.shared.file_bytes.load(Ordering::Relaxed)
    }

    /// Sizes and counts.
    #[must_use]
    pub fn statistics(&self) -> BlockFileStatistics {
        let counters = &self.shared.counters;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut state = self.shared.state();
        state.space.reclaim();
        BlockFileStatistics {
            file_bytes: count(&self.shared.file_bytes),
            live_bytes: state.space.live_bytes(),
            free_bytes: state.space.free_bytes(),
            pending_free_bytes: state.space.pending_bytes(),
            pinned_bytes: state.space.pinned_bytes(),
            unavailable_bytes: state.space.unavailable_bytes(),
            blocks_written: count(&counters.blocks_written),
            bytes_written: count(&counters.bytes_written),
            bytes_moved: count(&counters.bytes_moved),
            blocks_read: count(&counters.blocks_read),
            bytes_read: count(&counters.bytes_read),
            syncs: count(&counters.syncs),
        }
    }
}
