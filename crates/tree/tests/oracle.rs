//! Random operations on a tree and on a model that retains all versions. Every view must read the
//! same from both, after any sequence of flushes, merges, checkpoints and restarts.

// A test or bench fails by a panic, and the numbers that it converts are small.
use crate::common::loads::PendingLoad;
use crate::common::{
    Model, Random, Subject, View, compare_all, compare_newest, key, random_write, shown,
};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use teak_base::{CommitSequence, WriteId};
use teak_disk::MemoryDisk;
use teak_tree::{FlushJob, TreeCursor, TreeOptions, VerifyReport, Visit, WriteStatus};

struct Run {
    random: Random,
    keys: usize,
    model: Model,
    subject: Subject,
    /// Claimed jobs that have not run.
    jobs: Vec<FlushJob>,
    loads: Vec<PendingLoad>,
    height_max: u64,
    /// Rows over which cursors moved within pages.
    passed: usize,
}

/// Depending on the seed, a few values, most of them or none are stored apart from their entries.
fn options(seed: u64) -> TreeOptions {
    TreeOptions {
        separate_value_bytes: [250, 8, u32::MAX][seed as usize % 3],
        ..TreeOptions::tiny()
    }
}

/// Some runs evict each node as soon as that is possible, some a part of the nodes, and some none.
fn node_bytes_max(seed: u64) -> u64 {
    [0, u64::MAX, 20_000][(seed / 3) as usize % 3]
}

impl Run {
    fn new(seed: u64, keys: usize) -> Self {
        let mut subject = Subject::create(Arc::new(MemoryDisk::new()), options(seed));
        subject.limit_nodes(node_bytes_max(seed));
        Self {
            random: Random(seed),
            keys,
            model: Model::new(keys),
            subject,
            jobs: Vec::new(),
            loads: Vec::new(),
            height_max: 0,
            passed: 0,
        }
    }

    fn step(&mut self) {
        match self.random.below(1000) {
            0..700 => random_write(&mut self.random, &mut self.model, &self.subject, self.keys),
            700..740 => {
                if self.model.active.len() < 4 {
                    self.model.begin();
                }
            }
            740..790 => self.decide(),
            790..800 => {
                if self.model.snapshots.len() < 5 {
                    let now = CommitSequence(self.model.published);
                    self.model.snapshots.push(now);
                }
            }
            800..812 => {
                if !self.model.snapshots.is_empty() {
                    let at = self.random.below(self.model.snapshots.len());
                    self.model.snapshots.swap_remove(at);
                }
            }
            812..840 => self.subject.freeze(&self.model),
            840..900 => self.claim_or_run(),
            900..903 => self.subject.tree.settle(&self.model.horizon()).unwrap(),
            903..910 => self.subject.checkpoint().unwrap(),
            910..912 => self.reopen(),
            912..920 => {
                let view = self.model.view(&mut self.random);
                compare_all(&self.model, &self.subject, &view);
                compare_newest(&self.model, &self.subject);
            }
            920..923 => {
                self.verify();
            }
            923..925 => self.walk_while_writing(),
            925..930 => self.relocate_nodes(),
            930..936 => self.load(),
            _ => {
                let view = self.model.view(&mut self.random);
                let key = key(self.random.below(self.keys));
                let found = self.subject.tree.get(&key, &view).unwrap();
                assert_eq!(found, self.model.get(&key, &view), "{}", shown(&key));
            }
        }
    }

    fn decide(&mut self) {
        if self.model.active.is_empty() {
            return;
        }
        let id = self.model.active[self.random.below(self.model.active.len())];
        let commit = !self.random.one_in(4);
        self.model.decide(id, commit);
    }

    /// Claims a job, or runs (rarely drops) a random claimed job.
    fn claim_or_run(&mut self) {
        if self.jobs.len() < 3 && self.random.one_in(2) {
            let tree = &self.subject.tree;
            tree.note_settled(self.model.settled_below());
            let job = match self.random.below(10) {
                0..2 => tree.next_idle_job(&self.model.horizon()).unwrap(),
                9 => tree.next_worthwhile_job(&self.model.horizon()).unwrap(),
                2 => tree
                    .next_settling_job(&self.model.horizon(), WriteId(u64::MAX))
                    .unwrap(),
                3..6 => {
                    let limit = self.random.below(tree.file_bytes() as usize);
                    tree.next_relocation(limit as u64).unwrap()
                }
                _ => tree.next_job().unwrap(),
            };
            self.jobs.extend(job);
        } else if !self.jobs.is_empty() {
            let at = self.random.below(self.jobs.len());
            let job = self.jobs.swap_remove(at);
            if self.random.one_in(20) {
                drop(job);
            } else {
                job.run(&self.model.horizon()).unwrap();
            }
        }
        let height = self.subject.tree.statistics().height;
        self.height_max = self.height_max.max(height);
    }

    /// Writes a load, or installs (rarely drops) one that was written.
    fn load(&mut self) {
        if self.loads.len() < 2 && self.random.one_in(2) {
            let (random, model) = (&mut self.random, &mut self.model);
            let load = PendingLoad::write(random, model, &self.subject, self.keys);
            self.loads.push(load);
        } else if !self.loads.is_empty() {
            let at = self.random.below(self.loads.len());
            let load = self.loads.swap_remove(at);
            if self.random.one_in(10) {
                load.abandon(&mut self.model);
                return;
            }
            for job in self.jobs.drain(..) {
                job.run(&self.model.horizon()).unwrap();
            }
            load.install(&mut self.model, &mut self.subject);
        }
    }

    fn relocate_nodes(&mut self) {
        let tree = &self.subject.tree;
        let limit = self.random.below(tree.file_bytes() as usize);
        tree.relocate_nodes(limit as u64).unwrap();
    }

    fn reopen(&mut self) {
        self.jobs.clear();
        for load in self.loads.drain(..) {
            load.abandon(&mut self.model);
        }
        self.subject.reopen(&self.model);
    }

    fn verify(&mut self) -> VerifyReport {
        self.check_purged();
        self.subject.tree.verify(&mut |_| true).unwrap()
    }

    /// The tree has no entry of an aborted write below the id that it reports.
    fn check_purged(&self) {
        let tree = &self.subject.tree;
        let purged_below = tree.oldest_unpurged_write_id();
        for key in self.model.versions.keys() {
            let visited = tree.visit(key, &mut |id, _, _| {
                let is_purged = purged_below.is_none_or(|oldest| id < oldest);
                let is_aborted =
                    !id.is_settled() && self.model.statuses.get(id) == WriteStatus::Aborted;
                assert!(!is_purged || !is_aborted, "{id} of {}", shown(key));
                Visit::Continue
            });
            visited.unwrap();
        }
    }

    /// Moves a cursor in both directions with occasional seeks. Between the steps there are
    /// freezes, jobs, and writes, some of which the cursor's view sees.
    fn walk_while_writing(&mut self) {
        let view = self.model.view(&mut self.random);
        let mut cursor = self.subject.tree.cursor(view.clone());
        let start = key(self.random.below(self.keys));
        let mut at = cursor.seek(&start).unwrap();
        self.check(&mut cursor, at, &view, self.first_from(&start, &view));
        for _ in 0..60 {
            if self.random.one_in(3) {
                self.run_concurrent_step();
            }
            if at {
                self.pass_rows(&mut cursor, &view);
            }
            let here = at.then(|| cursor.key().to_vec());
            let expected = match (self.random.below(10), here) {
                (0..5, Some(here)) => {
                    at = cursor.next().unwrap();
                    self.first_after(&here, &view)
                }
                (5..9, Some(here)) => {
                    at = cursor.previous().unwrap();
                    self.last_before(&here, &view)
                }
                _ => {
                    let to = key(self.random.below(self.keys));
                    if self.random.one_in(2) {
                        at = cursor.seek(&to).unwrap();
                        self.first_from(&to, &view)
                    } else {
                        at = cursor.seek_before(&to).unwrap();
                        self.last_before(&to, &view)
                    }
                }
            };
            self.check(&mut cursor, at, &view, expected);
        }
    }

    /// Compares the rows of the page that the cursor returns together, and moves over some of them.
    fn pass_rows(&mut self, cursor: &mut TreeCursor<View>, view: &View) {
        let Some(mut rows) = cursor.page_rows(1 + self.random.below(20)) else {
            return;
        };
        let mut key = cursor.key().to_vec();
        for row in 0..rows.len() {
            assert_eq!(rows.get(row).0, key, "{view:?}");
            assert_eq!(self.model.get(&key, view).as_deref(), Some(rows.get(row).1));
            if let Some(next) = self.first_after(&key, view) {
                key = next;
            }
        }
        let passed = self.random.below(rows.len());
        let last = rows.get(passed).0.to_vec();
        rows.limit(|key| *key <= *last);
        assert_eq!(rows.len(), passed + 1);
        assert!(cursor.pass_page_rows(passed));
        assert_eq!(cursor.key(), last);
        assert!(!cursor.pass_page_rows(usize::MAX));
        self.passed += passed;
    }

    /// An operation that may run between two steps of a cursor. The view's
    /// snapshot must remain live, so there are no commits or rollbacks.
    fn run_concurrent_step(&mut self) {
        match self.random.below(10) {
            0 => self.subject.freeze(&self.model),
            1..3 => self.claim_or_run(),
            3 => self.subject.checkpoint().unwrap(),
            _ => random_write(&mut self.random, &mut self.model, &self.subject, self.keys),
        }
    }

    fn first_from(&self, from: &[u8], view: &View) -> Option<Vec<u8>> {
        let keys = self.model.versions.range(from.to_vec()..);
        keys.map(|(key, _)| key.clone())
            .find(|key| self.model.get(key, view).is_some())
    }

    fn first_after(&self, after: &[u8], view: &View) -> Option<Vec<u8>> {
        let mut from = after.to_vec();
        from.push(0);
        self.first_from(&from, view)
    }

    fn last_before(&self, before: &[u8], view: &View) -> Option<Vec<u8>> {
        let keys = self.model.versions.range(..before.to_vec()).rev();
        keys.map(|(key, _)| key.clone())
            .find(|key| self.model.get(key, view).is_some())
    }

    fn check(
        &self,
        cursor: &mut TreeCursor<View>,
        at: bool,
        view: &View,
        expected: Option<Vec<u8>>,
    ) {
        let found = at.then(|| cursor.key().to_vec());
        assert_eq!(cursor.valid(), at);
        assert_eq!(found, expected, "{view:?}");
        if let Some(key) = found {
            let value = self.model.get(&key, view);
            assert_eq!(
                Some(cursor.value().unwrap().to_vec()),
                value,
                "{}",
                shown(&key)
            );
        }
    }

    fn finish(&mut self) {
        self.jobs.clear();
        for load in self.loads.drain(..) {
            load.abandon(&mut self.model);
        }
        while let Some(id) = self.model.active.first().copied() {
            let commit = self.random.one_in(2);
            self.model.decide(id, commit);
        }
        self.model.snapshots.clear();
        self.subject.freeze(&self.model);
        self.subject.tree.settle(&self.model.horizon()).unwrap();
        let view = self.model.view(&mut self.random);
        compare_all(&self.model, &self.subject, &view);
        self.verify();
        let statistics = self.subject.tree.statistics();
        assert_eq!(statistics.upper_bytes, 0, "all has settled in leaves");
        assert_eq!(
            self.subject.tree.write_id_range(),
            None,
            "no write is unsettled"
        );
        // If two leaves share a run, each counts half of its entries.
        let rows = self.model.scan(&view).len() as u64;
        assert!(statistics.entries.abs_diff(rows) <= 5 + rows / 10);
        self.subject.checkpoint().unwrap();
        let report = self.verify();
        let file = self.subject.tree.file_statistics();
        assert_eq!(report.block_bytes, file.live_bytes, "no space is lost");
        self.subject.reopen(&self.model);
        compare_all(&self.model, &self.subject, &view);
        self.verify();
    }
}

/// Returns the maximum height, and the number of rows over which cursors moved within pages.
fn run(seed: u64, keys: usize, steps: usize) -> (u64, usize) {
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let mut run = Run::new(seed, keys);
        for _ in 0..steps {
            run.step();
        }
        run.finish();
        (run.height_max, run.passed)
    }));
    match outcome {
        Ok(reached) => reached,
        Err(panic) => {
            eprintln!("failed with seed {seed}, {keys} keys, {steps} steps");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn every_view_reads_the_same_as_the_model() {
    let first = std::env::var("TEAK_SEED").ok().map(|s| s.parse().unwrap());
    for seed in first.map_or(0..24, |seed| seed..seed + 1) {
        run(seed, 300, 4000);
    }
}

#[test]
fn few_keys_with_many_versions_are_read_correctly() {
    for seed in 100..112 {
        run(seed, 12, 2500);
    }
}

#[test]
fn a_tree_of_several_levels_is_read_correctly() {
    let (mut height, mut passed) = (0, 0);
    for seed in 200..203 {
        let reached = run(seed, 4000, 20_000);
        height = height.max(reached.0);
        passed += reached.1;
    }
    assert!(height >= 3, "three levels were wanted, not {height}");
    assert!(passed > 0, "no rows of a page were passed");
}
