//! Moving blocks to holes near the start of the file, so that its end becomes
//! free.
//!
//! 1. The stored bytes of a block are read, verified and decrypted, but not decompressed.
//! 2. They are written at the lowest suitable hole before the limit, with a new
//!    header, which contains the new address and the checksum over it, and encrypted again if the file is encrypted.
//! 3. The caller publishes the copies, and frees the old places, together with
//!    the blocks that refer to the new addresses.

use crate::address::BlockAddress;
use crate::block::{BlockDescription, BlockKind};
use crate::reader::read_stored;
use crate::shared::SharedFile;
use crate::writer::{BlockWriter, WrittenBlocks};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::StorageResult;

/// Copies blocks, to holes before a limit if there is one. Dropping it frees the space of the copies.
#[derive(Debug)]
pub struct BlockMover {
    writer: BlockWriter,
}

impl BlockMover {
    pub(crate) fn new(file: Arc<SharedFile>, limit: Option<u64>, expected_bytes: u64) -> Self {
        let mut writer = BlockWriter::new(file, expected_bytes);
        writer.limit_to(limit);
        Self { writer }
    }

    /// Reserves contiguous space for a block of at most `raw_bytes` that is written next. Returns false
    /// when there is no space for it before the limit.
    ///
    /// # Errors
    /// `NoSpace`, `Io`, `Key`.
    pub fn reserve(&mut self, raw_bytes: u64) -> StorageResult<bool> {
        self.writer.reserve_next(raw_bytes)
    }

    /// Copies a block. Returns its new address; `None` when there is no hole for
    /// it. The caller makes sure that the block is not freed during the call.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are not a block of that kind, written at that
    /// address of this file; `NoSpace`, `Io`. After a failed write all later
    /// calls fail.
    pub fn copy(
        &mut self,
        address: BlockAddress,
        kind: BlockKind,
    ) -> StorageResult<Option<BlockAddress>> {
        self.writer.check()?;
        let file = Arc::clone(self.writer.file());
        let file_bytes = file.file_bytes.load(Ordering::Relaxed);
        let buffer = self.writer.buffer();
        let start = buffer.len();
        let source = (file.id, file_bytes);
        let read = read_stored(
            &*file.file,
            &file.encryption(),
            source,
            (address, kind),
            buffer,
        );
        let (description, raw_bytes) = match read {
            Ok(read) => read,
            Err(error) => {
                buffer.truncate(start);
                return Err(error);
            }
        };
        self.writer.place_plain(start, description, raw_bytes)
    }

    /// Writes a block that refers to copies. `None` when there is no hole for
    /// it.
    ///
    /// # Errors
    /// `TooLarge`, `NoSpace`, `Io`.
    pub fn write(
        &mut self,
        description: BlockDescription,
        raw: &[u8],
    ) -> StorageResult<Option<BlockAddress>> {
        self.writer.try_write(description, raw)
    }

    /// Writes the buffered blocks and frees the unused space.
    ///
    /// # Errors
    /// `NoSpace`, `Io`; the space of all copies is freed.
    pub fn finish(self) -> StorageResult<WrittenBlocks> {
        let file = Arc::clone(self.writer.file());
        let written = self.writer.finish()?;
        let moved = &file.counters.bytes_moved;
        moved.fetch_add(written.bytes(), Ordering::Relaxed);
        Ok(written)
    }
}
