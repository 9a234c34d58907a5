//! Copying a part of the open log, for backups.
//!
//! A *hold* retains the segment files of the log while they are copied: a segment that is trimmed
//! during the copy is neither reused nor removed, and does not count towards the log's bound. So the files
//! that only a hold retains are at most those of the log when the hold was limited, and a hold does
//! not slow writers.
//!
//! The copy is a log of its own, from one position up to another, both between two records. Batches
//! are read and verified, and written again with the headers of new segments. So the copy ends
//! exactly at the wanted position, although the batch there usually continues.

use crate::compression::Compression;
use crate::format::{
    BATCH_HEADER_BYTES, BatchHeader, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentKind,
};
use crate::log::WriteAheadLog;
use crate::options::LogIdentity;
use crate::reader::read_bytes_between;
use crate::segment::segment_path;
use std::path::Path;
use std::sync::Arc;
use teak_base::cipher::ENVELOPE_BYTES;
use teak_base::{KeyVersion, Lsn, StorageError, StorageResult};
use teak_disk::{Disk, DiskFile};

/// A segment of the copy is ended when it has this length.
const SEGMENT_BYTES: u64 = 64 << 20;

/// Identifies a hold of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHold(u64);

impl WriteAheadLog {
    /// Begins to retain the files of all segments that the log has now. Returns `None` if there is a
    /// hold already.
    #[must_use]
    pub fn begin_hold(&self) -> Option<LogHold> {
        self.segments.lock().begin_hold().map(LogHold)
    }

    /// Limits the hold: segments that begin at or after `until` are not retained.
    pub fn limit_hold(&self, until: Lsn) {
        self.segments.lock().limit_hold(until.0);
    }

    /// Ends a hold, unless it has ended. The files that only it has retained are reused or removed.
    ///
    /// # Errors
    /// `Io`: a file could not be removed. The next trim or preparation of segments tries again.
    pub fn end_hold(&self, hold: LogHold) -> StorageResult<()> {
        let (held, totals) = {
            let mut segments = self.segments.lock();
            (segments.end_hold(hold.0), segments.totals())
        };
        if held.is_empty() {
            return Ok(());
        }
        self.retire(held, totals.count)
    }

    /// Bytes of the segment files that only the hold retains.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.segments.lock().held_bytes()
    }

    /// Copies the log from `from` up to `until` to the directory `target`, which contains no log.
    /// All records before `until` must be durable, and a hold that began before `from` was trimmed
    /// must retain them. Both positions are between two records. Calls `copied` after each batch
    /// with its size. The files are synced, but not their names.
    ///
    /// # Errors
    /// `Corrupt`, `Io`, `NoSpace`, `AlreadyExists`; errors of `copied`, which end the copying.
    pub fn copy_between(
        &self,
        (from, until): (Lsn, Lsn),
        disk: &dyn Disk,
        target: &Path,
        copied: &mut dyn FnMut(u64) -> StorageResult<()>,
    ) -> StorageResult<u64> {
        let listed = self.segments.lock().between(from.0, until.0);
        if from < until && listed.first().is_none_or(|first| first.first_lsn > from.0) {
            let reason = "the log was trimmed although a copy needs it";
            return Err(StorageError::corrupt(&self.directory, from.0, reason));
        }
        let mut copy = LogCopy::begin(disk, target, self.identity(), from)?;
        if from < until {
            let source = self.disk.as_ref();
            let mut visit = |lsn: u64, raw: &[u8]| {
                let bytes = copy.add(lsn, raw)?;
                copied(bytes)
            };
            read_bytes_between(
                source,
                &self.directory,
                self.identity(),
                &listed,
                (from, until),
                &mut visit,
            )?;
        }
        copy.segment.file.sync()?;
        Ok(copy.total)
    }
}

/// The segment of a copy that is being written.
struct CopiedSegment {
    file: Arc<dyn DiskFile>,
    number: u64,
    seed: u64,
    /// The checksum that the next batch contains as that of the previous one.
    chain: u64,
    /// The length of the file.
    bytes: u64,
}

struct LogCopy<'a> {
    disk: &'a dyn Disk,
    target: &'a Path,
    log: LogIdentity<'a>,
    /// The key of the copy.
    key: Option<KeyVersion>,
    segment: CopiedSegment,
    compression: Compression,
    /// The bytes of all segments.
    total: u64,
}

impl<'a> LogCopy<'a> {
    fn begin(
        disk: &'a dyn Disk,
        target: &'a Path,
        log: LogIdentity<'a>,
        from: Lsn,
    ) -> StorageResult<Self> {
        let segment = begin_segment(disk, target, log.instance, 1, from.0, 0)?;
        Ok(Self {
            disk,
            target,
            key: log.encryption.current(target)?,
            log,
            total: segment.bytes,
            segment,
            compression: Compression::default(),
        })
    }

    /// Writes a batch. Returns its length.
    fn add(&mut self, lsn: u64, raw: &[u8]) -> StorageResult<u64> {
        if self.segment.bytes >= SEGMENT_BYTES {
            self.segment.file.sync()?;
            let CopiedSegment { number, chain, .. } = self.segment;
            let (disk, target) = (self.disk, self.target);
            self.segment = begin_segment(disk, target, self.log.instance, number + 1, lsn, chain)?;
            self.total += self.segment.bytes;
        }
        let envelope = self.key.map_or(0, |_| ENVELOPE_BYTES);
        let front = BATCH_HEADER_BYTES + envelope;
        let mut batch = vec![0; front];
        let wanted = self.compression.codec(raw.len());
        let codec = wanted.compress(raw, &mut batch);
        if wanted == codec && codec != teak_base::Codec::None {
            self.compression.note(raw.len(), batch.len() - front);
        }
        let stored = batch.len() - BATCH_HEADER_BYTES;
        let header = BatchHeader {
            codec,
            is_encrypted: self.key.is_some(),
            first_lsn: lsn,
            // The whole copy is synced before it is used.
            durable: lsn,
            previous: self.segment.chain,
            raw_bytes: u32::try_from(raw.len()).unwrap_or(u32::MAX),
            stored_bytes: u32::try_from(stored).unwrap_or(u32::MAX),
            checksum: 0,
        };
        let key = (self.log.encryption, self.key);
        let seed = self.segment.seed;
        self.segment.chain = header.seal_encrypted(self.target, key, seed, &mut batch)?;
        self.segment.file.write_all_at(&batch, self.segment.bytes)?;
        let bytes = batch.len() as u64;
        self.segment.bytes += bytes;
        self.total += bytes;
        Ok(bytes)
    }
}

fn begin_segment(
    disk: &dyn Disk,
    target: &Path,
    instance: u64,
    number: u64,
    first_lsn: u64,
    previous: u64,
) -> StorageResult<CopiedSegment> {
    let header = SegmentHeader {
        kind: SegmentKind::Begun,
        instance,
        number,
        first_lsn,
        previous,
    };
    let (bytes, seed) = header.encode();
    let file = disk.create(&segment_path(target, number))?;
    file.write_all_at(&bytes, 0)?;
    Ok(CopiedSegment {
        file,
        number,
        seed,
        chain: seed,
        bytes: SEGMENT_HEADER_BYTES as u64,
    })
}
