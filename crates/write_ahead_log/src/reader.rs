//! Replay: reads the log back.
//!
//! 1. Find the newest segment that begins at or before the wanted position.
//! 2. Cut off the torn tail: truncate the last segment at the end of the log that step 5 finds, and
//!    sync the rest. So a replay only visits records that a later crash cannot lose.
//! 3. Read batches while each is the expected one: its position continues the log, and it contains
//!    the checksum of the previous batch.
//! 4. A segment with a successor must reach the successor's first position,
//!    because a segment is synced before the next one begins.
//! 5. In the last segment, the log ends at the first unexpected byte if that can be a torn tail.
//!    Intact batches may follow it, in this segment or in prepared ones after it, because a crash
//!    may lose unsynced writes in any order. But if one of them records that the log was durable
//!    beyond this byte when the batch was written, the log is corrupt.
//!
//! A reused file contains batches of an earlier segment. Their checksums do not
//! match: the checksum of the segment's header is part of them.

use crate::format::{SEGMENT_HEADER_BYTES, SegmentKind};
use crate::options::{LogIdentity, LogOptions};
use crate::record::Record;
use crate::segment::{Segment, SegmentStart, list_segments, segment_path};
use crate::segments::SegmentEntry;
use crate::window::{WINDOW_BYTES, Window};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use teak_base::bytes::Take;
use teak_base::{Encryption, Lsn, StorageError, StorageResult};
use teak_disk::Disk;

/// Minimum space, in bytes, that is reserved for the next segment when a torn tail is cut off.
const RESERVED_BYTES: u64 = 1 << 20;

/// The thread that reads ahead passes batches on in groups of at least this many
/// decompressed bytes. At most `GROUPS_AHEAD` groups wait for the visitor.
const GROUP_BYTES: usize = 1 << 20;
const GROUPS_AHEAD: usize = 4;

/// The result of a scan.
#[derive(Debug)]
pub(crate) struct Scanned {
    /// Log position after the last record.
    pub(crate) end: u64,
    /// The checksum that the next batch or segment must contain.
    pub(crate) chain: u64,
    /// The last segment.
    pub(crate) last: Segment,
    /// Bytes of the last segment up to the end of its last valid batch.
    pub(crate) valid_bytes: u64,
    /// The segments read, ascending.
    pub(crate) segments: Vec<SegmentEntry>,
    /// Numbers of segments after the last: prepared ones without a batch, and
    /// one whose creation did not finish.
    pub(crate) unused: Vec<u64>,
    /// Numbers of segments before the first one read.
    pub(crate) outdated: Vec<u64>,
}

/// Cuts off the torn tail of the last segment, and makes the rest and the name of the
/// file durable, because the next segment must not exist without them. Data not known
/// to be durable is written again first: after a failed sync an operating system may
/// treat bytes as clean that exist only in its cache.
fn cut_torn_tail(disk: &dyn Disk, directory: &Path, chosen: &Chosen) -> StorageResult<()> {
    let Some(last) = chosen.segments.last() else {
        return Ok(());
    };
    // No payload is decrypted.
    let plain = Encryption::default();
    let read = read_segment::<StorageError>(last, &plain, None, u64::MAX, &mut |_| Ok(()))?;
    for unused in &chosen.prepared {
        let mut window = Window::new(unused.file.as_ref())?;
        let reason = "the segment's first batch";
        let begin = SEGMENT_HEADER_BYTES as u64;
        refuse_damage(&mut window, unused.seed, begin, read.end, reason)?;
    }
    let file = &last.segment.file;
    let bytes = file.len()?;
    if bytes > read.valid_bytes {
        // Reserves space for the next segment, because the replay may use up the free space.
        file.set_len(read.valid_bytes)?;
        let _ = file.reserve(bytes.max(read.valid_bytes + RESERVED_BYTES));
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

/// Cuts off the torn tail of the log in a directory, syncs the rest, and visits every record at or
/// after `from`. With `reads_ahead`, another thread reads and decompresses. Returns `None` when the
/// directory has no log.
pub(crate) fn scan<E: From<StorageError>>(
    disk: &dyn Disk,
    directory: &Path,
    options: &LogOptions,
    from: Lsn,
    visit: &mut dyn FnMut(Lsn, Record<'_>) -> Result<(), E>,
) -> Result<Option<Scanned>, E> {
    let Some(chosen) = choose(disk, directory, options.instance, from)? else {
        return Ok(None);
    };
    cut_torn_tail(disk, directory, &chosen)?;
    let from = from.0;
    let used = chosen.segments.as_slice();
    let mut visit = |batch: Batch| visit_records(&batch, from, visit);
    let read = if options.reads_ahead {
        read_ahead(used, &options.encryption, from, &mut visit)?
    } else {
        read_all(used, &options.encryption, from, None, &mut visit)?
    };
    let (Some(last), Some(read)) = (used.last(), read) else {
        return Ok(None);
    };
    if read.end < from {
        let reason = format!("the log ends at {} but is needed from {from}", read.end);
        let path = last.segment.file.path();
        return Err(StorageError::corrupt(path, read.valid_bytes, reason).into());
    }
    let last = last.segment.clone();
    let mut entries = Vec::with_capacity(used.len());
    for UsedSegment { segment, start } in used {
        entries.push(SegmentEntry {
            number: segment.header.number,
            first_lsn: start.first_lsn,
            bytes: segment.file.len()?,
            was_prepared: segment.header.kind == SegmentKind::Prepared,
        });
    }
    Ok(Some(Scanned {
        end: read.end,
        chain: read.chain,
        last,
        valid_bytes: read.valid_bytes,
        segments: entries,
        unused: chosen.unused,
        outdated: chosen.outdated,
    }))
}

/// Visits every record at or after `from` again, of a log that was scanned before.
pub(crate) fn read_again<E: From<StorageError>>(
    disk: &dyn Disk,
    directory: &Path,
    log: LogIdentity<'_>,
    from: Lsn,
    visit: &mut dyn FnMut(Lsn, Record<'_>) -> Result<(), E>,
) -> Result<(), E> {
    if let Some(chosen) = choose(disk, directory, log.instance, from)? {
        let mut visit = |batch: Batch| visit_records(&batch, from.0, visit);
        read_all(&chosen.segments, log.encryption, from.0, None, &mut visit)?;
    }
    Ok(())
}

/// Visits every record from `from` up to `until` of a log that is open. `listed` are its segments
/// that contain them; they are not trimmed during the call.
pub(crate) fn read_between<E: From<StorageError>>(
    disk: &dyn Disk,
    directory: &Path,
    log: LogIdentity<'_>,
    listed: &[SegmentEntry],
    (from, until): (Lsn, Lsn),
    visit: &mut dyn FnMut(Lsn, Record<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let segments = open_listed(disk, directory, log.instance, listed)?;
    let mut visit_before = |lsn: Lsn, record: Record<'_>| match lsn < until {
        true => visit(lsn, record),
        false => Ok(()),
    };
    let mut visit = |batch: Batch| visit_records(&batch, from.0, &mut visit_before);
    read_all(&segments, log.encryption, from.0, Some(until.0), &mut visit)?;
    Ok(())
}

/// Visits the bytes of the log from `from` up to `until`, in pieces that begin and end between two
/// records; the caller chooses the two positions like this. The first argument of `visit` is the
/// position of the piece. Otherwise as [`read_between`].
pub(crate) fn read_bytes_between(
    disk: &dyn Disk,
    directory: &Path,
    log: LogIdentity<'_>,
    listed: &[SegmentEntry],
    (from, until): (Lsn, Lsn),
    visit: &mut dyn FnMut(u64, &[u8]) -> StorageResult<()>,
) -> StorageResult<()> {
    let segments = open_listed(disk, directory, log.instance, listed)?;
    let mut visit = |batch: Batch| {
        let begins = batch.end_lsn - batch.raw.len() as u64;
        let skip = from.0.saturating_sub(begins);
        let excess = batch.end_lsn.saturating_sub(until.0);
        let length = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let end = batch.raw.len().saturating_sub(length(excess));
        match batch.raw.get(length(skip)..end) {
            Some(piece) if !piece.is_empty() => visit(begins + skip, piece),
            _ => Ok(()),
        }
    };
    read_all(&segments, log.encryption, from.0, Some(until.0), &mut visit)?;
    Ok(())
}

/// Opens segments of an open log.
fn open_listed(
    disk: &dyn Disk,
    directory: &Path,
    instance: u64,
    listed: &[SegmentEntry],
) -> StorageResult<Vec<UsedSegment>> {
    let mut segments = Vec::with_capacity(listed.len());
    for entry in listed {
        let segment = Segment::open(disk, directory, entry.number, instance)?;
        let start = segment.as_ref().map(Segment::start).transpose()?.flatten();
        match segment.zip(start) {
            Some((segment, start)) => segments.push(UsedSegment { segment, start }),
            None => {
                let path = segment_path(directory, entry.number);
                let reason = "the segment's beginning is damaged";
                return Err(StorageError::corrupt(&path, 0, reason));
            }
        }
    }
    Ok(segments)
}

/// Passes the batches of all segments that end after `from` to `visit`, up to the batch that
/// reaches `end`. Returns how far the last segment was read; `None` if there is no segment.
fn read_all<E: From<StorageError>>(
    segments: &[UsedSegment],
    encryption: &Encryption,
    from: u64,
    end: Option<u64>,
    visit: &mut dyn FnMut(Batch) -> Result<(), E>,
) -> Result<Option<SegmentRead>, E> {
    let mut last: Option<SegmentRead> = None;
    let mut rest = segments.iter().peekable();
    while let Some(used) = rest.next() {
        let start = &used.start;
        if last
            .as_ref()
            .is_some_and(|last| (last.end, last.chain) != (start.first_lsn, start.previous))
        {
            let reason = "the segment does not continue the previous segment";
            return Err(StorageError::corrupt(used.segment.file.path(), 0, reason).into());
        }
        let until = rest.peek().map(|next| next.start.first_lsn).or(end);
        last = Some(read_segment(used, encryption, until, from, visit)?);
    }
    Ok(last)
}

/// Why the thread that reads ahead ended early.
enum ReadEnd {
    Failed(StorageError),
    /// The visitor has failed.
    NotWanted,
}

impl From<StorageError> for ReadEnd {
    fn from(error: StorageError) -> Self {
        Self::Failed(error)
    }
}

/// As [`read_all`], but another thread reads.
fn read_ahead<E: From<StorageError>>(
    segments: &[UsedSegment],
    encryption: &Encryption,
    from: u64,
    visit: &mut dyn FnMut(Batch) -> Result<(), E>,
) -> Result<Option<SegmentRead>, E> {
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel::<Vec<Batch>>(GROUPS_AHEAD);
        let reader = scope.spawn(move || {
            let (mut group, mut bytes) = (Vec::new(), 0);
            let read = read_all::<ReadEnd>(segments, encryption, from, None, &mut |batch| {
                bytes += batch.raw.len();
                group.push(batch);
                if bytes >= GROUP_BYTES {
                    bytes = 0;
                    let group = std::mem::take(&mut group);
                    return sender.send(group).map_err(|_| ReadEnd::NotWanted);
                }
                Ok(())
            });
            // Passes on the batches before an error, too.
            let sent = sender.send(group).map_err(|_| ReadEnd::NotWanted);
            read.and_then(|read| sent.map(|()| read))
        });
        for group in receiver {
            for batch in group {
                visit(batch)?;
            }
        }
        match reader.join() {
            Ok(Ok(read)) => Ok(read),
            Ok(Err(ReadEnd::Failed(error))) => Err(error.into()),
            Ok(Err(ReadEnd::NotWanted)) => Ok(None),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// A segment with batches, or with a header that contains its position.
struct UsedSegment {
    segment: Segment,
    start: SegmentStart,
}

/// The segments that a scan reads.
struct Chosen {
    /// The segments to read, ascending and without a gap.
    segments: Vec<UsedSegment>,
    /// Prepared segments after them without a valid first batch.
    prepared: Vec<Segment>,
    /// Numbers of the segments after those to read.
    unused: Vec<u64>,
    /// Numbers of the segments before those to read.
    outdated: Vec<u64>,
}

/// Opens segments from the newest back to the one that contains `from`.
fn choose(
    disk: &dyn Disk,
    directory: &Path,
    instance: u64,
    from: Lsn,
) -> StorageResult<Option<Chosen>> {
    let mut numbers = list_segments(disk, directory)?;
    let (mut prepared, mut unused) = (Vec::new(), Vec::new());
    let mut segments: Vec<UsedSegment> = Vec::new();
    while let Some(number) = numbers.pop() {
        let corrupt = |reason| {
            let path = segment_path(directory, number);
            Err(StorageError::corrupt(&path, 0, reason))
        };
        if segments
            .last()
            .is_some_and(|next| next.segment.header.number != number + 1)
        {
            return corrupt("the segment after this one is missing");
        }
        let is_after_last = segments.is_empty();
        let Some(segment) = Segment::open(disk, directory, number, instance)? else {
            if is_after_last {
                unused.push(number);
                continue;
            }
            return corrupt("the segment's header is cut short");
        };
        match segment.start()? {
            Some(start) => {
                segments.push(UsedSegment { segment, start });
                if start.first_lsn <= from.0 {
                    break;
                }
            }
            None if is_after_last => {
                unused.push(number);
                prepared.push(segment);
            }
            None => return corrupt("the segment's first batch is damaged"),
        }
    }
    segments.reverse();
    let Some(first) = segments.first() else {
        // An empty directory, or the creation of the first segment was interrupted.
        if from == Lsn(0) {
            return Ok(None);
        }
        return Err(StorageError::corrupt(
            &segment_path(directory, 1),
            0,
            format!("the log is missing but is needed from {from}"),
        ));
    };
    let begins = first.start.first_lsn;
    if begins > from.0 {
        let reason = format!("the log begins at {begins} but is needed from {from}");
        return Err(StorageError::corrupt(first.segment.file.path(), 0, reason));
    }
    Ok(Some(Chosen {
        segments,
        prepared,
        unused,
        outdated: numbers,
    }))
}

struct Batch {
    path: PathBuf,
    offset: u64,
    end_lsn: u64,
    raw: Vec<u8>,
}

/// The result of reading one segment.
struct SegmentRead {
    /// Log position after the last record.
    end: u64,
    /// The checksum that the next batch must contain.
    chain: u64,
    /// Bytes up to the end of the last valid batch.
    valid_bytes: u64,
    /// Bytes that are known to be durable.
    durable_bytes: u64,
}

fn read_segment<E: From<StorageError>>(
    used: &UsedSegment,
    encryption: &Encryption,
    until: Option<u64>,
    from: u64,
    visit: &mut dyn FnMut(Batch) -> Result<(), E>,
) -> Result<SegmentRead, E> {
    let UsedSegment { segment, start } = used;
    let path = segment.file.path();
    let mut window = Window::new(segment.file.as_ref())?;
    let mut read = SegmentRead {
        end: start.first_lsn,
        chain: start.chain,
        valid_bytes: SEGMENT_HEADER_BYTES as u64,
        durable_bytes: 0,
    };
    // Batches that no later batch records as durable: log position and offset in the file.
    let mut unsynced: VecDeque<(u64, u64)> = VecDeque::new();
    while until.is_none_or(|until| read.end < until) {
        let (header, payload) = match window.batch(segment.seed, read.valid_bytes)? {
            Ok(batch) if batch.0.first_lsn == read.end && batch.0.previous == read.chain => batch,
            other => {
                let reason = other.err().unwrap_or("a batch out of sequence");
                if until.is_some() {
                    return Err(StorageError::corrupt(path, read.valid_bytes, reason).into());
                }
                refuse_damage(
                    &mut window,
                    segment.seed,
                    read.valid_bytes,
                    read.end,
                    reason,
                )?;
                break;
            }
        };
        if header.end_lsn() > from {
            let place = (path, read.valid_bytes);
            let raw = header.unpack(place, encryption, segment.seed, payload)?;
            visit(Batch {
                path: path.to_path_buf(),
                offset: read.valid_bytes,
                end_lsn: header.end_lsn(),
                raw,
            })?;
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
    // The header is durable if there is a batch: it is synced before the first batch is written.
    read.durable_bytes = unsynced.front().map_or(0, |(_, offset)| *offset);
    Ok(read)
}

/// Passes the records of a batch to the visitor.
fn visit_records<E: From<StorageError>>(
    batch: &Batch,
    from: u64,
    visit: &mut dyn FnMut(Lsn, Record<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut take = Take::new(&batch.raw);
    while !take.is_empty() {
        let lsn = batch.end_lsn - take.rest().len() as u64;
        let record = Record::decode(&mut take).map_err(|_| {
            let reason = format!("the record at position {lsn} does not decode");
            StorageError::corrupt(&batch.path, batch.offset, reason)
        })?;
        if lsn >= from {
            visit(Lsn(lsn), record)?;
        }
    }
    Ok(())
}

/// Searches, from the first unexpected byte at offset `begin` on, for a batch whose header says
/// that the log was durable beyond position `end`.
///
/// # Errors
/// `Corrupt` when there is one.
fn refuse_damage(
    window: &mut Window<'_>,
    seed: u64,
    begin: u64,
    end: u64,
    reason: &'static str,
) -> StorageResult<()> {
    let mut offset = begin;
    while let Some(found) = window.find_magic(offset)? {
        offset = match window.batch(seed, found)? {
            Ok((header, _)) if header.durable > end => {
                let path = window.file.path();
                let reason = format!("{reason}, though a batch at byte {found} follows it");
                return Err(StorageError::corrupt(path, begin, reason));
            }
            Ok((header, _)) => found + header.file_bytes(),
            Err(_) => found + 1,
        };
    }
    Ok(())
}
