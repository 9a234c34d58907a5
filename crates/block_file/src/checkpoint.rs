//! Checkpoints: from the captured state to the durable superblock.
//!
//! 1. Begin: wait for the checkpoint in progress, if there is one.
//! 2. Capture: copy the state of the space, under the lock of the state; the lists
//!    of holes are shared. The other steps hold this lock only briefly at a time.
//! 3. The caller writes and publishes the blocks that the captured root lacks.
//! 4. Reserve space for the space map, and write it.
//! 5. Sync, if the blocks that no durable checkpoint contains are not known or too
//!    many to be listed, or if it is not known in which slot the superblock is
//!    durable. In the last case, first write that superblock again.
//! 6. Write the superblock into the slot that does not hold the durable one. If
//!    step 5 did not sync, it lists the new blocks with a checksum, and a reader
//!    that finds them incomplete uses the other slot.
//! 7. Sync: the new superblock is durable, and so are the blocks.
//! 8. Free the old space map and the freed blocks that only older checkpoints need.
//! 9. Write the superblock into the other slot too, unsynced: the next sync
//!    makes it durable. So after damage of a single slot, a reader never uses
//!    an older state, whose blocks may have been overwritten.
//! 10. Truncate a free tail, unless it is short.
//!
//! A failure before step 6 does not change the durable state. After a failure in step 6 or 7 it is
//! unknown which superblock is on disk, so the space of both is retained until
//! a later checkpoint succeeds; that one writes the same slot again, with a
//! higher generation. Failures in steps 9 and 10 have no effect and are not
//! reported. After a failed sync all later checkpoints fail.

use crate::address::BlockAddress;
use crate::capture::Capture;
use crate::extents::Extent;
use crate::new_blocks::NewBlocks;
use crate::publication::Publication;
use crate::shared::SharedFile;
use crate::space_map;
use crate::superblock::{SuperblockInfo, SuperblockSlot};
use crate::writer::WrittenBlocks;
use std::sync::Arc;
use teak_base::{EncryptionState, StorageResult};

/// Minimum size of a free tail that is truncated. For a shorter one, growing the file again would
/// cost more than its space is worth.
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

/// The right to make the next checkpoint of a file. Dropping it lets another
/// thread begin one.
#[derive(Debug)]
pub struct CheckpointTurn {
    shared: Arc<SharedFile>,
}

/// A captured state that is not yet on disk. Dropping it ends its turn, and cancels
/// the checkpoint unless its superblock may have been written.
#[derive(Debug)]
pub struct PreparedCheckpoint {
    turn: CheckpointTurn,
    stage: Stage,
    slot: SuperblockSlot,
    generation: u64,
    capture: Capture,
    /// Whether the superblock may list the new blocks, so that they need no earlier sync.
    may_list_new_blocks: bool,
    /// How the captured blocks are encrypted.
    encryption: EncryptionState,
    /// The space reserved for the space map.
    map: Vec<Extent>,
}

impl CheckpointTurn {
    pub(crate) fn new(shared: Arc<SharedFile>) -> Self {
        shared.begin_checkpoint();
        Self { shared }
    }

    /// Captures the current state as the next checkpoint. The caller prevents
    /// publications during this call. Does no I/O and waits for no other
    /// checkpoint.
    ///
    /// # Errors
    /// `Poisoned` after a failed sync; `Corrupt` after a publication that freed
    /// a block that was not live.
    pub fn capture(self) -> StorageResult<PreparedCheckpoint> {
        let mut state = self.shared.state();
        state.check()?;
        let capture = state.space.capture();
        state.generation += 1;
        let generation = state.generation;
        let slot = state.durable_slot.other();
        // Until this checkpoint is durable, the next capture cannot list all blocks that are
        // not synced: it does not contain those of this one.
        let may_list_new_blocks = std::mem::replace(&mut state.may_list_new_blocks, false);
        let encryption = state.encryption;
        drop(state);
        Ok(PreparedCheckpoint {
            turn: self,
            stage: Stage::Prepared,
            slot,
            generation,
            capture,
            may_list_new_blocks,
            encryption,
            map: Vec::new(),
        })
    }
}

impl Drop for CheckpointTurn {
    fn drop(&mut self) {
        self.shared.end_checkpoint();
    }
}

impl PreparedCheckpoint {
    /// Adds blocks to the captured state that belong to it but were written
    /// after the capture, and frees blocks that it does not refer to. As
    /// [`crate::BlockFile::publish`] otherwise.
    ///
    /// # Panics
    /// When `written` belongs to another file.
    pub fn publish(&mut self, written: Vec<WrittenBlocks>, freed: &[BlockAddress]) {
        let shared = &self.turn.shared;
        let changes = Publication::new(shared, written, freed);
        self.capture.publish(&changes.written, &changes.freed);
        let version = self.capture.version;
        changes.apply(shared, |space| {
            space.publish_captured(version, &changes.written, &changes.freed)
        });
    }

    /// Makes the captured state durable: recovery and later opens find it, and
    /// `payload`, which refers to published blocks only. The turn continues
    /// until this is dropped.
    ///
    /// # Errors
    /// `TooLarge` for a payload over [`crate::PAYLOAD_BYTES_MAX`]; `NoSpace`,
    /// `Io`, `Poisoned`, `Corrupt`. The older checkpoint remains valid: a crash
    /// leaves either it or this one, and the space of neither is reused.
    ///
    /// # Panics
    /// When it was called before.
    pub fn commit(&mut self, payload: &[u8]) -> StorageResult<()> {
        assert!(
            self.stage == Stage::Prepared && self.map.is_empty(),
            "a checkpoint is committed once"
        );
        let shared = Arc::clone(&self.turn.shared);
        shared.state().check()?;
        let mut superblock = SuperblockInfo::new(shared.id, self.generation, payload);
        superblock.encryption = self.encryption;
        // Nodes may have been published since the capture.
        superblock.encryption.is_mixed |= shared.state().encryption.is_mixed;
        // Refuses a payload that is too large before anything is reserved.
        superblock.encode()?;
        let epochs = shared.state().encoded_epochs();
        let epochs = epochs.as_deref();
        for bytes in space_map::block_sizes(self.capture.not_live(), epochs) {
            self.map.extend(shared.allocate(bytes, bytes, None));
        }
        let (holes, end) = self.capture.holes(&self.map);
        let (first, blocks) = space_map::encode(shared.id, &self.map, &holes, epochs);
        for block in blocks {
            shared.write(&block.bytes, block.offset)?;
        }
        superblock.space_map = Some(first);
        superblock.end = end;
        if self.may_list_new_blocks {
            let extents = self.capture.new_extents(&self.map);
            superblock.new_blocks = NewBlocks::describe(&*shared.file, extents)?;
        }
        if superblock.new_blocks.is_none() {
            shared.rewrite_superblock()?;
            shared.sync()?;
        }
        let encoded = superblock.encode()?;
        self.stage = Stage::InDoubt;
        shared.file.write_all_at(&encoded, self.slot.offset())?;
        shared.sync()?;
        self.stage = Stage::Durable;
        let map = std::mem::take(&mut self.map);
        shared.made_durable(self.slot, superblock, self.capture.version, map);
        let other = self.slot.other().offset();
        let _ = shared.file.write_all_at(&encoded, other);
        shared.truncate_free_tail(tail_bytes_min);
        Ok(())
    }
}

impl Drop for PreparedCheckpoint {
    fn drop(&mut self) {
        let map = std::mem::take(&mut self.map);
        match self.stage {
            Stage::Prepared => {
                let mut state = self.turn.shared.state();
                for extent in map {
                    state.space.release(extent);
                }
            }
            Stage::InDoubt => self.turn.shared.state().space.retain_in_doubt(map),
            Stage::Durable => {}
        }
    }
}
