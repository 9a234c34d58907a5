//! The state that maintenance keeps between two passes.

use super::file_pace::FilePace;
use super::index::Index;
use super::retry::Retry;
use super::table::Table;
use super::tables::Slot;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Instant;
use teak_base::{FileId, Lsn, WriteId};

/// Guarded by the mutex that is held during a maintenance pass.
#[derive(Debug)]
pub(crate) struct MaintenanceState {
    /// When the last round with a scope other than `Due` ended, or when the period was last over
    /// and nothing had changed.
    pub last_period: Instant,
    /// The log's end after the last round.
    pub last_end: Lsn,
    pub settling: SettlingState,
    pub idle_sweep: IdleSweep,
    pub read_only: ReadOnlyTables,
}

/// The progress of a pass over all open tables that closes the unused ones.
#[derive(Debug)]
pub(crate) struct IdleSweep {
    pub began: Instant,
    /// Open tables that this pass has not examined yet.
    pub rest: Vec<(u64, Slot)>,
    /// Whether many tables were opened since the sweep began.
    pub is_urgent: bool,
    /// The log's end, and since when it has not changed.
    pub log_end: Lsn,
    pub quiet_since: Instant,
    /// Unused tables that must be flushed before they can be closed.
    pub waiting: BTreeMap<u64, Slot>,
    /// How many more tables without handles than the limit were open when they were last counted,
    /// less the tables that were taken from `waiting` since then.
    pub excess: usize,
    /// The table that was taken from `waiting` last. The one with the next id follows.
    pub flushed: u64,
    pub pace: FilePace,
}

impl Default for IdleSweep {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            rest: Vec::new(),
            is_urgent: false,
            log_end: Lsn(0),
            quiet_since: Instant::now(),
            waiting: BTreeMap::new(),
            excess: 0,
            flushed: 0,
            pace: FilePace::new(Instant::now()),
        }
    }
}

/// The tables that refuse writes because a file of them fails.
#[derive(Debug, Default)]
pub(crate) struct ReadOnlyTables {
    pub tables: Vec<Weak<Table>>,
    /// The failure of the last attempt to retain their log records, and the time of the next.
    pub retaining: Retry,
}

impl ReadOnlyTables {
    /// The tables that are still in memory.
    pub(crate) fn existing(&self) -> Vec<Arc<Table>> {
        self.tables.iter().filter_map(Weak::upgrade).collect()
    }
}

/// The progress of settling old write ids.
#[derive(Debug, Default)]
pub(crate) struct SettlingState {
    /// The sweep removes the entries of aborted writes below this id.
    pub goal: WriteId,
    /// The goal of the previous sweep.
    pub previous_goal: WriteId,
    pub is_sweeping: bool,
    /// The table that this sweep has examined last.
    pub last: Option<u64>,
    /// Indexes of this table that may have entries of aborted writes below the goal.
    pub indexes: Vec<Arc<Index>>,
    /// Number of passes to skip before the next sweep.
    pub paused: u32,
    /// Files to checkpoint, because ids in them were settled or purged.
    pub settled: BTreeSet<FileId>,
}

impl Default for MaintenanceState {
    fn default() -> Self {
        Self {
            last_period: Instant::now(),
            last_end: Lsn(0),
            settling: SettlingState::default(),
            idle_sweep: IdleSweep::default(),
            read_only: ReadOnlyTables::default(),
        }
    }
}
