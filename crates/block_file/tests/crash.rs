//! Random histories of a file on a fault disk, compared with a model. After every crash the file
//! must have the last acknowledged checkpoint, or a later one whose commit failed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use teak_base::{Codec, FileId, StorageError, StorageResult};
use teak_block_file::{
    BLOCK_UNIT_BYTES, BLOCKS_START, BlockAddress, BlockDescription, BlockFile, BlockKind, Pin,
    PreparedCheckpoint, WrittenBlocks, read_superblocks,
};
use teak_disk::Disk;
use teak_testing::{FaultDisk, Random, SyncFailure, WriteFailure};

const PATH: &str = "/d/t.teak";
const FILE: FileId = FileId(77);

/// The blocks that a root refers to, by number; the number gives the contents.
type Root = BTreeMap<u64, BlockAddress>;

/// A root, and the superblock payload that identifies it.
#[derive(Clone, Debug, PartialEq)]
struct Checkpoint {
    payload: Vec<u8>,
    root: Root,
}

struct History {
    random: Random,
    disk: FaultDisk,
    file: BlockFile,
    next: u64,
    live: Root,
    unpublished: Vec<(WrittenBlocks, Root)>,
    pins: Vec<(Pin, Root)>,
    prepared: Option<(PreparedCheckpoint, Checkpoint)>,
    acknowledged: Checkpoint,
    /// Later checkpoints that failed, but whose superblocks may have been written.
    in_doubt: Vec<Checkpoint>,
    poisoned: bool,
}

fn contents(number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    let length = match random.below(60) {
        // Large enough that a free tail is truncated.
        0 => random.below(1_500_000),
        1..=3 => random.below(200_000),
        4..=6 => 0,
        _ => random.below(6_000),
    };
    // Compressible like pages.
    (0..length)
        .map(|_| u8::try_from(random.below(1 + number % 256)).unwrap())
        .collect()
}

fn description(number: u64) -> BlockDescription {
    let codecs = [Codec::None, Codec::Lz4, Codec::Zstd, Codec::Snappy];
    BlockDescription {
        kind: BlockKind::ALL[usize::try_from(number % 3).unwrap()],
        layout: u8::try_from(number % 7).unwrap(),
        codec: codecs[usize::try_from(number % 4).unwrap()],
    }
}

fn space_of(root: &Root) -> u64 {
    root.values()
        .map(|address| u64::from(address.bytes).next_multiple_of(BLOCK_UNIT_BYTES))
        .sum()
}

fn read_all(file: &BlockFile, root: &Root) {
    for (&number, &address) in root {
        let wanted = description(number);
        let block = file.read_block(address, wanted.kind).unwrap();
        assert_eq!(block.raw, contents(number));
        assert_eq!(block.description.layout, wanted.layout);
    }
}

fn is_planned(error: &StorageError) -> bool {
    matches!(
        error,
        StorageError::Io { .. } | StorageError::NoSpace { .. } | StorageError::Poisoned { .. }
    )
}

/// Opens the file after a crash and compares it with the possible checkpoints.
fn reopen(disk: &FaultDisk, candidates: &[&Checkpoint]) -> (BlockFile, Checkpoint) {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (file, payload) = BlockFile::open(&shared, Path::new(PATH), Some(FILE)).unwrap();
    let found = candidates.iter().find(|known| known.payload == payload);
    let found = (*found.expect("the payload of a checkpoint")).clone();
    read_all(&file, &found.root);
    let statistics = file.statistics();
    assert_eq!(statistics.live_bytes, space_of(&found.root));
    assert_eq!(statistics.pending_free_bytes, 0);
    check_nothing_lost(disk, &file);
    (file, found)
}

/// Checks that no space is reserved, pinned or pending: space that is not live is free.
fn check_nothing_lost(disk: &FaultDisk, file: &BlockFile) {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let statistics = file.statistics();
    let superblocks = read_superblocks(&shared, Path::new(PATH)).unwrap();
    let newest = superblocks
        .into_iter()
        .filter_map(Result::ok)
        .max_by_key(|superblock| superblock.generation)
        .unwrap();
    let map = newest.space_map.map_or(0, |map| u64::from(map.bytes));
    assert_eq!(
        statistics.live_bytes + statistics.free_bytes + map,
        newest.end - BLOCKS_START,
        "space is lost"
    );
}

impl History {
    fn new(seed: u64) -> Self {
        let disk = FaultDisk::new(seed);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let file = BlockFile::create(&shared, Path::new(PATH), FILE, b"0").unwrap();
        disk.sync_directory(Path::new("/d")).unwrap();
        Self {
            random: Random::new(seed),
            disk,
            file,
            next: 1,
            live: Root::new(),
            unpublished: Vec::new(),
            pins: Vec::new(),
            prepared: None,
            acknowledged: Checkpoint {
                payload: b"0".to_vec(),
                root: Root::new(),
            },
            in_doubt: Vec::new(),
            poisoned: false,
        }
    }

    /// Every root whose blocks must not be overwritten.
    fn roots(&self) -> impl Iterator<Item = &Root> {
        [&self.live, &self.acknowledged.root]
            .into_iter()
            .chain(self.unpublished.iter().map(|(_, root)| root))
            .chain(self.pins.iter().map(|(_, root)| root))
            .chain(self.in_doubt.iter().map(|doubt| &doubt.root))
            .chain(self.prepared.iter().map(|(_, prepared)| &prepared.root))
    }

    fn check_unused(&self, new: BlockAddress) {
        for old in self.roots().flat_map(Root::values) {
            let end = |address: BlockAddress| address.offset + u64::from(address.bytes);
            assert!(
                end(*old) <= new.offset || end(new) <= old.offset,
                "{new:?} was written over {old:?}"
            );
        }
    }

    fn write(&mut self) -> StorageResult<()> {
        let mut writer = self.file.writer(self.random.below(400_000));
        let mut root = Root::new();
        for _ in 0..=self.random.below(12) {
            let number = self.next;
            self.next += 1;
            let address = writer.write(description(number), &contents(number))?;
            self.check_unused(address);
            root.insert(number, address);
        }
        if self.random.one_in(8) {
            return Ok(());
        }
        self.unpublished.push((writer.finish()?, root));
        Ok(())
    }

    fn publish(&mut self) {
        let mut written = Vec::new();
        for (blocks, root) in self.unpublished.split_off(0) {
            if self.random.one_in(8) {
                continue;
            }
            written.push(blocks);
            self.live.extend(root);
        }
        let share = 1 + self.random.below(4);
        let mut freed = Vec::new();
        self.live.retain(|_, address| {
            let keep = !self.random.one_in(share);
            if !keep {
                freed.push(*address);
            }
            keep
        });
        self.file.publish(written, &freed);
        assert_eq!(self.file.statistics().live_bytes, space_of(&self.live));
    }

    /// Moves blocks from after a limit to holes before it.
    fn relocate(&mut self) -> StorageResult<()> {
        let limit = BLOCKS_START + self.random.below(8_000_000) / 128 * 128;
        let mut mover = self.file.mover(Some(limit), self.random.below(400_000));
        let mut moved = Root::new();
        let mut freed = Vec::new();
        for (&number, &address) in self.live.iter().rev() {
            if address.end() <= limit {
                continue;
            }
            let Some(copy) = mover.copy(address, description(number).kind)? else {
                break;
            };
            assert!(copy.end() <= limit, "{copy:?} is not before {limit}");
            self.check_unused(copy);
            moved.insert(number, copy);
            freed.push(address);
        }
        let written = mover.finish()?;
        self.live.extend(moved);
        self.file.publish(vec![written], &freed);
        Ok(())
    }

    fn prepare(&mut self) -> StorageResult<()> {
        let payload = self.next.to_le_bytes().to_vec();
        self.next += 1;
        let prepared = self.file.prepare_checkpoint()?;
        let root = self.live.clone();
        self.prepared = Some((prepared, Checkpoint { payload, root }));
        Ok(())
    }

    fn commit(&mut self) -> StorageResult<()> {
        let Some((mut prepared, checkpoint)) = self.prepared.take() else {
            return Ok(());
        };
        if self.random.one_in(10) {
            return Ok(());
        }
        if let Err(error) = prepared.commit(&checkpoint.payload) {
            self.in_doubt.push(checkpoint);
            return Err(error);
        }
        assert!(!self.poisoned, "a checkpoint after a failed sync");
        self.acknowledged = checkpoint;
        self.in_doubt.clear();
        Ok(())
    }

    fn plan_failure(&mut self) {
        let after = self.random.below(4);
        match self.random.below(8) {
            0 => self.disk.fail_sync(after, SyncFailure::Dropped),
            1 => self.disk.fail_sync(after, SyncFailure::Kept),
            2 => self.disk.fail_write(after, WriteFailure::Partial),
            3 => self.disk.fail_write(after, WriteFailure::Whole),
            4..=5 => self.disk.fail_write(after, WriteFailure::NoSpace),
            6 => self.disk.fail_write(after, WriteFailure::Nothing),
            _ => self.disk.cut_power(self.random.below(12)),
        }
    }

    fn step(&mut self) -> StorageResult<()> {
        match self.random.below(20) {
            0..=5 => self.write(),
            6..=10 => {
                self.publish();
                Ok(())
            }
            11 => {
                self.pins.push((self.file.pin(), self.live.clone()));
                Ok(())
            }
            12 if !self.pins.is_empty() => {
                let index = self.random.below(self.pins.len() as u64);
                self.pins.swap_remove(usize::try_from(index).unwrap());
                Ok(())
            }
            13..=15 if self.prepared.is_none() => self.prepare(),
            13..=17 => self.commit(),
            18 if self.random.one_in(3) => {
                self.plan_failure();
                Ok(())
            }
            19 => self.relocate(),
            _ => Ok(()),
        }
    }

    /// Simulates several crashes at this point, then continues after one of them.
    fn crash(&mut self) {
        let candidates: Vec<&Checkpoint> = [&self.acknowledged]
            .into_iter()
            .chain(&self.in_doubt)
            .collect();
        for _ in 0..3 {
            let disk = self.disk.crash(self.random.next_u64());
            reopen(&disk, &candidates);
        }
        let disk = self.disk.crash(self.random.next_u64());
        let (file, found) = reopen(&disk, &candidates);
        self.unpublished.clear();
        self.pins.clear();
        self.prepared = None;
        self.in_doubt.clear();
        self.poisoned = false;
        self.live = found.root.clone();
        self.acknowledged = found;
        self.disk = disk;
        self.file = file;
    }

    fn run(&mut self) {
        for _ in 0..self.random.below(80) {
            if let Err(error) = self.step() {
                assert!(is_planned(&error), "{error}");
                self.poisoned |= matches!(
                    error,
                    StorageError::Io {
                        operation: "sync",
                        ..
                    }
                );
            }
            if self.random.one_in(25) {
                self.crash();
            }
        }
        self.crash();
        // Without faults all operations succeed, and no space is lost.
        self.write().unwrap();
        self.publish();
        read_all(&self.file, &self.live);
        self.unpublished.clear();
        self.pins.clear();
        for _ in 0..2 {
            self.prepare().unwrap();
            let (mut prepared, checkpoint) = self.prepared.take().unwrap();
            prepared.commit(&checkpoint.payload).unwrap();
            self.acknowledged = checkpoint;
        }
        assert_eq!(self.file.statistics().pending_free_bytes, 0);
        check_nothing_lost(&self.disk, &self.file);
        self.crash();
    }
}

#[test]
fn a_crash_finds_the_last_checkpoint_or_one_in_doubt() {
    for seed in 0..150 {
        // Shown when the test fails.
        println!("seed {seed}");
        History::new(seed).run();
    }
}

/// A power loss at every point of one checkpoint with freed and new blocks.
#[test]
fn power_lost_at_any_step_of_a_checkpoint_leaves_the_old_or_the_new_one() {
    let mut after = 0;
    loop {
        let mut history = History::new(after);
        for _ in 0..3 {
            history.write().unwrap();
            history.publish();
            history.prepare().unwrap();
            let (mut prepared, checkpoint) = history.prepared.take().unwrap();
            prepared.commit(&checkpoint.payload).unwrap();
            history.acknowledged = checkpoint;
        }
        history.write().unwrap();
        history.publish();
        let before = history.disk.changes();
        history.disk.cut_power(after);
        history.prepare().unwrap();
        let (mut prepared, checkpoint) = history.prepared.take().unwrap();
        let done = prepared.commit(&checkpoint.payload).is_ok();
        let old = std::mem::replace(&mut history.acknowledged, checkpoint.clone());
        let candidates = if done {
            vec![&checkpoint]
        } else {
            vec![&old, &checkpoint]
        };
        for seed in 0..40 {
            reopen(&history.disk.crash(seed), &candidates);
        }
        if history.disk.changes() - before <= after {
            assert!(done);
            break;
        }
        after += 1;
    }
    assert!(after >= 4, "space map, superblock, sync, copy");
}
