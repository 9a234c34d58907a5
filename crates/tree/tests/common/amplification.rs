//! Simulates a workload on a tree, and measures its amplification. Planning, flushes and merges are
//! those of the tree. The file is in memory, and each job that is due runs before the next write.
//!
//! - *Write amplification*: bytes that jobs write for each byte of the rows that were written. A
//!   delete counts as much as its row.
//! - *Read amplification*: runs whose key range contains a key. A lookup that does not find the key
//!   reads the filters of all of them.
//! - *Space amplification*: bytes of all runs for each byte that readers need. If there is an old
//!   snapshot, this includes the old versions, and the deletes above them.

use super::Random;
use super::committed::{Snapshots, newest};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use teak_base::{Codec, CommitSequence, FileId, Lsn, Operation, WriteId};
use teak_disk::{Disk, MemoryDisk};
use teak_tree::{FilterKeys, JobKind, PageCache, Tree, TreeOptions};

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// An empty table receives rows in key order.
    OrderedInserts,
    /// An empty table receives rows with random keys.
    RandomInserts,
    /// Random rows get new values; their keys do not change.
    RowUpdates,
    /// A secondary index, of which random entries are deleted and put at random places.
    IndexUpdates,
    /// Random rows are deleted until a tenth remains.
    RandomDeletes,
    /// Rows are inserted at one end and deleted at the other.
    Queue,
}

/// A simulation.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub workload: Workload,
    /// The sizes of the default options are divided by this.
    pub scale: u64,
    /// Bytes at which the memtable is flushed, before they are divided.
    pub memtable_bytes: u64,
    /// Maximum size of the table, in memtables.
    pub memtables: u64,
    /// Whether a snapshot, as old as the loaded table, remains open until the end.
    pub has_snapshot: bool,
}

/// What a simulation has measured, after the tree has reached a steady state.
#[derive(Clone, Debug, Default)]
pub struct Amplification {
    pub write: f64,
    /// The part of each kind of job in `write`.
    pub parts: HashMap<JobKind, f64>,
    pub read: f64,
    pub space: f64,
    pub space_max: f64,
    /// Jobs for each memtable, and the maximum of them between two memtables.
    pub jobs: f64,
    pub jobs_max: u64,
    pub height: u64,
    pub leaves: u64,
    /// Bytes that readers need for each leaf, relative to the target size of a leaf.
    pub leaf_fill: f64,
}

impl fmt::Display for Amplification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |kind| self.parts.get(&kind).copied().unwrap_or(0.0);
        write!(
            f,
            "{:6.2} | {:5.2} | {:5.2} | {:5.2} | {:5.2} | {:5.1} | {:5.2} | {:5.2} | {:5.1} | {} | {} | {}",
            self.write,
            part(JobKind::Memtable),
            part(JobKind::Child),
            part(JobKind::Consolidate),
            part(JobKind::Leaf),
            self.read,
            self.space,
            self.space_max,
            self.jobs,
            self.jobs_max,
            self.height,
            self.leaves
        )
    }
}

/// Bytes of the value of a row. Entries of a secondary index have no value.
const VALUE: [u8; 14] = [7; 14];

/// Approximate bytes of a row in a page, without its value.
const KEY_BYTES: u64 = 17;

/// Minimum number of memtables that are written before the measurement begins, and during it. Leaves
/// of the same age are merged at about the same time, so the measurement must take several times as
/// long as the interval between two merges of a leaf.
const MEMTABLES_MIN: u64 = 24;

/// Keys that are looked up after each flush.
const SAMPLES: usize = 8;

/// The default options with all sizes divided, so that a small table has the shape of a large one.
pub fn divided(scale: u64) -> TreeOptions {
    let default = TreeOptions::default();
    TreeOptions {
        page_bytes: 512,
        codec: Codec::None,
        upper_codec: Codec::None,
        filter_keys: FilterKeys::None,
        leaf_bytes: default.leaf_bytes / scale,
        child_buffer_bytes: default.child_buffer_bytes / scale,
        run_bytes_max: default.run_bytes_max / scale,
        ..default
    }
}

struct Simulation {
    tree: Arc<Tree>,
    horizon: Snapshots,
    random: Random,
    value: &'static [u8],
    /// Rows between two flushes.
    batch: u64,
    in_batch: u64,
    /// Id of new writes.
    id: WriteId,
    /// Entries that readers need.
    needed: u64,
    /// Whether the counts below are maintained.
    is_measured: bool,
    rows_written: u64,
    bytes: HashMap<JobKind, u64>,
    flushes: u64,
    jobs: u64,
    jobs_max: u64,
    lookups: u64,
    runs: u64,
    space: Vec<f64>,
    /// Chooses a key to look up. Its last argument is `sampled`.
    sample: fn(&mut Random, u64) -> [u8; 16],
    sampled: u64,
}

fn pair(high: u64, low: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&high.to_be_bytes());
    key[8..].copy_from_slice(&low.to_be_bytes());
    key
}

/// A number that looks random.
fn scattered(number: u64) -> u64 {
    Random(number).next()
}

impl Simulation {
    fn new(setup: &Setup) -> Self {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        disk.create_directories(Path::new("/t")).unwrap();
        let cache = Arc::new(PageCache::new(1 << 20));
        let path = Path::new("/t/index.teak");
        let value: &[u8] = match setup.workload {
            Workload::IndexUpdates => &[],
            _ => &VALUE,
        };
        let row_bytes = KEY_BYTES + value.len() as u64;
        let tree = Tree::create(&disk, path, FileId(7), divided(setup.scale), &cache).unwrap();
        Self {
            tree,
            horizon: newest(),
            random: Random(1),
            value,
            batch: (setup.memtable_bytes / setup.scale / row_bytes).max(1),
            in_batch: 0,
            id: WriteId(1),
            needed: 0,
            is_measured: false,
            rows_written: 0,
            bytes: HashMap::new(),
            flushes: 0,
            jobs: 0,
            jobs_max: 0,
            lookups: 0,
            runs: 0,
            space: Vec::new(),
            sample: |random, _| pair(random.next(), 0),
            sampled: 0,
        }
    }

    fn write(&mut self, operation: Operation, key: &[u8]) {
        let value: &[u8] = match operation {
            Operation::Put => self.value,
            Operation::Delete => &[],
        };
        let guard = self.tree.write_guard();
        guard.insert(self.id, operation, key, value);
        drop(guard);
        self.rows_written += u64::from(self.is_measured);
        self.in_batch += 1;
        if self.in_batch == self.batch {
            self.flush();
        }
    }

    fn row_bytes(&self) -> u64 {
        KEY_BYTES + self.value.len() as u64
    }

    /// Flushes the memtable, and runs all jobs that are due.
    fn flush(&mut self) {
        self.in_batch = 0;
        self.tree.freeze(|| Lsn(0));
        let mut jobs = 0;
        while let Some(job) = self.tree.next_job().unwrap() {
            jobs += 1;
            let kind = job.kind();
            let report = job.run(&self.horizon).unwrap();
            if self.is_measured {
                *self.bytes.entry(kind).or_default() += report.raw_bytes_written;
            }
        }
        // Blocks are free for reuse after a checkpoint.
        self.tree.checkpoint(&|_| Ok(())).unwrap();
        if !self.is_measured {
            return;
        }
        self.flushes += 1;
        self.jobs += jobs;
        self.jobs_max = self.jobs_max.max(jobs);
        for _ in 0..SAMPLES {
            let key = (self.sample)(&mut self.random, self.sampled);
            self.lookups += 1;
            self.runs += self.tree.runs_with_key(&key).unwrap();
        }
        let needed = (self.needed * self.row_bytes()).max(1);
        self.space
            .push(self.tree.statistics().raw_bytes as f64 / needed as f64);
    }

    /// Merges the loaded rows. With a snapshot, later merges retain them.
    fn loaded(&mut self, setup: &Setup) {
        self.flush();
        self.tree.settle(&newest()).unwrap();
        self.id = WriteId(2);
        if setup.has_snapshot {
            let newest = newest().0;
            let snapshots = std::iter::once(CommitSequence(1)).chain(newest);
            self.horizon = Snapshots(snapshots.collect());
        }
    }

    fn load_ordered(&mut self, rows: u64, setup: &Setup) {
        for row in 0..rows {
            self.write(Operation::Put, &pair(row, 0));
        }
        self.needed = rows;
        self.sampled = rows;
        self.sample = |random, rows| pair(random.next() % rows, 0);
        self.loaded(setup);
    }

    fn inserts(&mut self, rows: u64, setup: &Setup, key: impl Fn(u64) -> [u8; 16]) {
        self.loaded(setup);
        for row in 0..rows {
            self.is_measured = row >= rows / 4 * 3 || rows <= 4 * self.batch;
            self.needed += 1;
            self.write(Operation::Put, &key(row));
        }
    }

    fn row_updates(&mut self, rows: u64, setup: &Setup) {
        self.load_ordered(rows, setup);
        let mut changed = vec![false; rows as usize];
        let warm = rows.max(MEMTABLES_MIN * self.batch);
        for count in 0..warm * 3 {
            self.is_measured = count >= warm;
            let row = self.random.next() % rows;
            let is_first = !std::mem::replace(&mut changed[row as usize], true);
            self.needed += u64::from(is_first && setup.has_snapshot);
            self.write(Operation::Put, &pair(row, 0));
        }
    }

    fn index_updates(&mut self, rows: u64, setup: &Setup) {
        let mut values: Vec<u64> = (0..rows).map(scattered).collect();
        let mut entries: Vec<(u64, u64)> = values.iter().copied().zip(0..).collect();
        entries.sort_unstable();
        for (value, row) in entries {
            self.write(Operation::Put, &pair(value, row));
        }
        self.needed = rows;
        self.loaded(setup);
        let mut changed = vec![false; rows as usize];
        let warm = rows.max(MEMTABLES_MIN * self.batch) / 2;
        for count in 0..warm * 3 {
            self.is_measured = count >= warm;
            let row = self.random.next() % rows;
            let value = self.random.next();
            let old = std::mem::replace(&mut values[row as usize], value);
            let is_first = !std::mem::replace(&mut changed[row as usize], true);
            // The old entry, and the delete above it.
            self.needed += 2 * u64::from(is_first && setup.has_snapshot);
            self.write(Operation::Delete, &pair(old, row));
            self.write(Operation::Put, &pair(value, row));
        }
    }

    fn random_deletes(&mut self, rows: u64, setup: &Setup) {
        self.load_ordered(rows, setup);
        let mut order: Vec<u64> = (0..rows).collect();
        order.sort_unstable_by_key(|row| scattered(*row));
        self.is_measured = true;
        for row in order.into_iter().take((rows / 10 * 9) as usize) {
            match setup.has_snapshot {
                true => self.needed += 1,
                false => self.needed -= 1,
            }
            self.write(Operation::Delete, &pair(row, 0));
        }
    }

    fn queue(&mut self, rows: u64, setup: &Setup) {
        self.load_ordered(rows, setup);
        let warm = (rows / 4).max(MEMTABLES_MIN * self.batch);
        for row in 0..warm * 3 {
            self.is_measured = row >= warm;
            // A delete above a row of the snapshot, and a new row.
            self.needed += 2 * u64::from(setup.has_snapshot && row < rows);
            self.write(Operation::Put, &pair(rows + row, 0));
            self.write(Operation::Delete, &pair(row, 0));
        }
    }
}

/// Runs a simulation.
pub fn simulate(setup: &Setup) -> Amplification {
    let mut simulation = Simulation::new(setup);
    let rows = simulation.batch * setup.memtables;
    match setup.workload {
        Workload::OrderedInserts => simulation.inserts(rows, setup, |row| pair(row, 0)),
        Workload::RandomInserts => simulation.inserts(rows, setup, |row| pair(scattered(row), row)),
        Workload::RowUpdates => simulation.row_updates(rows, setup),
        Workload::IndexUpdates => simulation.index_updates(rows, setup),
        Workload::RandomDeletes => simulation.random_deletes(rows, setup),
        Workload::Queue => simulation.queue(rows, setup),
    }
    let written = (simulation.rows_written * simulation.row_bytes()).max(1) as f64;
    let bytes = simulation.bytes.iter();
    let parts: HashMap<JobKind, f64> = bytes
        .map(|(kind, bytes)| (*kind, *bytes as f64 / written))
        .collect();
    let statistics = simulation.tree.statistics();
    let space = &simulation.space;
    let needed = (simulation.needed * simulation.row_bytes()) as f64;
    let leaf_bytes = simulation.tree.options().leaf_bytes * statistics.leaves;
    Amplification {
        write: parts.values().sum(),
        parts,
        read: simulation.runs as f64 / simulation.lookups.max(1) as f64,
        space: space.iter().sum::<f64>() / space.len().max(1) as f64,
        space_max: space.iter().copied().fold(0.0, f64::max),
        jobs: simulation.jobs as f64 / simulation.flushes.max(1) as f64,
        jobs_max: simulation.jobs_max,
        height: statistics.height,
        leaves: statistics.leaves,
        leaf_fill: needed / leaf_bytes as f64,
    }
}
