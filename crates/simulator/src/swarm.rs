//! The swarm configuration: sizes and weights that are drawn from the seed once for
//! the whole run, so that different runs concentrate on different features.

use crate::rows::Shape;
use std::sync::Arc;
use std::time::Duration;
use teak_engine::{Codec, EngineOptions, KeyId};
use teak_testing::{Random, TestKeys};
use teak_tree::TreeOptions;

/// The directory of the engine on the simulated disk.
pub(crate) const DIRECTORY: &str = "/data";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepKind {
    Begin,
    Insert,
    Update,
    Delete,
    DeleteAll,
    Load,
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
    Maintain,
    Reclaim,
    Relocate,
    ChangeKeys,
    Checkpoint,
    FlushLog,
    Reveal,
    ChangeHidden,
    CommitSync,
    CloseHandle,
    Verify,
    Fault,
    ClearFaults,
}

/// The default weights of the kinds.
const WEIGHTS: [(StepKind, u64); 40] = [
    (StepKind::Begin, 10),
    (StepKind::Insert, 50),
    (StepKind::Update, 25),
    (StepKind::Delete, 12),
    (StepKind::DeleteAll, 2),
    (StepKind::Load, 2),
    (StepKind::Commit, 12),
    (StepKind::Prepare, 4),
    (StepKind::EndPrepared, 6),
    (StepKind::Rollback, 3),
    (StepKind::Savepoint, 5),
    (StepKind::RollbackTo, 3),
    (StepKind::Statement, 5),
    (StepKind::Get, 15),
    (StepKind::GetLocked, 5),
    (StepKind::Scan, 5),
    (StepKind::ScanLocked, 3),
    (StepKind::Hold, 2),
    (StepKind::StepHeld, 5),
    (StepKind::Create, 2),
    (StepKind::Drop, 1),
    (StepKind::Rename, 1),
    (StepKind::Truncate, 1),
    (StepKind::Alter, 4),
    (StepKind::Counter, 3),
    (StepKind::Background, 5),
    (StepKind::Idle, 1),
    (StepKind::Maintain, 2),
    (StepKind::Reclaim, 1),
    (StepKind::Relocate, 3),
    (StepKind::ChangeKeys, 2),
    (StepKind::Checkpoint, 2),
    (StepKind::FlushLog, 2),
    (StepKind::Reveal, 1),
    (StepKind::ChangeHidden, 1),
    (StepKind::CommitSync, 1),
    (StepKind::CloseHandle, 2),
    (StepKind::Verify, 1),
    (StepKind::Fault, 2),
    (StepKind::ClearFaults, 2),
];

/// The configuration of a run.
#[derive(Debug)]
pub(crate) struct SwarmConfig {
    weights: Vec<(StepKind, u64)>,
    total: u64,
    pub(crate) incarnations: u64,
    pub(crate) steps_max: u64,
    pub(crate) sessions_max: usize,
    pub(crate) tables_max: usize,
    keys: u64,
    payload_bytes_max: u64,
    /// One in this many incarnations starts with a planned fault; openings and steps may plan
    /// others. Zero: the run has no faults.
    pub(crate) faulty_one_in: u64,
    /// Whether a full disk is the only planned fault.
    pub(crate) only_full_disk: bool,
    /// After one in this many power losses, files are hidden; zero: never.
    pub(crate) hidden_one_in: u64,
    /// The memory limit of locks, in bytes; zero for the default.
    pub(crate) lock_bytes_max: u64,
    pub(crate) encryption_keys: Arc<TestKeys>,
}

impl SwarmConfig {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let mut weights = Vec::with_capacity(WEIGHTS.len());
        for (kind, weight) in WEIGHTS {
            // Some runs have many steps of one kind, or none of another.
            let weight = match random.below(8) {
                0 => 0,
                1 => weight * 5,
                _ => weight,
            };
            let needed = matches!(kind, StepKind::Begin | StepKind::Insert | StepKind::Commit);
            weights.push((kind, if needed { weight.max(5) } else { weight }));
        }
        let large_rows = random.one_in(6);
        let lock_bytes_max = match random.below(3) {
            0 => 1500 << random.below(4),
            _ => 0,
        };
        if lock_bytes_max > 0 {
            let locking = |kind| matches!(kind, StepKind::GetLocked | StepKind::ScanLocked);
            for (kind, weight) in &mut weights {
                if locking(*kind) {
                    *weight = (*weight + 5) * 5;
                }
            }
        }
        Self {
            total: weights.iter().map(|(_, weight)| weight).sum(),
            weights,
            incarnations: 2 + random.below(5),
            steps_max: 20 + random.below(if large_rows { 200 } else { 300 }),
            sessions_max: 1 + usize::try_from(random.below(4)).unwrap_or(0),
            tables_max: 1 + usize::try_from(random.below(4)).unwrap_or(0),
            keys: 4 << random.below(8),
            payload_bytes_max: if large_rows {
                12_000
            } else {
                8 << random.below(7)
            },
            faulty_one_in: random.below(3),
            only_full_disk: random.one_in(4),
            hidden_one_in: random.below(3),
            lock_bytes_max,
            encryption_keys: Arc::default(),
        }
    }

    pub(crate) fn kind(&self, random: &mut Random) -> StepKind {
        let mut draw = random.below(self.total);
        for (kind, weight) in &self.weights {
            match draw.checked_sub(*weight) {
                Some(rest) => draw = rest,
                None => return *kind,
            }
        }
        StepKind::Insert
    }

    /// Draws the shape of a new table.
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
            // Values have at least 24 bytes, so some may be shorter than this.
            value_fixed_bytes: u32::try_from(random.below(5) * 8).unwrap_or(0),
            // Half of the tables are not encrypted.
            encryption_key: KeyId::new(u32::try_from(random.below(4) / 2 * 2).unwrap_or(0)),
        }
    }

    /// Draws the options of the engine for one opening.
    pub(crate) fn engine_options(&self, random: &mut Random) -> EngineOptions {
        let mut options = EngineOptions::new(DIRECTORY);
        options.cache_bytes = 1 << (20 + random.below(4));
        options.log_segment_bytes = 1 << (16 + random.below(3));
        options.log_id_ranges_max = 1 + usize::try_from(random.below(3)).unwrap_or(0);
        options.log_bytes_max = 1 << (12 + random.below(8));
        options.background_threads = 0;
        options.checkpoint_period = Duration::from_secs(3600);
        options.lock_timeout = Duration::ZERO;
        options.lock_bytes_max = self.lock_bytes_max;
        options.instance = Some(7);
        options.memtable_bytes_min = 1 << (12 + random.below(6));
        // Some incarnations evict each node as soon as that is possible, some a part of the nodes,
        // and the others none.
        options.node_bytes_max = match options.log_id_ranges_max {
            1 => Some(0),
            2 => Some(20_000),
            _ => None,
        };
        // Without a clock: maintenance closes all unused tables, or none.
        if random.below(2) == 0 {
            options.table_idle_period = Duration::ZERO;
        }
        let mut tree = TreeOptions::tiny();
        tree.page_bytes = 128 << random.below(4);
        tree.leaf_bytes = u64::from(tree.page_bytes) * (2 + random.below(6));
        tree.fanout = 2 + u32::try_from(random.below(4)).unwrap_or(0);
        tree.leaf_runs_max = 2 + u32::try_from(random.below(4)).unwrap_or(0);
        tree.child_buffer_bytes = tree.leaf_bytes * (1 + random.below(3));
        tree.child_runs_max = 2 + u32::try_from(random.below(4)).unwrap_or(0);
        tree.run_bytes_max = tree.child_buffer_bytes * (1 + random.below(3));
        // Some incarnations store most rows as separate values, some only large rows.
        tree.separate_value_bytes = 16 << (3 * random.below(4));
        options.tree = tree;
        let log = u32::from(random.one_in(3));
        options.encryption = self.encryption_keys.encryption(log);
        options
    }
}
