//! The file end of the log: compresses a batch, writes it to the current
//! segment, syncs, and begins the next segment when one is full. Used by one
//! thread at a time; who that is, `log.rs` decides.

use crate::format::{BATCH_HEADER_BYTES, BatchHeader, SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::log::Counters;
use crate::segment::Segment;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use teak_base::{Codec, StorageError, StorageResult};
use teak_disk::Disk;

/// A buffer that a large record made larger than this is given back.
const BUFFER_KEPT_BYTES: usize = 24 << 20;

/// The current segment and the buffers of a batch.
#[derive(Debug)]
pub(crate) struct Writer {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    segment_bytes: u64,
    segment: Segment,
    /// Where the next batch goes.
    offset: u64,
    /// Stream position after the last batch written.
    end: u64,
    /// Stream position before which everything is durable.
    durable: u64,
    /// Checksum of the last batch or segment header.
    chain: u64,
    /// The records of the batch; swapped with the log's pending buffer.
    pub(crate) raw: Vec<u8>,
    stored: Vec<u8>,
}

impl Writer {
    /// A writer that begins a new segment at `header.first_lsn`, before which
    /// everything is durable.
    pub(crate) fn begin(
        disk: Arc<dyn Disk>,
        directory: PathBuf,
        segment_bytes: u64,
        header: SegmentHeader,
    ) -> StorageResult<Self> {
        let segment = Segment::create(disk.as_ref(), &directory, header)?;
        Ok(Self {
            chain: segment.seed,
            disk,
            directory,
            segment_bytes,
            segment,
            offset: SEGMENT_HEADER_BYTES as u64,
            end: header.first_lsn,
            durable: header.first_lsn,
            raw: Vec::new(),
            stored: Vec::new(),
        })
    }

    /// The file of the current segment.
    pub(crate) fn path(&self) -> PathBuf {
        self.segment.file.path().to_path_buf()
    }

    /// Writes `raw` as one batch and empties it. Returns the number and first
    /// position of the segment that this began, if any.
    pub(crate) fn write(&mut self, counters: &Counters) -> StorageResult<Option<(u64, u64)>> {
        if self.raw.is_empty() {
            return Ok(None);
        }
        let begun = if self.offset >= self.segment_bytes {
            Some(self.roll(counters)?)
        } else {
            None
        };
        self.stored.clear();
        self.stored.resize(BATCH_HEADER_BYTES, 0);
        let codec = Codec::Lz4.compress(&self.raw, &mut self.stored);
        let header = BatchHeader {
            codec,
            first_lsn: self.end,
            durable: self.durable,
            previous: self.chain,
            raw_bytes: batch_length(self.raw.len())?,
            stored_bytes: batch_length(self.stored.len() - BATCH_HEADER_BYTES)?,
            checksum: 0,
        };
        let chain = header.seal(self.segment.seed, &mut self.stored);
        self.segment.file.write_all_at(&self.stored, self.offset)?;
        self.chain = chain;
        self.offset += header.file_bytes();
        self.end = header.end_lsn();
        counters.batches.fetch_add(1, Relaxed);
        counters
            .raw_bytes
            .fetch_add(u64::from(header.raw_bytes), Relaxed);
        counters
            .written_bytes
            .fetch_add(header.file_bytes(), Relaxed);
        for buffer in [&mut self.raw, &mut self.stored] {
            buffer.clear();
            if buffer.capacity() > BUFFER_KEPT_BYTES {
                *buffer = Vec::new();
            }
        }
        Ok(begun)
    }

    /// Makes everything written durable.
    pub(crate) fn sync(&mut self, counters: &Counters) -> StorageResult<()> {
        if self.durable == self.end {
            return Ok(());
        }
        self.segment.file.sync()?;
        counters.syncs.fetch_add(1, Relaxed);
        self.durable = self.end;
        Ok(())
    }

    /// Begins the next segment. The old one is durable before the new one
    /// exists, so that a reader may demand all of it.
    fn roll(&mut self, counters: &Counters) -> StorageResult<(u64, u64)> {
        self.sync(counters)?;
        let header = SegmentHeader {
            instance: self.segment.header.instance,
            number: self.segment.header.number + 1,
            first_lsn: self.end,
            previous: self.chain,
        };
        self.segment = Segment::create(self.disk.as_ref(), &self.directory, header)?;
        self.offset = SEGMENT_HEADER_BYTES as u64;
        self.chain = self.segment.seed;
        counters
            .written_bytes
            .fetch_add(SEGMENT_HEADER_BYTES as u64, Relaxed);
        Ok((header.number, header.first_lsn))
    }

    /// Length of the current segment, in bytes.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Stream position before which everything is durable.
    pub(crate) fn durable(&self) -> u64 {
        self.durable
    }
}

fn batch_length(bytes: usize) -> StorageResult<u32> {
    u32::try_from(bytes).map_err(|_| StorageError::TooLarge {
        what: "log batch",
        bytes: bytes as u64,
        limit: u64::from(u32::MAX),
    })
}
