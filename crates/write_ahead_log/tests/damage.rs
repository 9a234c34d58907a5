//! Torn tails, holes, bit rot and old data: opening the log finds a prefix of the appended records
//! or returns an error.

use crate::common::*;
use proptest::prelude::*;
use std::sync::Arc;
use teak_base::Lsn;
use teak_disk::Disk;

const HEADER_BYTES: usize = 64;

/// A log of several batches, some of them synced, and its records.
fn sample(rows: u64, segments: teak_write_ahead_log::LogOptions) -> (Arc<dyn Disk>, Vec<String>) {
    let disk = memory();
    let log = open(&disk, segments);
    let mut expected = Vec::new();
    for n in 0..rows {
        expected.push(append_row(&log, n).1);
        match n % 5 {
            0 => log.sync(log.end()).unwrap(),
            2 | 3 => {
                log.write_pending().unwrap();
            }
            _ => {}
        }
    }
    log.sync(log.end()).unwrap();
    (disk, expected)
}

fn last_segment(disk: &Arc<dyn Disk>) -> u64 {
    let mut number = 1;
    while disk.exists(&segment(number + 1)).unwrap() {
        number += 1;
    }
    number
}

#[test]
fn a_log_cut_at_any_byte_reads_as_a_prefix_and_can_be_continued() {
    let (disk, expected) = sample(24, small_segments());
    let last = last_segment(&disk);
    assert!(last > 1);
    let bytes = contents(&disk, &segment(last));
    let mut shortest = usize::MAX;
    for cut in 0..=bytes.len() {
        let disk = copy(&disk);
        overwrite(&disk, &segment(last), &bytes[..cut]);
        let found = list(&disk).unwrap();
        assert!(expected.starts_with(&found), "cut at {cut}");
        shortest = shortest.min(found.len());

        let (log, read) = open_listing(&disk, small_segments(), 0).unwrap();
        assert_eq!(read, found);
        let (_, added) = append_row(&log, 1000);
        log.sync(log.end()).unwrap();
        drop(log);
        let mut grown = found;
        grown.push(added);
        assert_eq!(list(&disk).unwrap(), grown, "cut at {cut}");
    }
    assert!(shortest < expected.len());
}

#[test]
fn a_cut_before_the_last_segment_is_corrupt() {
    let (disk, _) = sample(24, small_segments());
    let bytes = contents(&disk, &segment(1));
    for cut in 0..bytes.len() {
        let disk = copy(&disk);
        overwrite(&disk, &segment(1), &bytes[..cut]);
        assert!(is_corrupt(&list(&disk)), "cut at {cut}");
    }
}

#[test]
fn a_missing_segment_is_corrupt() {
    let (disk, _) = sample(60, small_segments());
    let last = last_segment(&disk);
    for number in 1..last {
        let disk = copy(&disk);
        disk.remove(&segment(number)).unwrap();
        assert!(is_corrupt(&list(&disk)), "segment {number}");
    }
}

/// A log of three batches in one segment, its records, and the offsets of the
/// batches. The first `synced` batches were synced before the next was written.
fn three_batches(synced: usize) -> (Arc<dyn Disk>, Vec<String>, Vec<usize>) {
    let disk = memory();
    let log = open(&disk, options());
    let mut expected = Vec::new();
    let mut offsets = Vec::new();
    for n in 0..3 {
        let end = usize::try_from(log.statistics().segments_bytes).unwrap();
        offsets.push(end.max(HEADER_BYTES));
        expected.push(append_row(&log, 40 + n).1);
        if offsets.len() <= synced {
            log.sync(log.end()).unwrap();
        } else {
            log.write_pending().unwrap();
        }
    }
    (disk, expected, offsets)
}

#[test]
fn a_hole_among_unsynced_batches_ends_the_log() {
    let (disk, expected, offsets) = three_batches(1);
    let mut bytes = contents(&disk, &segment(1));
    bytes[offsets[1]..offsets[2]].fill(0);
    overwrite(&disk, &segment(1), &bytes);
    assert_eq!(list(&disk).unwrap(), expected[..1]);
}

#[test]
fn a_hole_that_was_durable_is_corrupt() {
    for hole in 0..2 {
        let (disk, _, offsets) = three_batches(2);
        let mut bytes = contents(&disk, &segment(1));
        bytes[offsets[hole]..offsets[hole + 1]].fill(0);
        overwrite(&disk, &segment(1), &bytes);
        assert!(is_corrupt(&list(&disk)), "hole {hole}");
    }
}

#[test]
fn data_after_a_torn_tail_is_never_read_again() {
    let (disk, expected, offsets) = three_batches(1);
    let intact = contents(&disk, &segment(1));
    let mut torn = intact.clone();
    torn[offsets[1] + HEADER_BYTES] ^= 0x10;
    overwrite(&disk, &segment(1), &torn);
    let (log, found) = open_listing(&disk, options(), 0).unwrap();
    assert_eq!(found, expected[..1]);
    let (_, added) = append_row(&log, 41);
    log.sync(log.end()).unwrap();
    drop(log);
    // The lost batches are not read even if they reappear in the file.
    overwrite(&disk, &segment(1), &intact);
    assert_eq!(list(&disk).unwrap(), [expected[0].clone(), added]);
}

#[test]
fn a_batch_moved_to_another_offset_is_not_read() {
    let (disk, expected, offsets) = three_batches(0);
    let bytes = contents(&disk, &segment(1));
    let mut moved = bytes[..offsets[1]].to_vec();
    moved.extend_from_slice(&bytes[offsets[2]..]);
    overwrite(&disk, &segment(1), &moved);
    assert_eq!(list(&disk).unwrap(), expected[..1]);
    let mut repeated = bytes[..offsets[1]].to_vec();
    repeated.extend_from_slice(&bytes[offsets[0]..]);
    overwrite(&disk, &segment(1), &repeated);
    assert_eq!(list(&disk).unwrap(), expected[..1]);
}

#[test]
fn zeros_ahead_of_small_batches_are_not_part_of_the_log() {
    let disk = memory();
    let log = open(&disk, options());
    let (_, first) = append_row(&log, 1);
    log.sync(log.end()).unwrap();
    let end = usize::try_from(log.statistics().segments_bytes).unwrap();
    let file = contents(&disk, &segment(1));
    assert!(file.len() > end && file[end..].iter().all(|byte| *byte == 0));
    assert_eq!(
        list(&disk).unwrap().as_slice(),
        std::slice::from_ref(&first)
    );

    // The next batches do not change the length of the file.
    let mut expected = vec![first];
    let mut before = 0;
    for n in 2..50 {
        before = log.statistics().segments_bytes;
        expected.push(append_row(&log, n).1);
        log.sync(log.end()).unwrap();
    }
    assert_eq!(contents(&disk, &segment(1)).len(), file.len());
    assert_eq!(list(&disk).unwrap(), expected);

    // The file system may lose the zeros, or keep only a part of a batch.
    let mut bytes = contents(&disk, &segment(1));
    let end = usize::try_from(log.statistics().segments_bytes).unwrap();
    for kept in [end, end - 1, end + 1] {
        overwrite(&disk, &segment(1), &bytes[..kept]);
        let whole = if kept < end { 48 } else { 49 };
        assert_eq!(list(&disk).unwrap(), expected[..whole]);
    }
    bytes[end - 1] ^= 1;
    overwrite(&disk, &segment(1), &bytes);
    let (log, found) = open_listing(&disk, options(), 0).unwrap();
    assert_eq!(found, expected[..48]);
    let kept = contents(&disk, &segment(1)).len() as u64;
    assert_eq!(kept, before, "torn batch and zeros are cut off");
    drop(log);
}

#[test]
fn a_segment_of_a_later_format_is_reported_as_such() {
    let (disk, _) = sample(3, options());
    let mut bytes = contents(&disk, &segment(1));
    bytes[8] = 3;
    let sum = teak_base::checksum::checksum(&bytes[..56]);
    bytes[56..64].copy_from_slice(&sum.to_le_bytes());
    overwrite(&disk, &segment(1), &bytes);
    assert!(matches!(
        list(&disk),
        Err(teak_base::StorageError::UnsupportedFormat { found: 3, .. })
    ));
}

#[test]
fn a_crash_at_the_first_creation_leaves_a_usable_directory() {
    for bytes in [0usize, 1, 63, 64] {
        let disk = memory();
        disk.create(&segment(1))
            .unwrap()
            .write_all_at(&vec![0; bytes], 0)
            .unwrap();
        let (log, found) = open_listing(&disk, options(), 0).unwrap();
        assert!(found.is_empty());
        assert_eq!(log.end(), Lsn(0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_mutation_reads_as_a_prefix_or_an_error(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        segment_number in 1u64..4,
        cut in proptest::option::of(any::<prop::sample::Index>()),
        tail in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let (disk, expected) = sample(30, small_segments());
        let number = segment_number.min(last_segment(&disk));
        let mut bytes = contents(&disk, &segment(number));
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        bytes.extend_from_slice(&tail);
        overwrite(&disk, &segment(number), &bytes);
        match list(&disk) {
            Ok(found) => {
                prop_assert!(expected.starts_with(&found));
                let (log, read) = open_listing(&disk, small_segments(), 0).unwrap();
                prop_assert_eq!(&read, &found);
                let (_, added) = append_row(&log, 77);
                log.sync(log.end()).unwrap();
                let again = list(&disk).unwrap();
                prop_assert_eq!(again.len(), found.len() + 1);
                prop_assert_eq!(again.last(), Some(&added));
            }
            Err(_) => prop_assert!(open_listing(&disk, small_segments(), 0).is_err()),
        }
    }
}
