//! Reads the log back.
//!
//! 1. Find the newest segment that begins at or before the wanted position.
//! 2. Read batches while each is the one expected: its position continues the
//!    stream and it names the checksum of what stands before it.
//! 3. A segment with a successor must reach the successor's first position,
//!    because a segment is synced before the next one is begun.
//! 4. In the last segment the first unexpected byte ends the log, if it can be
//!    a torn tail: writes that were not synced may be lost in any order, so
//!    intact batches may stand behind a hole. If one of those says that the
//!    hole was durable when it was written, the log is corrupt.
//!
//! Before a log is replayed for use, its tail is settled: step 4 alone, then a
//! sync. So a replay only meets records that no crash can take back.

use crate::format::{
    BATCH_HEADER_BYTES, BATCH_MAGIC, BatchHeader, HeaderError, SEGMENT_HEADER_BYTES,
};
use crate::record::Record;
use crate::segment::{Segment, list_segments, segment_path};
use std::collections::VecDeque;
use std::path::Path;
use teak_base::bytes::Take;
use teak_base::{Lsn, StorageError, StorageResult};
use teak_disk::{Disk, DiskFile};

/// Bytes that the reader asks of the disk at once.
const WINDOW_BYTES: usize = 1 << 20;

/// What is kept for the next segment when a torn tail is cut off.
const ROOM_BYTES: u64 = 1 << 20;

/// Where a log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The position after the last record.
    pub end: Lsn,
    /// The number of the last segment.
    pub segment: u64,
    /// Bytes of the last segment's file that hold no valid batch.
    pub torn_bytes: u64,
}

/// Reads a log without changing anything, for inspection. Returns `None` when
/// the directory holds no log. `from` defaults to the oldest position there is.
///
/// # Errors
/// The visitor's own; `Corrupt`, `UnsupportedFormat`, `Io`.
pub fn read_log<E: From<StorageError>>(
    disk: &dyn Disk,
    directory: &Path,
    from: Option<Lsn>,
    visit: &mut dyn FnMut(Lsn, Record<'_>) -> Result<(), E>,
) -> Result<Option<LogEnd>, E> {
    let Some(log) = scan(disk, directory, None, from, Tail::Leave, visit)? else {
        return Ok(None);
    };
    Ok(Some(LogEnd {
        end: Lsn(log.end),
        segment: log.last.header.number,
        torn_bytes: log.last.file.len()?.saturating_sub(log.valid_bytes),
    }))
}

/// What a scan found.
#[derive(Debug)]
pub(crate) struct Scanned {
    /// Stream position after the last record.
    pub(crate) end: u64,
    /// Checksum that the next batch or segment must name.
    pub(crate) chain: u64,
    /// The last segment.
    pub(crate) last: Segment,
    /// Bytes of the last segment up to the end of its last valid batch.
    pub(crate) valid_bytes: u64,
    /// Numbers, first positions and lengths of the segments read, ascending.
    pub(crate) segments: Vec<(u64, u64, u64)>,
    /// The number of a segment behind the last, whose creation did not finish.
    pub(crate) unfinished: Option<u64>,
    /// Numbers of segments before the first one read.
    pub(crate) outdated: Vec<u64>,
}

/// Cuts off the torn tail of the last segment and makes the rest durable, its
/// name too: the next segment must not outlive it. What is not known to be
/// durable is written again first: after a failed sync a system may call bytes
/// clean that it only holds in memory.
fn settle(disk: &dyn Disk, directory: &Path, last: &Segment) -> StorageResult<()> {
    let skip = &mut |_: Lsn, _: Record<'_>| Ok(());
    let read = read_segment::<StorageError>(last, None, u64::MAX, skip)?;
    let file = &last.file;
    let bytes = file.len()?;
    if bytes > read.valid_bytes {
        // The next segment needs room, and whoever replays may take what is free.
        file.set_len(read.valid_bytes)?;
        let _ = file.reserve(bytes.max(read.valid_bytes + ROOM_BYTES));
    }
    let mut offset = read.durable_bytes;
    let mut chunk = Vec::new();
    while offset < read.valid_bytes {
        let left = usize::try_from(read.valid_bytes - offset).unwrap_or(usize::MAX);
        chunk.resize(left.min(WINDOW_BYTES), 0);
        file.read_exact_at(&mut chunk, offset)?;
        file.write_all_at(&chunk, offset)?;
        offset += chunk.len() as u64;
    }
    file.sync()?;
    disk.sync_directory(directory)
}

/// Whether a scan may change files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Leave everything as it is.
    Leave,
    /// Make the log durable before the first record is visited, so that what
    /// the visitor does cannot outlive what it did it for.
    Settle,
}

/// Reads every record from `from` on.
pub(crate) fn scan<E: From<StorageError>>(
    disk: &dyn Disk,
    directory: &Path,
    instance: Option<u64>,
    from: Option<Lsn>,
    tail: Tail,
    visit: &mut dyn FnMut(Lsn, Record<'_>) -> Result<(), E>,
) -> Result<Option<Scanned>, E> {
    let Some(Chosen {
        segments,
        unfinished,
        outdated,
    }) = choose(disk, directory, instance, from)?
    else {
        return Ok(None);
    };
    if let (Tail::Settle, Some(last)) = (tail, segments.last()) {
        settle(disk, directory, last)?;
    }
    let from = from.map_or(0, |lsn| lsn.0);
    let mut position: Option<(u64, u64)> = None;
    let mut rest = segments.iter().peekable();
    let mut scanned = None;
    while let Some(segment) = rest.next() {
        let header = &segment.header;
        if position.is_some_and(|found| found != (header.first_lsn, header.previous)) {
            let reason = "the segment does not continue the one before it";
            return Err(StorageError::corrupt(segment.file.path(), 0, reason).into());
        }
        let until = rest.peek().map(|next| next.header.first_lsn);
        let read = read_segment(segment, until, from, visit)?;
        position = Some((read.end, read.chain));
        scanned = Some((segment, read));
    }
    let Some((last, read)) = scanned else {
        return Ok(None);
    };
    if read.end < from {
        let reason = format!("the log ends at {} but is needed from {from}", read.end);
        return Err(StorageError::corrupt(last.file.path(), read.valid_bytes, reason).into());
    }
    let mut sizes = Vec::with_capacity(segments.len());
    for Segment { file, header, .. } in &segments {
        sizes.push((header.number, header.first_lsn, file.len()?));
    }
    Ok(Some(Scanned {
        end: read.end,
        chain: read.chain,
        last: last.clone(),
        valid_bytes: read.valid_bytes,
        segments: sizes,
        unfinished,
        outdated,
    }))
}

struct Chosen {
    /// The segments to read, ascending and without a gap.
    segments: Vec<Segment>,
    unfinished: Option<u64>,
    outdated: Vec<u64>,
}

/// Opens segments from the newest back to the one that holds `from`.
fn choose(
    disk: &dyn Disk,
    directory: &Path,
    instance: Option<u64>,
    from: Option<Lsn>,
) -> StorageResult<Option<Chosen>> {
    let mut numbers = list_segments(disk, directory)?;
    let mut unfinished = None;
    let mut segments: Vec<Segment> = Vec::new();
    while let Some(number) = numbers.pop() {
        let missing = |reason| {
            let path = segment_path(directory, number);
            Err(StorageError::corrupt(&path, 0, reason))
        };
        if segments
            .last()
            .is_some_and(|next| next.header.number != number + 1)
        {
            if from.is_some() {
                return missing("the segment after this one is missing");
            }
            numbers.push(number);
            break;
        }
        match Segment::open(disk, directory, number, instance)? {
            None if segments.is_empty() && unfinished.is_none() => unfinished = Some(number),
            None => return missing("the segment's header is cut short"),
            Some(segment) => {
                let first = segment.header.first_lsn;
                segments.push(segment);
                if from.is_some_and(|from| first <= from.0) {
                    break;
                }
            }
        }
    }
    segments.reverse();
    let Some(first) = segments.first() else {
        return match from {
            // An empty directory, or a first creation that did not finish.
            None | Some(Lsn(0)) => Ok(None),
            Some(from) => Err(StorageError::corrupt(
                &segment_path(directory, 1),
                0,
                format!("the log is missing but is needed from {from}"),
            )),
        };
    };
    if let Some(from) = from
        && first.header.first_lsn > from.0
    {
        let begins = first.header.first_lsn;
        let reason = format!("the log begins at {begins} but is needed from {from}");
        return Err(StorageError::corrupt(first.file.path(), 0, reason));
    }
    Ok(Some(Chosen {
        segments,
        unfinished,
        outdated: numbers,
    }))
}

/// What one segment held; `durable_bytes` of it are known to be durable.
struct SegmentRead {
    end: u64,
    chain: u64,
    valid_bytes: u64,
    durable_bytes: u64,
}

fn read_segment<E: From<StorageError>>(
    segment: &Segment,
    until: Option<u64>,
    from: u64,
    visit: &mut dyn FnMut(Lsn, Record<'_>) -> Result<(), E>,
) -> Result<SegmentRead, E> {
    let path = segment.file.path();
    let mut window = Window::new(segment.file.as_ref())?;
    let mut read = SegmentRead {
        end: segment.header.first_lsn,
        chain: segment.seed,
        valid_bytes: SEGMENT_HEADER_BYTES as u64,
        durable_bytes: 0,
    };
    // Batches that no later batch called durable yet: first position, offset.
    let mut unsynced: VecDeque<(u64, u64)> = VecDeque::new();
    while until != Some(read.end) {
        let (header, payload) = match window.batch(segment.seed, read.valid_bytes)? {
            Ok(batch) if batch.0.first_lsn == read.end && batch.0.previous == read.chain => batch,
            other => {
                let reason = other.err().unwrap_or("a batch out of sequence");
                if until.is_some() {
                    return Err(StorageError::corrupt(path, read.valid_bytes, reason).into());
                }
                refuse_damage(&mut window, segment.seed, &read, reason)?;
                break;
            }
        };
        if header.end_lsn() > from {
            let raw = header.codec.decompress(payload, header.raw_bytes as usize);
            let raw = raw.map_err(|_| {
                StorageError::corrupt(path, read.valid_bytes, "a batch does not decompress")
            })?;
            visit_records(path, read.valid_bytes, &header, &raw, from, visit)?;
        }
        unsynced.push_back((read.end, read.valid_bytes));
        read.end = header.end_lsn();
        read.chain = header.checksum;
        read.valid_bytes += header.file_bytes();
        while unsynced
            .front()
            .is_some_and(|(lsn, _)| *lsn < header.durable)
        {
            unsynced.pop_front();
        }
    }
    // A header is durable before the first batch is written.
    read.durable_bytes = unsynced.front().map_or(0, |(_, offset)| *offset);
    Ok(read)
}

/// Hands a batch's records to the visitor.
fn visit_records<E: From<StorageError>>(
    path: &Path,
    offset: u64,
    header: &BatchHeader,
    raw: &[u8],
    from: u64,
    visit: &mut dyn FnMut(Lsn, Record<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut take = Take::new(raw);
    while !take.is_empty() {
        let lsn = header.end_lsn() - take.rest().len() as u64;
        let record = Record::decode(&mut take).map_err(|_| {
            let reason = format!("the record at position {lsn} does not decode");
            StorageError::corrupt(path, offset, reason)
        })?;
        if lsn >= from {
            visit(Lsn(lsn), record)?;
        }
    }
    Ok(())
}

/// Looks behind the first unexpected byte for a batch that calls it durable.
fn refuse_damage(
    window: &mut Window<'_>,
    seed: u64,
    read: &SegmentRead,
    reason: &'static str,
) -> StorageResult<()> {
    let mut offset = read.valid_bytes;
    while let Some(found) = window.find_magic(offset)? {
        offset = match window.batch(seed, found)? {
            Ok((header, _)) if header.durable > read.end => {
                let path = window.file.path();
                let reason = format!("{reason}, though a batch at byte {found} follows it");
                return Err(StorageError::corrupt(path, read.valid_bytes, reason));
            }
            Ok((header, _)) => found + header.file_bytes(),
            Err(_) => found + 1,
        };
    }
    Ok(())
}

/// A forward-moving view of a file.
struct Window<'f> {
    file: &'f dyn DiskFile,
    file_bytes: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl<'f> Window<'f> {
    fn new(file: &'f dyn DiskFile) -> StorageResult<Self> {
        Ok(Self {
            file,
            file_bytes: file.len()?,
            start: 0,
            bytes: Vec::new(),
        })
    }

    /// At least `bytes` from `offset` on, or `None` where the file ends before.
    fn view(&mut self, offset: u64, bytes: usize) -> StorageResult<Option<&[u8]>> {
        let left = self.file_bytes.saturating_sub(offset);
        if (bytes as u64) > left {
            return Ok(None);
        }
        if self.inside(offset, bytes).is_none() {
            let wanted = usize::try_from(left).unwrap_or(usize::MAX);
            self.bytes.resize(wanted.min(bytes.max(WINDOW_BYTES)), 0);
            self.start = offset;
            if let Err(error) = self.file.read_exact_at(&mut self.bytes, offset) {
                self.bytes.clear();
                return Err(error);
            }
        }
        Ok(self.inside(offset, bytes))
    }

    fn inside(&self, offset: u64, bytes: usize) -> Option<&[u8]> {
        let skip = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let found = self.bytes.get(skip..)?;
        (found.len() >= bytes).then_some(found)
    }

    /// The batch at `offset`, or why there is none.
    #[allow(clippy::type_complexity)] // An I/O error, or a verdict.
    fn batch(
        &mut self,
        seed: u64,
        offset: u64,
    ) -> StorageResult<Result<(BatchHeader, &[u8]), &'static str>> {
        let Some(front) = self.view(offset, BATCH_HEADER_BYTES)? else {
            return Ok(Err("the file ends inside a batch"));
        };
        let header = match BatchHeader::decode(front) {
            Ok(header) => header,
            Err(HeaderError::Invalid(reason)) => return Ok(Err(reason)),
            Err(HeaderError::Version(_)) => return Ok(Err("the batch's version")),
        };
        let whole = BATCH_HEADER_BYTES + header.stored_bytes as usize;
        let Some(batch) = self.view(offset, whole)? else {
            return Ok(Err("the file ends inside a batch"));
        };
        let sound = batch
            .get(..whole)
            .and_then(|batch| batch.split_at_checked(BATCH_HEADER_BYTES));
        match sound {
            Some((front, payload)) if BatchHeader::checks(seed, front, payload) => {
                Ok(Ok((header, payload)))
            }
            _ => Ok(Err("a batch's checksum")),
        }
    }

    /// The offset of the next batch magic at or after `offset`.
    fn find_magic(&mut self, mut offset: u64) -> StorageResult<Option<u64>> {
        while let Some(bytes) = self.view(offset, BATCH_MAGIC.len())? {
            let found = bytes
                .windows(BATCH_MAGIC.len())
                .position(|window| window == BATCH_MAGIC);
            if let Some(skip) = found {
                return Ok(Some(offset + skip as u64));
            }
            offset += (bytes.len() - BATCH_MAGIC.len() + 1) as u64;
        }
        Ok(None)
    }
}
