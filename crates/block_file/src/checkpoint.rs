//! Checkpoints: make a captured state durable.
//!
//! 1. Prepare: capture the live space, reserve space for the space map.
//! 2. Write the space map.
//! 3. Sync: all blocks that the capture needs are durable.
//! 4. Write the superblock into the slot that does not hold the durable one.
//! 5. Sync: the new superblock is durable.
//! 6. Free the old space map and the blocks that waited for this checkpoint.
//! 7. Write the superblock into the other slot too, unsynced: the next step 3 makes it durable. So
//!    if one slot is damaged, a reader never uses an older state, whose blocks may have been
//!    overwritten.
//! 8. Truncate a free tail.
//!
//! A failure before step 4 has no effect. After a failure in step 4 or 5 it is unknown which
//! superblock is on disk, so the space of both is retained until a later checkpoint succeeds. The
//! later checkpoint writes the same slot again, with a higher generation. Failures in steps 7 and 8
//! have no effect and are not reported. After a failed sync all later checkpoints fail.

use crate::extents::Extent;
use crate::shared::SharedFile;
use crate::space::Capture;
use crate::space_map;
use crate::superblock::{SuperblockInfo, SuperblockSlot};
use std::sync::Arc;
use teak_base::StorageResult;

/// Minimum size of a free tail to truncate. For less, growing the file again would cost more.
fn tail_bytes_min(end: u64) -> u64 {
    (end / 32).clamp(4 * 1024, 64 * 1024)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// No superblock refers to the new space map.
    Prepared,
    /// The superblock may or may not be on disk.
    InDoubt,
    /// The superblock is durable.
    Durable,
}

/// A captured state that is not yet on disk. Dropping it cancels the checkpoint.
#[derive(Debug)]
pub struct PreparedCheckpoint {
    shared: Arc<SharedFile>,
    stage: Stage,
    slot: SuperblockSlot,
    superblock: SuperblockInfo,
    capture: Capture,
    /// The space reserved for the space map.
    map: Vec<Extent>,
}

impl PreparedCheckpoint {
    pub(crate) fn new(shared: Arc<SharedFile>, payload: Vec<u8>) -> StorageResult<Self> {
        let mut superblock = SuperblockInfo {
            file: shared.id,
            generation: 0,
            space_map: None,
            end: 0,
            payload,
        };
        // Returns an error for a payload that is too large, before space is reserved.
        superblock.encode()?;
        let mut state = shared.begin_checkpoint();
        if let Err(error) = state.check() {
            shared.end_checkpoint(&mut state);
            return Err(error);
        }
        let sizes = space_map::block_sizes(state.space.not_live());
        let map: Vec<Extent> = sizes
            .into_iter()
            .map(|bytes| state.space.allocate(bytes, bytes))
            .collect();
        shared.raise_file_bytes(state.space.end());
        let capture = state.space.capture(&map);
        state.generation += 1;
        superblock.generation = state.generation;
        let slot = state.durable_slot.other();
        drop(state);
        superblock.end = capture.end;
        Ok(Self {
            shared,
            stage: Stage::Prepared,
            slot,
            superblock,
            capture,
            map,
        })
    }

    /// Makes the captured state durable: it becomes the state that the next open reads.
    ///
    /// # Errors
    /// `NoSpace`, `Io`, `Poisoned`, `Corrupt`. The previous checkpoint remains valid and its space
    /// is not reused. After a crash, the file has either the previous or this checkpoint.
    pub fn commit(mut self) -> StorageResult<()> {
        let shared = Arc::clone(&self.shared);
        shared.state().check()?;
        let (first, blocks) = space_map::encode(shared.id, &self.map, &self.capture.free);
        for block in blocks {
            shared.file.write_all_at(&block.bytes, block.offset)?;
        }
        self.superblock.space_map = Some(first);
        let superblock = self.superblock.encode()?;
        shared.sync()?;
        self.stage = Stage::InDoubt;
        shared.file.write_all_at(&superblock, self.slot.offset())?;
        shared.sync()?;
        self.stage = Stage::Durable;
        {
            let mut state = shared.state();
            state.durable_slot = self.slot;
            let old_map = std::mem::replace(&mut state.map, std::mem::take(&mut self.map));
            state.space.made_durable(self.capture.version, old_map);
        }
        let other = self.slot.other().offset();
        let _ = shared.file.write_all_at(&superblock, other);
        let state = shared.state();
        shared.truncate_free_tail(&state, tail_bytes_min(state.space.end()));
        Ok(())
    }
}

impl Drop for PreparedCheckpoint {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        let map = std::mem::take(&mut self.map);
        match self.stage {
            Stage::Prepared => {
                for extent in map {
                    state.space.release(extent);
                }
            }
            Stage::InDoubt => state.space.retain_in_doubt(map),
            Stage::Durable => {}
        }
        self.shared.end_checkpoint(&mut state);
    }
}
