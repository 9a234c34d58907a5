//! Failing disks: after a failed job or checkpoint, all data is readable and the operation can be
//! repeated. After a crash, the last checkpoint is recovered. Damage causes an error.

// A test or bench fails by a panic, and the numbers that it converts are small.
use crate::common::{Model, Random, Subject, View, compare_all, random_write};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use teak_base::{CommitSequence, Lsn};
use teak_disk::Disk;
use teak_testing::{FaultDisk, SyncFailure, WriteFailure};
use teak_tree::TreeOptions;

const KEYS: usize = 200;

struct Run {
    random: Random,
    model: Model,
    disk: FaultDisk,
    subject: Subject,
    /// The position of a failed checkpoint, which recovery may find after a crash.
    in_doubt: Option<Lsn>,
    failures: u64,
}

impl Run {
    fn new(seed: u64) -> Self {
        let separate_value_bytes = [250, 8, u32::MAX][seed as usize % 3];
        Self::with_separate_values(seed, separate_value_bytes)
    }

    fn with_separate_values(seed: u64, separate_value_bytes: u32) -> Self {
        let options = TreeOptions {
            separate_value_bytes,
            ..TreeOptions::tiny()
        };
        let disk = FaultDisk::new(seed);
        let mut subject = Subject::create(Arc::new(disk.clone()), options);
        // Some runs evict each node as soon as that is possible.
        subject.limit_nodes([0, u64::MAX, 20_000][(seed / 3) as usize % 3]);
        Self {
            random: Random(seed),
            model: Model::new(KEYS),
            subject,
            disk,
            in_doubt: None,
            failures: 0,
        }
    }

    fn writes(&mut self, count: usize) {
        for _ in 0..count {
            random_write(&mut self.random, &mut self.model, &self.subject, KEYS);
            if self.random.one_in(10) && !self.model.active.is_empty() {
                let id = self.model.active[0];
                let commit = !self.random.one_in(5);
                self.model.decide(id, commit);
            }
        }
        self.subject.freeze(&self.model);
    }

    /// Runs jobs, and sometimes moves and a checkpoint. Any of them may fail.
    fn work(&mut self) {
        for _ in 0..self.random.below(12) {
            let horizon = self.model.horizon();
            let tree = &self.subject.tree;
            let job = tree.next_job().and_then(|job| match job {
                Some(job) => Ok(Some(job)),
                None => tree.next_idle_job(&horizon),
            });
            let done = job.and_then(|job| job.map(|job| job.run(&horizon)).transpose());
            self.failures += u64::from(done.is_err());
        }
        if self.random.one_in(3) {
            self.relocate();
        }
        if self.random.one_in(2) {
            let flushed = self.subject.tree.flushed_lsn();
            match self.subject.checkpoint() {
                Ok(()) => self.in_doubt = None,
                Err(_) => {
                    self.failures += 1;
                    self.in_doubt = Some(flushed);
                }
            }
        }
    }

    /// Moves runs from after a random offset to holes before it, until there is nothing to move or
    /// a job fails.
    fn relocate(&mut self) {
        let horizon = self.model.horizon();
        let tree = &self.subject.tree;
        let limit = self.random.below(tree.file_bytes() as usize) as u64;
        loop {
            let job = tree.next_relocation(limit);
            let done = job.and_then(|job| job.map(|job| job.run(&horizon)).transpose());
            match done {
                Ok(Some(report)) if report.runs_moved + report.runs_written > 0 => {}
                Ok(_) => break,
                Err(_) => {
                    self.failures += 1;
                    break;
                }
            }
        }
        self.failures += u64::from(tree.relocate_nodes(limit).is_err());
    }

    fn compare(&mut self) {
        let view = self.model.view(&mut self.random);
        compare_all(&self.model, &self.subject, &view);
    }

    fn crash(&mut self) {
        let seed = self.random.next();
        self.disk = self.disk.crash(seed);
        self.subject.disk = Arc::new(self.disk.clone()) as Arc<dyn Disk>;
        let durable = self.subject.durable;
        self.subject.open_again();
        let found = self.subject.tree.flushed_lsn();
        assert!(
            found == durable || Some(found) == self.in_doubt,
            "the crash found {found}, not {durable} or {:?}",
            self.in_doubt
        );
        self.subject.repeat_log(&self.model);
        self.in_doubt = None;
    }
}

fn with_seed(seed: u64, test: impl FnOnce()) {
    if let Err(panic) = std::panic::catch_unwind(AssertUnwindSafe(test)) {
        eprintln!("failed with seed {seed}");
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn a_failed_job_or_checkpoint_leaves_the_tree_unchanged() {
    let mut failures = 0;
    for seed in 0..40 {
        with_seed(seed, || {
            let mut run = Run::new(seed);
            for _ in 0..12 {
                run.writes(60);
                let after = run.random.below(12) as u64;
                match run.random.below(5) {
                    0 => run.disk.fail_write(after, WriteFailure::Nothing),
                    1 => run.disk.fail_write(after, WriteFailure::Partial),
                    2 => run.disk.fail_write(after, WriteFailure::NoSpace),
                    3 => run.disk.fail_write(after, WriteFailure::Whole),
                    _ => run.disk.fail_read(after),
                }
                run.work();
                run.disk.clear_failures();
                run.compare();
                // All jobs and checkpoints can be repeated, and no space is leaked.
                let horizon = run.model.horizon();
                run.subject.tree.settle(&horizon).unwrap();
                run.subject.checkpoint().unwrap();
                run.in_doubt = None;
                let report = run.subject.tree.verify(&mut |_| true).unwrap();
                let file = run.subject.tree.file_statistics();
                assert_eq!(report.block_bytes, file.live_bytes, "no space is lost");
            }
            failures += run.failures;
        });
    }
    assert!(failures > 100, "only {failures} faults occurred");
}

#[test]
fn a_full_disk_stops_only_flushes() {
    let mut run = Run::with_separate_values(1, u32::MAX);
    run.writes(400);
    run.subject.tree.settle(&run.model.horizon()).unwrap();
    run.subject.checkpoint().unwrap();
    run.disk.set_capacity(Some(1024));
    run.writes(400);
    let job = run.subject.tree.next_job().unwrap().unwrap();
    assert!(job.run(&run.model.horizon()).is_err());
    assert!(run.subject.checkpoint().is_err());
    run.compare();
    run.disk.set_capacity(None);
    run.subject.tree.settle(&run.model.horizon()).unwrap();
    run.subject.checkpoint().unwrap();
    run.compare();
}

#[test]
fn a_crash_at_any_change_finds_a_checkpoint() {
    for seed in 0..60 {
        with_seed(seed, || {
            let mut run = Run::new(seed);
            for _ in 0..8 {
                run.writes(60);
                let after = run.random.below(30) as u64;
                run.disk.cut_power(after);
                run.work();
                run.work();
                run.crash();
                run.compare();
                run.subject.tree.verify(&mut |_| true).unwrap();
            }
        });
    }
}

#[test]
fn after_a_failed_sync_no_checkpoint_is_made() {
    for seed in 0..20 {
        with_seed(seed, || {
            let mut run = Run::new(seed);
            run.writes(100);
            run.subject.tree.settle(&run.model.horizon()).unwrap();
            run.subject.checkpoint().unwrap();
            run.writes(100);
            run.subject.tree.settle(&run.model.horizon()).unwrap();
            let how = if run.random.one_in(2) {
                SyncFailure::Dropped
            } else {
                SyncFailure::Kept
            };
            run.disk.fail_sync(0, how);
            run.in_doubt = Some(run.subject.tree.flushed_lsn());
            let needed = run.subject.durable;
            assert!(run.subject.checkpoint().is_err());
            assert!(
                run.subject.checkpoint().is_err(),
                "a later one cannot be trusted"
            );
            assert!(run.subject.tree.oldest_needed_lsn(|| Lsn(1 << 40)) >= needed);
            assert!(run.subject.tree.oldest_needed_lsn(|| Lsn(1 << 40)) < Lsn(1 << 40));
            run.compare();
            run.crash();
            run.compare();
        });
    }
}

#[test]
fn damage_is_an_error_and_never_a_wrong_answer() {
    let mut found = 0;
    for seed in 0..150 {
        with_seed(seed, || {
            let mut run = Run::new(seed % 3);
            run.writes(300);
            run.subject.tree.settle(&run.model.horizon()).unwrap();
            run.writes(100);
            run.subject
                .tree
                .next_job()
                .unwrap()
                .unwrap()
                .run(&run.model.horizon())
                .unwrap();
            run.subject.checkpoint().unwrap();
            let file = run.subject.disk.open(&run.subject.path).unwrap();
            let bytes = file.len().unwrap();
            let mut random = Random(seed);
            let offset = random.next() % bytes;
            let bit = random.below(8) as u8;
            run.disk.flip_bit(&run.subject.path, offset, bit).unwrap();
            let cache = Arc::new(teak_tree::PageCache::new(1 << 20));
            let opened = teak_tree::Tree::open(&run.subject.disk, &run.subject.path, None, &cache);
            let Ok(tree) = opened else {
                found += 1;
                return;
            };
            run.subject.tree = tree;
            let view = View {
                snapshot: CommitSequence(run.model.published),
                own: None,
                statuses: Arc::clone(&run.model.statuses),
            };
            let mut read_all = true;
            for key in run.model.versions.keys() {
                match run.subject.tree.get(key, &view) {
                    Ok(value) => assert_eq!(value, run.model.get(key, &view)),
                    Err(error) => {
                        assert!(error.is_corrupt());
                        read_all = false;
                    }
                }
            }
            match run.subject.tree.verify(&mut |_| true) {
                Ok(_) => assert!(read_all, "what reads miss is found"),
                Err(error) => {
                    assert!(error.is_corrupt());
                    found += 1;
                }
            }
        });
    }
    assert!(found > 20, "damage was found {found} times only");
}
