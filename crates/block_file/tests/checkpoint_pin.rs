//! Copies of pinned checkpoints, while the file is changed.

use crate::common::{FILE, PATH, checkpoint, create, open, read, write};
use std::path::Path;
use std::sync::Arc;
use teak_base::{StorageError, StorageResult};
use teak_block_file::{BlockAddress, BlockFile, BlockKind, CheckpointPin};
use teak_disk::{Disk, MemoryDisk};
use teak_testing::Random;

fn disk() -> Arc<dyn Disk> {
    Arc::new(MemoryDisk::new())
}

/// Copies the checkpoint to another disk, and opens the copy.
fn copy(pin: &CheckpointPin) -> StorageResult<(BlockFile, Vec<u8>)> {
    let disk = disk();
    let target = disk.create(Path::new(PATH))?;
    let mut reported = 0;
    let bytes = pin.copy_to(&*target, &mut |_| Ok(()), &mut |bytes| {
        reported += bytes;
        Ok(())
    })?;
    assert_eq!(bytes.bytes, reported + 8192);
    assert_eq!(target.len()?, pin.end());
    BlockFile::open(&disk, Path::new(PATH), Some(FILE))
}

/// The payload and the live blocks of a checkpoint.
type State = (Vec<u8>, Vec<(BlockAddress, Vec<u8>)>);

#[test]
fn a_copy_has_the_state_of_its_checkpoint_whatever_is_written_later() {
    let mut random = Random::new(7);
    let disk = disk();
    let mut file = create(&disk);
    let mut live: Vec<(BlockAddress, Vec<u8>)> = Vec::new();
    let mut durable = (b"empty".to_vec(), live.clone());
    let mut pins: Vec<(CheckpointPin, State)> = Vec::new();
    for round in 0..3000u32 {
        match random.below(10) {
            0 => {
                let payload = round.to_le_bytes().to_vec();
                checkpoint(&file, &payload);
                durable = (payload, live.clone());
            }
            1 if pins.len() < 4 => {
                pins.push((file.pin_checkpoint().unwrap(), durable.clone()));
            }
            2 if !pins.is_empty() => {
                let at = usize::try_from(random.below(pins.len() as u64)).unwrap();
                let (pin, (payload, blocks)) = pins.swap_remove(at);
                let (copied, found) = copy(&pin).unwrap();
                assert_eq!(found, payload);
                for (address, raw) in blocks {
                    assert_eq!(read(&copied, address), raw);
                }
            }
            3 if random.below(20) == 0 => {
                checkpoint(&file, b"closed");
                pins.clear();
                drop(file);
                file = open(&disk).0;
                durable = (b"closed".to_vec(), live.clone());
            }
            4..=6 if live.len() > 20 => {
                let at = usize::try_from(random.below(live.len() as u64)).unwrap();
                let (address, _) = live.swap_remove(at);
                file.publish(Vec::new(), &[address]);
            }
            _ => {
                let length = usize::try_from(1 + random.below(20_000)).unwrap();
                let raw = round.to_le_bytes().repeat(length / 4 + 1);
                live.push((write(&file, &raw), raw));
            }
        }
    }
    pins.clear();
    checkpoint(&file, b"end");
    checkpoint(&file, b"end");
    let statistics = file.statistics();
    assert_eq!(statistics.pinned_bytes, 0);
    // Nothing but the space map is neither live nor free.
    let map = statistics.unavailable_bytes - statistics.pending_free_bytes;
    assert!(map < 100_000, "{statistics:?}");
}

#[test]
fn a_pin_reports_what_it_retains() {
    let disk = disk();
    let file = create(&disk);
    let address = write(&file, &[1; 100_000]);
    checkpoint(&file, b"a");
    let pin = file.pin_checkpoint().unwrap();
    assert_eq!(pin.held_bytes(), 0);
    file.publish(Vec::new(), &[address]);
    checkpoint(&file, b"b");
    assert!((100_000..110_000).contains(&pin.held_bytes()), "{pin:?}");
}

#[test]
fn a_removed_file_can_be_copied() {
    let disk = disk();
    let file = create(&disk);
    let address = write(&file, b"row");
    checkpoint(&file, b"a");
    let pin = file.pin_checkpoint().unwrap();
    drop(file);
    disk.remove(Path::new(PATH)).unwrap();
    let (copied, _) = copy(&pin).unwrap();
    assert_eq!(read(&copied, address), b"row");
}

#[test]
fn a_damaged_block_fails_the_copy() {
    let disk = disk();
    let file = create(&disk);
    write(&file, &[1; 5000]);
    let address = write(&file, &[2; 5000]);
    checkpoint(&file, b"a");
    let pin = file.pin_checkpoint().unwrap();
    let handle = disk.open(Path::new(PATH)).unwrap();
    handle.write_all_at(b"x", address.offset + 100).unwrap();
    let error = copy(&pin).unwrap_err();
    let offset = address.offset;
    assert!(
        matches!(error, StorageError::Corrupt { offset: found, .. } if found == offset),
        "{error}"
    );
    assert!(file.read_block(address, BlockKind::Page).is_err());
}

#[test]
fn an_error_of_the_caller_ends_the_copy() {
    let disk = disk();
    let file = create(&disk);
    write(&file, &[1; 5000]);
    checkpoint(&file, b"a");
    let pin = file.pin_checkpoint().unwrap();
    let target = disk.create(Path::new("/copy")).unwrap();
    let copied = pin.copy_to(&*target, &mut |_| Ok(()), &mut |_| {
        Err(StorageError::Interrupted)
    });
    assert!(matches!(copied, Err(StorageError::Interrupted)));
}
