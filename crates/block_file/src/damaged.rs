//! Opening a damaged file, to read the blocks that are intact.

use crate::extents::ExtentSet;
use crate::file::BlockFile;
use crate::layout::BLOCKS_START;
use crate::reader::read_space_map;
use crate::shared::{FileState, SharedFile};
use crate::space::Space;
use crate::superblock::{SuperblockInfo, SuperblockSlot, not_before, read_both, valid};
use std::path::Path;
use std::sync::Arc;
use teak_base::{FileId, StorageError, StorageResult};
use teak_disk::{Disk, DiskFile};

impl BlockFile {
    /// Opens a file for reading although parts of it are damaged. Returns the
    /// payload of the newest checkpoint whose listed new blocks are intact, or of the
    /// newest checkpoint if there is none. Uses checkpoints before `generation_min`,
    /// which is known to have been durable, only if there are no others. Also returns
    /// an error if it uses such an older checkpoint, or if one superblock, which may be
    /// the newest, cannot be read. Writes nothing; checkpoints of the file fail.
    ///
    /// # Errors
    /// `Corrupt` when no superblock is valid, or the file is not the `expected`
    /// one; `UnsupportedFormat`, `NotFound`; `Io` when neither superblock can be
    /// read.
    pub fn open_damaged(
        disk: &Arc<dyn Disk>,
        path: &Path,
        expected: FileId,
        generation_min: u64,
    ) -> StorageResult<(Self, Vec<u8>, Option<StorageError>)> {
        let file = disk.open(path)?;
        let (both, unreadable) = without_unreadable(read_both(&*file));
        let found = valid(path, both)?;
        let (found, stale) = match not_before(path, found.clone(), generation_min) {
            Ok(recent) => (recent, None),
            Err(stale) => (found, Some(stale)),
        };
        let (slot, superblock) = newest(&*file, path, found)?;
        if superblock.file != expected {
            let found = superblock.file;
            let reason = format!("the file names itself {found}, but {expected} was expected");
            return Err(StorageError::corrupt(path, 0, reason));
        }
        // Blocks beyond the end of a file that was cut off are reported when they are read.
        let map = read_space_map(&*file, &superblock).unwrap_or_default();
        let space = Space::opened(superblock.end, &map.free, &map.places);
        let payload = superblock.payload.clone();
        let id = superblock.file;
        let mut state = FileState::new(space, slot, Some(superblock), map.places, false);
        let reason = "the file was opened to read what is intact";
        state.refuse(StorageError::corrupt(path, slot.offset(), reason));
        let file_bytes = file.len()?;
        let shared = SharedFile::new(file, id, file_bytes, state);
        let older = unreadable.or(stale);
        Ok((Self::from_shared(shared), payload, older))
    }
}

impl BlockFile {
    /// Opens a file of which no superblock is valid, to find intact blocks. Nothing is known about free space. Writes nothing;
    /// checkpoints fail.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    pub fn open_without_superblock(
        disk: &Arc<dyn Disk>,
        path: &Path,
        file_id: FileId,
    ) -> StorageResult<Self> {
        let file = disk.open(path)?;
        let file_bytes = file.len()?;
        let space = Space::opened(file_bytes.max(BLOCKS_START), &ExtentSet::default(), &[]);
        let slot = SuperblockSlot::First;
        let mut state = FileState::new(space, slot, None, Vec::new(), false);
        state.refuse(StorageError::corrupt(path, 0, "no superblock is valid"));
        let shared = SharedFile::new(file, file_id, file_bytes, state);
        Ok(Self::from_shared(shared))
    }
}

type BothSuperblocks = [StorageResult<SuperblockInfo>; 2];

/// Replaces the superblock of a slot that cannot be read with that of the other slot, if that one
/// is valid. Also returns the error.
fn without_unreadable(both: BothSuperblocks) -> (BothSuperblocks, Option<StorageError>) {
    match both {
        [Ok(one), Err(cause @ StorageError::Io { .. })]
        | [Err(cause @ StorageError::Io { .. }), Ok(one)] => {
            ([Ok(one.clone()), Ok(one)], Some(cause))
        }
        both => (both, None),
    }
}

fn newest(
    file: &dyn DiskFile,
    path: &Path,
    found: Vec<(SuperblockSlot, SuperblockInfo)>,
) -> StorageResult<(SuperblockSlot, SuperblockInfo)> {
    let is_complete = |(_, superblock): &&(SuperblockSlot, SuperblockInfo)| {
        let new = superblock.new_blocks.as_ref();
        new.is_none_or(|new| new.is_on(file).unwrap_or(false))
    };
    let complete = found.iter().find(is_complete).cloned();
    let any = complete.or_else(|| found.into_iter().next());
    any.ok_or_else(|| StorageError::corrupt(path, 0, "no superblock is valid"))
}
