//! Writing blocks one after the other.
//!
//! 1. A block is compressed behind those that wait in the buffer.
//! 2. It gets its place: next in the reserved extent, which grows in place
//!    when it can; else at the start of a new one.
//! 3. The header, which names that place, is filled in.
//! 4. The buffer goes to disk once it is long, or when the place jumps.
//!
//! Nobody else knows of the blocks until they are published. Whatever goes
//! wrong before that, the space returns.

use crate::address::{BlockAddress, whole_units};
use crate::block::{BLOCK_HEADER_BYTES, BlockDescription, encode_header};
use crate::extents::Extent;
use crate::file::Inner;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::limits::BLOCK_RAW_BYTES_MAX;
use teak_base::{StorageError, StorageResult};

/// One write to disk is at least this long, but for the last of an extent.
const WRITE_BYTES: usize = 256 * 1024;
/// A reservation of a long sequence.
const EXTENT_BYTES: u64 = 1024 * 1024;

/// Writes blocks sequentially. Dropping it returns the space.
#[derive(Debug)]
pub struct BlockWriter {
    inner: Arc<Inner>,
    expected_bytes: u64,
    /// Space taken so far that holds blocks, written or buffered.
    filled: Vec<Extent>,
    /// Reserved space for the blocks to come, directly after the buffer.
    room: Extent,
    /// Blocks not yet on disk; they end where `room` starts.
    buffer: Vec<u8>,
    bytes_written: u64,
    blocks_written: u64,
    failure: Option<StorageError>,
}

/// Blocks that are written but not published. Dropping them returns the space.
#[derive(Debug)]
pub struct WrittenBlocks {
    inner: Arc<Inner>,
    extents: Vec<Extent>,
    bytes: u64,
}

impl BlockWriter {
    pub(crate) fn new(inner: Arc<Inner>, expected_bytes: u64) -> Self {
        Self {
            inner,
            expected_bytes,
            filled: Vec::new(),
            room: Extent {
                offset: 0,
                bytes: 0,
            },
            buffer: Vec::new(),
            bytes_written: 0,
            blocks_written: 0,
            failure: None,
        }
    }

    /// Compresses and writes one block; it may stay in memory until
    /// [`BlockWriter::finish`].
    ///
    /// # Errors
    /// `TooLarge`, `NoSpace`, `Io`. After a failed write all later calls fail;
    /// the file itself stays usable.
    pub fn write(
        &mut self,
        description: BlockDescription,
        raw: &[u8],
    ) -> StorageResult<BlockAddress> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
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
        let start = self.buffer.len();
        self.buffer.resize(start + BLOCK_HEADER_BYTES, 0);
        let codec = description.codec.compress(raw, &mut self.buffer);
        let bytes = self.buffer.len() - start;
        let padded = whole_units(bytes as u64);
        self.make_room(start, padded)
            .inspect_err(|error| self.failure = Some(error.clone()))?;
        // Making room may have written out all that stood before this block.
        let start = self.buffer.len() - bytes;
        let offset = self.room.offset;
        let used = BlockDescription {
            codec,
            ..description
        };
        let (header, stored) = self.buffer.split_at_mut(start + BLOCK_HEADER_BYTES);
        let (_, header) = header.split_at_mut(start);
        header.copy_from_slice(&encode_header(
            self.inner.id,
            offset,
            used,
            raw_bytes,
            stored,
        ));
        let padding = usize::try_from(padded).unwrap_or(bytes) - bytes;
        self.buffer.resize(self.buffer.len() + padding, 0);
        self.fill(padded);
        if self.buffer.len() >= WRITE_BYTES {
            self.write_out(self.buffer.len())
                .inspect_err(|error| self.failure = Some(error.clone()))?;
        }
        Ok(BlockAddress {
            offset,
            // At most the raw bytes and a header, so it fits.
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        })
    }

    /// Bytes of the blocks so far, headers and padding included.
    #[must_use]
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    /// Writes what is buffered and returns the unused space.
    ///
    /// # Errors
    /// `NoSpace`, `Io`; the space of all blocks returns.
    pub fn finish(mut self) -> StorageResult<WrittenBlocks> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.write_out(self.buffer.len())?;
        let counters = &self.inner.counters;
        counters
            .blocks_written
            .fetch_add(self.blocks_written, Ordering::Relaxed);
        counters
            .bytes_written
            .fetch_add(self.bytes_written, Ordering::Relaxed);
        Ok(WrittenBlocks {
            inner: Arc::clone(&self.inner),
            extents: std::mem::take(&mut self.filled),
            bytes: self.bytes_written,
        })
    }

    /// Makes `room` hold `padded` bytes for the block that stands unplaced at
    /// `start` of the buffer.
    fn make_room(&mut self, start: usize, padded: u64) -> StorageResult<()> {
        if self.room.bytes >= padded {
            return Ok(());
        }
        let expected = match self.expected_bytes.checked_sub(self.bytes_written) {
            Some(rest) if rest > 0 => rest,
            // Longer than expected: as much again.
            _ => self.bytes_written,
        };
        let wanted = whole_units(expected.min(EXTENT_BYTES)).max(padded);
        let missing = padded - self.room.bytes;
        if self.room.offset > 0
            && let Some(more) = self.inner.extend(self.room.end(), missing, wanted)
        {
            self.room.bytes += more.bytes;
            return Ok(());
        }
        self.write_out(start)?;
        self.return_room();
        self.room = self.inner.allocate(padded, wanted);
        Ok(())
    }

    /// Moves `padded` bytes from the room to the filled space.
    fn fill(&mut self, padded: u64) {
        match self.filled.last_mut() {
            Some(last) if last.end() == self.room.offset => last.bytes += padded,
            _ => self.filled.push(Extent {
                offset: self.room.offset,
                bytes: padded,
            }),
        }
        self.room = Extent::between(self.room.offset + padded, self.room.end());
        self.bytes_written += padded;
        self.blocks_written += 1;
    }

    /// Writes the first `length` bytes of the buffer, which end at the room.
    fn write_out(&mut self, length: usize) -> StorageResult<()> {
        if length == 0 {
            return Ok(());
        }
        let (placed, _) = self.buffer.split_at(length);
        self.inner
            .file
            .write_all_at(placed, self.room.offset - length as u64)?;
        self.buffer.drain(..length);
        Ok(())
    }

    fn return_room(&mut self) {
        let room = std::mem::replace(
            &mut self.room,
            Extent {
                offset: 0,
                bytes: 0,
            },
        );
        self.inner.state().space.release(room);
    }
}

impl Drop for BlockWriter {
    fn drop(&mut self) {
        let mut state = self.inner.state();
        for &extent in self.filled.iter().chain([&self.room]) {
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

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
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
        let mut state = self.inner.state();
        for &extent in &self.extents {
            state.space.release(extent);
        }
    }
}
