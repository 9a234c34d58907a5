//! Finding blocks of a damaged file to which no readable block refers.

use crate::address::BlockAddress;
use crate::block::{Block, BlockKind, claimed_block};
use crate::file::BlockFile;
use crate::layout::{BLOCK_HEADER_BYTES, BLOCK_UNIT_BYTES, BLOCKS_START, whole_units};
use teak_base::{StorageError, StorageResult};

/// Bytes that one read requests from the disk.
const WINDOW_BYTES: u64 = 1 << 20;

/// Bytes of a file that were read together.
#[derive(Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    fn header(&self, at: u64) -> Option<&[u8]> {
        let skip = usize::try_from(at.checked_sub(self.start)?).ok()?;
        self.bytes.get(skip..skip.checked_add(BLOCK_HEADER_BYTES)?)
    }
}

impl BlockFile {
    /// Passes each block of a kind whose checksum is right to `visit`, by offset, except blocks in unused
    /// ranges. If the space map could not be read, blocks that were freed may be among them. `progress` is called with
    /// the offset. Returns the error of the first block whose key is not available: it may be a block of now, or one that was freed
    /// before a key was changed.
    ///
    /// # Errors
    /// Errors of `visit`.
    pub fn visit_intact(
        &self,
        kind: BlockKind,
        progress: &mut dyn FnMut(u64),
        visit: &mut dyn FnMut(BlockAddress, Block) -> StorageResult<()>,
    ) -> StorageResult<Option<StorageError>> {
        let mut locked = None;
        let mut start = BLOCKS_START;
        let mut unused = self.unused_ranges();
        unused.push((self.file_bytes(), self.file_bytes()));
        for (hole, after) in unused {
            let found = self.visit_range(kind, (start, hole), progress, visit)?;
            locked = locked.or(found);
            start = start.max(after);
        }
        Ok(locked)
    }

    fn visit_range(
        &self,
        kind: BlockKind,
        (start, end): (u64, u64),
        progress: &mut dyn FnMut(u64),
        visit: &mut dyn FnMut(BlockAddress, Block) -> StorageResult<()>,
    ) -> StorageResult<Option<StorageError>> {
        let mut locked = None;
        let mut window = Window::default();
        let mut at = start;
        while at + BLOCK_HEADER_BYTES as u64 <= end {
            progress(at);
            let found = self.address_at((at, end), kind, &mut window);
            let read = found.map(|address| (address, self.read_block(address, kind)));
            let block = match read {
                Some((address, Ok(block))) => Some((address, block)),
                Some((_, Err(error @ StorageError::Key { .. }))) => {
                    locked.get_or_insert(error);
                    None
                }
                Some((_, Err(_))) | None => None,
            };
            at += match block {
                Some((address, block)) => {
                    visit(address, block)?;
                    whole_units(address.bytes.into())
                }
                None => BLOCK_UNIT_BYTES,
            };
        }
        Ok(locked)
    }

    /// The address of the block at an offset, if a header of the kind is there.
    fn address_at(
        &self,
        (at, end): (u64, u64),
        kind: BlockKind,
        window: &mut Window,
    ) -> Option<BlockAddress> {
        if window.header(at).is_none() {
            let wanted = (end - at).min(WINDOW_BYTES);
            // If a part of these bytes cannot be read, the header alone may be readable.
            let read = self.read_window(at, wanted, window);
            let header = BLOCK_HEADER_BYTES as u64;
            read.or_else(|_| self.read_window(at, header, window))
                .ok()?;
        }
        let block = claimed_block(window.header(at)?)?;
        let is_here = block.file == self.file_id() && block.address.offset == at;
        (is_here && block.kind == Some(kind)).then_some(block.address)
    }

    fn read_window(&self, at: u64, bytes: u64, window: &mut Window) -> Result<(), StorageError> {
        window.bytes.clear();
        window.start = at;
        let mut buffer = vec![0; usize::try_from(bytes).unwrap_or(0)];
        self.shared().file.read_exact_at(&mut buffer, at)?;
        window.bytes = buffer;
        Ok(())
    }
}
