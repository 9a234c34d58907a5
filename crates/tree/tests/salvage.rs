//! Salvage: everything that is not in a lost part is read, what is read was
//! written, and a value that may be outdated is marked.

use crate::common::{Model, Random, Subject, View, random_write};
use std::collections::BTreeMap;
use std::sync::Arc;
use teak_base::{FileId, Operation};
use teak_disk::{Disk, MemoryDisk};
use teak_testing::FaultDisk;
use teak_tree::{LostKind, LostPart, PageCache, Tree, TreeOptions, Visibility};

const KEYS: usize = 300;

/// Random writes, flushes and merges. At the end all writes are committed or aborted, and flushed.
fn fill(random: &mut Random, model: &mut Model, subject: &Subject) {
    for _ in 0..6 {
        for _ in 0..150 {
            random_write(random, model, subject, KEYS);
            if random.one_in(10) && !model.active.is_empty() {
                let id = model.active[0];
                let commit = !random.one_in(5);
                model.decide(id, commit);
            }
        }
        subject.freeze(model);
        for _ in 0..random.below(10) {
            let horizon = model.horizon();
            let idle = || subject.tree.next_idle_job(&horizon).unwrap();
            if let Some(job) = subject.tree.next_job().unwrap().or_else(idle) {
                job.run(&horizon).unwrap();
            }
        }
    }
    while let Some(id) = model.active.first().copied() {
        model.decide(id, true);
    }
    while let Some(job) = subject.tree.next_memtable_job() {
        job.run(&model.horizon()).unwrap();
    }
}

fn newest(model: &Model) -> View {
    View {
        snapshot: teak_base::CommitSequence(model.published),
        own: None,
        statuses: Arc::clone(&model.statuses),
    }
}

type Found = BTreeMap<Vec<u8>, (Vec<u8>, bool)>;

fn salvage(tree: &Arc<Tree>, view: &View) -> (Found, Vec<LostPart>) {
    let mut cursor = tree.salvage(view.clone());
    let mut found = Found::new();
    while let Some(entry) = cursor.next().unwrap() {
        let value = (entry.value.to_vec(), entry.is_doubtful);
        let before = found.insert(entry.key.to_vec(), value);
        assert!(before.is_none(), "{:?} twice", entry.key);
    }
    (found, cursor.lost().to_vec())
}

fn is_in(lost: &LostPart, key: &[u8]) -> bool {
    lost.lower.as_slice() <= key && lost.upper.as_ref().is_none_or(|upper| key < upper)
}

#[test]
fn an_intact_tree_is_read_as_a_cursor_reads_it() {
    for seed in 0..30 {
        let mut random = Random(seed);
        let mut model = Model::new(KEYS);
        let disk = Arc::new(MemoryDisk::new());
        let subject = Subject::create(disk, TreeOptions::tiny());
        fill(&mut random, &mut model, &subject);
        // Some entries are in the active memtable.
        for _ in 0..40 {
            random_write(&mut random, &mut model, &subject, KEYS);
        }
        while let Some(id) = model.active.first().copied() {
            model.decide(id, true);
        }
        let view = newest(&model);
        let (found, lost) = salvage(&subject.tree, &view);
        assert!(lost.is_empty(), "{lost:?}");
        assert!(found.values().all(|(_, is_doubtful)| !is_doubtful));
        let found = found.into_iter().map(|(key, (value, _))| (key, value));
        assert_eq!(found.collect::<Vec<_>>(), model.scan(&view), "seed {seed}");
    }
}

/// Flips a few bits of an index file, after the superblocks.
fn damage(random: &mut Random, disk: &FaultDisk, subject: &Subject) {
    let length = disk.open(&subject.path).unwrap().len().unwrap() as usize;
    for _ in 0..=random.below(6) {
        let offset = 8192 + random.below(length - 8192);
        let bit = random.below(8) as u8;
        disk.flip_bit(&subject.path, offset as u64, bit).unwrap();
    }
}

/// What was read was once written; what is not doubtful is the newest value; what
/// is missing is in a lost part.
fn compare(model: &Model, view: &View, found: &Found, lost: &[LostPart]) -> Result<(), String> {
    for (key, versions) in &model.versions {
        let expected = model.get(key, view);
        let got = found.get(key);
        match (&expected, got) {
            (_, Some((value, true))) => {
                let is_old = |(id, operation, old): &(_, Operation, Vec<u8>)| {
                    *operation == Operation::Put && old == value && view.is_visible(*id)
                };
                if !versions.iter().any(is_old) {
                    return Err(format!("{key:?} never had the value {value:?}"));
                }
            }
            (Some(value), Some((read, false))) if value == read => {}
            (_, Some((read, false))) => {
                return Err(format!(
                    "{key:?} is {expected:?}, read {read:?} without doubt"
                ));
            }
            (Some(_), None) if !lost.iter().any(|part| is_in(part, key)) => {
                return Err(format!("{key:?} is missing without a loss"));
            }
            (_, None) => {}
        }
    }
    Ok(())
}

#[test]
fn everything_outside_lost_parts_is_read() {
    let mut kinds = Vec::new();
    let mut doubtful = 0;
    for seed in 0..150 {
        let mut random = Random(seed);
        let mut model = Model::new(KEYS);
        let disk = FaultDisk::new(seed);
        let options = TreeOptions {
            separate_value_bytes: [250, 12, u32::MAX][seed as usize % 3],
            ..TreeOptions::tiny()
        };
        let mut subject = Subject::create(Arc::new(disk.clone()), options);
        fill(&mut random, &mut model, &subject);
        subject.checkpoint().unwrap();
        damage(&mut random, &disk, &subject);
        let cache = Arc::new(PageCache::new(64 * 1024));
        let opened = Tree::open_damaged(&subject.disk, &subject.path, FileId(7), 0, &cache);
        let tree = opened.unwrap();
        let view = newest(&model);
        let (found, lost) = salvage(&tree, &view);
        compare(&model, &view, &found, &lost).unwrap_or_else(|error| {
            let lost: Vec<String> = lost.iter().map(ToString::to_string).collect();
            panic!("seed {seed}: {error}\nlost: {lost:#?}");
        });
        let mut listed = 0;
        tree.survey(&mut || true, &mut |_| listed += 1).unwrap();
        assert!(
            listed >= lost.len(),
            "seed {seed}: {listed} of {}",
            lost.len()
        );
        kinds.extend(lost.iter().map(|part| part.kind));
        doubtful += found.values().filter(|(_, doubtful)| *doubtful).count();
        assert!(tree.checkpoint(&|_| Ok(())).is_err(), "it is read only");
    }
    for kind in [
        LostKind::Value,
        LostKind::Page,
        LostKind::Pages,
        LostKind::Subtree,
    ] {
        assert!(kinds.contains(&kind), "no {kind:?} was lost");
    }
    assert!(doubtful > 0);
}

#[test]
fn an_intact_part_of_a_file_that_was_cut_off_is_read() {
    let mut random = Random(3);
    let mut model = Model::new(KEYS);
    let disk = FaultDisk::new(3);
    let mut subject = Subject::create(Arc::new(disk.clone()), TreeOptions::tiny());
    fill(&mut random, &mut model, &subject);
    subject.checkpoint().unwrap();
    let file = disk.open(&subject.path).unwrap();
    let length = file.len().unwrap();
    let view = newest(&model);
    let cache = Arc::new(PageCache::new(0));
    let cuts: Vec<u64> = (8192..length).step_by(2048).collect();
    for cut in cuts.into_iter().rev() {
        file.set_len(cut).unwrap();
        let opened = Tree::open_damaged(&subject.disk, &subject.path, FileId(7), 0, &cache);
        let (found, lost) = salvage(&opened.unwrap(), &view);
        compare(&model, &view, &found, &lost).unwrap();
        assert!(!lost.is_empty() || cut + 4096 > length);
    }
    file.set_len(4000).unwrap();
    assert!(Tree::open_damaged(&subject.disk, &subject.path, FileId(7), 0, &cache).is_err());
}

/// The superblock may be newer than the one that is used.
#[test]
fn a_superblock_that_the_disk_does_not_read_is_reported() {
    let mut random = Random(4);
    let mut model = Model::new(KEYS);
    let disk = FaultDisk::new(4);
    let mut subject = Subject::create(Arc::new(disk.clone()), TreeOptions::tiny());
    fill(&mut random, &mut model, &subject);
    subject.checkpoint().unwrap();
    let view = newest(&model);
    let cache = Arc::new(PageCache::new(64 * 1024));
    for slot in 0..2 {
        disk.fail_read(slot);
        let opened = Tree::open_damaged(&subject.disk, &subject.path, FileId(7), 0, &cache);
        let (found, lost) = salvage(&opened.unwrap(), &view);
        let [lost] = lost.as_slice() else {
            panic!("{lost:?}");
        };
        assert_eq!(lost.kind, LostKind::Checkpoint);
        assert!(
            lost.to_string()
                .contains("a superblock, and perhaps newer changes")
        );
        assert!(found.values().all(|(_, is_doubtful)| *is_doubtful));
        compare(&model, &view, &found, &[]).unwrap();
    }
}
