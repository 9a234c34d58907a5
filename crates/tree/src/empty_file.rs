//! Detects index files that have never had a checkpoint.

use crate::payload::Payload;
use std::path::Path;
use std::sync::Arc;
use teak_base::StorageResult;
use teak_block_file::{BLOCKS_START, read_superblocks};
use teak_disk::Disk;

/// Whether an index file contains no entries because no checkpoint was made since its creation,
/// which may even be incomplete. Returns false for a tree whose entries were all deleted.
///
/// # Errors
/// `Corrupt`, `UnsupportedFormat`, `NotFound`, `Io`.
pub fn is_empty_index_file(disk: &Arc<dyn Disk>, path: &Path) -> StorageResult<bool> {
    if disk.open(path)?.len()? <= BLOCKS_START {
        return Ok(true);
    }
    // Both, because a damaged one may be that of a checkpoint with entries.
    for superblock in read_superblocks(disk, path)? {
        if Payload::decode(path, &superblock?.payload)?.root.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}
