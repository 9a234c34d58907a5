//! Flushes that are divided over threads.

use crate::common::{Model, Random, Subject, compare_all, compare_newest, random_write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use teak_disk::Disk;
use teak_testing::{FaultDisk, WriteFailure};
use teak_tree::{FlushJob, FlushReport, JobThreads, TreeOptions};

const KEYS: usize = 400;

/// A thread for each part.
#[derive(Default)]
struct Threads {
    parts_max: AtomicUsize,
}

impl JobThreads for Threads {
    fn run(&self, parts: usize, part: &(dyn Fn(usize) + Sync)) {
        self.parts_max.fetch_max(parts, Ordering::Relaxed);
        thread::scope(|scope| {
            for number in 0..parts {
                scope.spawn(move || part(number));
            }
        });
    }
}

struct Run {
    random: Random,
    model: Model,
    disk: FaultDisk,
    subject: Subject,
    threads: Threads,
}

impl Run {
    fn new(seed: u64) -> Self {
        let disk = FaultDisk::new(seed);
        Self {
            random: Random(seed),
            model: Model::new(KEYS),
            subject: Subject::create(Arc::new(disk.clone()) as Arc<dyn Disk>, TreeOptions::tiny()),
            disk,
            threads: Threads::default(),
        }
    }

    /// Writes entries, and range tombstones that span several children.
    fn write(&mut self) {
        for _ in 0..self.random.below(600) {
            random_write(&mut self.random, &mut self.model, &self.subject, KEYS);
            if self.random.one_in(30) && !self.model.active.is_empty() {
                let id = self.model.active[0];
                let commit = !self.random.one_in(5);
                self.model.decide(id, commit);
            }
        }
        self.subject.freeze(&self.model);
    }

    fn run(&self, job: FlushJob) -> teak_base::StorageResult<FlushReport> {
        job.run_on(&self.threads, &self.model.horizon())
    }

    fn compare(&mut self) {
        let view = self.model.view(&mut self.random);
        compare_all(&self.model, &self.subject, &view);
        compare_newest(&self.model, &self.subject);
    }
}

#[test]
fn parts_that_run_in_parallel_write_all_entries() {
    for seed in 0..12 {
        let mut run = Run::new(seed);
        for _ in 0..15 {
            run.write();
            while let Some(job) = run.subject.tree.next_job().unwrap() {
                run.run(job).unwrap();
            }
            run.compare();
        }
        assert!(run.threads.parts_max.into_inner() > 3);
    }
}

#[test]
fn a_part_that_fails_leaves_the_tree_unchanged() {
    let mut failures = 0;
    for seed in 100..112 {
        let mut run = Run::new(seed);
        for _ in 0..15 {
            run.write();
            run.disk
                .fail_write(run.random.next() % 8, WriteFailure::Nothing);
            while let Some(job) = run.subject.tree.next_job().unwrap() {
                if run.run(job).is_err() {
                    failures += 1;
                    run.compare();
                }
            }
            run.disk.clear_failures();
            run.compare();
        }
    }
    assert!(failures > 20, "{failures}");
}
