//! The lifecycle of a file without faults.

use crate::common::{FILE, PAGE, PATH, checkpoint, create, open, read, write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use teak_base::limits::BLOCK_RAW_BYTES_MAX;
use teak_base::{Codec, FileId, StorageError};
use teak_block_file::{
    BLOCKS_START, BlockAddress, BlockDescription, BlockFile, BlockKind, PAYLOAD_BYTES_MAX,
};
use teak_disk::{Disk, MemoryDisk};
use teak_testing::Random;

const MIB: usize = 1024 * 1024;

fn disk() -> Arc<dyn Disk> {
    Arc::new(MemoryDisk::new())
}

#[test]
fn blocks_of_a_checkpoint_survive_reopening() {
    let disk = disk();
    let file = create(&disk);
    let mut blocks = Vec::new();
    for codec in Codec::ALL {
        let mut writer = file.writer(0);
        for number in 0..40u32 {
            let raw = number.to_le_bytes().repeat(1 + number as usize * 300);
            let description = BlockDescription { codec, ..PAGE };
            blocks.push((writer.write(description, &raw).unwrap(), raw));
        }
        file.publish(vec![writer.finish().unwrap()], &[]);
    }
    checkpoint(&file, b"state");
    drop(file);
    let (file, payload) = open(&disk);
    assert_eq!(payload, b"state");
    assert_eq!(file.file_id(), FILE);
    assert_eq!(file.path(), Path::new(PATH));
    for (address, raw) in blocks {
        let block = file.read_block(address, BlockKind::Page).unwrap();
        assert_eq!(block.raw, raw);
        assert_eq!(block.description.layout, 3);
    }
}

#[test]
fn the_length_is_that_of_the_file_although_more_was_reserved() {
    let disk = disk();
    let file = create(&disk);
    let is_exact = || {
        let length = disk.open(Path::new(PATH)).unwrap().len().unwrap();
        assert_eq!(file.file_bytes(), length);
        assert_eq!(file.statistics().file_bytes, length);
    };
    is_exact();
    let mut random = Random::new(1);
    for round in 0..60 {
        // The writer may reserve more than it needs, until it ends.
        let mut writer = file.writer(random.below(4 << 20));
        for _ in 0..random.below(20) {
            let length = usize::try_from(random.below(70_000)).unwrap();
            writer.write(PAGE, &vec![7; length]).unwrap();
            is_exact();
        }
        match round % 3 {
            0 => file.publish(vec![writer.finish().unwrap()], &[]),
            1 => drop(writer.finish().unwrap()),
            _ => drop(writer),
        }
        is_exact();
        match random.below(3) {
            0 => checkpoint(&file, b"state"),
            1 => file.truncate_free_tail(),
            _ => {}
        }
        is_exact();
    }
}

#[test]
fn opening_without_a_checkpoint_finds_the_empty_file() {
    let disk = disk();
    let file = create(&disk);
    write(&file, &[1; 100]);
    drop(file);
    let (file, payload) = open(&disk);
    assert_eq!(payload, b"empty");
    assert_eq!(file.statistics().live_bytes, 0);
}

#[test]
fn a_published_block_is_read_before_any_checkpoint() {
    let file = create(&disk());
    let address = write(&file, b"abc");
    assert_eq!(read(&file, address), b"abc");
    let statistics = file.statistics();
    assert_eq!(statistics.blocks_written, 1);
    assert_eq!(statistics.bytes_written, 128);
    assert_eq!(statistics.blocks_read, 1);
    assert_eq!(statistics.bytes_read, 39);
    assert_eq!(statistics.live_bytes, 128);
}

#[test]
fn the_largest_block_round_trips_and_a_larger_one_is_refused() {
    let file = create(&disk());
    let raw = vec![5; BLOCK_RAW_BYTES_MAX];
    assert_eq!(read(&file, write(&file, &raw)), raw);
    let mut writer = file.writer(0);
    let refused = writer.write(PAGE, &vec![5; BLOCK_RAW_BYTES_MAX + 1]);
    assert!(matches!(refused, Err(StorageError::TooLarge { .. })));
    // The writer remains usable.
    let address = writer.write(PAGE, b"x").unwrap();
    file.publish(vec![writer.finish().unwrap()], &[]);
    assert_eq!(read(&file, address), b"x");
}

#[test]
fn an_oversized_payload_is_refused() {
    let disk = disk();
    let large = vec![1; PAYLOAD_BYTES_MAX + 1];
    let refused = BlockFile::create(&disk, Path::new(PATH), FILE, &large);
    assert!(matches!(refused, Err(StorageError::TooLarge { .. })));
    let file = create(&disk);
    let refused = file.prepare_checkpoint().unwrap().commit(&large);
    assert!(matches!(refused, Err(StorageError::TooLarge { .. })));
    checkpoint(&file, &vec![1; PAYLOAD_BYTES_MAX]);
    drop(file);
    assert_eq!(open(&disk).1, vec![1; PAYLOAD_BYTES_MAX]);
}

#[test]
fn another_files_id_is_refused() {
    let disk = disk();
    drop(create(&disk));
    let wrong = BlockFile::open(&disk, Path::new(PATH), Some(FileId(6)));
    assert!(wrong.unwrap_err().is_corrupt());
    assert!(BlockFile::open(&disk, Path::new(PATH), None).is_ok());
}

#[test]
fn a_long_sequence_is_contiguous() {
    let file = create(&disk());
    let mut writer = file.writer(0);
    let mut next = BLOCKS_START;
    for _ in 0..100 {
        let address = writer.write(PAGE, &[1; 60_000]).unwrap();
        assert_eq!(address.offset, next);
        next += u64::from(address.bytes).next_multiple_of(128);
    }
    let written = writer.finish().unwrap();
    assert_eq!(written.bytes(), next - BLOCKS_START);
}

#[test]
fn dropped_blocks_free_their_space() {
    let file = create(&disk());
    for round in 0..50 {
        let mut writer = file.writer(0);
        for _ in 0..20 {
            writer.write(PAGE, &[1; 50_000]).unwrap();
        }
        if round % 2 == 0 {
            drop(writer.finish().unwrap());
        }
        assert_eq!(file.statistics().live_bytes, 0);
    }
    assert!(file.statistics().file_bytes < 4 * MIB as u64);
    checkpoint(&file, b"");
    assert!(file.statistics().file_bytes < BLOCKS_START + MIB as u64 + 1024);
}

#[test]
fn replacing_the_same_block_reuses_space() {
    let disk = disk();
    let file = create(&disk);
    let mut old = write(&file, &[0; 30_000]);
    for number in 0..100u8 {
        let mut writer = file.writer(0);
        let new = writer.write(PAGE, &[number; 30_000]).unwrap();
        file.publish(vec![writer.finish().unwrap()], &[old]);
        checkpoint(&file, &[number]);
        old = new;
    }
    let statistics = file.statistics();
    assert!(statistics.file_bytes < 200_000, "{statistics:?}");
    assert_eq!(statistics.pending_free_bytes, 0);
    drop(file);
    let (file, payload) = open(&disk);
    assert_eq!(payload, [99]);
    assert_eq!(read(&file, old), vec![99; 30_000]);
}

#[test]
fn a_pin_retains_blocks_freed_after_it() {
    let file = create(&disk());
    let old = write(&file, &[7; 1000]);
    checkpoint(&file, b"1");
    let pin = file.pin();
    file.publish(Vec::new(), &[old]);
    checkpoint(&file, b"2");
    checkpoint(&file, b"3");
    assert!(file.statistics().pending_free_bytes >= 1000);
    for _ in 0..100 {
        write(&file, &[8; 1000]);
    }
    assert_eq!(read(&file, old), vec![7; 1000]);
    drop(pin);
    assert_eq!(file.statistics().pending_free_bytes, 0);
    let reused = write(&file, &[8; 1000]);
    assert_eq!(reused.offset, old.offset);
}

#[test]
fn a_free_tail_is_truncated() {
    let disk = disk();
    let file = create(&disk);
    let kept = write(&file, &[1; 1000]);
    let large: Vec<BlockAddress> = (0..4).map(|_| write(&file, &vec![2; MIB])).collect();
    checkpoint(&file, b"1");
    let length = || disk.open(Path::new(PATH)).unwrap().len().unwrap();
    assert!(length() > 4 * MIB as u64);
    let pin = file.pin();
    file.publish(Vec::new(), &large);
    checkpoint(&file, b"2");
    assert!(length() > 4 * MIB as u64);
    assert_eq!(read(&file, large[3]), vec![2; MIB]);
    drop(pin);
    checkpoint(&file, b"3");
    assert!(length() < 100_000, "{}", length());
    assert_eq!(file.statistics().file_bytes, length());
    let beyond = file.read_block(large[3], BlockKind::Page).unwrap_err();
    assert!(beyond.is_corrupt());
    drop(file);
    let (file, _) = open(&disk);
    assert_eq!(read(&file, kept), vec![1; 1000]);
    let again = write(&file, &vec![3; MIB]);
    assert_eq!(read(&file, again), vec![3; MIB]);
}

#[test]
fn space_after_the_end_left_by_a_killed_process_is_truncated() {
    let disk = disk();
    let file = create(&disk);
    let unpublished = {
        let mut writer = file.writer(0);
        writer.write(PAGE, &vec![1; 3 * MIB]).unwrap();
        writer.finish().unwrap()
    };
    std::mem::forget(unpublished);
    drop(file);
    let (file, _) = open(&disk);
    assert!(file.statistics().file_bytes > 3 * MIB as u64);
    checkpoint(&file, b"");
    assert!(file.statistics().file_bytes < 100_000);
}

#[test]
fn freeing_a_block_twice_refuses_later_checkpoints() {
    let disk = disk();
    let file = create(&disk);
    let address = write(&file, b"abc");
    let other = write(&file, b"def");
    checkpoint(&file, b"good");
    file.publish(Vec::new(), &[address]);
    file.publish(Vec::new(), &[address]);
    let refused = file.prepare_checkpoint().unwrap_err();
    assert!(refused.is_corrupt(), "{refused}");
    assert_eq!(read(&file, other), b"def");
    drop(file);
    assert_eq!(open(&disk).1, b"good");
}

#[test]
fn freeing_an_address_without_a_block_refuses_later_checkpoints() {
    let address = |offset, bytes| BlockAddress { offset, bytes };
    let wrong = [
        vec![address(0, 100)],
        vec![address(BLOCKS_START + 1, 100)],
        vec![address(BLOCKS_START, 35)],
        vec![address(BLOCKS_START, u32::MAX)],
        vec![address(u64::MAX - 127, 100)],
        vec![address(1 << 60, 100)],
        vec![address(BLOCKS_START, 100), address(BLOCKS_START, 100)],
    ];
    for freed in wrong {
        let file = create(&disk());
        write(&file, &[1; 200]);
        file.publish(Vec::new(), &freed);
        assert!(file.prepare_checkpoint().is_err(), "{freed:?}");
    }
}

#[test]
#[should_panic(expected = "published in the file")]
fn publishing_in_another_file_is_a_programming_error() {
    let one = create(&disk());
    let two = create(&disk());
    let mut writer = one.writer(0);
    writer.write(PAGE, b"x").unwrap();
    two.publish(vec![writer.finish().unwrap()], &[]);
}

#[test]
fn after_a_cancelled_checkpoint_the_next_one_can_begin() {
    let disk = disk();
    let file = create(&disk);
    let address = write(&file, b"abc");
    drop(file.prepare_checkpoint().unwrap());
    checkpoint(&file, b"done");
    drop(file);
    let (file, payload) = open(&disk);
    assert_eq!(payload, b"done");
    assert_eq!(read(&file, address), b"abc");
}

/// Concurrent writers, readers and checkpoints; each thread checks its blocks.
#[test]
fn threads_share_a_file() {
    let disk = disk();
    let file = create(&disk);
    let stop = AtomicBool::new(false);
    let survivors: Vec<(BlockAddress, Vec<u8>)> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4u8)
            .map(|thread| {
                let file = &file;
                scope.spawn(move || {
                    let mut random = Random::new(u64::from(thread));
                    let mut live: Vec<(BlockAddress, Vec<u8>)> = Vec::new();
                    for _ in 0..60 {
                        let _pin = file.pin();
                        let mut writer = file.writer(random.below(300_000));
                        let mut new = Vec::new();
                        for _ in 0..random.below(10) {
                            let length = usize::try_from(random.below(30_000)).unwrap();
                            let raw = vec![thread + u8::try_from(length % 99).unwrap(); length];
                            new.push((writer.write(PAGE, &raw).unwrap(), raw));
                        }
                        let keep = live.len() / 2;
                        let freed: Vec<_> = live.drain(keep..).collect();
                        let addresses: Vec<_> = freed.iter().map(|block| block.0).collect();
                        file.publish(vec![writer.finish().unwrap()], &addresses);
                        live.extend(new);
                        // The pin retains the freed blocks.
                        for (address, raw) in live.iter().chain(&freed) {
                            assert_eq!(&read(file, *address), raw);
                        }
                    }
                    live
                })
            })
            .collect();
        let checkpoints: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        checkpoint(&file, b"running");
                    }
                })
            })
            .collect();
        let live = writers
            .into_iter()
            .flat_map(|writer| writer.join().unwrap())
            .collect();
        stop.store(true, Ordering::Relaxed);
        for thread in checkpoints {
            thread.join().unwrap();
        }
        live
    });
    checkpoint(&file, b"end");
    assert_eq!(file.statistics().pending_free_bytes, 0);
    drop(file);
    let (file, payload) = open(&disk);
    assert_eq!(payload, b"end");
    for (address, raw) in survivors {
        assert_eq!(read(&file, address), raw);
    }
}
