//! A checkpoint, from capture to durable superblock.
//!
//! 1. Prepare: capture what is live, reserve space for the space map.
//! 2. Write the space map.
//! 3. Sync: all blocks that the capture needs are durable.
//! 4. Write the superblock into the slot that does not hold the durable one.
//! 5. Sync: the new superblock is the durable one.
//! 6. Return the old space map and the frees that waited for this checkpoint.
//! 7. Write the superblock into the other slot too, unsynced: the next step 3
//!    makes it durable. A single damaged slot then never revives an older
//!    state, whose blocks may have been overwritten.
//! 8. Cut off a free tail.
//!
//! Failing before 4 leaves no trace. Failing at 4 or 5 leaves in doubt which
//! superblock the disk holds, so the space of both stays until a later
//! checkpoint succeeds; it writes the same slot again, under a higher
//! generation. Failures at 7 and 8 cost nothing and are not told. A failed
//! sync refuses all later checkpoints.

use crate::extents::Extent;
use crate::file::{Inner, State};
use crate::space::Capture;
use crate::space_map;
use crate::superblock::{Slot, SuperblockInfo};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::StorageResult;

/// A shorter free tail is kept: growing again would cost more than it holds.
const TAIL_BYTES_MIN: u64 = 1024 * 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// No superblock refers to the new space map.
    Prepared,
    /// The superblock may or may not be on disk.
    InDoubt,
    /// The superblock is durable.
    Durable,
}

/// A captured state on its way to disk. Dropping it gives the checkpoint up.
#[derive(Debug)]
pub struct PreparedCheckpoint {
    inner: Arc<Inner>,
    stage: Stage,
    slot: Slot,
    superblock: SuperblockInfo,
    capture: Capture,
    /// The space reserved for the space map.
    map: Vec<Extent>,
}

impl PreparedCheckpoint {
    pub(crate) fn new(inner: Arc<Inner>, payload: Vec<u8>) -> StorageResult<Self> {
        let mut superblock = SuperblockInfo {
            file: inner.id,
            generation: 0,
            space_map: None,
            end: 0,
            payload,
        };
        // Refuses a payload that is too large before anything is reserved.
        superblock.encode()?;
        let mut state = inner.take_checkpoint_turn();
        if let Err(error) = state.check() {
            inner.end_checkpoint_turn(&mut state);
            return Err(error);
        }
        let sizes = space_map::block_sizes(state.space.not_live());
        let map: Vec<Extent> = sizes
            .into_iter()
            .map(|bytes| state.space.allocate(bytes, bytes))
            .collect();
        inner.reached(state.space.end());
        let capture = state.space.capture(&map);
        state.generation += 1;
        superblock.generation = state.generation;
        let slot = state.durable_slot.other();
        drop(state);
        superblock.end = capture.end;
        Ok(Self {
            inner,
            stage: Stage::Prepared,
            slot,
            superblock,
            capture,
            map,
        })
    }

    /// Makes the captured state the one that a crash or a later open finds.
    ///
    /// # Errors
    /// `NoSpace`, `Io`, `Poisoned`, `Corrupt`. The older checkpoint stays
    /// valid (it, or this one, is found after a crash), and the space that it
    /// needs stays untouched.
    pub fn commit(mut self) -> StorageResult<()> {
        let inner = Arc::clone(&self.inner);
        inner.state().check()?;
        let (first, blocks) = space_map::encode(inner.id, &self.map, &self.capture.free);
        for block in blocks {
            inner.file.write_all_at(&block.bytes, block.offset)?;
        }
        self.superblock.space_map = Some(first);
        let superblock = self.superblock.encode()?;
        inner.sync()?;
        self.stage = Stage::InDoubt;
        inner.file.write_all_at(&superblock, self.slot.offset())?;
        inner.sync()?;
        self.stage = Stage::Durable;
        {
            let mut state = inner.state();
            state.durable_slot = self.slot;
            let old_map = std::mem::replace(&mut state.map, std::mem::take(&mut self.map));
            state.space.made_durable(self.capture.version, old_map);
        }
        let copied = inner
            .file
            .write_all_at(&superblock, self.slot.other().offset());
        drop(copied);
        cut_tail(&inner, &inner.state(), TAIL_BYTES_MIN);
        Ok(())
    }
}

impl Drop for PreparedCheckpoint {
    fn drop(&mut self) {
        let mut state = self.inner.state();
        let map = std::mem::take(&mut self.map);
        match self.stage {
            Stage::Prepared => {
                for extent in map {
                    state.space.release(extent);
                }
            }
            Stage::InDoubt => state.space.doubt(map),
            Stage::Durable => {}
        }
        self.inner.end_checkpoint_turn(&mut state);
    }
}

/// Shortens the file to what is in use, if that gives back as much as `least`.
/// Under the lock, so that no writer is given space beyond the end meanwhile.
pub(crate) fn cut_tail(inner: &Inner, state: &State, least: u64) {
    let end = state.space.end();
    let file_bytes = inner.file_bytes.load(Ordering::Relaxed);
    if file_bytes.saturating_sub(end) >= least && inner.file.set_len(end).is_ok() {
        inner.file_bytes.store(end, Ordering::Relaxed);
    }
}
