//! Fuzz target of whole segments: chains of batches with correct checksums, faults that the input
//! selects, and arbitrary bytes after the batches.

use crate::format::{
    BATCH_HEADER_BYTES, BatchHeader, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentKind,
};
use crate::segment::segment_path;
use crate::{LogOptions, Record, WriteAheadLog};
use std::path::Path;
use std::sync::Arc;
use teak_base::bytes::Put;
use teak_base::fuzzing::Input;
use teak_base::{Lsn, StorageError, StorageResult};
use teak_disk::{Disk, MemoryDisk};

const INSTANCE: u64 = 7;

fn directory() -> &'static Path {
    Path::new("/log")
}

/// Opens a copy of the log, opens the log, appends a record, and opens the log again. Each open
/// must visit the same records, and the last one also the appended record.
pub(super) fn segments(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    build(&disk, &mut input).expect("the memory disk accepts everything");
    let from = Lsn(u64::from(input.u8()));
    let read = copy(&disk).and_then(|copied| open(&copied, from));
    let opened = open(&disk, from);
    let Ok((log, listed)) = opened else {
        assert!(read.is_err(), "a log whose copy opens can be opened");
        return;
    };
    let (_, read) = read.expect("the copy of a log that opens can be opened");
    assert_eq!(read, listed);
    let record = Record::TableDropped { table_id: 4711 };
    let appended = log.append(&record).expect("an open log accepts records");
    log.sync(log.end())
        .expect("an open log makes records durable");
    drop(log);
    let (_, again) = open(&disk, from).expect("a log opens again");
    let (last, before) = again.split_last().expect("a record was appended");
    assert_eq!(before, listed);
    assert_eq!(*last, (appended, record.to_string()));
}

type Listed = Vec<(Lsn, String)>;

/// Copies the files to another disk.
fn copy(disk: &Arc<dyn Disk>) -> StorageResult<Arc<dyn Disk>> {
    let copied: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    copied.create_directories(directory())?;
    for path in disk.list(directory())? {
        let file = disk.open(&path)?;
        let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(0)];
        file.read_exact_at(&mut bytes, 0)?;
        copied.create(&path)?.write_all_at(&bytes, 0)?;
    }
    Ok(copied)
}

fn open(disk: &Arc<dyn Disk>, from: Lsn) -> StorageResult<(WriteAheadLog, Listed)> {
    let mut found = Vec::new();
    let options = LogOptions::new(INSTANCE);
    let mut visit = |lsn, record: Record<'_>| {
        found.push((lsn, record.to_string()));
        Ok(())
    };
    let log = WriteAheadLog::open::<StorageError>(disk, directory(), options, from, &mut visit)?;
    Ok((log, found))
}

/// Builds the segments that the input describes.
fn build(disk: &Arc<dyn Disk>, input: &mut Input<'_>) -> StorageResult<()> {
    disk.create_directories(directory())?;
    let mut number = 1;
    let mut first_lsn = 0;
    let mut chain = 0;
    loop {
        let header = SegmentHeader {
            kind: SegmentKind::Begun,
            instance: INSTANCE,
            number,
            first_lsn: first_lsn + u64::from(input.rarely()),
            previous: chain ^ u64::from(input.rarely()),
        };
        let (mut bytes, seed) = header.encode();
        chain = seed;
        while input.below(4) != 0 && !input.is_empty() {
            batch(input, seed, &mut first_lsn, &mut chain, &mut bytes);
        }
        let tail = usize::from(input.u8());
        bytes.extend_from_slice(input.bytes(tail));
        if input.rarely() {
            bytes.truncate(SEGMENT_HEADER_BYTES.min(usize::from(input.u8())));
        }
        let file = disk.create(&segment_path(directory(), number))?;
        file.write_all_at(&bytes, 0)?;
        if input.below(3) != 0 || input.is_empty() || number > 4 {
            return Ok(());
        }
        number += 1 + u64::from(input.rarely());
    }
}

/// Maps a byte to the number of a kind of record, or to zero, which no kind has.
fn number_of(byte: u8) -> u8 {
    let numbers = Record::NUMBERS.iter().copied();
    byte % (numbers.max().unwrap_or(0) + 1)
}

/// Builds one batch from the input: of records, or of arbitrary bytes.
fn batch(input: &mut Input<'_>, seed: u64, lsn: &mut u64, chain: &mut u64, bytes: &mut Vec<u8>) {
    let mut raw = Vec::new();
    for _ in 0..=input.below(3) {
        let kind = input.u8();
        let body = input.short_bytes();
        if kind == u8::MAX {
            raw.extend_from_slice(body);
        } else {
            raw.put_u32(u32::try_from(body.len() + 1).unwrap_or(0));
            raw.put_u8(number_of(kind));
            raw.extend_from_slice(body);
        }
    }
    let mut batch = vec![0; BATCH_HEADER_BYTES];
    let codec = input.quick_codec().compress(&raw, &mut batch);
    let faults = if input.rarely() { input.u8() } else { 0 };
    let fault = |bit: u32| u32::from(faults >> bit & 1);
    let stored = u32::try_from(batch.len() - BATCH_HEADER_BYTES).unwrap_or(0);
    let raw_bytes = u32::try_from(raw.len()).unwrap_or(0);
    let header = BatchHeader {
        codec,
        is_encrypted: false,
        first_lsn: *lsn + u64::from(fault(0)),
        durable: (*lsn).saturating_sub(u64::from(input.u8())) + u64::from(fault(1)) * 5000,
        previous: *chain ^ u64::from(fault(2)),
        raw_bytes: (raw_bytes + fault(3)) | fault(4) << 31,
        stored_bytes: (stored + fault(5)) | fault(6) << 25,
        checksum: 0,
    };
    *chain = header.seal(seed ^ u64::from(fault(7)), &mut batch);
    *lsn += raw.len() as u64;
    bytes.append(&mut batch);
}

pub(super) fn segments_seeds() -> Vec<Vec<u8>> {
    let mut batches = Vec::new();
    super::example_records(&mut |record| {
        let mut encoded = Vec::new();
        record.encode(&mut encoded);
        let (frame, body) = encoded.split_at(5);
        let length = u8::try_from(body.len()).unwrap_or(0);
        // The bytes mean: a batch follows; it has one record; the kind, length and body of the
        // record; the codec; no faults; how far the durable position is behind.
        batches.push(vec![1, 0, frame.last().copied().unwrap_or(0), length]);
        batches.last_mut().into_iter().for_each(|batch| {
            batch.extend_from_slice(body);
            batch.extend([1, 0, 10]);
        });
    });
    let one_segment = [&[0, 0][..], &batches.concat(), &[0, 3, 1, 2, 3, 0, 1, 0]].concat();
    let mut two_segments = Vec::new();
    for (number, half) in (0u8..).zip(batches.chunks(batches.len().div_ceil(2))) {
        two_segments.extend([0, 0]);
        two_segments.extend(half.concat());
        two_segments.extend([0, 0, 0, number]);
    }
    two_segments.push(40);
    vec![one_segment, two_segments]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_every_kind_are_made() {
        for number in Record::NUMBERS {
            assert_eq!(number_of(*number), *number);
        }
    }
}
