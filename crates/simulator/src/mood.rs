//! What the seed draws once for a whole story: sizes and weights.

use crate::rows::Shape;
use std::time::Duration;
use teak_engine::{Codec, EngineOptions};
use teak_testing::Random;
use teak_tree::TreeOptions;

/// The directory of the engine on the simulated disk.
pub(crate) const DIRECTORY: &str = "/data";

/// A kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Begin,
    Insert,
    Update,
    Delete,
    Commit,
    Prepare,
    EndPrepared,
    Rollback,
    Savepoint,
    RollbackTo,
    Statement,
    Get,
    GetLocked,
    Scan,
    ScanLocked,
    Hold,
    StepHeld,
    Create,
    Drop,
    Rename,
    Truncate,
    Alter,
    Counter,
    Background,
    Idle,
    KeepHouse,
    Checkpoint,
    FlushLog,
    CommitSync,
    CloseHandle,
    Verify,
    Fault,
    ClearFaults,
}

/// Weights of the kinds, before the seed bends them.
const WEIGHTS: [(Kind, u64); 33] = [
    (Kind::Begin, 10),
    (Kind::Insert, 50),
    (Kind::Update, 25),
    (Kind::Delete, 12),
    (Kind::Commit, 12),
    (Kind::Prepare, 4),
    (Kind::EndPrepared, 6),
    (Kind::Rollback, 3),
    (Kind::Savepoint, 5),
    (Kind::RollbackTo, 3),
    (Kind::Statement, 5),
    (Kind::Get, 15),
    (Kind::GetLocked, 5),
    (Kind::Scan, 5),
    (Kind::ScanLocked, 3),
    (Kind::Hold, 2),
    (Kind::StepHeld, 5),
    (Kind::Create, 2),
    (Kind::Drop, 1),
    (Kind::Rename, 1),
    (Kind::Truncate, 1),
    (Kind::Alter, 4),
    (Kind::Counter, 3),
    (Kind::Background, 5),
    (Kind::Idle, 1),
    (Kind::KeepHouse, 2),
    (Kind::Checkpoint, 2),
    (Kind::FlushLog, 2),
    (Kind::CommitSync, 1),
    (Kind::CloseHandle, 2),
    (Kind::Verify, 1),
    (Kind::Fault, 2),
    (Kind::ClearFaults, 2),
];

/// The mood of a story.
#[derive(Debug)]
pub(crate) struct Mood {
    weights: Vec<(Kind, u64)>,
    total: u64,
    pub(crate) lives: u64,
    pub(crate) steps_per_life: u64,
    pub(crate) sessions_max: usize,
    pub(crate) tables_max: usize,
    keys: u64,
    payload_bytes_max: u64,
    /// One life in so many has faults; zero for none.
    pub(crate) faulty_lives: u64,
    /// The only faults are full disks.
    pub(crate) only_space: bool,
    /// What locks may take; zero for plenty.
    lock_bytes_max: u64,
}

impl Mood {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let mut weights = Vec::with_capacity(WEIGHTS.len());
        for (kind, weight) in WEIGHTS {
            // Some stories are full of one thing, some lack another.
            let weight = match random.below(8) {
                0 => 0,
                1 => weight * 5,
                _ => weight,
            };
            let needed = matches!(kind, Kind::Begin | Kind::Insert | Kind::Commit);
            weights.push((kind, if needed { weight.max(5) } else { weight }));
        }
        let bulky = random.one_in(6);
        let lock_bytes_max = match random.below(3) {
            0 => 1500 << random.below(4),
            _ => 0,
        };
        if lock_bytes_max > 0 {
            let locking = |kind| matches!(kind, Kind::GetLocked | Kind::ScanLocked);
            for (kind, weight) in &mut weights {
                if locking(*kind) {
                    *weight = (*weight + 5) * 5;
                }
            }
        }
        Self {
            total: weights.iter().map(|(_, weight)| weight).sum(),
            weights,
            lives: 2 + random.below(5),
            steps_per_life: 20 + random.below(if bulky { 200 } else { 300 }),
            sessions_max: 1 + usize::try_from(random.below(4)).unwrap_or(0),
            tables_max: 1 + usize::try_from(random.below(4)).unwrap_or(0),
            keys: 4 << random.below(8),
            payload_bytes_max: if bulky { 12_000 } else { 8 << random.below(7) },
            faulty_lives: random.below(3),
            only_space: random.one_in(4),
            lock_bytes_max,
        }
    }

    pub(crate) fn kind(&self, random: &mut Random) -> Kind {
        let mut draw = random.below(self.total);
        for (kind, weight) in &self.weights {
            match draw.checked_sub(*weight) {
                Some(rest) => draw = rest,
                None => return *kind,
            }
        }
        Kind::Insert
    }

    /// The shape of a new table.
    pub(crate) fn shape(&self, random: &mut Random) -> Shape {
        Shape {
            kinds: (0..=u8::try_from(random.below(3)).unwrap_or(0)).collect(),
            keys: self.keys,
            key_style: random.below(4),
            payload_bytes_max: self.payload_bytes_max,
            codec: Codec::ALL
                .get(usize::try_from(random.below(6)).unwrap_or(0))
                .copied()
                .unwrap_or(Codec::Zstd),
            // Values have at least 24 bytes; more is a promise not kept.
            value_fixed_bytes: u32::try_from(random.below(5) * 8).unwrap_or(0),
        }
    }

    /// How the engine is opened; drawn anew for every life.
    pub(crate) fn engine_options(&self, random: &mut Random) -> EngineOptions {
        let mut options = EngineOptions::new(DIRECTORY);
        options.cache_bytes = 1 << (20 + random.below(4));
        options.log_segment_bytes = 1 << (16 + random.below(3));
        options.log_bytes_max = 1 << (12 + random.below(8));
        options.background_threads = 0;
        options.checkpoint_period = Duration::from_secs(3600);
        options.lock_timeout = Duration::ZERO;
        options.lock_bytes_max = self.lock_bytes_max;
        options.instance = Some(7);
        options.memtable_bytes_min = 1 << (12 + random.below(6));
        let mut tree = TreeOptions::tiny();
        tree.page_bytes = 128 << random.below(4);
        tree.leaf_bytes = u64::from(tree.page_bytes) * (2 + random.below(6));
        tree.fanout = 2 + u32::try_from(random.below(4)).unwrap_or(0);
        tree.leaf_runs_max = 2 + u32::try_from(random.below(4)).unwrap_or(0);
        tree.child_buffer_bytes = tree.leaf_bytes * (1 + random.below(3));
        tree.child_runs_max = 2 + u32::try_from(random.below(4)).unwrap_or(0);
        tree.run_bytes_max = tree.child_buffer_bytes * (1 + random.below(3));
        options.tree = tree;
        options
    }
}
