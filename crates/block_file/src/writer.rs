//! Writing a sequence of blocks.
//!
//! 1. A block is compressed into the buffer, after blocks that are not written yet.
//! 2. It gets its address: the next bytes of the reserved extent, which is
//!    extended in place if possible; otherwise the start of a new extent.
//! 3. The header, which contains the address, is filled in, and the payload is encrypted.
//! 4. The buffer is written when it is long enough, when the next address does
//!    not follow it, and at the end.
//!
//! Nothing refers to the blocks until they are published. After any failure
//! before that, their space is freed.

use crate::address::BlockAddress;
use crate::block::{BlockDescription, NewBlock, envelope_bytes};
use crate::extents::Extent;
use crate::layout::{BLOCK_HEADER_BYTES, whole_units};
use crate::shared::SharedFile;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::limits::BLOCK_RAW_BYTES_MAX;
use teak_base::{Encryption, KeyVersion, StorageError, StorageResult};
use teak_disk::pay_for_io;

/// Minimum size of a write to disk, except the last write of an extent.
const WRITE_BYTES: usize = 256 * 1024;
/// Such a write ends at a multiple of this size, so that no sector is written twice.
const SECTOR_BYTES: u64 = 4096;
/// Maximum size of a reservation, unless a single block needs more.
const EXTENT_BYTES: u64 = 1024 * 1024;

/// Writes blocks sequentially. Dropping it frees their space.
#[derive(Debug)]
pub struct BlockWriter {
    file: Arc<SharedFile>,
    expected_bytes: u64,
    /// Blocks must end at or before this offset; `None`: no limit.
    limit: Option<u64>,
    /// The file space of all blocks so far, both written and buffered.
    filled: Vec<Extent>,
    /// Reserved space for the next blocks, directly after the buffered ones.
    reserved_extent: Extent,
    /// Blocks not yet on disk; they end where `reserved_extent` starts.
    buffer: Vec<u8>,
    /// How the file was to be encrypted when the writer began.
    encryption: Arc<Encryption>,
    /// The key of the blocks, from the first one on.
    key: Option<Option<KeyVersion>>,
    bytes_written: u64,
    blocks_written: u64,
    failure: Option<StorageError>,
}

/// Blocks that are written but not published. Dropping them frees their space.
#[derive(Debug)]
pub struct WrittenBlocks {
    file: Arc<SharedFile>,
    extents: Vec<Extent>,
    bytes: u64,
    key: Option<KeyVersion>,
}

impl BlockWriter {
    pub(crate) fn new(file: Arc<SharedFile>, expected_bytes: u64) -> Self {
        Self {
            encryption: file.encryption(),
            key: None,
            file,
            expected_bytes,
            limit: None,
            filled: Vec::new(),
            reserved_extent: Extent::EMPTY,
            buffer: Vec::new(),
            bytes_written: 0,
            blocks_written: 0,
            failure: None,
        }
    }

    /// Compresses and writes one block. It may be buffered until
    /// [`BlockWriter::finish`].
    ///
    /// # Errors
    /// `TooLarge`, `NoSpace`, `Io`. After a failed write all later calls fail;
    /// the file itself remains usable.
    pub fn write(
        &mut self,
        description: BlockDescription,
        raw: &[u8],
    ) -> StorageResult<BlockAddress> {
        let placed = self.try_write(description, raw)?;
        let Some(address) = placed else {
            unreachable!("without a limit there is always space");
        };
        Ok(address)
    }

    /// Like [`BlockWriter::write`]. When there is no space before the limit, discards
    /// the block and returns `None`.
    pub(crate) fn try_write(
        &mut self,
        description: BlockDescription,
        raw: &[u8],
    ) -> StorageResult<Option<BlockAddress>> {
        self.check()?;
        let raw_bytes = match u32::try_from(raw.len()) {
            Ok(bytes) if raw.len() <= BLOCK_RAW_BYTES_MAX => bytes,
            _ => {
                return Err(StorageError::TooLarge {
                    what: "block",
                    bytes: raw.len() as u64,
                    limit: BLOCK_RAW_BYTES_MAX as u64,
                });
            }
        };
        let front = BLOCK_HEADER_BYTES + envelope_bytes(self.key()?);
        let start = self.buffer.len();
        self.buffer.resize(start + front, 0);
        let codec = description.codec.compress(raw, &mut self.buffer);
        let used = BlockDescription {
            codec,
            ..description
        };
        self.place(start, used, raw_bytes)
    }

    /// The key of the blocks. All blocks of a writer have the same.
    fn key(&mut self) -> StorageResult<Option<KeyVersion>> {
        if let Some(key) = self.key {
            return Ok(key);
        }
        let key = self.encryption.current(self.file.file.path());
        let key = key.inspect_err(|error| self.failure = Some(error.clone()))?;
        self.key = Some(key);
        Ok(key)
    }

    /// Like [`BlockWriter::place`], for a block without space for an envelope.
    pub(crate) fn place_plain(
        &mut self,
        start: usize,
        used: BlockDescription,
        raw_bytes: u32,
    ) -> StorageResult<Option<BlockAddress>> {
        let at = start + BLOCK_HEADER_BYTES;
        let envelope = envelope_bytes(self.key()?);
        self.buffer.splice(at..at, std::iter::repeat_n(0, envelope));
        self.place(start, used, raw_bytes)
    }

    /// Gives the block at `start` of the buffer, which has space for header and envelope, its address and
    /// header, and encrypts it. When there is no space before the limit, discards the block and returns `None`.
    fn place(
        &mut self,
        start: usize,
        used: BlockDescription,
        raw_bytes: u32,
    ) -> StorageResult<Option<BlockAddress>> {
        let bytes = self.buffer.len() - start;
        let padded = whole_units(bytes as u64);
        let reserved = self
            .reserve(start, padded)
            .inspect_err(|error| self.failure = Some(error.clone()))?;
        // `reserve` may have written the blocks before this one, and removed them from the buffer.
        let start = self.buffer.len() - bytes;
        if !reserved {
            self.buffer.truncate(start);
            return Ok(None);
        }
        let offset = self.reserved_extent.offset;
        let new = NewBlock {
            file: self.file.id,
            offset,
            description: used,
            raw_bytes,
            key: self.key()?,
        };
        let (_, block) = self.buffer.split_at_mut(start);
        new.seal(self.file.file.path(), &self.encryption, block)
            .inspect_err(|error| self.failure = Some(error.clone()))?;
        let padding = usize::try_from(padded).unwrap_or(bytes) - bytes;
        self.buffer.resize(self.buffer.len() + padding, 0);
        self.fill(padded);
        if self.buffer.len() >= WRITE_BYTES {
            // The rest of the last sector is written together with the next blocks.
            let placed = self.buffer.len();
            let in_last_sector = usize::try_from(self.reserved_extent.offset % SECTOR_BYTES);
            self.write_out(placed, placed - in_last_sector.unwrap_or(0))
                .inspect_err(|error| self.failure = Some(error.clone()))?;
            // The caller of a writer holds no lock.
            pay_for_io();
        }
        Ok(Some(BlockAddress {
            offset,
            // At most the raw bytes, a header and an envelope.
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        }))
    }

    /// Bytes of the blocks so far, headers and padding included.
    #[must_use]
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    /// Writes the buffered blocks and frees the unused space.
    ///
    /// # Errors
    /// `NoSpace`, `Io`; the space of all blocks is freed.
    pub fn finish(mut self) -> StorageResult<WrittenBlocks> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.write_out(self.buffer.len(), self.buffer.len())?;
        let counters = &self.file.counters;
        counters
            .blocks_written
            .fetch_add(self.blocks_written, Ordering::Relaxed);
        counters
            .bytes_written
            .fetch_add(self.bytes_written, Ordering::Relaxed);
        Ok(WrittenBlocks {
            file: Arc::clone(&self.file),
            extents: std::mem::take(&mut self.filled),
            bytes: self.bytes_written,
            key: self.key.flatten(),
        })
    }

    /// Makes sure that the reserved extent has `padded` bytes for the block at
    /// `start` of the buffer, which has no address yet. Returns false when there
    /// is no space before the limit.
    fn reserve(&mut self, start: usize, padded: u64) -> StorageResult<bool> {
        if self.reserved_extent.bytes >= padded {
            return Ok(true);
        }
        let expected = match self.expected_bytes.checked_sub(self.bytes_written) {
            Some(rest) if rest > 0 => rest,
            // The sequence is longer than expected: double it.
            _ => self.bytes_written,
        };
        let wanted = whole_units(expected.min(EXTENT_BYTES)).max(padded);
        let missing = padded - self.reserved_extent.bytes;
        if self.reserved_extent.offset > 0
            && let Some(more) =
                self.file
                    .extend(self.reserved_extent.end(), missing, wanted, self.limit)
        {
            self.reserved_extent.bytes += more.bytes;
            return Ok(true);
        }
        self.write_out(start, start)?;
        self.free_reserved();
        match self.file.allocate(padded, wanted, self.limit) {
            Some(extent) => self.reserved_extent = extent,
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Moves `padded` bytes from the reserved to the filled space.
    fn fill(&mut self, padded: u64) {
        match self.filled.last_mut() {
            Some(last) if last.end() == self.reserved_extent.offset => last.bytes += padded,
            _ => self.filled.push(Extent {
                offset: self.reserved_extent.offset,
                bytes: padded,
            }),
        }
        let reserved = self.reserved_extent;
        self.reserved_extent = Extent::between(reserved.offset + padded, reserved.end());
        self.bytes_written += padded;
        self.blocks_written += 1;
    }

    /// Writes the first `length` bytes of the buffer. Its first `placed` bytes end where the
    /// reserved extent starts.
    fn write_out(&mut self, placed: usize, length: usize) -> StorageResult<()> {
        if length == 0 {
            return Ok(());
        }
        let (written, _) = self.buffer.split_at(length);
        let offset = self.reserved_extent.offset - placed as u64;
        self.file.write(written, offset)?;
        self.buffer.drain(..length);
        Ok(())
    }

    /// Reserves space for a block of at most `raw_bytes`. Returns false when there is none before the
    /// limit.
    pub(crate) fn reserve_next(&mut self, raw_bytes: u64) -> StorageResult<bool> {
        let front = BLOCK_HEADER_BYTES + envelope_bytes(self.key()?);
        self.reserve(self.buffer.len(), whole_units(raw_bytes + front as u64))
    }

    /// The failure of an earlier call, which makes the writer unusable.
    pub(crate) fn check(&self) -> StorageResult<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    pub(crate) fn limit_to(&mut self, limit: Option<u64>) {
        self.limit = limit;
    }

    pub(crate) fn file(&self) -> &Arc<SharedFile> {
        &self.file
    }

    /// The blocks that are not on disk, and the one that is being built.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    fn free_reserved(&mut self) {
        let reserved = std::mem::replace(&mut self.reserved_extent, Extent::EMPTY);
        self.file.state().space.release(reserved);
    }
}

impl Drop for BlockWriter {
    fn drop(&mut self) {
        let mut state = self.file.state();
        for &extent in self.filled.iter().chain([&self.reserved_extent]) {
            state.space.release(extent);
        }
    }
}

impl WrittenBlocks {
    /// Bytes of the blocks, headers and padding included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn file(&self) -> &Arc<SharedFile> {
        &self.file
    }

    /// The key of the blocks.
    pub(crate) fn key(&self) -> Option<KeyVersion> {
        self.key
    }

    pub(crate) fn into_extents(mut self) -> Vec<Extent> {
        std::mem::take(&mut self.extents)
    }
}

impl Drop for WrittenBlocks {
    fn drop(&mut self) {
        if self.extents.is_empty() {
            return;
        }
        let mut state = self.file.state();
        for &extent in &self.extents {
            state.space.release(extent);
        }
    }
}
