//! Admission of writers: when memtables are frozen, and which bounds a writer
//! respects.
//!
//! A transaction is admitted to a table before its first row there, if possible
//! before it locks a row, and again whenever it has written a certain number of
//! bytes. Then:
//! 1. When the active memtables together exceed half their quota, or one of them
//!    exceeds its own limit, the largest are frozen for flushing.
//! 2. While memtables use too much memory, the writer is delayed. Writers of tables
//!    whose memtables use much of it are slowed and stopped before others, so that a
//!    load does not use up the memory that other tables need.
//! 3. While an index of the table is behind with its merges, the writer is
//!    delayed. Writers of other tables are not.
//! 4. While too many aborted write ids are registered, the writer is delayed, unless
//!    its transaction has written: it must end, because running transactions keep
//!    aborted ids registered.
//! 5. While the log is long, the writer is delayed, unless the table is temporary.

use super::delay::{Bounded, delay_for};
use super::flusher::FlushContext;
use super::log_space::{LogBound, is_slow};
use crate::core::aborted_load::AbortedLoad;
use crate::core::delays::DelayCause;
use crate::core::index::Index;
use crate::core::pacer::Pacer;
use crate::core::work_kind::WorkKind;
use crate::error::{EngineError, EngineResult};
use std::sync::Arc;
use std::time::{Duration, Instant};
use teak_base::{FileId, StorageError};
use teak_transactions::{TransactionHandle, WaitError};
use teak_tree::MemtableUse;

/// Size in bytes above which an active memtable is frozen.
pub(crate) const MEMTABLE_BYTES_MAX: u64 = 64 << 20;

/// Longest time that a writer of a table with small memtables is slowed at one admission because of
/// the memory of all memtables.
const SMALL_SLOWED_MAX: Duration = Duration::from_millis(100);

/// Longest time that a writer is stopped because of aborted ids. A longer stop may
/// be useless: the ids may be needed until the writer's own transaction has ended.
const ABORTED_STOP_MAX: Duration = Duration::from_secs(10);

/// Freezes memtables that are too large, and wakes the flushers. Skips memtables of
/// a table that is being made whole: the thread that does this flushes them.
pub(crate) fn freeze_large(context: FlushContext<'_>) {
    let mut skipped = None;
    loop {
        let used = context
            .budget
            .without_unflushable(context.memtables().used());
        let quota = context.budget.live_quota(used.retired);
        let half = quota / 2;
        let Some(largest @ (bytes, file)) = context.memtables().largest(skipped) else {
            break;
        };
        let bytes_min = context.budget.memtable_bytes_min.min(half / 4);
        let frees_memory =
            used.active > half && (bytes >= bytes_min || used.active > quota / 4 * 3);
        if bytes <= MEMTABLE_BYTES_MAX.min(half) && !frees_memory {
            break;
        }
        match context.written.by_file(file) {
            Some(index) if context.freeze(&index) => {}
            Some(_) => break,
            None => skipped = Some(largest),
        }
    }
    if context.memtables().used().frozen > 0 {
        context.signals.wake_flushers();
    }
}

/// The memory of memtables that decides about writers of these indexes. Memtables that cannot be
/// flushed slow only the writers of tables whose flushes fail.
fn memtable_use(context: FlushContext<'_>, indexes: &[Arc<Index>]) -> MemtableUse {
    let used = context.memtables().used();
    let fails = |index: &Arc<Index>| index.attempts(WorkKind::Memtables).is_failing();
    match indexes.iter().any(fails) {
        true => used,
        false => context.budget.without_unflushable(used),
    }
}

/// Whether a writer of these indexes must call [`admit`] now.
#[inline]
pub(crate) fn must_admit(context: FlushContext<'_>, indexes: &[Arc<Index>]) -> bool {
    let memtables = context.memtables();
    context.budget.is_pressed(memtable_use(context, indexes))
        || memtables.largest_bytes() > MEMTABLE_BYTES_MAX
        || indexes.iter().any(|index| index.load.pressure() > 0.0)
        || context.aborted.pressure(context.transactions) > 0.0
        || is_slow(context)
}

fn is_logged(indexes: &[Arc<Index>]) -> bool {
    !indexes.iter().any(|index| index.is_temporary())
}

/// Admits a writer to the table of `indexes`. `timeout` limits the wait for
/// readers that keep the memory of flushed memtables, and the wait until fewer
/// aborted ids are registered (at most `ABORTED_STOP_MAX`). `has_written`: the
/// transaction has written before.
///
/// # Errors
/// `Wait(Interrupted)`; `Wait(Timeout)` when readers keep the memory, or too many
/// aborted ids remain; the error that keeps the table from being flushed or
/// merged; `NoSpace` when a full disk keeps any table from being flushed;
/// `LogFull`; `Internal` when the engine is closing.
pub(crate) fn admit(
    context: FlushContext<'_>,
    transaction: &TransactionHandle,
    indexes: &[Arc<Index>],
    timeout: Duration,
    has_written: bool,
) -> EngineResult<()> {
    freeze_large(context);
    if !context.signals.has_threads() {
        return flush_here(context, indexes);
    }
    if context.budget.is_pressed(memtable_use(context, indexes)) {
        delay_for(
            context,
            transaction,
            &MemtableBound {
                context,
                indexes,
                deadline: Instant::now() + timeout,
            },
        )?;
    }
    for index in indexes {
        if index.load.pressure() > 0.0 {
            delay_for(context, transaction, &MergeBound { context, index })?;
        }
    }
    if !has_written {
        let deadline = Instant::now() + timeout.min(ABORTED_STOP_MAX);
        delay_for(context, transaction, &AbortedBound { context, deadline })?;
    }
    if is_slow(context) && is_logged(indexes) {
        delay_for(context, transaction, &LogBound::new(context))?;
    }
    Ok(())
}

/// The memory of memtables, as the writers of one table see it.
struct MemtableBound<'a> {
    context: FlushContext<'a>,
    indexes: &'a [Arc<Index>],
    deadline: Instant,
}

impl MemtableBound<'_> {
    fn own_bytes(&self) -> u64 {
        let live = self.indexes.iter().filter(|index| !index.is_dropped());
        let trees = live.map(|index| &index.tree);
        trees
            .map(|tree| tree.memtable_bytes() + tree.frozen_bytes())
            .sum()
    }

    /// The failure of a flush of this table.
    fn own_failure(&self) -> Option<EngineError> {
        let mut live = self.indexes.iter().filter(|index| !index.is_dropped());
        let failure = live.find_map(|index| {
            let has_frozen = index.tree.frozen_memtables() > 0;
            let failure = index.attempts(WorkKind::Memtables).failure();
            failure.filter(|_| has_frozen)
        });
        failure.map(EngineError::Storage)
    }

    fn is_held_by_readers(&self) -> bool {
        let used = self.context.memtables().used();
        used.total() >= self.context.budget.memtable_bytes_max()
    }
}

impl Bounded for MemtableBound<'_> {
    fn pressure(&self) -> f64 {
        let used = memtable_use(self.context, self.indexes);
        let budget = &self.context.budget;
        let quota = budget.live_quota(used.retired);
        let share = budget.live_share(used.retired);
        if used.live() >= share || used.total() >= budget.memtable_bytes_max() {
            return 1.0;
        }
        let own = self.own_bytes();
        if self.own_failure().is_some() && (own > quota / 8 || used.live() > quota / 2) {
            return 1.0;
        }
        let sixteenth = quota / 16;
        match own > quota / 4 {
            true => {
                let stop = budget.live_stop(used.retired) / 16 * 15;
                pressure_between(used.live(), sixteenth * 11, stop)
            }
            false => pressure_between(used.live(), sixteenth * 15, share),
        }
    }

    fn cause(&self) -> DelayCause {
        DelayCause::Memory
    }

    /// The turns are those of all writers, so a writer of a small table does not wait for all that
    /// writers of large ones have written.
    fn slowed_max(&self) -> Option<Duration> {
        let quota = self.context.budget.memtable_quota();
        (self.own_bytes() <= quota / 4).then_some(SMALL_SLOWED_MAX)
    }

    fn written(&self) -> u64 {
        self.context.memtables().written()
    }

    fn pacer(&self) -> &Pacer {
        &self.context.budget.memtable_pacer
    }

    fn start_work(&self) {
        freeze_large(self.context);
        self.context.signals.wake_flushers();
    }

    fn failure(&self) -> Option<EngineError> {
        self.own_failure().or_else(|| {
            if self.is_held_by_readers() {
                let is_over = Instant::now() >= self.deadline;
                return is_over.then(|| WaitError::Timeout.into());
            }
            // A full disk concerns all tables, any other error only the table whose flush failed.
            let error = self.context.work.flush_error();
            error
                .filter(StorageError::is_no_space)
                .map(EngineError::Storage)
        })
    }
}

// Byte counts of memory are below 2^53.
#[allow(clippy::cast_precision_loss)]
fn pressure_between(value: u64, trigger: u64, bound: u64) -> f64 {
    let excess = value.saturating_sub(trigger) as f64;
    excess / bound.saturating_sub(trigger).max(1) as f64
}

/// The merges of one index.
struct MergeBound<'a> {
    context: FlushContext<'a>,
    index: &'a Index,
}

impl Bounded for MergeBound<'_> {
    fn pressure(&self) -> f64 {
        if self.index.is_dropped() {
            return 0.0;
        }
        self.index.load.pressure()
    }

    fn cause(&self) -> DelayCause {
        self.index.load.cause()
    }

    fn written(&self) -> u64 {
        self.index.tree.written_bytes()
    }

    fn pacer(&self) -> &Pacer {
        &self.index.load.pacer
    }

    fn start_work(&self) {
        self.context.signals.wake_flushers();
    }

    fn file(&self) -> Option<FileId> {
        Some(self.index.entry.file)
    }

    fn failure(&self) -> Option<EngineError> {
        let failure = self.index.attempts(WorkKind::Runs).failure();
        failure.map(EngineError::Storage)
    }
}

/// The number of ranges of aborted write ids.
struct AbortedBound<'a> {
    context: FlushContext<'a>,
    deadline: Instant,
}

impl Bounded for AbortedBound<'_> {
    fn pressure(&self) -> f64 {
        self.context.aborted.pressure(self.context.transactions)
    }

    fn cause(&self) -> DelayCause {
        DelayCause::Aborted
    }

    fn written(&self) -> u64 {
        AbortedLoad::written(self.context.transactions)
    }

    fn pacer(&self) -> &Pacer {
        &self.context.aborted.pacer
    }

    fn start_work(&self) {
        self.context.signals.wake_maintenance();
    }

    /// An old snapshot or transaction may need the ids for a long time.
    fn failure(&self) -> Option<EngineError> {
        let is_over = Instant::now() >= self.deadline;
        is_over.then(|| WaitError::Timeout.into())
    }
}

/// Flushes on the writer's thread: the engine has no flusher threads.
fn flush_here(context: FlushContext<'_>, indexes: &[Arc<Index>]) -> EngineResult<()> {
    let mut has_retried = false;
    let mut has_counted = false;
    loop {
        freeze_large(context);
        let used = memtable_use(context, indexes);
        let quota = context.budget.live_quota(used.retired);
        let behind = indexes.iter().find(|index| index.load.pressure() > 0.0);
        if used.live() <= quota / 4 * 3 && behind.is_none() {
            return Ok(());
        }
        if context.step_flush() {
            continue;
        }
        if used.live() >= quota
            && let Some(error) = context.work.flush_error()
        {
            if error.is_no_space() && !has_retried {
                has_retried = true;
                context.work.space_freed();
                continue;
            }
            // There is no thread that counts the memtables whose flushes fail.
            if !has_counted {
                has_counted = true;
                context.note_unflushable();
                continue;
            }
            return Err(EngineError::Storage(error));
        }
        // On a full disk, flushes add no runs either, and the memory limit stops the writers.
        if let Some(index) = behind
            && index.load.pressure() >= 1.0
            && let Some(error) = index.attempts(WorkKind::Runs).failure()
            && !error.is_no_space()
        {
            return Err(EngineError::Storage(error));
        }
        return Ok(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::memory_use::MemoryUse;
    use crate::{Engine, EngineOptions, EngineTransaction, IndexDefinition, IndexNumber};
    use crate::{Isolation, RowEntry, TableDefinition, TableHandle};
    use std::sync::Arc;
    use teak_base::{FileId, Operation, WriteId};
    use teak_disk::{Disk, MemoryDisk};
    use teak_tree::{Tree, TreeOptions};

    fn engine(disk: &Arc<dyn Disk>) -> Engine {
        let mut options = EngineOptions::new("/data");
        options.background_threads = 0;
        options.cache_bytes = 1 << 20;
        options.memtable_bytes_min = 0;
        Engine::open(Arc::clone(disk), options).unwrap()
    }

    /// Fills a memtable of a tree that the engine does not flush.
    fn fill(engine: &Engine, disk: &Arc<dyn Disk>, bytes: u64) -> Arc<Tree> {
        let options = TreeOptions::default();
        let cache = &engine.core.files.cache;
        let file = FileId(1 << 40);
        let tree = Tree::create(disk, "/data/x".as_ref(), file, options, cache).unwrap();
        let value = [b'v'; 1000];
        for key in 0u64.. {
            let guard = tree.write_guard();
            guard.insert(WriteId(1), Operation::Put, &key.to_be_bytes(), &value);
            drop(guard);
            if tree.memtable_bytes() > bytes {
                break;
            }
        }
        tree
    }

    /// Writes rows of 1,000 bytes to a new table.
    fn insert(engine: &Engine, rows: u32) -> (TableHandle, EngineTransaction) {
        let definition = TableDefinition {
            name: "./db/t".into(),
            indexes: vec![IndexDefinition::of_rows()],
            metadata: Vec::new(),
        };
        engine.create_table(&definition).unwrap();
        let table = engine.open_table("./db/t").unwrap();
        let mut transaction = engine.begin(Isolation::RepeatableRead);
        for row in 0..rows {
            let entry = RowEntry {
                index: IndexNumber::ROWS,
                unique: true,
                key: &row.to_be_bytes(),
                value: &[b'v'; 1000],
            };
            transaction.insert(&table, &[entry]).unwrap();
        }
        (table, transaction)
    }

    /// The largest memtable belongs to a table that is being made whole.
    #[test]
    fn a_large_memtable_of_no_open_table_does_not_keep_others_from_being_frozen() {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let engine = engine(&disk);
        let context = FlushContext::from(&*engine.core);
        let _tree = fill(&engine, &disk, context.budget.memtable_quota() / 2);
        let _written = insert(&engine, 1);
        freeze_large(context);
        assert!(context.memtables().used().frozen > 0);
    }

    /// Lowers the quota of memtables to its minimum while they use more than half of their share.
    /// This slows the writers of a table with `rows` rows.
    fn lowered_quota(rows: u32, check: impl Fn(&MemtableBound<'_>)) {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let engine = engine(&disk);
        let context = FlushContext::from(&*engine.core);
        let share = context.budget.memtable_quota();
        let (table, _transaction) = insert(&engine, rows);
        let _tree = fill(&engine, &disk, share / 2);
        let indexes = [table.index(IndexNumber::ROWS).unwrap()];
        let bound = MemtableBound {
            context,
            indexes: &indexes,
            deadline: Instant::now(),
        };
        assert!(bound.pressure() <= 0.0);
        let used = MemoryUse {
            measured: Some(1 << 30),
            memtables_live: context.memtables().used().live(),
            ..MemoryUse::default()
        };
        context.budget.fit_memtables(&used);
        assert!(context.budget.memtable_quota() < share / 2);
        let pressure = bound.pressure();
        assert!(0.0 < pressure && pressure < 1.0, "{pressure}");
        check(&bound);
    }

    /// Other memory may take a part of the memtables' share faster than flushes release it.
    #[test]
    fn a_smaller_quota_slows_writers_of_small_tables_and_does_not_stop_them() {
        lowered_quota(1, |bound| {
            assert_eq!(bound.slowed_max(), Some(SMALL_SLOWED_MAX));
        });
    }

    #[test]
    fn a_smaller_quota_slows_writers_of_large_tables_and_does_not_stop_them() {
        lowered_quota(40, |bound| {
            let quota = bound.context.budget.memtable_quota();
            assert!(bound.own_bytes() > quota / 4);
            assert_eq!(bound.slowed_max(), None);
        });
    }
}
