//! Chains of a full copy and increments have the state of each checkpoint, whatever is written between the cuts.

use crate::common::{FILE, PATH, checkpoint, create, open, read, write};
use std::path::Path;
use std::sync::Arc;
use teak_block_file::{
    BackupEpochs, BlockAddress, BlockFile, BlockKind, BlockRecord, CheckpointPin, SUPERBLOCK_SIZE,
};
use teak_disk::{Disk, DiskFile, MemoryDisk};
use teak_testing::{FaultDisk, Random};

/// The payload and the live blocks of a checkpoint.
type State = (Vec<u8>, Vec<(BlockAddress, Vec<u8>)>);

/// The blocks of a cut, and a file with its state.
struct Copy {
    cut: u64,
    records: Vec<BlockRecord>,
    disk: Arc<dyn Disk>,
}

fn disk() -> Arc<dyn Disk> {
    Arc::new(MemoryDisk::new())
}

fn block(file: &dyn DiskFile, offset: u64, record: &BlockRecord) -> Vec<u8> {
    let mut bytes = vec![0; record.address.bytes as usize];
    file.read_exact_at(&mut bytes, offset).unwrap();
    record.verify(file.path(), FILE, &bytes).unwrap();
    bytes
}

fn full(pin: &CheckpointPin, cut: u64) -> Copy {
    let disk = disk();
    let target = disk.create(Path::new(PATH)).unwrap();
    let mut records = Vec::new();
    let mut record = |block| {
        records.push(block);
        Ok(())
    };
    pin.copy_to(&*target, &mut record, &mut |_| Ok(())).unwrap();
    Copy { cut, records, disk }
}

/// Returns the merged copy, and the bytes of the increment.
fn increment(pin: &CheckpointPin, cut: u64, base: &Copy) -> (Copy, u64) {
    let disk = disk();
    let packed = disk.create(Path::new("/packed")).unwrap();
    let mut records = Vec::new();
    let mut record = |block| {
        records.push(block);
        Ok(())
    };
    let mut blocks = base.records.iter().map(|block| Ok(*block));
    pin.copy_changes((&mut blocks, base.cut), &*packed, &mut record, &mut |_| {
        Ok(())
    })
    .unwrap();
    let target = disk.create(Path::new(PATH)).unwrap();
    let old = base.disk.open(Path::new(PATH)).unwrap();
    let mut superblock = vec![0; SUPERBLOCK_SIZE];
    packed.read_exact_at(&mut superblock, 0).unwrap();
    let mut packed_at = superblock.len() as u64;
    target.set_len(pin.end()).unwrap();
    for slot in 0..2 {
        let offset = slot * superblock.len() as u64;
        target.write_all_at(&superblock, offset).unwrap();
    }
    for record in &records {
        let offset = record.address.offset;
        let bytes = if record.is_changed {
            let bytes = block(&*packed, packed_at, record);
            packed_at += record.space_bytes();
            bytes
        } else {
            block(&*old, offset, record)
        };
        target.write_all_at(&bytes, offset).unwrap();
    }
    assert_eq!(packed_at, packed.len().unwrap());
    (Copy { cut, records, disk }, packed_at)
}

fn check(copy: &Copy, (payload, blocks): &State) {
    let (copied, found) = BlockFile::open(&copy.disk, Path::new(PATH), Some(FILE)).unwrap();
    assert_eq!(&found, payload);
    for (address, raw) in blocks {
        assert_eq!(&read(&copied, *address), raw);
    }
}

#[test]
fn random_chains_have_the_state_of_each_cut() {
    for seed in 0..6 {
        random_chain(seed);
    }
}

fn random_chain(seed: u64) {
    let mut random = Random::new(seed);
    let disk = disk();
    let mut epochs = Arc::new(BackupEpochs::default());
    let mut file = create(&disk);
    file.count_epochs(&epochs);
    let mut live: Vec<(BlockAddress, Vec<u8>)> = Vec::new();
    let mut durable = (b"empty".to_vec(), live.clone());
    let mut copies: Vec<Copy> = Vec::new();
    let mut pinned: Option<(CheckpointPin, u64, State)> = None;
    for round in 0..2000u32 {
        match random.below(12) {
            0 => {
                let payload = round.to_le_bytes().to_vec();
                checkpoint(&file, &payload);
                durable = (payload, live.clone());
            }
            1 => {
                // Blocks that are published between the end of an epoch and the pin are newer.
                let cut = epochs.advance();
                if random.below(2) == 0 {
                    live.push((write(&file, b"between"), b"between".to_vec()));
                }
                pinned = Some((file.pin_checkpoint().unwrap(), cut, durable.clone()));
            }
            2 => {
                let Some((pin, cut, state)) = pinned.take() else {
                    continue;
                };
                // Any earlier copy can be the base.
                let at = usize::try_from(random.below(copies.len() as u64 + 1)).unwrap();
                let copy = match copies.get(at) {
                    Some(base) => increment(&pin, cut, base).0,
                    None => full(&pin, cut),
                };
                check(&copy, &state);
                copies.push(copy);
            }
            3 if random.below(4) == 0 => {
                checkpoint(&file, b"closed");
                pinned = None;
                drop(file);
                let current = epochs.current();
                epochs = Arc::new(BackupEpochs::default());
                epochs.set(current, 0);
                file = open(&disk).0;
                file.count_epochs(&epochs);
                durable = (b"closed".to_vec(), live.clone());
            }
            4 if live.len() > 10 => {
                // Moves a block to a hole before it.
                let (address, raw) = live.swap_remove(0);
                let mut mover = file.mover(Some(address.offset), address.bytes.into());
                let moved = mover.copy(address, BlockKind::Page).unwrap();
                let written = mover.finish().unwrap();
                match moved {
                    Some(new) => {
                        file.publish(vec![written], &[address]);
                        live.push((new, raw));
                    }
                    None => live.push((address, raw)),
                }
                file.truncate_free_tail();
            }
            5..=7 if live.len() > 30 => {
                let at = usize::try_from(random.below(live.len() as u64)).unwrap();
                let (address, _) = live.swap_remove(at);
                file.publish(Vec::new(), &[address]);
            }
            // Only two sizes, so that freed addresses are used again exactly.
            _ => {
                let length = if random.below(2) == 0 { 400 } else { 5000 };
                let raw = round.to_le_bytes().repeat(length / 4);
                live.push((write(&file, &raw), raw));
            }
        }
    }
    assert!(copies.len() > 20, "{}", copies.len());
}

#[test]
fn an_increment_reads_and_has_only_what_changed() {
    let counting = Arc::new(FaultDisk::new(1));
    let disk: Arc<dyn Disk> = counting.clone();
    let epochs = Arc::new(BackupEpochs::default());
    let file = create(&disk);
    file.count_epochs(&epochs);
    let blocks: Vec<_> = (0..1000u32)
        .map(|n| write(&file, &n.to_le_bytes().repeat(1000)))
        .collect();
    checkpoint(&file, b"a");
    let cut = epochs.advance();
    let base = full(&file.pin_checkpoint().unwrap(), cut);
    // Written over the freed space of other blocks, with the same size.
    for at in 0..10 {
        file.publish(Vec::new(), &[blocks[at * 100]]);
    }
    checkpoint(&file, b"b");
    checkpoint(&file, b"c");
    let new = (0..10u32).map(|n| write(&file, &(5000 + n).to_le_bytes().repeat(1000)));
    let reused = new.filter(|address| blocks.contains(address)).count();
    // Space maps are in the others.
    assert!(reused > 5, "{reused}");
    checkpoint(&file, b"d");
    let cut = epochs.advance();
    let pin = file.pin_checkpoint().unwrap();
    let before = counting.bytes_read();
    let (copy, bytes) = increment(&pin, cut, &base);
    let read = counting.bytes_read() - before;
    let changed = copy.records.iter().filter(|block| block.is_changed).count();
    // The ten blocks and the space map.
    assert!((11..=12).contains(&changed), "{changed}");
    assert!(bytes < pin.end() * 2 / 100, "{bytes} of {}", pin.end());
    assert!(read < pin.end() * 2 / 100, "{read} of {}", pin.end());
    // Without another checkpoint, only the space map is copied again.
    let cut = epochs.advance();
    let (_, bytes) = increment(&file.pin_checkpoint().unwrap(), cut, &copy);
    assert!(bytes < 8192, "{bytes}");
}
