//! The open file: creation, opening, reading, publishing and pins.

use crate::address::{BLOCKS_START, BlockAddress};
use crate::block::{self, Block, BlockKind};
use crate::checkpoint::{PreparedCheckpoint, cut_tail};
use crate::extents::{Extent, ExtentSet, coalesce};
use crate::space::Space;
use crate::space_map::{Decoder, SpaceMap};
use crate::superblock::{Slot, SuperblockInfo, choose, read_both};
use crate::writer::{BlockWriter, WrittenBlocks};
use parking_lot::{Condvar, Mutex};
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use teak_base::bytes::Malformed;
use teak_base::{FileId, StorageError, StorageResult};
use teak_disk::{Disk, DiskFile};

/// The read buffer a thread keeps between reads, at most.
const SCRATCH_BYTES_MAX: usize = 1024 * 1024;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// One open index file. Clones are handles to the same file. All functions may
/// be called from many threads at once; reads take no lock.
#[derive(Clone, Debug)]
pub struct BlockFile {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub file: Arc<dyn DiskFile>,
    pub id: FileId,
    pub counters: Counters,
    /// The file may reach this far, in bytes; it never is longer.
    pub file_bytes: AtomicU64,
    state: Mutex<State>,
    turn_ended: Condvar,
}

#[derive(Debug)]
pub(crate) struct State {
    pub space: Space,
    /// The slot of the last durable superblock.
    pub durable_slot: Slot,
    /// The highest generation that any write to the file may have left.
    pub generation: u64,
    /// The space map of the last durable superblock.
    pub map: Vec<Extent>,
    /// A checkpoint has been prepared and is not committed or dropped yet.
    pub checkpoint_running: bool,
    /// The error that every later checkpoint gets.
    pub refusal: Option<StorageError>,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub blocks_written: AtomicU64,
    pub bytes_written: AtomicU64,
    pub blocks_read: AtomicU64,
    pub bytes_read: AtomicU64,
    pub syncs: AtomicU64,
}

/// Sizes and counts of one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Length of the file, in bytes.
    pub file_bytes: u64,
    /// Space of the blocks that the current root refers to, in bytes.
    pub live_bytes: u64,
    /// Space that may be given out now without growing the file, in bytes.
    pub free_bytes: u64,
    /// Space that waits for a pin or a checkpoint, in bytes.
    pub pending_free_bytes: u64,
    /// Blocks written since the file was opened.
    pub blocks_written: u64,
    /// Bytes of those, headers and padding included.
    pub bytes_written: u64,
    /// Blocks read since the file was opened.
    pub blocks_read: u64,
    /// Bytes of those, headers included.
    pub bytes_read: u64,
    /// Syncs since the file was opened.
    pub syncs: u64,
}

/// Holds back the reuse of everything freed after it was taken.
#[derive(Debug)]
pub struct Pin {
    inner: Arc<Inner>,
    version: u64,
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.inner.state().space.unpin(self.version);
    }
}

impl Inner {
    fn new(file: Arc<dyn DiskFile>, id: FileId, file_bytes: u64, state: State) -> Arc<Self> {
        Arc::new(Self {
            file,
            id,
            counters: Counters::default(),
            file_bytes: AtomicU64::new(file_bytes),
            state: Mutex::new(state),
            turn_ended: Condvar::new(),
        })
    }

    /// The short lock over the space. No I/O under it, but for truncation.
    pub fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Waits until no other checkpoint is under way and takes the turn.
    pub fn take_checkpoint_turn(&self) -> parking_lot::MutexGuard<'_, State> {
        let mut state = self.state.lock();
        self.turn_ended
            .wait_while(&mut state, |state| state.checkpoint_running);
        state.checkpoint_running = true;
        state
    }

    pub fn end_checkpoint_turn(&self, state: &mut State) {
        state.checkpoint_running = false;
        self.turn_ended.notify_one();
    }

    /// Reserves space; see [`Space::allocate`].
    pub fn allocate(&self, least: u64, wanted: u64) -> Extent {
        let extent = self.state().space.allocate(least, wanted);
        self.reached(extent.end());
        extent
    }

    /// Reserves space that follows directly; see [`Space::extend`].
    pub fn extend(&self, at: u64, least: u64, wanted: u64) -> Option<Extent> {
        let extent = self.state().space.extend(at, least, wanted)?;
        self.reached(extent.end());
        Some(extent)
    }

    /// Notes that the file may be this long now.
    pub fn reached(&self, end: u64) {
        self.file_bytes.fetch_max(end, Ordering::Relaxed);
    }

    /// Makes all writes durable. A failure refuses all later checkpoints: the
    /// system may have dropped what it could not write, and a later sync would
    /// not tell.
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
}

impl State {
    /// Lets no later checkpoint succeed.
    pub fn refuse(&mut self, error: StorageError) {
        self.refusal.get_or_insert(error);
    }

    /// # Errors
    /// The reason why checkpoints are refused, if they are.
    pub fn check(&self) -> StorageResult<()> {
        self.refusal.clone().map_or(Ok(()), Err)
    }
}

impl BlockFile {
    /// Creates a file with nothing in it but `payload`. The superblock is
    /// durable on return; its name is once the caller syncs the directory.
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
        let written = Slot::BOTH
            .iter()
            .try_for_each(|slot| file.write_all_at(&superblock, slot.offset()))
            .and_then(|()| file.sync());
        if let Err(error) = written {
            // The first error is the one to tell; what remains is an orphan.
            let _ = disk.remove(path);
            return Err(error);
        }
        let state = State {
            space: Space::opened(BLOCKS_START, &ExtentSet::default(), &[]),
            durable_slot: Slot::First,
            generation: 1,
            map: Vec::new(),
            checkpoint_running: false,
            refusal: None,
        };
        Ok(Self {
            inner: Inner::new(file, file_id, BLOCKS_START, state),
        })
    }

    /// Opens a file as of its last checkpoint and returns the payload of that.
    ///
    /// Syncs the file first: a superblock that a dead process left in the
    /// system's cache is not durable yet, and space may only be reused over
    /// one that is.
    ///
    /// # Errors
    /// `Corrupt` when superblocks, space map or length do not hold, or the file
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
            // The sync after it may have failed, and the system may hold it
            // only in memory: written again it can be synced.
            file.write_all_at(&superblock.encode()?, slot.offset())?;
            file.sync()?;
        }
        let state = State {
            space: Space::opened(superblock.end, &map.free, &map.places),
            durable_slot: slot,
            generation: superblock.generation,
            map: map.places,
            checkpoint_running: false,
            refusal: None,
        };
        let inner = Inner::new(file, superblock.file, file_bytes, state);
        Ok((Self { inner }, superblock.payload))
    }

    /// The file's id.
    #[must_use]
    pub fn file_id(&self) -> FileId {
        self.inner.id
    }

    /// The name the file was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.inner.file.path()
    }

    /// Reads, verifies and decompresses one block. The caller holds what keeps
    /// the block from being freed.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are not the block of that kind written at that
    /// address of this file; `Io`.
    pub fn read_block(&self, address: BlockAddress, kind: BlockKind) -> StorageResult<Block> {
        let inner = &*self.inner;
        let file_bytes = inner.file_bytes.load(Ordering::Relaxed);
        let block = read_block(&*inner.file, inner.id, file_bytes, address, kind)?;
        let counters = &inner.counters;
        counters.blocks_read.fetch_add(1, Ordering::Relaxed);
        counters
            .bytes_read
            .fetch_add(u64::from(address.bytes), Ordering::Relaxed);
        Ok(block)
    }

    /// Starts writing blocks one after the other. `expected_bytes`, of stored
    /// blocks, sizes the first reservation; it may be wrong.
    #[must_use]
    pub fn writer(&self, expected_bytes: u64) -> BlockWriter {
        BlockWriter::new(Arc::clone(&self.inner), expected_bytes)
    }

    /// Says that the current root now refers to the `written` blocks and no
    /// longer to the `freed` ones. The caller installs the root before anyone
    /// can take a pin for it.
    ///
    /// A freed address that no live block has means that the tree is damaged:
    /// it is passed over, and later checkpoints fail with `Corrupt`, so that
    /// the damage does not reach the durable state.
    ///
    /// # Panics
    /// When `written` comes from another file.
    pub fn publish(&self, written: Vec<WrittenBlocks>, freed: &[BlockAddress]) {
        let mut live = Vec::new();
        for blocks in written {
            assert!(
                Arc::ptr_eq(blocks.inner(), &self.inner),
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
        let mut state = self.inner.state();
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

    /// Holds back the reuse of everything freed from now on.
    #[must_use]
    pub fn pin(&self) -> Pin {
        Pin {
            version: self.inner.state().space.pin(),
            inner: Arc::clone(&self.inner),
        }
    }

    /// Captures the current state as the next checkpoint; `payload` is the
    /// superblock's, and refers to published blocks only. The caller keeps
    /// publications away meanwhile. Does no I/O, but waits for a checkpoint of
    /// this file that is already under way.
    ///
    /// # Errors
    /// `TooLarge` for a payload over [`crate::PAYLOAD_BYTES_MAX`]; `Poisoned`
    /// after a failed sync; `Corrupt` after a publication that freed a block
    /// that was not live.
    pub fn prepare_checkpoint(&self, payload: Vec<u8>) -> StorageResult<PreparedCheckpoint> {
        PreparedCheckpoint::new(Arc::clone(&self.inner), payload)
    }

    /// Gives the space behind the last block in use back to the file system:
    /// what a writer that failed has left there.
    pub fn give_back_tail(&self) {
        cut_tail(&self.inner, &self.inner.state(), 1);
    }

    /// Length of the file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.inner.file_bytes.load(Ordering::Relaxed)
    }

    /// Sizes and counts.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let counters = &self.inner.counters;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let state = self.inner.state();
        Statistics {
            file_bytes: count(&self.inner.file_bytes),
            live_bytes: state.space.live_bytes(),
            free_bytes: state.space.free_bytes(),
            pending_free_bytes: state.space.pending_bytes(),
            blocks_written: count(&counters.blocks_written),
            bytes_written: count(&counters.bytes_written),
            blocks_read: count(&counters.blocks_read),
            bytes_read: count(&counters.bytes_read),
            syncs: count(&counters.syncs),
        }
    }
}

fn read_block(
    file: &dyn DiskFile,
    id: FileId,
    file_bytes: u64,
    address: BlockAddress,
    kind: BlockKind,
) -> StorageResult<Block> {
    let corrupt = |reason: &str| StorageError::corrupt(file.path(), address.offset, reason);
    let Some(extent) = address.extent() else {
        return Err(corrupt("no block can have this address"));
    };
    // Checked before memory is taken for it.
    if extent.end() > file_bytes {
        return Err(corrupt("the block's address lies beyond the file's end"));
    }
    let bytes = address.bytes as usize;
    let mut scratch = SCRATCH.take();
    if scratch.len() < bytes {
        scratch.resize(bytes, 0);
    }
    let (buffer, _) = scratch.split_at_mut(bytes);
    let block = file
        .read_exact_at(buffer, address.offset)
        .and_then(|()| block::decode(file.path(), id, address, kind, buffer));
    if scratch.len() <= SCRATCH_BYTES_MAX {
        SCRATCH.set(scratch);
    }
    block
}

fn read_space_map(file: &dyn DiskFile, superblock: &SuperblockInfo) -> StorageResult<SpaceMap> {
    let mut decoder = Decoder::new(superblock.end);
    let mut next = superblock.space_map;
    let mut offset = 0;
    let malformed = |offset: u64| {
        move |_: Malformed| StorageError::corrupt(file.path(), offset, "the space map is malformed")
    };
    while let Some(address) = next {
        decoder.enter(address).map_err(malformed(offset))?;
        offset = address.offset;
        let kind = BlockKind::SpaceMap;
        let block = read_block(file, superblock.file, superblock.end, address, kind)?;
        next = decoder.block(&block.raw).map_err(malformed(offset))?;
    }
    decoder.finish().map_err(malformed(offset))
}
