//! Whether an index file contains entries.

use crate::payload::Payload;
use std::path::Path;
use std::sync::Arc;
use teak_base::StorageResult;
use teak_block_file::{BLOCKS_START, BlockFile};
use teak_disk::Disk;

/// Whether no checkpoint of an index file contains entries: its creation may not
/// even be complete.
///
/// # Errors
/// `Corrupt`, `UnsupportedFormat`, `NotFound`, `Io`: it is unknown.
pub fn is_empty_index_file(disk: &Arc<dyn Disk>, path: &Path) -> StorageResult<bool> {
    if disk.open(path)?.len()? <= BLOCKS_START {
        return Ok(true);
    }
    let (_, payload) = BlockFile::open(disk, path, None)?;
    Ok(Payload::decode(path, &payload)?.root.is_none())
}
