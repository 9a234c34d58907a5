//! The file end of the log: compresses a batch, writes it to the current
//! segment, and begins the next segment when one is full. Used by one thread at
//! a time; who that is, `log.rs` decides, as well as who syncs what is written.

use crate::format::{BATCH_HEADER_BYTES, BatchHeader, SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::log::Counters;
use crate::record::make_void;
use crate::room::RoomPolicy;
use crate::segment::Segment;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use teak_base::{Codec, StorageError, StorageResult};
use teak_disk::{Disk, DiskFile};

/// A buffer that a large record made larger than this is given back.
const BUFFER_KEPT_BYTES: usize = 24 << 20;

/// Zeros written at once ahead of small batches, and the largest share of a
/// segment. A sync that finds the file as long as before, and its space written
/// before, need not wait for the file system's journal.
const ZEROS_BYTES_MAX: u64 = 512 << 10;
const ZEROS_SHARE: u64 = 4;

/// Batches beyond this are written without, and beyond a share of the zeros:
/// writing everything twice would cost more than it saves.
const SMALL_BYTES_MAX: u64 = 16 << 10;
const SMALL_SHARE: u64 = 4;

/// Why the file end of the log could not do its work.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// There was no space to be had. Nothing is lost: the batch, if it could not
    /// be written, waits.
    Full(StorageError),
    /// Nobody can know what is on disk.
    Broken(StorageError),
}

impl WriteError {
    pub(crate) fn into_inner(self) -> StorageError {
        let (Self::Full(error) | Self::Broken(error)) = self;
        error
    }
}

/// A failure that leaves nothing behind when the disk was full.
fn full_or_broken(error: StorageError) -> WriteError {
    if error.is_no_space() {
        WriteError::Full(error)
    } else {
        WriteError::Broken(error)
    }
}

/// The current segment and the buffers of a batch.
#[derive(Debug)]
pub(crate) struct Writer {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    segment_bytes: u64,
    segment: Segment,
    /// Where the next batch goes.
    offset: u64,
    /// The end of the space set aside in the segment's file.
    reserved: u64,
    /// The end of the zeros written to the segment's file.
    zeroed: u64,
    /// Stream position after the last batch written.
    end: u64,
    /// Stream position before which everything is durable, or an earlier one.
    durable: u64,
    /// Checksum of the last batch or segment header.
    chain: u64,
    /// The records of the batch; swapped with the log's pending buffer. They
    /// stay when the disk is full.
    pub(crate) raw: Vec<u8>,
    /// What the batch may take in the file.
    pub(crate) claim: u64,
    /// Numbers and first positions of segments that nobody has heard of yet.
    pub(crate) begun: Vec<(u64, u64)>,
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
        policy: RoomPolicy,
    ) -> StorageResult<Self> {
        let segment = Segment::create(disk.as_ref(), &directory, header, 0)
            .map_err(WriteError::into_inner)?;
        let mut writer = Self {
            chain: segment.seed,
            disk,
            directory,
            segment_bytes,
            segment,
            offset: SEGMENT_HEADER_BYTES as u64,
            reserved: 0,
            zeroed: 0,
            end: header.first_lsn,
            durable: header.first_lsn,
            raw: Vec::new(),
            claim: 0,
            begun: Vec::new(),
            stored: Vec::new(),
        };
        // Without room nothing can be appended until there is space.
        let _ = writer.reserve(policy.least_bytes(), policy.wanted_bytes);
        Ok(writer)
    }

    /// The file of the current segment.
    pub(crate) fn path(&self) -> PathBuf {
        self.segment.file.path().to_path_buf()
    }

    /// Writes `raw` as one batch and empties it. A batch that finds no space
    /// stays, and is written in the same place later: what of it is in the file
    /// is a part of its front, which no reader takes for a batch.
    pub(crate) fn write(&mut self, counters: &Counters) -> Result<(), WriteError> {
        if self.raw.is_empty() {
            return Ok(());
        }
        if self.offset >= self.segment_bytes {
            self.roll(counters)?;
        }
        self.stored.clear();
        self.stored.resize(BATCH_HEADER_BYTES, 0);
        let codec = Codec::Lz4.compress(&self.raw, &mut self.stored);
        let length = |bytes| batch_length(bytes).map_err(WriteError::Broken);
        let header = BatchHeader {
            codec,
            first_lsn: self.end,
            durable: self.durable,
            previous: self.chain,
            raw_bytes: length(self.raw.len())?,
            stored_bytes: length(self.stored.len() - BATCH_HEADER_BYTES)?,
            checksum: 0,
        };
        let chain = header.seal(self.segment.seed, &mut self.stored);
        self.write_zeros(header.file_bytes(), counters)?;
        let written = self.segment.file.write_all_at(&self.stored, self.offset);
        written.map_err(full_or_broken)?;
        self.chain = chain;
        self.offset += header.file_bytes();
        self.end = header.end_lsn();
        self.claim = 0;
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
        Ok(())
    }

    /// Writes zeros over the space set aside that a small batch is about to
    /// enter. Whoever reads them finds the end of the log, as in a hole.
    fn write_zeros(&mut self, batch_bytes: u64, counters: &Counters) -> Result<(), WriteError> {
        let zeros_bytes = ZEROS_BYTES_MAX.min(self.segment_bytes / ZEROS_SHARE);
        let small_bytes = SMALL_BYTES_MAX.min(zeros_bytes / SMALL_SHARE);
        let batch_end = self.offset + batch_bytes;
        if batch_end <= self.zeroed || batch_bytes > small_bytes {
            return Ok(());
        }
        let start = self.offset.max(self.zeroed);
        let end = (self.offset + zeros_bytes).min(self.reserved);
        let Some(bytes) = end.checked_sub(start).filter(|_| batch_end <= end) else {
            return Ok(());
        };
        let zeros = vec![0; usize::try_from(bytes).unwrap_or(0)];
        self.zeroed = end;
        match self.segment.file.write_all_at(&zeros, start) {
            Ok(()) => {
                counters.written_bytes.fetch_add(bytes, Relaxed);
                Ok(())
            }
            // Then the batch is tried without.
            Err(error) if error.is_no_space() => Ok(()),
            Err(error) => Err(WriteError::Broken(error)),
        }
    }

    /// Stream position after the last batch written.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// What is durable, learnt from who synced.
    pub(crate) fn learn_durable(&mut self, durable: u64) {
        self.durable = self.durable.max(durable);
    }

    /// A handle of the file for a sync beside others, if there are such.
    pub(crate) fn sync_handle(&self, number: usize) -> Option<Arc<dyn DiskFile>> {
        let handles = self.segment.sync_handles.as_ref()?;
        handles.get(number).cloned()
    }

    /// Makes everything written durable.
    pub(crate) fn sync(&mut self, counters: &Counters) -> Result<(), WriteError> {
        if self.durable == self.end {
            return Ok(());
        }
        // Also when the disk is full: what of it is on disk nobody knows.
        self.segment.file.sync().map_err(WriteError::Broken)?;
        counters.syncs.fetch_add(1, Relaxed);
        self.durable = self.end;
        Ok(())
    }

    /// Bytes set aside behind what is written.
    pub(crate) fn room(&self) -> u64 {
        self.reserved.saturating_sub(self.offset)
    }

    /// Sets space aside until there is room for `wanted` bytes, or at least for
    /// `least`.
    pub(crate) fn reserve(&mut self, least: u64, wanted: u64) -> StorageResult<()> {
        let wanted = wanted.max(least);
        if self.room() >= least && self.room() >= wanted / 2 {
            return Ok(());
        }
        let mut outcome = Ok(());
        for room in [wanted, least] {
            outcome = self.segment.file.reserve(self.offset + room);
            if outcome.is_ok() {
                self.reserved = self.reserved.max(self.offset + room);
            }
            if self.room() >= least {
                return Ok(());
            }
        }
        outcome
    }

    /// Begins the next segment. The old one is durable before the new one
    /// exists, so that a reader may demand all of it. On a full disk the old one
    /// grows on, for what was accepted has its room there.
    fn roll(&mut self, counters: &Counters) -> Result<(), WriteError> {
        self.sync(counters)?;
        let header = SegmentHeader {
            instance: self.segment.header.instance,
            number: self.segment.header.number + 1,
            first_lsn: self.end,
            previous: self.chain,
        };
        let room = self.room();
        let made = Segment::create(self.disk.as_ref(), &self.directory, header, room);
        let segment = match made {
            Ok(segment) => segment,
            Err(WriteError::Full(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        // It would be given back with the segment at the latest.
        let _ = self.segment.file.set_len(self.offset);
        self.segment = segment;
        self.offset = SEGMENT_HEADER_BYTES as u64;
        self.reserved = self.offset + room;
        self.zeroed = 0;
        self.chain = self.segment.seed;
        counters
            .written_bytes
            .fetch_add(SEGMENT_HEADER_BYTES as u64, Relaxed);
        self.begun.push((header.number, header.first_lsn));
        Ok(())
    }

    /// Makes the record at a stream position void, if it waits to be written.
    pub(crate) fn make_void(&mut self, position: u64) -> bool {
        let start = position.checked_sub(self.end);
        let start = start.and_then(|start| usize::try_from(start).ok());
        start.is_some_and(|start| make_void(&mut self.raw, start))
    }

    /// Stream position after the batch that waits, or after the last one written.
    pub(crate) fn taken(&self) -> u64 {
        self.end + self.raw.len() as u64
    }

    /// Length of the current segment, in bytes.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Stream position before which everything is known to be durable.
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
