//! Files without their newest superblock: it is damaged, or the file is an older
//! copy. A caller that knows a durable checkpoint does not get an older state.

use crate::common::{FILE, PATH, checkpoint, create, open, read, write};
use std::path::Path;
use std::sync::Arc;
use teak_base::StorageResult;
use teak_block_file::{BlockFile, read_superblocks};
use teak_disk::Disk;
use teak_testing::FaultDisk;

const SLOT_BYTES: u64 = 4096;

fn shared(disk: &FaultDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn bytes(disk: &FaultDisk) -> Vec<u8> {
    let file = disk.open(Path::new(PATH)).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn generations(disk: &FaultDisk) -> [Option<u64>; 2] {
    let both = read_superblocks(&shared(disk), Path::new(PATH)).unwrap();
    both.map(|superblock| superblock.ok().map(|superblock| superblock.generation))
}

/// Disks after a power loss that left the newest superblock in only one slot.
fn single_newest(disk: &FaultDisk) -> Vec<FaultDisk> {
    let crashed = (0..100).map(|seed| disk.crash(seed));
    let is_single = |disk: &FaultDisk| {
        let [first, second] = generations(disk);
        first.is_some() && second.is_some() && first != second
    };
    let found: Vec<FaultDisk> = crashed.filter(is_single).collect();
    assert!(found.len() > 5);
    found
}

fn damage_newest(disk: &FaultDisk) {
    let [first, second] = generations(disk);
    let offset = if first > second { 0 } else { SLOT_BYTES };
    disk.flip_bit(Path::new(PATH), offset + 100, 3).unwrap();
}

fn open_not_before(disk: &FaultDisk, generation: u64) -> StorageResult<(BlockFile, Vec<u8>)> {
    BlockFile::open_not_before(&shared(disk), Path::new(PATH), FILE, generation)
}

fn assert_refused(disk: &FaultDisk, generation: u64) {
    let before = bytes(disk);
    let error = open_not_before(disk, generation).unwrap_err();
    assert!(error.is_corrupt(), "{error}");
    let text = error.to_string();
    assert!(text.contains("older copy of the file"), "{text}");
    assert!(text.contains(&format!("number {generation} was durable")));
    assert_eq!(bytes(disk), before, "the file was changed");
    // Opening for a salvage succeeds, and reports that the state is old.
    let path = Path::new(PATH);
    let opened = BlockFile::open_damaged(&shared(disk), path, FILE, generation);
    let (_, payload, older) = opened.unwrap();
    assert_eq!(payload, b"1");
    assert!(older.unwrap().is_corrupt());
}

#[test]
fn an_older_superblock_is_refused_after_damage_of_the_newest() {
    let disk = FaultDisk::new(1);
    let file = create(&shared(&disk));
    assert_eq!(file.durable_generation(), 1);
    checkpoint(&file, b"1");
    checkpoint(&file, b"2");
    let durable = file.durable_generation();
    assert_eq!(durable, 3);
    for disk in single_newest(&disk) {
        damage_newest(&disk);
        assert_refused(&disk, durable);
        let (file, payload) = open_not_before(&disk, durable - 1).unwrap();
        assert_eq!(payload, b"1");
        assert_eq!(file.durable_generation(), durable - 1);
    }
}

#[test]
fn an_older_copy_of_the_file_is_refused() {
    let disk = FaultDisk::new(1);
    let file = create(&shared(&disk));
    checkpoint(&file, b"1");
    let copy = bytes(&disk);
    write(&file, &[1; 10_000]);
    checkpoint(&file, b"2");
    let durable = file.durable_generation();
    drop(file);
    assert!(open_not_before(&disk, durable).is_ok());
    let file = disk.open(Path::new(PATH)).unwrap();
    file.set_len(copy.len() as u64).unwrap();
    file.write_all_at(&copy, 0).unwrap();
    file.sync().unwrap();
    assert_refused(&disk, durable);
}

/// The newer of two superblocks lists a block that is damaged. If its checkpoint was durable, this
/// is not the effect of a crash, and the older superblock does not replace it.
#[test]
fn a_durable_checkpoint_with_a_damaged_block_is_not_replaced_by_an_older_one() {
    let disk = FaultDisk::new(1);
    let file = create(&shared(&disk));
    checkpoint(&file, b"1");
    let address = write(&file, &[7; 1000]);
    checkpoint(&file, b"2");
    let durable = file.durable_generation();
    for disk in single_newest(&disk) {
        let path = Path::new(PATH);
        disk.flip_bit(path, address.offset + 500, 3).unwrap();
        let before = bytes(&disk);
        assert!(open_not_before(&disk, durable).unwrap_err().is_corrupt());
        assert_eq!(bytes(&disk), before);
        let opened = BlockFile::open_damaged(&shared(&disk), path, FILE, durable);
        let (_, payload, older) = opened.unwrap();
        assert_eq!(payload, b"2");
        assert!(older.is_none());
    }
}

/// After a power loss at any point of a checkpoint, the state found is not older than the one that
/// was durable before.
#[test]
fn a_power_loss_never_leaves_an_older_state_than_the_durable_one() {
    for large in [false, true] {
        for cut in 0..8 {
            let disk = FaultDisk::new(cut);
            let file = create(&shared(&disk));
            let old = write(&file, &[1; 1000]);
            checkpoint(&file, b"1");
            let durable = file.durable_generation();
            write(&file, &vec![2; if large { 2_000_000 } else { 2000 }]);
            disk.cut_power(cut);
            let _ = file.prepare_checkpoint().unwrap().commit(b"2");
            let durable = durable.max(file.durable_generation());
            for seed in 0..40 {
                let disk = disk.crash(seed);
                let (file, _) = open_not_before(&disk, durable).unwrap();
                assert_eq!(read(&file, old), vec![1; 1000]);
                let found = file.durable_generation();
                drop(file);
                // Opening has made the state durable.
                let (file, _) = open(&shared(&disk.crash(seed)));
                assert_eq!(file.durable_generation(), found);
            }
        }
    }
}
