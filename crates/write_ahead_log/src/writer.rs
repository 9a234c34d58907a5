//! The writer: compresses a batch, writes it to the current segment file, and
//! continues in the next segment when one is full. One thread at a time uses it,
//! the leader (`leader.rs`).

use crate::compression::Compression;
use crate::error::WriteError;
use crate::format::{
    BATCH_HEADER_BYTES, BatchHeader, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentKind,
};
use crate::options::LogOptions;
use crate::record::make_void;
use crate::segment::{NewSegment, Segment};
use crate::segments::SegmentEntry;
use crate::space::SpacePolicy;
use crate::statistics::LogCounters;
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use teak_base::cipher::ENVELOPE_BYTES;
use teak_base::{Codec, Encryption, KeyVersion, StorageError, StorageResult};
use teak_disk::{Disk, DiskFile};

/// Buffers that have grown beyond this multiple of the pending buffer's size,
/// because of a large record, are freed.
const BUFFER_RETAINED_FACTOR: usize = 2;

/// Number of zeros that are written ahead of small batches at a time; at most one part in
/// `ZEROS_SHARE` of a segment. Writes over these zeros change neither the length nor the allocation
/// of the file, so their sync does not wait for the file system's journal.
const ZEROS_BYTES_MAX: u64 = 512 << 10;
const ZEROS_SHARE: u64 = 4;

/// Maximum size of a batch that zeros are written for; at most one part in `SMALL_SHARE` of the
/// zeros. For larger batches, writing the space twice would cost more than it saves.
const SMALL_BYTES_MAX: u64 = 16 << 10;
const SMALL_SHARE: u64 = 4;

/// The current segment and the buffers of a batch.
#[derive(Debug)]
pub(crate) struct Writer {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    segment_bytes: u64,
    encryption: Encryption,
    /// The key of this segment's batches.
    key: Option<KeyVersion>,
    /// The key of the next segment. The thread that prepares it asks for the key, because the log must not wait for a key management.
    next_key: Arc<Mutex<Option<KeyVersion>>>,
    segment: Segment,
    /// The offset of the next batch.
    offset: u64,
    /// The end of the space reserved in the segment's file.
    reserved: u64,
    /// The end of the bytes of the segment's file that were written before the
    /// log reached them: zeros, or the content of a trimmed segment.
    zeroed: u64,
    /// Log position after the last batch written.
    end: u64,
    /// Log position before which all records are durable. May be behind `WriteAheadLog::durable`.
    durable: u64,
    /// The checksum that the next batch must contain as the checksum of the previous batch.
    chain: u64,
    /// The records of the batch; swapped with the pending buffer of the log.
    /// Retained when the disk is full.
    pub(crate) raw: Vec<u8>,
    /// Reserved space of the batch, in bytes.
    pub(crate) batch_space: u64,
    /// Segments begun since the leader last drained this list.
    pub(crate) begun: Vec<SegmentEntry>,
    stored: Vec<u8>,
    compression: Compression,
    /// Size of a buffer beyond which it is freed after its batch.
    buffer_bytes_max: usize,
}

impl Writer {
    /// Creates a writer with a new segment at `header.first_lsn`. All records before that position
    /// must be durable.
    pub(crate) fn begin(
        disk: Arc<dyn Disk>,
        directory: PathBuf,
        options: &LogOptions,
        header: SegmentHeader,
    ) -> StorageResult<Self> {
        let policy = SpacePolicy::new(options);
        let pending_bytes = options.bounded_pending_bytes();
        let encryption = options.encryption.clone();
        let key = encryption.current(&directory)?;
        let new = NewSegment::create(disk.as_ref(), &directory, header, 0)
            .map_err(WriteError::into_inner)?;
        let mut writer = Self {
            chain: new.segment.seed,
            disk,
            directory,
            segment_bytes: options.segment_bytes,
            encryption,
            key,
            next_key: Arc::default(),
            segment: new.segment,
            offset: SEGMENT_HEADER_BYTES as u64,
            reserved: 0,
            zeroed: 0,
            end: header.first_lsn,
            durable: header.first_lsn,
            raw: Vec::new(),
            batch_space: 0,
            begun: Vec::new(),
            stored: Vec::new(),
            compression: Compression::default(),
            buffer_bytes_max: BUFFER_RETAINED_FACTOR * pending_bytes,
        };
        // If this fails, appends wait or fail until there is space.
        let _ = writer.reserve(policy.min_bytes(), policy.target_bytes);
        Ok(writer)
    }

    /// The key of the next segment; `None`: that of the current one.
    pub(crate) fn next_key(&self) -> Arc<Mutex<Option<KeyVersion>>> {
        Arc::clone(&self.next_key)
    }

    /// The file of the current segment.
    pub(crate) fn path(&self) -> PathBuf {
        self.segment.file.path().to_path_buf()
    }

    /// Memory of the buffers, in bytes.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.raw.capacity() + self.stored.capacity()
    }

    /// Writes `raw` as one batch and empties it. If there is no disk space, the batch is retained
    /// and later written at the same offset. Until then the file may contain the first part of the
    /// batch, which no reader accepts as a batch.
    pub(crate) fn write(&mut self, counters: &LogCounters) -> Result<(), WriteError> {
        if self.raw.is_empty() {
            return Ok(());
        }
        self.stored.clear();
        let envelope = self.key.map_or(0, |_| ENVELOPE_BYTES);
        let front = BATCH_HEADER_BYTES + envelope;
        self.stored.resize(front, 0);
        let wanted = self.compression.codec(self.raw.len());
        let codec = wanted.compress(&self.raw, &mut self.stored);
        if wanted != Codec::None {
            let stored = self.stored.len() - front;
            self.compression.note(self.raw.len(), stored);
        }
        let length = |bytes| batch_length(bytes).map_err(WriteError::Broken);
        let header = BatchHeader {
            codec,
            is_encrypted: self.key.is_some(),
            first_lsn: self.end,
            durable: self.durable,
            previous: self.chain,
            raw_bytes: length(self.raw.len())?,
            stored_bytes: length(self.stored.len() - BATCH_HEADER_BYTES)?,
            checksum: 0,
        };
        let key = (&self.encryption, self.key);
        let chain = header
            .seal_encrypted(&self.directory, key, self.segment.seed, &mut self.stored)
            .map_err(WriteError::Broken)?;
        self.write_zeros(header.file_bytes(), counters)?;
        let written = self.segment.file.write_all_at(&self.stored, self.offset);
        written.map_err(WriteError::of_write)?;
        self.chain = chain;
        self.offset += header.file_bytes();
        self.end = header.end_lsn();
        self.batch_space = 0;
        counters.batches.fetch_add(1, Relaxed);
        counters
            .raw_bytes
            .fetch_add(u64::from(header.raw_bytes), Relaxed);
        counters
            .written_bytes
            .fetch_add(header.file_bytes(), Relaxed);
        for buffer in [&mut self.raw, &mut self.stored] {
            buffer.clear();
            if buffer.capacity() > self.buffer_bytes_max {
                *buffer = Vec::new();
            }
        }
        Ok(())
    }

    /// Writes zeros to reserved space that was never written, from the offset of a small batch on.
    /// A reader treats zeros as the end of the log, as it does a hole.
    fn write_zeros(&mut self, batch_bytes: u64, counters: &LogCounters) -> Result<(), WriteError> {
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
            // Not an error: the batch is written without zeros.
            Err(error) if error.is_no_space() => Ok(()),
            Err(error) => Err(WriteError::Broken(error)),
        }
    }

    /// Log position after the last batch written.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Adopts the durable position that other syncs reached.
    pub(crate) fn raise_durable(&mut self, durable: u64) {
        self.durable = self.durable.max(durable);
    }

    /// A file handle for a concurrent sync, if there is one.
    pub(crate) fn sync_handle(&self, number: usize) -> Option<Arc<dyn DiskFile>> {
        let handles = self.segment.sync_handles.as_ref()?;
        handles.get(number).cloned()
    }

    /// Makes everything written durable.
    pub(crate) fn sync(&mut self, counters: &LogCounters) -> Result<(), WriteError> {
        if self.durable == self.end {
            return Ok(());
        }
        let since = Instant::now();
        // Even if the error is a full disk: the contents of the file are unknown.
        self.segment.file.sync().map_err(WriteError::Broken)?;
        counters.sync_times.record(since.elapsed());
        counters.syncs.fetch_add(1, Relaxed);
        self.durable = self.end;
        Ok(())
    }

    /// Bytes reserved after the written data.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.reserved.saturating_sub(self.offset)
    }

    /// Reserves space for `target` bytes after the written data, or at least for
    /// `min`. Does nothing while `min` and half of `target` are reserved.
    pub(crate) fn reserve(&mut self, min: u64, target: u64) -> StorageResult<()> {
        let target = target.max(min);
        if self.reserved_bytes() >= min && self.reserved_bytes() >= target / 2 {
            return Ok(());
        }
        let mut outcome = Ok(());
        for bytes in [target, min] {
            outcome = self.segment.file.reserve(self.offset + bytes);
            if outcome.is_ok() {
                self.reserved = self.reserved.max(self.offset + bytes);
            }
            if self.reserved_bytes() >= min {
                return Ok(());
            }
        }
        outcome
    }

    /// Whether the next batch should begin the next segment.
    pub(crate) fn must_roll(&self) -> bool {
        !self.raw.is_empty() && self.offset >= self.segment_bytes
    }

    /// Creates the next segment and continues in it. On a full disk the current
    /// one continues to grow: the accepted records have their space there.
    pub(crate) fn roll(&mut self, counters: &LogCounters) -> Result<(), WriteError> {
        self.sync(counters)?;
        let header = SegmentHeader {
            kind: SegmentKind::Begun,
            instance: self.segment.header.instance,
            number: self.segment.header.number + 1,
            first_lsn: self.end,
            previous: self.chain,
        };
        let reserved = self.reserved_bytes();
        match NewSegment::create(self.disk.as_ref(), &self.directory, header, reserved) {
            Ok(new) => {
                // Frees the unused space of the old file. If this fails, the removal of the file
                // frees the space.
                let _ = self.segment.file.set_len(self.offset);
                self.chain = new.segment.seed;
                self.enter(new);
                Ok(())
            }
            Err(WriteError::Full(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Continues in a prepared segment. Returns the segment, unused, if the disk has
    /// not enough space to reserve as much in it as is reserved in the current one.
    pub(crate) fn roll_into(
        &mut self,
        mut new: NewSegment,
        counters: &LogCounters,
    ) -> Result<Option<NewSegment>, WriteError> {
        let needed = SEGMENT_HEADER_BYTES as u64 + self.reserved_bytes();
        if new.reserved < needed {
            match new.segment.file.reserve(needed) {
                Ok(()) => new.reserved = needed,
                Err(error) if error.is_no_space() => return Ok(Some(new)),
                Err(error) => return Err(WriteError::Broken(error)),
            }
        }
        self.sync(counters)?;
        self.enter(new);
        Ok(None)
    }

    /// Makes a segment the current one. The previous segment is durable, so a reader may require
    /// all of it if the new segment contains a batch.
    fn enter(&mut self, new: NewSegment) {
        if let Some(key) = self.next_key.lock().take() {
            self.key = Some(key);
        }
        let SegmentHeader { kind, number, .. } = new.segment.header;
        self.segment = new.segment;
        self.offset = SEGMENT_HEADER_BYTES as u64;
        self.reserved = new.reserved;
        self.zeroed = new.written;
        self.begun.push(SegmentEntry {
            number,
            first_lsn: self.end,
            bytes: self.offset,
            was_prepared: kind == SegmentKind::Prepared,
        });
    }

    /// Makes the record at a log position void, if it is in the retained batch.
    pub(crate) fn make_void(&mut self, position: u64) -> bool {
        let start = position.checked_sub(self.end);
        let start = start.and_then(|start| usize::try_from(start).ok());
        start.is_some_and(|start| make_void(&mut self.raw, start))
    }

    /// Log position after the records in `raw`; if there are none, after the last batch written.
    pub(crate) fn taken(&self) -> u64 {
        self.end + self.raw.len() as u64
    }

    /// The number of the current segment.
    pub(crate) fn number(&self) -> u64 {
        self.segment.header.number
    }

    /// Length of the current segment, in bytes.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Log position before which all records are known to be durable.
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
